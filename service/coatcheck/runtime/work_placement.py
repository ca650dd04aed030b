"""Decides where work on a payload runs: on the event loop if it is small, in worker threads if it is large.

A thread about doubles the cost of short work: each call into C releases the interpreter lock and has to regain it. So
small work stays on the loop, but only one piece of it runs in each turn, and other requests are served in between.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final, ParamSpec, TypeVar

from coatcheck.runtime.pool import in_pool

SMALL: Final = 64 * 1024
"""Size of a payload up to which its work runs on the loop: a few milliseconds at most."""

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
        self._busy = False
        """Whether a piece of work has run in this turn of the loop."""
        self._queue: deque[asyncio.Future[None]] = deque()

    async def run(self, size: int, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Returns `work(*args, **kwargs)`, which processes `size` bytes, and raises what it raises."""
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
        """Lets the work that has waited longest run next, in a turn of its own."""
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():  # otherwise its caller has left
                turn.set_result(None)
                asyncio.get_running_loop().call_soon(self._next_turn)
                return
        self._busy = False
