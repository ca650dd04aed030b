"""Secrets masked before storing, or refused: the same however the payload arrives."""

from itertools import pairwise
from random import Random

import pytest

from coatcheck.adapters.redaction_rules import Masks
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.redact.mask import UNIT, Mask, RedactingStream

TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1bC3"


@pytest.fixture(scope="session")
def mask() -> Mask:
    return Masks()()


def _payload(places: list[int], size: int) -> bytes:
    data = bytearray((b"a line of no interest whatever\n" * (size // 31 + 1))[:size])
    for at in places:
        data[at : at + 42] = f" {TOKEN} ".encode()
    return bytes(data)


def _through(mask: Mask, data: bytes, cuts: list[int]) -> bytes:
    sieve = RedactingStream(mask, refuse=False)
    edges = [0, *sorted(cuts), len(data)]
    return b"".join([*(sieve.feed(data[a:b]) for a, b in pairwise(edges)), sieve.end()])


@pytest.mark.parametrize("seed", range(6))
def test_a_stream_is_masked_alike_however_it_is_cut(mask: Mask, seed: int) -> None:
    random = Random(seed)
    size = random.choice((500, UNIT, UNIT + 8_192, 2 * UNIT + 77, 3 * UNIT))
    edges = [
        at for at in (100, UNIT - 20, 2 * UNIT - 1, size - 120) if 0 <= at < size - 42 and (at <= 100 or at - 100 > 42)
    ]
    data = _payload(edges, size)
    expected = data.replace(TOKEN.encode(), b"[redacted: github-pat]")
    for _ in range(4):
        assert _through(mask, data, random.choices(range(size + 1), k=random.randint(0, 12))) == expected
    sieve = RedactingStream(mask, refuse=False)
    sieve.feed(data)
    sieve.end()
    assert sieve.masked_secrets.count == len(edges)
    assert sieve.masked_secrets.rules == ("github-pat",)


def test_what_has_no_secrets_comes_through_unchanged(mask: Mask) -> None:
    data = Random(1).randbytes(300_000)
    assert _through(mask, data, [1, 7, 131_072]) == data
    assert _through(mask, b"", []) == b""


def test_a_refusal_names_the_rule_and_the_place_and_nothing_else(mask: Mask) -> None:
    sieve = RedactingStream(mask, refuse=True)
    data = _payload([200_000], 400_000)
    with pytest.raises(CoatcheckError) as refused:
        sieve.feed(data)
    assert refused.value.code is Code.SECRET_REFUSED
    assert refused.value.extra == {"rule": "github-pat", "line": data[:200_001].count(b"\n") + 1, "byte": 200_001}
    assert "ghp_" not in refused.value.detail
