"""Payloads that are sent in pieces from an event loop. Apart from bytes.py, because importing asyncio takes a while."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import BinaryIO

from coatcheck.client.bytes import AnnouncedBytes, pieces_of
from coatcheck.client.fallback import Ends
from coatcheck.client.wire import Around


async def async_pieces_of(payload: BinaryIO | Iterable[bytes] | AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """The same for an event loop: what blocks is read in a thread."""
    if isinstance(payload, AsyncIterable):
        async for piece in payload:
            yield piece
        return
    pieces = pieces_of(payload)
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        yield piece


async def async_framed(pieces: AsyncIterable[bytes], around: Around, size: int | None) -> AsyncIterator[bytes]:
    """See `framed`."""
    yield around[0]
    counted = AnnouncedBytes(size)
    async for piece in pieces:
        yield counted.take(piece)
        if counted.left == 0:
            break
    counted.finish()
    yield around[1]


class AsyncRememberedPieces:
    """Pieces that are remembered, in part, while they pass on an event loop."""

    def __init__(self, pieces: AsyncIterator[bytes], room: int) -> None:
        """`room`: bytes of each end to remember."""
        self._pieces = pieces
        self.ends = Ends(room)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Pass them on."""
        async for piece in self._pieces:
            self.ends.feed(piece)
            yield piece

    async def drained(self) -> Ends:
        """The ends of the whole payload: what was not passed on is read now."""
        async for piece in self._pieces:
            self.ends.feed(piece)
        return self.ends
