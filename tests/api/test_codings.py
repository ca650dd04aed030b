import gzip
import random
import zlib
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coatcheck.api.http.body import Expansion
from coatcheck.api.http.codings import STEP_BYTES, Decoder, gzip_decoder, zstd_decoder
from coatcheck.api.http.limits import RequestLimits
from coatcheck.core.encoding.frames import zstd
from coatcheck.core.errors import CoatcheckError, Code

WINDOW = 8 * 1024 * 1024
MAKE: dict[str, Callable[[], Decoder]] = {"gzip": gzip_decoder, "zstd": lambda: zstd_decoder(WINDOW)}


def pack(coding: str, data: bytes, level: int = 3) -> bytes:
    return gzip.compress(data, level) if coding == "gzip" else zstd.compress(data, level)


def unpack(coding: str, data: bytes, cuts: list[int], most: int = STEP_BYTES) -> tuple[bytes, int]:
    """Decode in pieces; answer the bytes and the largest step."""
    decoder = MAKE[coding]()
    places = [0, *sorted(cuts), len(data)]
    parts: list[bytes] = []
    for start, end in pairwise(places):
        if end > start:
            decoder.feed(data[start:end])
        while piece := decoder.step(most):
            parts.append(piece)
    decoder.finish()
    return b"".join(parts), max(map(len, parts), default=0)


def code_of(coding: str, data: bytes) -> Code:
    with pytest.raises(CoatcheckError) as e:
        unpack(coding, data, list(range(0, len(data), 1000)))
    return e.value.code


def sample(seed: int, size: int) -> bytes:
    rng = random.Random(seed)
    words = [rng.randbytes(rng.randint(1, 12)).hex().encode() for _ in range(300)]
    data = b" ".join(rng.choice(words) for _ in range(size // 8))
    return data + rng.randbytes(size // 4) + b"\0" * (size // 2)


@pytest.mark.parametrize("coding", MAKE)
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_payload_cut_anywhere_comes_back_whole(coding: str, data: st.DataObject) -> None:
    payload = sample(data.draw(st.integers(0, 20)), data.draw(st.integers(0, 300_000)))
    packed = pack(coding, payload, data.draw(st.integers(1, 9)))
    cuts = data.draw(st.lists(st.integers(0, len(packed)), max_size=8))
    assert unpack(coding, packed, cuts, data.draw(st.sampled_from([100, 1000, 200_000, STEP_BYTES])))[0] == payload


@pytest.mark.parametrize("coding", MAKE)
def test_byte_by_byte_is_enough(coding: str) -> None:
    packed = pack(coding, b"hello, hello, hello\n" * 50)
    assert unpack(coding, packed, list(range(len(packed))))[0] == b"hello, hello, hello\n" * 50


@pytest.mark.parametrize("coding", MAKE)
def test_members_and_frames_may_follow_one_another(coding: str) -> None:
    packed = pack(coding, b"one,") + pack(coding, b"") + pack(coding, b"two")
    assert unpack(coding, packed, [3, 10, 11])[0] == b"one,two"


@pytest.mark.parametrize("coding", MAKE)
def test_a_bomb_expands_by_a_megabyte_a_step_at_most(coding: str) -> None:
    bomb = pack(coding, b"\0" * 64_000_000, 9)
    assert len(bomb) < 100_000
    decoded, largest = unpack(coding, bomb, [])
    assert (len(decoded), largest <= STEP_BYTES) == (64_000_000, True)


def test_four_bytes_of_zstd_that_stand_for_a_block_do_not_exceed_a_step() -> None:
    frame = b"\x28\xb5\x2f\xfd\x00\x58" + (b"\x02\x00\x10" + b"a") * 500 + b"\x01\x00\x00"
    decoded, largest = unpack("zstd", frame, [])
    assert (len(decoded), largest) == (500 * 131072, STEP_BYTES)


@pytest.mark.parametrize("coding", MAKE)
def test_every_truncation_is_corrupt(coding: str) -> None:
    packed = pack(coding, sample(1, 3000))
    for end in [*range(40), *range(40, len(packed), 97), len(packed) - 1]:
        assert code_of(coding, packed[:end]) is Code.CORRUPT_ENCODING


@pytest.mark.parametrize("coding", MAKE)
@pytest.mark.parametrize("garbage", [b"\0", b"garbage", b"\x1f", b"\x28\xb5", b"(", b"\x50\x2a"])
def test_trailing_garbage_is_corrupt(coding: str, garbage: bytes) -> None:
    assert code_of(coding, pack(coding, b"payload") + garbage) is Code.CORRUPT_ENCODING


@pytest.mark.parametrize("coding", MAKE)
def test_a_flipped_bit_is_never_taken_for_the_payload(coding: str) -> None:
    payload = sample(2, 2000)
    checked: dict[int, int] = {zstd.CompressionParameter.checksum_flag: True}
    packed = gzip.compress(payload) if coding == "gzip" else zstd.compress(payload, options=checked)
    rng = random.Random(3)
    for _ in range(200):
        at = rng.randrange(len(packed))
        bad = packed[:at] + bytes([packed[at] ^ (1 << rng.randrange(8))]) + packed[at + 1 :]
        outcome: bytes | Code
        try:
            outcome = unpack(coding, bad, [])[0]
        except CoatcheckError as e:
            outcome = e.code
        # Some bits of a header mean nothing.
        assert outcome in {payload, Code.CORRUPT_ENCODING, Code.DECOMPRESSION_LIMIT}


@pytest.mark.parametrize(
    ("limits", "sent"),
    [
        (RequestLimits(decoded=100), 100),
        (RequestLimits(ratio=10, ratio_free=0), 10),
        (RequestLimits(ratio=1, ratio_free=100), 1),
    ],
    ids=["in all", "for each byte", "short body"],
)
def test_a_body_expands_up_to_its_limit_and_no_further(limits: RequestLimits, sent: int) -> None:
    expansion = Expansion(limits)
    expansion.wire = sent
    expansion.grew(100)
    with pytest.raises(CoatcheckError) as e:
        expansion.grew(1)
    assert e.value.code is Code.DECOMPRESSION_LIMIT


def test_deflate_without_a_gzip_header_is_corrupt() -> None:
    assert code_of("gzip", zlib.compress(b"x")) is Code.CORRUPT_ENCODING


def test_skippable_frames_are_passed_over() -> None:
    skipped = b"\x53\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"\0" * 5
    packed = skipped + pack("zstd", b"a") + skipped + pack("zstd", b"b") + skipped
    assert unpack("zstd", packed, list(range(0, len(packed), 3)))[0] == b"ab"
    assert code_of("zstd", skipped) is Code.CORRUPT_ENCODING


@pytest.mark.parametrize(("log", "taken"), [(20, True), (23, True), (24, False), (27, False)])
def test_windows_over_8_mib_are_refused_before_they_are_allocated(log: int, *, taken: bool) -> None:
    streaming = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: log})
    packed = streaming.compress(b"a" * 100_000) + streaming.flush()
    if taken:
        assert unpack("zstd", packed, [])[0] == b"a" * 100_000
    else:
        assert code_of("zstd", packed) is Code.DECOMPRESSION_LIMIT


EMPTY = {"gzip": gzip.compress(b"", mtime=0), "zstd": zstd.compress(b""), "skippable": b"\x50\x2a\x4d\x18\0\0\0\0"}


@pytest.mark.parametrize("what", EMPTY)
def test_many_members_that_hold_nothing_are_refused_after_a_thousand(what: str) -> None:
    coding = "gzip" if what == "gzip" else "zstd"
    end = EMPTY[coding]
    assert unpack(coding, EMPTY[what] * 900 + end, [])[0] == b""
    assert code_of(coding, EMPTY[what] * 1100 + end) is Code.DECOMPRESSION_LIMIT
    decoder = MAKE[coding]()
    decoder.feed(EMPTY[what] * 2_000_000)
    with pytest.raises(CoatcheckError):
        decoder.step(STEP_BYTES)
    assert decoder.pending > 10_000_000


@pytest.mark.parametrize("coding", MAKE)
def test_members_that_hold_a_line_each_may_be_any_number(coding: str) -> None:
    line = b"a line of a log that somebody compresses line by line, as one must not\n"
    decoded, _ = unpack(coding, pack(coding, line) * 20_000, [])
    assert decoded == line * 20_000


def test_blocks_that_hold_nothing_are_nothing_and_never_end_a_frame_by_themselves() -> None:
    frame = b"\x28\xb5\x2f\xfd\x00\x58" + b"\0\0\0" * 5000
    assert unpack("zstd", frame + b"\x01\0\0", [])[0] == b""
    assert code_of("zstd", frame) is Code.CORRUPT_ENCODING


@pytest.mark.parametrize("coding", MAKE)
@pytest.mark.parametrize("most", [1, 1000, 200_000])
def test_a_step_gives_no_more_than_it_was_asked_for(coding: str, most: int) -> None:
    decoded, largest = unpack(coding, pack(coding, b"\0" * (40 * most)) * 2, [], most)
    assert (len(decoded), largest) == (80 * most, most)


def test_a_header_that_promises_an_exbibyte_in_one_segment_is_refused() -> None:
    header = b"\x28\xb5\x2f\xfd\xe0" + (1 << 60).to_bytes(8, "little")
    assert code_of("zstd", header + b"\x02\x00\x10a" * 100) is Code.DECOMPRESSION_LIMIT


def test_a_frame_that_needs_a_dictionary_is_corrupt() -> None:
    assert code_of("zstd", b"\x28\xb5\x2f\xfd\x21\x07\x01\x09\0\0a") is Code.CORRUPT_ENCODING
