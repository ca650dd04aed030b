"""Where work on a payload runs: a small one's on the event loop, a large one's in worker threads.

A thread about doubles what short work costs: each call into C gives the interpreter up and has to win it back. So what
is small never leaves the loop, but only one piece of it runs in each turn of the loop, which answers everybody else in
between. Refuses to know what the work is.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final, ParamSpec, TypeVar

from coatcheck.runtime.pool import in_pool

SMALL: Final = 64 * 1024
"""Bytes of payload up to which its work runs on the loop: a few milliseconds at most."""

P = ParamSpec("P")
R = TypeVar("R")


class WorkPlacement:
    """Runs work where it disturbs others least. Used on one event loop."""

    def __init__(self, pool: Executor, is_warm: Callable[[], bool] = lambda: True) -> None:
        """Place work.

        Args:
            pool: runs work on large payloads.
            is_warm: whether small work is as short as it will be: until then it runs in the pool as well.
        """
        self._pool = pool
        self._is_warm = is_warm
        self._busy = False
        """Whether a piece of work has run in this turn of the loop."""
        self._queue: deque[asyncio.Future[None]] = deque()

    async def run(self, size: int, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Return `work(*args, **kwargs)` of a payload of `size` bytes, and raise what it raises."""
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
        """Lets whoever has waited longest run next, in a turn of its own."""
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():  # otherwise its caller has gone
                turn.set_result(None)
                asyncio.get_running_loop().call_soon(self._next_turn)
                return
        self._busy = False
