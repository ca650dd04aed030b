"""Runs a walk over a JSON document: the walk runs in worker threads, and the event loop reads the bytes that it needs.

A small document is read whole and walked in a single step, because each hand-over to a thread is costly. While a walk
processes one block of a larger document, the next block is read ahead. At most one block is read without being needed.
"""

import asyncio
import contextlib
from concurrent.futures import Executor
from typing import Generic, Protocol, TypeVar, final

from msgspec import Struct

from coatcheck.core.jsonpath.descend import AT_HAND_BYTES
from coatcheck.core.jsonpath.walk import MAX_WINDOW_BYTES, Walk, Want, over
from coatcheck.runtime.work_placement import in_pool

T = TypeVar("T")


class JsonContent(Protocol):
    """Bytes that contain a JSON document."""

    @property
    def size(self) -> int:
        """Number of bytes."""
        ...

    async def read(self, start: int, end: int) -> bytes:
        """Returns the bytes from `start` to before `end`."""
        ...


@final
class DocumentContent:
    """A JSON document within a text. Blanks replace the rest of the text, so that positions in both are the same."""

    def __init__(self, content: JsonContent, start: int, end: int) -> None:
        self._content = content
        self._start = start
        self._end = end
        self.size = content.size

    async def read(self, start: int, end: int) -> bytes:
        """See JsonContent."""
        data = await self._content.read(start, end)
        before, after = self._start - start, self._end - start
        return (b" " * max(0, min(len(data), before)) + data[max(0, before) : max(0, after)]).ljust(len(data))


class _Done(Struct, Generic[T], frozen=True):
    """The last step of a walk, with its result."""

    result: T


async def walk_over(content: JsonContent, walk: Walk[T], pool: Executor) -> T:
    """Runs a walk, supplies the bytes that it requests, and returns its result.

    Raises:
        CoatcheckError: any error that the walk raises, or that a read of the content raises.
    """
    if content.size <= AT_HAND_BYTES:
        return await in_pool(pool, over, await content.read(0, content.size), walk)
    ahead = _Ahead(content)
    try:
        step = await in_pool(pool, _advance, walk, None)
        while isinstance(step, Want):
            data = await ahead.read(step)
            step = await in_pool(pool, _advance, walk, data)
        return step.result
    finally:
        await ahead.close()


def _advance(walk: Walk[T], data: bytes | None) -> Want | _Done[T]:
    try:
        return next(walk) if data is None else walk.send(data)
    except StopIteration as done:  # a future cannot carry StopIteration
        return _Done(done.value)


class _Ahead:
    """Reads the blocks of a document that a walk requests. If they are in sequence, it reads the next block ahead."""

    def __init__(self, content: JsonContent) -> None:
        self._content = content
        self._end = -1
        """End of the last requested block."""
        self._next: tuple[Want, asyncio.Task[bytes]] | None = None
        """The block that is being read ahead; None: no block is being read ahead."""

    async def read(self, want: Want) -> bytes:
        prefetch, self._next = self._next, None
        if prefetch is not None and prefetch[0] == want:
            data = await prefetch[1]
        else:
            await _drop(prefetch)
            data = await self._content.read(want.start, want.end)
        following = Want(want.end, want.end + MAX_WINDOW_BYTES)
        # The next block is read ahead only after a full block that followed the one before. A walk that jumps would not
        # need it.
        if want.start == self._end and want.end - want.start == MAX_WINDOW_BYTES and want.end < self._content.size:
            self._next = following, asyncio.create_task(self._content.read(*following))
        self._end = want.end
        return data

    async def close(self) -> None:
        prefetch, self._next = self._next, None
        await _drop(prefetch)


async def _drop(prefetch: tuple[Want, asyncio.Task[bytes]] | None) -> None:
    if prefetch is not None:
        # The cancelled task must still be awaited; otherwise asyncio logs its error as one that nobody retrieved.
        prefetch[1].cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await prefetch[1]
