"""Payloads over the limit, where both ends are kept: the arithmetic, byte by byte."""

import pytest

from coatcheck.core import ids
from coatcheck.core.artifact import SAMPLE_BYTES
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.storing.oversize import KEPT_TAIL, OversizeGuard
from coatcheck.storing.upload_session import BLOCK
from support.harness import CALLER, Harness
from support.samples import given, noise, stream

ASCII = bytes(range(0x20, 0x7F)) * 50
WIDE = "aé日😀".encode() * 500


async def _kept(payload: bytes, limit: int, *, piece: int = 7, keep_ends: bool = True) -> tuple[bytes, int, int]:
    oversize = OversizeGuard(limit, keep_ends=keep_ends)
    kept = b"".join([part async for part in oversize.within(stream(payload, piece))])
    return kept, oversize.dropped, oversize.dropped_at


@pytest.mark.parametrize("keep_ends", [True, False])
@pytest.mark.parametrize("limit", [1, 2, 3, 4, 7, 8, 100])
async def test_up_to_the_limit_nothing_is_touched(limit: int, keep_ends: bool) -> None:
    for size in range(limit + 1):
        for payload in (ASCII[:size], WIDE[:size]):
            assert await _kept(payload, limit, keep_ends=keep_ends) == (payload, 0, 0)


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 8, 99, 100])
async def test_over_the_limit_exactly_the_two_ends_of_ascii_are_kept(limit: int) -> None:
    head = limit - limit // 2
    for size in (limit + 1, limit + 2, 2 * limit, 2 * limit + 1, 10 * limit):
        for piece in (1, 3, 1000):
            payload = ASCII[:size]
            kept = payload[:head] + payload[size - limit // 2 :]
            assert await _kept(payload, limit, piece=piece) == (kept, size - limit, head)


@pytest.mark.parametrize("piece", [1, 2, 5, 4096])
async def test_no_character_is_halved_on_either_side_and_the_numbers_add_up(piece: int) -> None:
    for limit in range(20, 45):
        for size in range(limit + 1, limit + 25):
            payload = WIDE[:size].decode(errors="ignore").encode()
            if len(payload) <= limit:
                continue
            kept, dropped, at = await _kept(payload, limit, piece=piece)
            assert len(kept) + dropped == len(payload)
            assert kept == payload[:at] + payload[at + dropped :]
            assert limit - 6 <= len(kept) <= limit
            assert kept[:at].decode() + kept[at:].decode() == kept.decode()


async def test_bytes_that_are_no_text_lose_at_most_three_on_either_side() -> None:
    for limit in (5, 50, 51):
        for seed in range(60):
            payload = noise(limit * 3, seed)
            kept, dropped, at = await _kept(payload, limit)
            assert kept == payload[:at] + payload[at + dropped :]
            assert limit - 6 <= len(kept) <= limit


async def test_the_kept_end_is_bounded_however_large_the_limit_is() -> None:
    limit = KEPT_TAIL * 3
    parts = [bytes([n]) * BLOCK for n in range(limit // BLOCK + 40)]
    oversize = OversizeGuard(limit, keep_ends=True)
    kept = b"".join([part async for part in oversize.within(given(parts))])
    whole = b"".join(parts)
    assert (oversize.dropped, oversize.dropped_at) == (40 * BLOCK, limit - KEPT_TAIL)
    assert kept == whole[: limit - KEPT_TAIL] + whole[-KEPT_TAIL:]


async def test_without_keeping_ends_one_byte_too_many_is_refused() -> None:
    with pytest.raises(CoatcheckError) as refused:
        await _kept(b"12345", 4, keep_ends=False)
    assert (refused.value.code, refused.value.extra) == (Code.PAYLOAD_TOO_LARGE, {"limit": 4})


@pytest.mark.parametrize("limit", [1000, 3 * SAMPLE_BYTES])
async def test_the_artifact_has_the_ends_and_its_card_says_what_is_missing(harness: Harness, limit: int) -> None:
    payload = "".join(f"zeile {n} größer\n" for n in range(limit // 10)).encode()
    receipt = await harness.put(payload, keep_ends=True, settings={"payload_limit": limit})
    measure = (await harness.find(CALLER, ids.parse(receipt.id))).artifact.measure
    content = await harness.content(receipt.id)
    assert measure.utf8
    assert measure.size == len(content) == len(payload) - measure.dropped
    assert content == payload[: measure.dropped_at] + payload[measure.dropped_at + measure.dropped :]
    assert f"{measure.dropped} bytes after byte {measure.dropped_at}" in receipt.text
