"""The index of a stored payload: the offset of each frame, and the number of lines and characters before it.

An index answers which stored bytes contain a given byte, line or character, without reading any of them. It is built
once, while the payload is compressed, is packed beside the blob's row, and never changes. The module also imports
Zstandard, from the standard library or its backport, and makes the names of blobs. These are UUIDs of version 7 (RFC
9562, section 5.7); each is used for a single write.
"""

import re
import struct
import sys
import zlib
from bisect import bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coatcheck.core.errors import CoatcheckError, Code

Ints = Sequence[int] | NDArray[np.integer[Any]]

FRAME_BYTES = 128 * 1024
"""Bytes of content in every frame but the last. With 128 KiB, a read of 4 KiB decompresses at most two frames."""
FRAME_LIMIT = 0x8000000
"""Maximum number of frames in one file of the seekable format."""

_VERSION = 1
"""Version of the layout, which is the first byte of an index. A change of the layout needs the next number; readers
refuse numbers that they do not know."""
_HEADER = struct.Struct("<BBIQQII")
"""Version, flags, frame size, size, stored size, number of frames, and CRC-32 of the whole index, in which this field
counts as 0."""
_ONE_BYTE_CHARS = 1
"""Flag: every byte of the content is a character, as in ASCII, so that the column of characters is left out."""


class FrameIndex:
    """An immutable index of `count` frames. Frames, lines and characters are counted from 0.

    Attributes:
        frame_size: bytes of content in every frame but the last.
        size: total bytes of content.
        stored_size: total bytes as stored, including the seek table.
        count: number of frames; 0 for empty content.
    """

    __slots__ = ("_chars", "_newlines", "_offsets", "count", "frame_size", "size", "stored_size")

    def __init__(
        self, *, frame_size: int, size: int, stored_size: int, compressed_sizes: Ints, newlines: Ints, chars: Ints
    ) -> None:
        self.frame_size = frame_size
        self.size = size
        self.stored_size = stored_size
        self.count = len(compressed_sizes)
        self._offsets = _sums(compressed_sizes)
        self._newlines = _sums(newlines)
        self._chars = _sums(chars)

    @property
    def newlines(self) -> int:
        """Number of LF bytes in the whole content."""
        return int(self._newlines[self.count])

    @property
    def chars(self) -> int:
        """Number of characters in the whole content: bytes that do not continue a UTF-8 sequence."""
        return int(self._chars[self.count])

    def locate_frames(self, i: int, j: int) -> tuple[int, int]:
        """Returns the half-open range of the stored bytes of frames `i` to `j` - 1.

        Raises:
            IndexError: unless 0 <= i <= j <= count.
        """
        if not 0 <= i <= j <= self.count:
            raise IndexError(f"frames {i}:{j} of {self.count}")
        return int(self._offsets[i]), int(self._offsets[j])

    def frame_length(self, i: int) -> int:
        """Returns the number of bytes of content in frame `i`."""
        if not 0 <= i < self.count:
            raise IndexError(f"frame {i} of {self.count}")
        return min(self.frame_size, self.size - i * self.frame_size)

    def newlines_before(self, i: int) -> int:
        """Returns the number of LF bytes before frame `i`; 0 <= i <= count is required."""
        return _before(self._newlines, i)

    def chars_before(self, i: int) -> int:
        """Returns the number of characters before frame `i`; 0 <= i <= count is required."""
        return _before(self._chars, i)

    def frame_of_newline(self, n: int) -> int:
        """Returns the frame that contains LF number `n`; 0 <= n < newlines is required."""
        return _holder(self._newlines, n)

    def frame_of_char(self, n: int) -> int:
        """Returns the frame that contains the first byte of character number `n`; 0 <= n < chars is required."""
        return _holder(self._chars, n)

    def pack(self) -> bytes:
        """Returns the index as bytes: 30 bytes, and 8 per frame, or 12 per frame if a character has several bytes."""
        columns = [_differences(self._offsets), _differences(self._newlines)]
        flags = _ONE_BYTE_CHARS
        if self.chars != self.size:
            flags = 0
            columns.append(_differences(self._chars))
        body = b"".join(columns)
        fields = (_VERSION, flags, self.frame_size, self.size, self.stored_size, self.count)
        crc = zlib.crc32(body, zlib.crc32(_HEADER.pack(*fields, 0)))
        return _HEADER.pack(*fields, crc) + body

    @classmethod
    def unpack(cls, data: bytes) -> "FrameIndex":
        """Reads a packed index.

        Raises:
            CoatcheckError: `integrity` if the bytes are not an index that `pack` wrote.
        """
        # The checksum is verified before any number of the index determines how much memory is allocated.
        if len(data) < _HEADER.size:
            raise _corrupt("it is cut off")
        version, flags, frame_size, size, stored_size, count, crc = _HEADER.unpack_from(data)
        if version != _VERSION:
            raise _corrupt(f"its version {version} is unknown to this release")
        body = data[_HEADER.size :]
        blank = _HEADER.pack(version, flags, frame_size, size, stored_size, count, 0)
        if crc != zlib.crc32(body, zlib.crc32(blank)):
            raise _corrupt("its checksum does not match")
        one_byte = bool(flags & _ONE_BYTE_CHARS)
        width = 2 if one_byte else 3
        if frame_size == 0 or count != -(-size // frame_size) or len(body) != 4 * count * width:
            raise _corrupt("its length does not match its number of frames")
        # If every byte is a character, the column of characters was left out: it equals the lengths of the frames.
        columns = np.frombuffer(body, dtype="<u4").reshape(width, count)
        lengths = np.full(count, frame_size, dtype=np.int64)
        if count:
            lengths[-1] = size - (count - 1) * frame_size
        return cls(
            frame_size=frame_size,
            size=size,
            stored_size=stored_size,
            compressed_sizes=columns[0],
            newlines=columns[1],
            chars=lengths if one_byte else columns[2],
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FrameIndex) and self.pack() == other.pack()

    def __hash__(self) -> int:
        return hash((self.size, self.stored_size, self.count))

    def __repr__(self) -> str:
        return f"FrameIndex(size={self.size}, stored_size={self.stored_size}, count={self.count})"


_Sums = NDArray[np.int64] | tuple[int, ...]
"""Cumulative sums, from 0 on. For a single frame, as nearly every payload has, they are a tuple: creating an array
takes longer than everything else in this module."""


def _sums(values: Ints) -> _Sums:
    if len(values) <= 1:
        return (0, *map(int, values))
    sums = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, dtype=np.int64, out=sums[1:])
    return sums


def _differences(sums: _Sums) -> bytes:
    if isinstance(sums, tuple):
        return b"".join(number.to_bytes(4, "little") for number in sums[1:])
    return np.diff(sums).astype("<u4").tobytes()


def _before(sums: _Sums, i: int) -> int:
    if not 0 <= i < len(sums):
        raise IndexError(f"frame {i} of {len(sums) - 1}")
    return int(sums[i])


def _holder(sums: _Sums, n: int) -> int:
    if not 0 <= n < int(sums[-1]):
        raise IndexError(f"number {n} of {int(sums[-1])}")
    return bisect_right(sums, n) - 1


def _corrupt(why: str) -> CoatcheckError:
    return CoatcheckError(
        Code.INTEGRITY,
        f"The index of a stored payload is damaged: {why}. Run `coatcheck check`, or restore from a backup.",
    )


RANDOM_BYTES = 10
"""Random bytes of a blob's name. Together with six bytes of time, they are the 16 bytes of a UUID."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHAPE = re.compile(r"[0-9a-f]{32}", re.ASCII)


def new_blob_id(now: datetime, randomness: bytes) -> str:
    """Returns a new blob name: the milliseconds since 1970 in 48 bits, then 74 of the 80 bits of `randomness`.

    Raises:
        ValueError: `randomness` does not have RANDOM_BYTES bytes.
    """
    if len(randomness) != RANDOM_BYTES:
        raise ValueError(f"a blob name takes {RANDOM_BYTES} random bytes, not {len(randomness)}")
    milliseconds = (now - _EPOCH) // timedelta(milliseconds=1)
    octets = bytearray(milliseconds.to_bytes(6, "big") + randomness)
    octets[6] = 0x70 | octets[6] & 0x0F
    octets[8] = 0x80 | octets[8] & 0x3F
    return octets.hex()


def is_blob_id(text: str) -> bool:
    """Returns whether a text has the form of a blob's name, so that it is safe as a part of a path."""
    return _SHAPE.fullmatch(text) is not None


def blob_day(blob_id: str) -> str:
    """Returns the UTC day on which a blob's name was made, as `yyyymmdd`.

    The day is part of the blob's location in an object store.

    Raises:
        ValueError: `blob_id` is not a blob's name.
    """
    if not is_blob_id(blob_id):
        raise ValueError("not a blob's name")
    try:
        made_at = _EPOCH + timedelta(milliseconds=int(blob_id[:12], 16))
    except OverflowError:
        raise ValueError("not a blob's name: its time is past the year 9999") from None
    return f"{made_at:%Y%m%d}".rjust(8, "0")


if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["zstd"]
