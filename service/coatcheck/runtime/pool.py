"""Runs slow work in worker threads, off the event loop.

There are two pools, one for ingest and one for reading, so that neither waits for the other.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from typing import Final, ParamSpec, TypeVar

from typing_extensions import override

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.tokens import Tokenizer

BRIEF: Final = 1_000
"""Characters or bytes that can be processed on the event loop without delaying others."""

P = ParamSpec("P")
R = TypeVar("R")


async def in_pool(pool: Executor, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Returns `work(*args, **kwargs)`, computed in a worker thread, and raises what it raises."""
    return await asyncio.get_running_loop().run_in_executor(pool, partial(work, *args, **kwargs))


async def aside(pool: Executor, size: int, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Like `in_pool` for large inputs; small ones are processed at once, on the event loop.

    Handing work to a thread and back takes as long as counting the tokens of a thousand characters.
    """
    return work(*args, **kwargs) if size <= BRIEF else await in_pool(pool, work, *args, **kwargs)


async def count_aside(text: str, tokenizer: Tokenizer, pool: Executor) -> int:
    """Returns the number of tokens of a text, counted wherever that is fastest."""
    return await aside(pool, len(text), tokenizer.count, text)


class ReadThreads(ThreadPoolExecutor):
    """A thread pool for reads. If its queue is full, it refuses work at once: the answer would come too late."""

    def __init__(self, threads: int, waiting: int) -> None:
        """Threads start only when there is work.

        Args:
            threads: maximum number of threads.
            waiting: maximum number of waiting tasks.
        """
        super().__init__(threads, thread_name_prefix="read")
        self._waiting = waiting
        self.refused = 0
        """Number of tasks refused so far."""

    @property
    def waiting(self) -> int:
        """Number of waiting tasks."""
        return self._work_queue.qsize()

    @override
    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> "Future[R]":
        """Hands a task to a thread.

        Raises:
            CoatcheckError: `overloaded`.
        """
        if self._work_queue.qsize() >= self._waiting:
            self.refused += 1
            raise CoatcheckError(Code.OVERLOADED, "Too many reads are in progress. Retry the same call in a moment.")
        return super().submit(fn, *args, **kwargs)
