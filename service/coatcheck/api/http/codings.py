"""Content codings of a request body: gzip and zstd, decoded in bounded steps.

A step produces about a megabyte at most, whatever the input; whoever reads on asks for the next, so a limit on the
decoded size stops a bomb within one step. Members and frames may follow one another; anything else behind them is
refused, and so is a stream that ends early, and one that consists of many members or frames with next to nothing in
them: they cost work and produce no output that a limit could stop. Knows nothing of requests.
"""

import zlib
from typing import Final, Protocol

import zstandard

from coatcheck.api.http.zstd_blocks import BLOCK_MAX, BlockAllowance, ZstdBlocks, corrupt

STEP: Final = 1024 * 1024
"""Bytes that one step of decoding produces at most."""
_SLICE: Final = 16 * 1024
"""Input that zlib sees at once: it copies what a member's end leaves over, which must not grow with the input."""
_FREE: Final = 1000
"""Members or frames that a stream may have whatever it holds ..."""
_EACH: Final = 64
"""... and bytes of output for which it may have another."""


class Decoder(Protocol):
    """One coded stream. `feed` only when `step` has answered nothing."""

    @property
    def pending(self) -> int:
        """Bytes that were fed and not decoded yet."""
        ...

    def feed(self, data: bytes) -> None:
        """Hand over the next coded bytes."""
        ...

    def step(self, most: int) -> bytes:
        """Up to about `most` decoded bytes (at least two zstd blocks, 256 KiB); none when more input is needed.

        Raises:
            CoatcheckError: `corrupt_encoding`, `decompression_limit`.
        """
        ...

    def finish(self) -> None:
        """The input has ended. Raises `corrupt_encoding` when the stream has not."""
        ...


class GzipDecoder:
    """RFC 1952, any number of members that hold something."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(wbits=31)
        self._input = memoryview(b"")
        self._at = 0
        self._started = False
        self._members = BlockAllowance("gzip", "members", free=_FREE, each=_EACH)

    @property
    def pending(self) -> int:
        """See Decoder."""
        return len(self._input) - self._at

    def feed(self, data: bytes) -> None:
        """See Decoder."""
        self._input = memoryview(bytes(self._input[self._at :]) + data if self.pending else data)
        self._at = 0

    def step(self, most: int) -> bytes:
        """See Decoder."""
        pieces: list[bytes] = []
        room = most
        while room > 0:
            if self._member.eof:
                if not self.pending:
                    break
                self._next_member()
            piece = self._decompress(room)
            if piece:
                pieces.append(piece)
                room -= len(piece)
                self._members.produced(len(piece))
            elif not self.pending:
                break
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _next_member(self) -> None:
        self._members.one()
        self._member = zlib.decompressobj(wbits=31)
        self._started = False

    def _decompress(self, most: int) -> bytes:
        given = self._input[self._at : self._at + _SLICE]
        try:
            piece = self._member.decompress(given, most)
        except zlib.error as e:
            raise corrupt("gzip", "a damaged member" if self._started else "bytes that are no member") from e
        self._started = self._started or bool(given)
        left = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
        self._at += len(given) - len(left)
        return piece

    def finish(self) -> None:
        """See Decoder."""
        if not self._member.eof:
            raise corrupt("gzip", "it ends in the middle")


class ZstdDecoder:
    """RFC 8878, any number of frames that hold something, without dictionaries."""

    def __init__(self, max_window: int) -> None:
        self._context = zstandard.ZstdDecompressor(max_window_size=max_window)
        self._frame = self._context.decompressobj()
        self._frames = BlockAllowance("zstd", "frames", free=_FREE, each=_EACH)
        self._blocks = ZstdBlocks(max_window, self._frames)

    @property
    def pending(self) -> int:
        """See Decoder."""
        return self._blocks.pending

    def feed(self, data: bytes) -> None:
        """See Decoder."""
        self._blocks.feed(data)

    def step(self, most: int) -> bytes:
        """See Decoder."""
        most = max(most, 2 * BLOCK_MAX)
        pieces: list[bytes] = []
        size = 0
        while size + BLOCK_MAX <= most and (taken := self._blocks.take(most - size)) is not None:
            piece, ends = taken
            try:
                decoded = self._frame.decompress(piece)
            except zstandard.ZstdError as e:
                raise corrupt("zstd", "a damaged frame") from e
            if ends:
                self._frame = self._context.decompressobj()
            if decoded:
                pieces.append(decoded)
                size += len(decoded)
                self._blocks.produced(len(decoded))
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def finish(self) -> None:
        """See Decoder."""
        if not self._blocks.complete:
            raise corrupt("zstd", "it ends in the middle")
