"""Content codings of a request body: gzip and zstd, decoded in bounded steps.

A step produces about a megabyte at most, whatever the input; whoever reads on asks for the next, so a limit on the
decoded size stops a bomb within one step. Members and frames may follow one another; anything else behind them is
refused, and so is a stream that ends early. Knows nothing of requests.
"""

import zlib
from typing import Final, Protocol

import zstandard

from coatcheck.api.zstd_blocks import ZstdBlocks, corrupt

STEP: Final = 1024 * 1024
"""Bytes that one step of decoding produces at most."""


class Decoder(Protocol):
    """One coded stream. `feed` only when `step` has answered nothing."""

    def feed(self, data: bytes) -> None:
        """Hand over the next coded bytes."""
        ...

    def step(self, most: int) -> bytes:
        """Up to about `most` decoded bytes (at least one zstd block, 128 KiB); none when more input is needed.

        Raises:
            CoatcheckError: `corrupt_encoding`, `decompression_limit`.
        """
        ...

    def finish(self) -> None:
        """The input has ended. Raises `corrupt_encoding` when the stream has not."""
        ...


class GzipDecoder:
    """RFC 1952, any number of members."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(wbits=31)
        self._input = b""
        self._started = False

    def feed(self, data: bytes) -> None:
        """See Decoder."""
        self._input = self._input + data if self._input else data

    def step(self, most: int) -> bytes:
        """See Decoder."""
        while True:
            if self._member.eof and self._input:
                self._member = zlib.decompressobj(wbits=31)
                self._started = False
            try:
                piece = self._member.decompress(self._input, most)
            except zlib.error as e:
                raise corrupt("gzip", "a damaged member" if self._started else "bytes that are no member") from e
            self._started = self._started or bool(self._input)
            self._input = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            if piece or not self._input:
                return piece

    def finish(self) -> None:
        """See Decoder."""
        if not self._member.eof:
            raise corrupt("gzip", "it ends in the middle")


class ZstdDecoder:
    """RFC 8878, any number of frames, without dictionaries."""

    def __init__(self, max_window: int) -> None:
        self._context = zstandard.ZstdDecompressor(max_window_size=max_window)
        self._frame = self._context.decompressobj()
        self._blocks = ZstdBlocks(max_window)

    def feed(self, data: bytes) -> None:
        """See Decoder."""
        self._blocks.feed(data)

    def step(self, most: int) -> bytes:
        """See Decoder."""
        while (taken := self._blocks.take(most)) is not None:
            piece, ends = taken
            try:
                decoded = self._frame.decompress(piece)
            except zstandard.ZstdError as e:
                raise corrupt("zstd", "a damaged frame") from e
            if ends:
                self._frame = self._context.decompressobj()
            if decoded:
                return decoded
        return b""

    def finish(self) -> None:
        """See Decoder."""
        if not self._blocks.complete:
            raise corrupt("zstd", "it ends in the middle")
