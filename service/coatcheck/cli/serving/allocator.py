"""Keeps the GNU C library from holding on to memory that was freed.

It returns large blocks to the system at first, and stops for every block as large as what it saw freed, up to 32 MiB:
after one large request, the process keeps that memory, in pieces that the next one does not fit into. And it gives
threads heaps of their own, so that what one thread has freed is of no use to another; one heap is enough for threads of
which one runs at a time. What is free in the middle of that heap is returned from time to time: the heap shrinks by
itself only at its end.
"""

import asyncio
import contextlib
import ctypes
from collections.abc import AsyncGenerator
from typing import Final

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8
"""Parameters of mallopt(3)."""
LARGE_BYTES: Final = 4 * 1024 * 1024
"""Blocks from this size on are allocated from the system; smaller ones are reused, which is faster."""
KEPT_BYTES: Final = 16 * 1024 * 1024
"""Free memory at the end of the heap that is kept."""
TRIM_SECONDS: Final = 60.0
"""Seconds between two times at which free pages are returned. Allocation waits for it: 10 to 60 ms for a heap of 300
MB, as measured."""


def return_freed_memory() -> bool:
    """Fixes the size of a large block, and the number of heaps; returns whether this C library can."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # macOS, musl: their allocators work differently
        return False
    options = ((_MMAP_THRESHOLD, LARGE_BYTES), (_TRIM_THRESHOLD, KEPT_BYTES), (_ARENA_MAX, 1))
    return all(mallopt(parameter, value) for parameter, value in options)


@contextlib.asynccontextmanager
async def returning_free_pages(seconds: float = TRIM_SECONDS) -> AsyncGenerator[None]:
    """Returns free pages to the system every few seconds, until exit, where this C library can (malloc_trim(3))."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:
        yield
        return

    async def keep_trimming() -> None:
        while True:
            await asyncio.sleep(seconds)
            await asyncio.to_thread(trim, 0)

    task = asyncio.create_task(keep_trimming(), name="returning free pages")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
