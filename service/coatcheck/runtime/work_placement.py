"""Decides where and when work on a payload runs: on the event loop if the payload is small, otherwise in a thread.

A thread about doubles the cost of short work, because each call into C releases the interpreter lock and has to regain
it. So work on small payloads runs on the event loop. Only one piece of such work runs in each turn of the loop, so that
other requests are served in between. There are two pools of threads, one for ingest and one for reads, which do not
wait for each other. Background work waits while payloads are being ingested. Random bytes are drawn in bulk, because
each draw lets another thread take the interpreter lock.
"""

import asyncio
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from typing import Final, ParamSpec, Protocol, TypeVar, final

from typing_extensions import override

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.tokens import Tokenizer

BRIEF: Final = 1_000
"""Maximum characters or bytes of a text that is processed on the event loop. Such work hardly delays other requests."""

P = ParamSpec("P")
R = TypeVar("R")


async def in_pool(pool: Executor, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Calls `work(*args, **kwargs)` in a worker thread; returns its result, and raises the exception that it raises."""
    return await asyncio.get_running_loop().run_in_executor(pool, partial(work, *args, **kwargs))


async def aside(pool: Executor, size: int, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Like `in_pool`, but if `size` is at most BRIEF, calls `work` at once on the event loop.

    A hand-over to a thread and back takes as long as counting the tokens of a thousand characters.
    """
    return work(*args, **kwargs) if size <= BRIEF else await in_pool(pool, work, *args, **kwargs)


async def count_aside(text: str, tokenizer: Tokenizer, pool: Executor) -> int:
    """Returns the number of tokens of a text. A long text is counted in a worker thread."""
    return await aside(pool, len(text), tokenizer.count, text)


class ReadThreads(ThreadPoolExecutor):
    """A thread pool for reads. If its queue is full, it refuses work at once, since the answer would come too late."""

    def __init__(self, threads: int, waiting: int) -> None:
        """Creates a pool, whose threads start only when there is work.

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
            CoatcheckError: `overloaded` if the queue is full.
        """
        if self._work_queue.qsize() >= self._waiting:
            self.refused += 1
            raise CoatcheckError(Code.OVERLOADED, "Too many reads are in progress. Retry the same call in a moment.")
        return super().submit(fn, *args, **kwargs)


SMALL: Final = 64 * 1024
"""Maximum bytes of a payload that is processed on the event loop. The work takes a few milliseconds at most."""


class WorkPlacement:
    """Runs work where it delays other requests least. Use an instance on a single event loop."""

    def __init__(self, pool: Executor, is_warm: Callable[[], bool] = lambda: True) -> None:
        """Creates a placement.

        Args:
            pool: runs work on large payloads.
            is_warm: returns whether everything that the work on small payloads needs is loaded. Until then, such work
                runs in the pool, too.
        """
        self._pool = pool
        self._is_warm = is_warm
        self._busy = False
        """Whether a piece of work has run in this turn of the loop."""
        self._queue: deque[asyncio.Future[None]] = deque()

    async def run(self, size: int, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls `work(*args, **kwargs)`, which processes `size` bytes; returns its result, and raises its exception."""
        if size > SMALL or not self._is_warm():
            return await in_pool(self._pool, work, *args, **kwargs)
        loop = asyncio.get_running_loop()
        if self._busy or self._queue:
            turn: asyncio.Future[None] = loop.create_future()
            self._queue.append(turn)
            await turn
        else:
            self._busy = True
            loop.call_soon(self._next_turn)
        return work(*args, **kwargs)

    def _next_turn(self) -> None:
        """Lets the work that has waited longest run next, in its own turn of the event loop."""
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():  # otherwise its caller has left
                turn.set_result(None)
                asyncio.get_running_loop().call_soon(self._next_turn)
                return
        self._busy = False


PATIENCE: Final = 5.0
"""Maximum seconds that background work waits, so that constant traffic cannot prevent it."""
_IDLE_SECONDS: Final = 0.2
"""Seconds without a new payload after which the service counts as idle."""


class Activity(Protocol):
    """The counters that show whether payloads are being ingested: those of one limiter, or sums over several."""

    @property
    def running(self) -> int:
        """Number of slots in use."""
        ...

    @property
    def granted_count(self) -> int:
        """Number of slots granted so far."""
        ...


class WaitUntilIdle:
    """Waits until no payload is being ingested and none has arrived for 0.2 s, but at most PATIENCE seconds."""

    def __init__(self, ingests: Activity) -> None:
        """`ingests` has the counters of the ingests in progress."""
        self._ingests = ingests

    async def __call__(self) -> None:
        """Returns when the service is idle, at the latest after PATIENCE seconds."""
        for _ in range(round(PATIENCE / _IDLE_SECONDS)):
            idle, before = self._ingests.running == 0, self._ingests.granted_count
            await asyncio.sleep(_IDLE_SECONDS)
            if idle and self._ingests.running == 0 and self._ingests.granted_count == before:
                return


_WORDS_PER_CALL: Final = 256
"""Number of words that one call to the operating system draws: a call costs far more than a further word. Chosen, not
measured."""


@final
class RandomWords:
    """A thread-safe source of random words of `size` bytes. Each word is returned only once."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._words: deque[bytes] = deque()

    def __call__(self) -> bytes:
        """Returns the next word."""
        while True:
            try:
                return self._words.popleft()
            except IndexError:
                random_bytes = os.urandom(self._size * _WORDS_PER_CALL)
                self._words.extend(random_bytes[at : at + self._size] for at in range(0, len(random_bytes), self._size))
