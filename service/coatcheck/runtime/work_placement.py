"""Decides where work on a payload runs: on the event loop if it is small, in worker threads if it is large.

A thread about doubles the cost of short work: each call into C releases the interpreter lock and has to regain it. So
small work stays on the loop. Once a turn of the loop has spent TURN_SECONDS on it, the next piece waits for a turn of
its own, and other requests are served in between.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final, ParamSpec, TypeVar

from coatcheck.runtime.pool import in_pool

SMALL: Final = 64 * 1024
"""Size of a payload up to which its work runs on the loop: a few milliseconds at most."""

TURN_SECONDS: Final = 0.0005
"""Time after which no further piece of work begins in the same turn: steps that take less share one."""

P = ParamSpec("P")
R = TypeVar("R")


class WorkPlacement:
    """Runs work where it disturbs others least. Use it on a single event loop."""

    def __init__(self, pool: Executor, is_warm: Callable[[], bool] = lambda: True) -> None:
        """Creates a placement.

        Args:
            pool: runs work on large payloads.
            is_warm: whether small work is already as fast as it gets; until then it runs in the pool too.
        """
        self._pool = pool
        self._is_warm = is_warm
        self._watching = False
        """Whether the end of this turn of the loop is awaited."""
        self._spent = 0.0
        """Seconds that this turn has spent on work."""
        self._queue: deque[asyncio.Future[None]] = deque()

    async def run(self, size: int, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Returns `work(*args, **kwargs)`, which processes `size` bytes, and raises what it raises."""
        if size > SMALL or not self._is_warm():
            return await in_pool(self._pool, work, *args, **kwargs)
        loop = asyncio.get_running_loop()
        if self._queue or self._spent >= TURN_SECONDS:
            turn: asyncio.Future[None] = loop.create_future()
            self._queue.append(turn)
            await turn
        elif not self._watching:
            self._watching = True
            loop.call_soon(self._next_turn)
        began = time.perf_counter()
        try:
            return work(*args, **kwargs)
        finally:
            self._spent += time.perf_counter() - began

    def _next_turn(self) -> None:
        """Lets the work that has waited longest run next, in a turn of its own."""
        self._spent = 0.0
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():  # otherwise its caller has left
                turn.set_result(None)
                asyncio.get_running_loop().call_soon(self._next_turn)
                return
        self._watching = False
