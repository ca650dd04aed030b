import base64
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coatcheck.api.http.codings import Digests, parse_digests
from coatcheck.core.errors import CoatcheckError, Code


def written(algorithm: str, data: bytes) -> str:
    digest = hashlib.new(algorithm.replace("-", ""), data).digest()
    return f"{algorithm}=:{base64.b64encode(digest).decode()}:"


SHA256 = written("sha-256", b"body")
SHA512 = written("sha-512", b"body")


@pytest.mark.parametrize(
    ("value", "algorithms"),
    [
        (SHA256, {"sha-256"}),
        (f"{SHA256},{SHA512}", {"sha-256", "sha-512"}),
        (f"  {SHA256} ,\t{SHA512} ", {"sha-256", "sha-512"}),
        (f"md5=:AAAA:, {SHA256}", {"sha-256"}),
        ("unixsum=:AAAA:", set[str]()),
        (f'{SHA256};a;b=1;c="x, y";d=tok', {"sha-256"}),
        (SHA256.replace("=:", ":").replace(":", "=:", 1), {"sha-256"}),
        ("", set[str]()),
    ],
)
def test_every_well_formed_field_is_read_and_unknown_algorithms_are_ignored(value: str, algorithms: set[str]) -> None:
    assert set(parse_digests("Content-Digest", value)) == algorithms


@pytest.mark.parametrize(
    "value",
    [
        "sha-256",
        "sha-256=abc",
        "sha-256=:!!!!:",
        "sha-256=:AAAA",
        f"{SHA256},",
        f",{SHA256}",
        f"{SHA256} {SHA512}",
        f"SHA-256{SHA256[7:]}",
        f'{SHA256};a="unclosed',
        "sha-256=:AAAA:",
        "sha-512=:AAAA:",
        "sha-256=:A:",
        "md5=:A:",
    ],
)
def test_every_malformed_field_is_refused(value: str) -> None:
    with pytest.raises(CoatcheckError) as e:
        parse_digests("Content-Digest", value)
    assert e.value.code is Code.INVALID_DIGEST


@given(st.text(max_size=60))
def test_no_text_breaks_the_parser(value: str) -> None:
    outcome: dict[str, bytes] | Code
    try:
        outcome = parse_digests("Repr-Digest", value)
    except CoatcheckError as e:
        outcome = e.code
    assert isinstance(outcome, dict) or outcome is Code.INVALID_DIGEST


@pytest.mark.parametrize("same", ["wire", "plain", "neither"])
@pytest.mark.parametrize("field", ["Content-Digest", "Repr-Digest"])
def test_content_digest_is_of_the_bytes_as_sent_and_repr_digest_of_either(field: str, same: str) -> None:
    wire, plain = b"coded", b"decoded"
    promised = parse_digests(field, written("sha-512", {"wire": wire, "plain": plain, "neither": b"x"}[same]))
    empty: dict[str, bytes] = {}
    digests = Digests(
        promised if field == "Content-Digest" else empty, promised if field == "Repr-Digest" else empty, coded=True
    )
    digests.wire(wire)
    digests.plain(plain)
    if same == "wire" or (same == "plain" and field == "Repr-Digest"):
        digests.verify()
        return
    with pytest.raises(CoatcheckError) as e:
        digests.verify()
    assert (e.value.code, e.value.extra) == (Code.DIGEST_MISMATCH, {"field": field, "algorithm": "sha-512"})
