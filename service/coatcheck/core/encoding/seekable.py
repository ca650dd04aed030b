"""Encodes payloads in the Zstandard Seekable Format (specification 0.1.0), and decodes them.

A stored payload consists of independent frames of 128 KiB of content, each with its size and a checksum, and a seek
table in a skippable frame. `zstd -d` decodes a stored payload without Coatcheck, and a range read decompresses only the
frames that it touches. Only verified bytes are returned.
"""

import struct
from array import array
from collections import deque
from itertools import chain
from typing import Final

import numpy as np

from coatcheck.core.encoding.frames import FRAME_BYTES, FRAME_LIMIT, FrameIndex, zstd
from coatcheck.core.errors import CoatcheckError, Code

Buffer = bytes | bytearray | memoryview

_SKIPPABLE = struct.Struct("<II")
_SKIPPABLE_MAGIC = 0x184D2A5E
"""First number of the frame with the seek table. Decoders skip such frames (RFC 8878, section 3.1.2)."""
_FOOTER = struct.Struct("<IBI")
_SEEKABLE_MAGIC = 0x8F92EAB1
"""Last number of every file of the seekable format, by its specification."""

_DESCRIPTOR = 4
"""Offset of the flags in a frame header."""
_CHECKSUM = 0x04
"""The flag of a content checksum (RFC 8878, section 3.1.1.1.1)."""
_LEVEL = 1
"""Compression level: Zstandard's fastest ordinary level, because ingestion waits for the compression."""
_RAW_LEVEL = -131072
"""Zstandard's lowest level, which stores blocks as they are. On random bytes it runs at 5 GB/s, level 1 at 3 GB/s."""
_DECODING: dict[int, int] = {zstd.DecompressionParameter.window_log_max: FRAME_BYTES.bit_length() - 1}
"""Decoding options. A window that is larger than a frame's content means a damaged header, and is refused."""
_WORTH = 1.05
"""Minimum compression ratio of the first frame. If it is lower, the other frames are stored without compression."""
_FIRST_BYTES = -64
"""As signed bytes, UTF-8 continuation bytes (0x80 to 0xBF) are those below -64."""

_IDLE: Final[deque[zstd.ZstdCompressor]] = deque(maxlen=16)
"""Idle compressors, which are reused: creating a compressor costs more than compressing a small payload.
Thread-safe."""


class FrameEncoder:
    """Compresses one payload, or only counts its bytes. Holds at most one frame of content. Not thread-safe.

    Attributes:
        size: number of bytes of content that were fed so far.
        newlines: number of LF bytes among them.
        chars: number of characters among them: bytes that do not continue a UTF-8 sequence.
        stored_size: number of stored bytes that were returned so far.
        index: the index of the stored payload; None before `finish`.
    """

    def __init__(self, *, stores: bool = True) -> None:
        """Begins a payload. Unless `stores`, its bytes are only counted: the stored bytes and index are meaningless."""
        self._stores = stores
        self.size = 0
        self.newlines = 0
        self.chars = 0
        self.stored_size = 0
        self.index: FrameIndex | None = None
        self._compressor = _idle_compressor()
        self._raw = False
        """Whether frames are stored without compression."""
        self._frame = bytearray()
        self._stored = array("I")
        self._newlines = array("I")
        self._chars = array("I")
        self._frame_newlines = 0
        self._frame_chars = 0

    def feed(self, data: Buffer) -> bytes:
        """Takes more content; returns the stored bytes of the frames that this content completes."""
        if self.index is not None:
            raise ValueError("the payload is finished")
        out: list[bytes] = []
        rest = memoryview(data).cast("B")
        while rest:
            piece = rest[: FRAME_BYTES - len(self._frame)]
            rest = rest[len(piece) :]
            self._count(piece)
            if len(piece) == FRAME_BYTES:
                out.append(self._close(piece))
                continue
            self._frame += piece
            if len(self._frame) == FRAME_BYTES:
                out.append(self._close(self._frame))
                self._frame = bytearray()
        return b"".join(out)

    def finish(self) -> bytes:
        """Ends the content; returns the stored bytes of its last frame and the seek table."""
        if self.index is not None:
            raise ValueError("the payload is finished")
        last = self._close(self._frame) if self._frame else b""
        table = _seek_table(self._stored, self.size)
        self.stored_size += len(table)
        self._frame = bytearray()
        if not self._raw:
            _IDLE.append(self._compressor)
        self.index = FrameIndex(
            frame_size=FRAME_BYTES,
            size=self.size,
            stored_size=self.stored_size,
            compressed_sizes=self._stored,
            newlines=self._newlines,
            chars=self._chars,
        )
        return last + table

    def _count(self, piece: memoryview) -> None:
        content = bytes(piece)
        newlines = content.count(b"\n")
        chars = len(content)
        if not content.isascii():
            chars = int(np.count_nonzero(np.frombuffer(content, dtype=np.int8) >= _FIRST_BYTES))
        self.size += len(piece)
        self.newlines += newlines
        self.chars += chars
        self._frame_newlines += newlines
        self._frame_chars += chars

    def _close(self, content: bytearray | memoryview) -> bytes:
        if not self._stores:
            return b""
        if len(self._stored) == FRAME_LIMIT:
            raise CoatcheckError(Code.PAYLOAD_TOO_LARGE, "The payload has more frames than the storage format allows.")
        compressed = self._compressor.compress(content, zstd.ZstdCompressor.FLUSH_FRAME)
        if not self._stored and len(content) < _WORTH * len(compressed):
            self._compressor, self._raw = _compressor(_RAW_LEVEL), True
        self._stored.append(len(compressed))
        self._newlines.append(self._frame_newlines)
        self._chars.append(self._frame_chars)
        self._frame_newlines = self._frame_chars = 0
        self.stored_size += len(compressed)
        return compressed


def decode_frames(blob: Buffer, index: FrameIndex, i: int, j: int) -> bytes:
    """Returns the content of frames `i` to `j` - 1. `blob` is exactly their stored bytes (`index.locate_frames(i, j)`).

    Raises:
        CoatcheckError: `integrity` if a length, a header or a checksum differs from the one that was written.
    """
    start, end = index.locate_frames(i, j)
    view = memoryview(blob).cast("B")
    if len(view) != end - start:
        raise _damage_error(f"{len(view)} stored bytes where {end - start} were expected")
    out: list[bytes] = []
    for frame in range(i, j):
        first, last = index.locate_frames(frame, frame + 1)
        piece = view[first - start : last - start]
        out.append(_decode(piece, index.frame_length(frame), frame))
    return out[0] if len(out) == 1 else b"".join(out)


def _decode(piece: memoryview, length: int, frame: int) -> bytes:
    # The header is checked before memory is allocated. It must match the index and announce a checksum, so that a
    # damaged header can neither request too much memory nor turn off verification.
    try:
        header = zstd.get_frame_info(piece)
        if header.decompressed_size != length or not piece[_DESCRIPTOR] & _CHECKSUM or header.dictionary_id:
            raise _damage_error(f"the header of frame {frame} is not the one that was written")
        decompressor = zstd.ZstdDecompressor(options=_DECODING)
        content = decompressor.decompress(piece, length)
    except zstd.ZstdError as error:
        raise _damage_error(f"frame {frame} does not decompress ({error})") from error
    if len(content) != length or not decompressor.eof or decompressor.unused_data:
        raise _damage_error(f"frame {frame} has {len(content)} bytes instead of {length}")
    return content


def _idle_compressor() -> zstd.ZstdCompressor:
    try:
        return _IDLE.pop()
    except IndexError:
        return _compressor(_LEVEL)


def _compressor(level: int) -> zstd.ZstdCompressor:
    parameter = zstd.CompressionParameter
    return zstd.ZstdCompressor(options={parameter.compression_level: level, parameter.checksum_flag: True})


def _seek_table(compressed_sizes: "array[int]", size: int) -> bytes:
    count = len(compressed_sizes)
    sizes = [FRAME_BYTES] * count
    if count:
        sizes[-1] = size - (count - 1) * FRAME_BYTES
    entries = struct.pack(f"<{2 * count}I", *chain.from_iterable(zip(compressed_sizes, sizes, strict=True)))
    # The frames contain checksums, so that the optional checksums in the seek table would be redundant.
    body = entries + _FOOTER.pack(count, 0, _SEEKABLE_MAGIC)
    return _SKIPPABLE.pack(_SKIPPABLE_MAGIC, len(body)) + body


def _damage_error(why: str) -> CoatcheckError:
    return CoatcheckError(
        Code.INTEGRITY,
        f"The stored bytes are damaged: {why}. Run the tool again, or restore the payload from a backup.",
    )
