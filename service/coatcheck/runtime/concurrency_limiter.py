"""Limits how many callers work at once and how many wait; all others are refused.

A refused caller loses nothing, as its body has not been requested yet. Slots are granted in order of arrival, but a
named holder gets at most half of the slots, or of the queue: a caller whose uploads stall leaves room for others.
Nobody waits longer than the patience. Use it on a single event loop.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final

from coatcheck.core.errors import CoatcheckError, Code

PATIENCE: Final = 10.0
"""Seconds that a caller waits for a slot: less than most clients wait for an answer."""


_Turn = asyncio.Future[bool]


class ConcurrencyLimiter:
    """Limits concurrent work of one kind."""

    def __init__(self, name: str, most: int, waiting: int, patience: float = PATIENCE) -> None:
        """Creates a limiter with all slots free.

        Args:
            name: what runs in the slots, in the plural, for error messages.
            most: number of slots.
            waiting: callers who may wait for one.
            patience: maximum seconds that a caller waits.
        """
        self._name = name
        self._most = most
        self._room = waiting
        self._patience = patience
        self._queue: deque[tuple[str | None, _Turn]] = deque()
        self._held = Counter[str | None]()
        self.used = 0
        """Slots in use."""
        self.given = 0
        """Slots granted so far."""
        self.refused = 0
        """Callers refused so far."""

    @property
    def waiting(self) -> int:
        """Number of callers waiting for a slot."""
        return len(self._queue)

    @asynccontextmanager
    async def place(self, holder: str | None = None) -> AsyncGenerator[None]:
        """Holds a slot, granted in order of arrival.

        Args:
            holder: has at most half of the slots at once; None: anonymous, may have all.

        Raises:
            CoatcheckError: `overloaded` if too many wait already, or none became free in time.
        """
        if self.used < self._most and self._may(holder):  # a holder that has its share waits for one of its own slots
            self.used += 1
            self._held[holder] += 1
        else:
            await self._wait(holder)
        self.given += 1
        try:
            yield
        finally:
            self._give_back(holder)

    def _may(self, holder: str | None) -> bool:
        return holder is None or self._held[holder] < _half(self._most)

    async def _wait(self, holder: str | None) -> None:
        if len(self._queue) >= self._room or not self._may_wait(holder):
            raise self._full(holder)
        loop = asyncio.get_running_loop()
        turn: _Turn = loop.create_future()
        self._queue.append((holder, turn))
        alarm = loop.call_later(self._patience, self._too_late, holder, turn)
        try:
            came = await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                with suppress(ValueError):  # already skipped
                    self._queue.remove((holder, turn))
            elif turn.result():  # it was granted at the same moment
                self._give_back(holder)
            raise
        finally:
            alarm.cancel()
        if not came:
            raise self._full(holder, waited=True)

    def _may_wait(self, holder: str | None) -> bool:
        return holder is None or sum([each == holder for each, _ in self._queue]) < _half(self._room)

    def _give_back(self, holder: str | None) -> None:
        """Passes a slot to the longest waiting caller that may have it.

        It stays in use meanwhile, so nobody overtakes.
        """
        self._held[holder] -= 1
        if not self._held[holder]:
            del self._held[holder]
        for waiting in list(self._queue):
            who, turn = waiting
            if turn.done() or self._may(who):
                self._queue.remove(waiting)
            if not turn.done() and self._may(who):  # if done, its caller has left, but was not notified yet
                self._held[who] += 1
                turn.set_result(True)
                return
        self.used -= 1

    def _too_late(self, holder: str | None, turn: _Turn) -> None:
        if not turn.done():
            self._queue.remove((holder, turn))
            turn.set_result(False)

    def _full(self, holder: str | None, *, waited: bool = False) -> CoatcheckError:
        self.refused += 1
        under_way = f"{self._most} {self._name}"
        if self.used < self._most or not self._may_wait(holder):
            under_way = f"{_half(self._most)} {self._name} of this key"
        why = f"{len(self._queue)} others wait, which is the most that may."
        if waited:
            why = f"this one timed out after {self._patience:g} seconds waiting for a slot."
        elif len(self._queue) < self._room:
            why = f"{_half(self._room)} others of it wait, which is the most that may."
        return CoatcheckError(
            Code.OVERLOADED,
            f"{under_way} are under way, and {why} Nothing was processed; retry the same call in a moment.",
        )


def _half(most: int) -> int:
    return -(-most // 2)
