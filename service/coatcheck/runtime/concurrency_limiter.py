"""Limits how many callers work at once and how many wait; all others are refused.

Whoever is refused has lost nothing: no byte of a body was asked for. First come, first served; nobody waits for longer
than the patience. Refuses to know what the places are for. Used on one event loop.
"""

import asyncio
from collections import deque
from contextlib import suppress
from typing import Final

from coatcheck.core.errors import CoatcheckError, Code

PATIENCE: Final = 10.0
"""Seconds that somebody waits for a place: less than most clients wait for an answer."""


class ConcurrencyLimiter:
    """Limits concurrent work of one kind. An async context manager: inside, the caller holds a slot."""

    def __init__(self, name: str, most: int, waiting: int, patience: float = PATIENCE) -> None:
        """All slots are free at first.

        Args:
            name: what is done in them, in the plural, for whoever is refused.
            most: held at once.
            waiting: callers who may wait for one.
            patience: seconds that a caller waits at most.
        """
        self._name = name
        self._most = most
        self._room = waiting
        self._patience = patience
        self._queue: deque[asyncio.Future[bool]] = deque()
        self.used = 0
        """Places that are held."""
        self.given = 0
        """Places that were given so far."""
        self.refused = 0
        """Callers that were sent away so far."""

    @property
    def waiting(self) -> int:
        """Number of callers waiting for a slot."""
        return len(self._queue)

    async def __aenter__(self) -> None:
        """Take a place, in turn.

        Raises:
            CoatcheckError: `overloaded` when too many wait already, and when none came free in time.
        """
        if self.used < self._most and not self._queue:
            self.used += 1
            self.given += 1
            return
        if len(self._queue) >= self._room:
            raise self._full()
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[bool] = loop.create_future()
        self._queue.append(turn)
        alarm = loop.call_later(self._patience, self._too_late, turn)
        try:
            came = await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                with suppress(ValueError):  # passed by already
                    self._queue.remove(turn)
            elif turn.result():  # it came in the same moment
                self._pass_on()
            raise
        finally:
            alarm.cancel()
        if not came:
            raise self._full(waited=True)
        self.given += 1

    async def __aexit__(self, *_: object) -> None:
        """Releases the slot."""
        self._pass_on()

    def _pass_on(self) -> None:
        """Passes a slot to the caller that has waited longest; it stays taken meanwhile, so that nobody overtakes."""
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():  # otherwise its caller has gone, and has not been told so yet
                turn.set_result(True)
                return
        self.used -= 1

    def _too_late(self, turn: "asyncio.Future[bool]") -> None:
        if not turn.done():
            self._queue.remove(turn)
            turn.set_result(False)

    def _full(self, *, waited: bool = False) -> CoatcheckError:
        self.refused += 1
        why = f"{len(self._queue)} others wait, which is the most that may."
        if waited:
            why = f"this one timed out after {self._patience:g} seconds waiting for a slot."
        return CoatcheckError(
            Code.OVERLOADED,
            f"{self._most} {self._name} are under way, and {why} Nothing was processed; retry the same call in a "
            "moment.",
        )
