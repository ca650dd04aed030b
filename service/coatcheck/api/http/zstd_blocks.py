"""Cuts a Zstandard stream (RFC 8878) between its blocks, so that each piece decodes to a bounded number of bytes.

The decoder at hand has no output limit, and four bytes of input can stand for 128 KiB. A block never stands for more
than 128 KiB, so feeding whole blocks, a few at a time, bounds every step. Decodes nothing itself; refuses windows over
a limit, reserved blocks, blocks that are too large, anything behind a frame that is not another frame, and streams of
many frames or blocks that hold next to nothing.
"""

from enum import Enum, auto
from typing import Final

from coatcheck.core.errors import CoatcheckError, Code

BLOCK_MAX: Final = 128 * 1024
_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_SKIPPABLE: Final = b"\x2a\x4d\x18"
_SKIPPABLE_FIRST: Final = frozenset(bytes([n]) for n in range(0x50, 0x60))
_RLE, _RESERVED = 1, 3
_CONTENT_SIZE_BYTES: Final = (0, 2, 4, 8)
_DICTIONARY_BYTES: Final = (0, 1, 2, 4)
_MAGIC_BYTES = 4
_SKIPPABLE_HEADER = 8
_BLOCK_HEADER = 3
_CHECKSUM_BYTES = 4


_TAKEN_AT_ONCE: Final = 1024
"""Blocks in one piece."""


class BlockAllowance:
    """How many of something a stream may have: some, and more the more it produces."""

    def __init__(self, coding: str, what: str, *, free: int, each: int) -> None:
        self._coding = coding
        self._what = what
        self._left = free
        self._each = each
        self._rest = 0

    def one(self) -> None:
        """Another one.

        Raises:
            CoatcheckError: `decompression_limit`.
        """
        self._left -= 1
        if self._left < 0:
            raise CoatcheckError(
                Code.DECOMPRESSION_LIMIT,
                f"The {self._coding} stream has too many {self._what} for what they hold. Compress the body in one "
                "piece, or send it without Content-Encoding.",
                coding=self._coding,
            )

    def produced(self, size: int) -> None:
        """So many bytes came out."""
        more, self._rest = divmod(self._rest + size, self._each)
        self._left += more


class _At(Enum):
    MAGIC = auto()
    SKIPPING = auto()
    BLOCK = auto()
    CHECKSUM = auto()


class ZstdBlocks:
    """One stream being cut. `feed` bytes as they come, `take` pieces until there are none."""

    def __init__(self, max_window: int, frames: BlockAllowance) -> None:
        self._max_window = max_window
        self._counted = frames
        self._tiny = BlockAllowance("zstd", "blocks", free=4096, each=8)
        self._buffer = bytearray()
        self._at = _At.MAGIC
        self._skip = 0
        self._checksum = False
        self._frames = 0

    def feed(self, data: bytes) -> None:
        """Append input."""
        self._buffer += data

    @property
    def pending(self) -> int:
        """Bytes that were fed and not taken."""
        return len(self._buffer)

    def produced(self, size: int) -> None:
        """So many bytes were decoded from what was taken."""
        self._counted.produced(size)
        self._tiny.produced(size)

    @property
    def complete(self) -> bool:
        """Whether the stream may end here: at least one frame, and none of it missing."""
        return self._at is _At.MAGIC and not self._buffer and self._frames > 0

    def take(self, output: int) -> tuple[bytes, bool] | None:
        """The next piece, and whether it ends its frame; None when more input is needed.

        A piece decodes to at most `output` bytes, or to one block's 128 KiB if that is more.

        Raises:
            CoatcheckError: `corrupt_encoding`, or `decompression_limit` for a window over the limit.
        """
        if self._at in {_At.MAGIC, _At.SKIPPING} and not self._between():
            return None
        end = self._header() if self._at is _At.MAGIC else 0
        if end is None:
            return None
        taken = 0
        while self._at is _At.BLOCK:
            block = self._block(end)
            if block is None or (end and (block[1] > output or taken == _TAKEN_AT_ONCE)):
                return (self._cut(end), False) if end else None
            self._tiny.one()
            taken += 1
            end += block[0]
            output -= block[1]
            if block[2]:
                self._at = _At.CHECKSUM if self._checksum else _At.MAGIC
        if self._at is _At.CHECKSUM:
            if len(self._buffer) < end + _CHECKSUM_BYTES:
                return (self._cut(end), False) if end else None
            end += _CHECKSUM_BYTES
            self._at = _At.MAGIC
        self._frames += 1
        self._counted.one()
        return self._cut(end), True

    def _cut(self, end: int) -> bytes:
        piece = bytes(memoryview(self._buffer)[:end])
        del self._buffer[:end]
        return piece

    def _between(self) -> bool:
        """Pass over skippable frames; whether a frame's magic number follows."""
        buffer = self._buffer
        while True:
            if self._at is _At.SKIPPING:
                passed = min(self._skip, len(buffer))
                del buffer[:passed]
                self._skip -= passed
                if self._skip:
                    return False
                self._at = _At.MAGIC
            start = bytes(buffer[:_MAGIC_BYTES])
            if start == _MAGIC:
                return True
            skippable = start[:1] in _SKIPPABLE_FIRST and _SKIPPABLE.startswith(start[1:])
            if not skippable and not _MAGIC.startswith(start):
                raise corrupt("zstd", "bytes that are no frame")
            if not skippable or len(buffer) < _SKIPPABLE_HEADER:
                return False
            self._counted.one()
            self._skip = _SKIPPABLE_HEADER + int.from_bytes(buffer[4:8], "little")
            self._at = _At.SKIPPING

    def _header(self) -> int | None:
        """Read a frame header (RFC 8878, 3.1.1.1); its size, or None when it is not all there."""
        buffer = self._buffer
        if len(buffer) <= _MAGIC_BYTES:
            return None
        descriptor = buffer[4]
        single = bool(descriptor & 0x20)
        dictionary = _DICTIONARY_BYTES[descriptor & 3]
        sized = _CONTENT_SIZE_BYTES[descriptor >> 6] or int(single)
        size = _MAGIC_BYTES + 1 + (0 if single else 1) + dictionary + sized
        if len(buffer) < size:
            return None
        if single:
            content = int.from_bytes(buffer[size - sized : size], "little")
            window = content + (256 if sized == 2 else 0)  # noqa: PLR2004 - RFC 8878, 3.1.1.1.4
        else:
            base = 1 << (10 + (buffer[5] >> 3))
            window = base + base // 8 * (buffer[5] & 7)
        if window > self._max_window:
            raise CoatcheckError(
                Code.DECOMPRESSION_LIMIT,
                f"The zstd frame needs a window of {window:,} bytes; at most {self._max_window:,} are accepted "
                "(RFC 9659). Compress without --long or --ultra.",
                limit=self._max_window,
            )
        self._checksum = bool(descriptor & 4)
        self._at = _At.BLOCK
        return size

    def _block(self, at: int) -> tuple[int, int, bool] | None:
        """The block at `at`: its input size, its greatest output size, whether it is the last; None: not all there."""
        if len(self._buffer) < at + _BLOCK_HEADER:
            return None
        header = int.from_bytes(self._buffer[at : at + _BLOCK_HEADER], "little")
        kind, size = header >> 1 & 3, header >> 3
        if kind == _RESERVED or size > BLOCK_MAX:
            raise corrupt("zstd", "an impossible block")
        whole = _BLOCK_HEADER + (1 if kind == _RLE else size)
        if len(self._buffer) < at + whole:
            return None
        return whole, size if kind <= _RLE else BLOCK_MAX, bool(header & 1)


def corrupt(coding: str, what: str) -> CoatcheckError:
    """The error of a stream that is not what its Content-Encoding says."""
    return CoatcheckError(
        Code.CORRUPT_ENCODING,
        f"The body is not valid {coding}: {what}. Nothing was stored; check Content-Encoding and send it again.",
        coding=coding,
    )
