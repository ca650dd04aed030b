import io
import itertools
import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coatcheck.core.encoding.frames import FRAME_BYTES, FrameIndex, zstd
from coatcheck.core.encoding.seekable import FrameEncoder, decode_frames
from coatcheck.core.errors import CoatcheckError, Code

SIZES = st.one_of(
    st.integers(0, 3000),
    st.sampled_from([0, 1, 2]).flatmap(lambda d: st.sampled_from([n * FRAME_BYTES + d - 1 for n in (1, 2, 3)])),
)
STYLES = st.sampled_from(["text", "utf8", "random", "lf", "zeros"])


def content_of(style: str, size: int, seed: int) -> bytes:
    rng = random.Random(seed)
    if style == "random":
        return rng.randbytes(size)
    if style in {"lf", "zeros"}:
        return (b"\n" if style == "lf" else b"\0") * size
    words = ["error ", "naïve ", "漢字\n", "🙂", "x" * 50] if style == "utf8" else ["ok ", "line\n", "0 "]
    pieces = [rng.choice(words) for _ in range(min(size, 9000) + 1)]
    block = "".join(pieces).encode()
    return (block * (size // len(block) + 1))[:size]


def encode(content: bytes, cuts: list[int] | None = None) -> tuple[bytes, FrameIndex]:
    encoder = FrameEncoder()
    edges = [0, *sorted(c % (len(content) + 1) for c in cuts or []), len(content)]
    out = b"".join(encoder.feed(memoryview(content)[a:b]) for a, b in itertools.pairwise(edges))
    out += encoder.finish()
    assert encoder.index is not None
    return out, encoder.index


def foreign_decode(stored: bytes) -> bytes:
    """A plain Zstandard stream reader that has never heard of seek tables."""
    with zstd.open(io.BytesIO(stored)) as reader:
        return reader.read()


def foreign_table(stored: bytes) -> list[tuple[int, int]]:
    """The seek table, parsed from the published specification: (stored, content) bytes of each frame."""
    count, descriptor, magic = struct.unpack("<IBI", stored[-9:])
    assert (magic, descriptor & 0x7C) == (0x8F92EAB1, 0)
    entry = 12 if descriptor & 0x80 else 8
    length = count * entry + 9
    head = stored[-length - 8 : -length]
    assert struct.unpack("<II", head) == (0x184D2A5E, length)
    rows = stored[-length:-9]
    return [struct.unpack_from("<II", rows, i * entry) for i in range(count)]


@settings(max_examples=60, deadline=None)
@given(style=STYLES, size=SIZES, seed=st.integers(0, 99), cuts=st.lists(st.integers(0, 1 << 20), max_size=6))
def test_what_is_fed_in_any_pieces_comes_back_whole_here_and_to_foreign_readers(
    style: str, size: int, seed: int, cuts: list[int]
) -> None:
    content = content_of(style, size, seed)
    stored, index = encode(content, cuts)
    frames = [content[a : a + FRAME_BYTES] for a in range(0, size, FRAME_BYTES)]
    start, end = index.locate_frames(0, index.count)
    assert decode_frames(stored[start:end], index, 0, index.count) == content
    assert foreign_decode(stored) == content
    table = foreign_table(stored)
    assert [b for _, b in table] == [len(f) for f in frames]
    position = 0
    for i, (packed, _) in enumerate(table):
        assert index.locate_frames(i, i + 1) == (position, position + packed)
        assert zstd.decompress(stored[position : position + packed]) == frames[i]
        position += packed
    assert (index.size, index.stored_size, index.count) == (size, len(stored), len(frames))


@settings(max_examples=40, deadline=None)
@given(style=STYLES, size=SIZES, seed=st.integers(0, 99))
def test_the_index_agrees_with_counting_the_content_by_hand(style: str, size: int, seed: int) -> None:
    content = content_of(style, size, seed)
    _, index = encode(content)
    starts = bytes(1 if b & 0xC0 != 0x80 else 0 for b in content)
    assert (index.newlines, index.chars) == (content.count(b"\n"), sum(starts))
    for i in range(index.count + 1):
        edge = min(i * FRAME_BYTES, size)
        assert index.newlines_before(i) == content[:edge].count(b"\n")
        assert index.chars_before(i) == sum(starts[:edge])
    newline_places = [i for i, b in enumerate(content) if b == 10]
    char_places = [i for i, s in enumerate(starts) if s]
    for n in {0, len(newline_places) // 2, len(newline_places) - 1} if newline_places else ():
        assert index.frame_of_newline(n) == newline_places[n] // FRAME_BYTES
    for n in {0, len(char_places) // 2, len(char_places) - 1} if char_places else ():
        assert index.frame_of_char(n) == char_places[n] // FRAME_BYTES
    assert FrameIndex.unpack(index.pack()) == index


def test_numbers_outside_the_content_are_refused() -> None:
    _, index = encode(b"one\ntwo\n")
    for ask in (
        lambda: index.frame_of_newline(2),
        lambda: index.frame_of_char(8),
        lambda: index.frame_of_newline(-1),
        lambda: index.locate_frames(0, 2),
        lambda: index.newlines_before(2),
        lambda: index.frame_length(1),
    ):
        with pytest.raises(IndexError):
            ask()


def test_running_totals_count_what_was_fed_even_inside_an_unfinished_frame() -> None:
    encoder = FrameEncoder()
    assert encoder.feed("é\n".encode() * 10) == b""
    assert (encoder.size, encoder.newlines, encoder.chars, encoder.stored_size) == (30, 10, 20, 0)


def test_empty_content_has_no_frames_and_only_a_seek_table() -> None:
    stored, index = encode(b"")
    assert (len(stored), index.count, index.locate_frames(0, 0)) == (17, 0, (0, 0))
    assert decode_frames(b"", index, 0, 0) == foreign_decode(stored) == b""
    assert FrameIndex.unpack(index.pack()) == index


def test_content_that_does_not_compress_is_stored_raw_after_its_first_frame() -> None:
    noise = random.Random(1).randbytes(FRAME_BYTES)
    text = b"the same line\n" * (FRAME_BYTES // 14)
    stored, index = encode(noise + text * 3)
    assert len(stored) > 4 * FRAME_BYTES - 100
    assert index.locate_frames(2, 3)[1] - index.locate_frames(2, 3)[0] > FRAME_BYTES
    assert encode(text * 3 + noise)[1].stored_size < FRAME_BYTES + 5000


def test_a_frame_at_a_time_is_held() -> None:
    encoder = FrameEncoder()
    out = encoder.feed(b"x" * (10 * FRAME_BYTES + 5))
    assert len(foreign_decode(out)) == 10 * FRAME_BYTES


def assert_damaged(stored: bytes, index: FrameIndex, i: int, j: int) -> None:
    with pytest.raises(CoatcheckError) as caught:
        decode_frames(stored, index, i, j)
    assert caught.value.code is Code.INTEGRITY


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_flipped_bit_is_an_error_and_never_wrong_bytes(data: st.DataObject) -> None:
    style = data.draw(st.sampled_from(["text", "random"]))
    content = content_of(style, 700, 3)
    stored, index = encode(content)
    start, end = index.locate_frames(0, 1)
    bit = data.draw(st.integers(0, 8 * (end - start) - 1))
    assert decode_flipped(stored[start:end], index, bit) in {None, content}


def test_of_the_bits_of_a_frame_header_only_the_one_without_a_meaning_may_flip() -> None:
    content = content_of("text", FRAME_BYTES, 3)
    stored, index = encode(content)
    start, end = index.locate_frames(0, 1)
    answers = {bit: decode_flipped(stored[start:end], index, bit) for bit in range(8 * 9)}
    # RFC 8878, section 3.1.1.1.1.3: decoders ignore bit 4 of the descriptor, the fifth byte.
    assert [bit for bit, answer in answers.items() if answer == content] == [8 * 4 + 4]
    assert set(answers.values()) == {None, content}


def decode_flipped(piece: bytes, index: FrameIndex, bit: int) -> bytes | None:
    broken = bytearray(piece)
    broken[bit // 8] ^= 1 << bit % 8
    try:
        return decode_frames(broken, index, 0, 1)
    except CoatcheckError as error:
        return None if error.code is Code.INTEGRITY else b"another error"


def test_a_frame_that_promises_another_size_is_refused_before_it_is_decompressed() -> None:
    bomb = zstd.compress(bytes(1 << 28), options={zstd.CompressionParameter.checksum_flag: True})
    index = FrameIndex(
        frame_size=FRAME_BYTES,
        size=FRAME_BYTES,
        stored_size=len(bomb) + 25,
        compressed_sizes=[len(bomb)],
        newlines=[0],
        chars=[0],
    )
    assert_damaged(bomb, index, 0, 1)


def test_stored_bytes_of_another_length_or_another_frame_are_refused() -> None:
    content = content_of("text", 3 * FRAME_BYTES - 7, 5)
    stored, index = encode(content)
    start, end = index.locate_frames(1, 2)
    piece = stored[start:end]
    assert decode_frames(piece, index, 1, 2) == content[FRAME_BYTES : 2 * FRAME_BYTES]
    assert_damaged(piece[:-1], index, 1, 2)
    assert_damaged(piece + b"\0", index, 1, 2)
    last = index.locate_frames(2, 3)
    padded = stored[last[0] : last[1]].ljust(end - start, b"\0")
    assert_damaged(padded[: end - start], index, 1, 2)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_damaged_index_is_an_error(data: st.DataObject) -> None:
    _, index = encode(content_of("utf8", FRAME_BYTES + 100, 8))
    packed = bytearray(index.pack())
    how = data.draw(st.sampled_from(["flip", "cut", "add"]))
    if how == "flip":
        bit = data.draw(st.integers(0, 8 * len(packed) - 1))
        packed[bit // 8] ^= 1 << bit % 8
    elif how == "cut":
        del packed[data.draw(st.integers(0, len(packed) - 1)) :]
    else:
        packed += data.draw(st.binary(min_size=1, max_size=9))
    with pytest.raises(CoatcheckError) as caught:
        FrameIndex.unpack(bytes(packed))
    assert caught.value.code is Code.INTEGRITY


def test_an_index_takes_eight_bytes_a_frame_for_ascii() -> None:
    _, index = encode(b"line\n" * 100_000)
    assert len(index.pack()) == 30 + 8 * index.count
