"""Count what upkeep still has to do, for whoever watches: at most once in a few seconds, however many ask.

Whoever asks gets what is known, and waits for the newest count only for a moment: a catalogue that is slow or silent
must not keep a meter from being read. Counts nothing by the namespace.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from coatcheck.core.errors import CoatcheckError
from coatcheck.ports.clock import Clock
from coatcheck.ports.telemetry import Accounts, Overdue

LIMIT: Final = 10_000
"""Rows of a sort that are counted; more are as bad."""
PAUSE: Final = 5.0
"""Seconds for which a count is good enough."""
_WAIT: Final = 1.0
"""Seconds for which somebody waits for a new one."""


class Backlog(Struct, frozen=True):
    """The last count of the backlog, and when it was taken."""

    overdue: Overdue
    overdue_seconds: float
    age: float
    """Seconds since it was true."""


class CountBacklog:
    """Counts what maintenance still has to do, at most once in a few seconds."""

    def __init__(self, accounts: Accounts, clock: Clock, ticks: Callable[[], float] = time.monotonic) -> None:
        """`ticks` returns seconds and never steps back."""
        self._accounts = accounts
        self._clock = clock
        self._ticks = ticks
        self._last: Overdue | None = None
        self._overdue = 0.0
        self._began = float("-inf")
        self._true_at = float("-inf")
        self._counting: asyncio.Task[None] | None = None
        self.failures = 0
        """Counts that the catalogue refused."""

    @property
    def known(self) -> Backlog | None:
        """What is known at this moment; None before the first count."""
        if self._last is None:
            return None
        return Backlog(self._last, self._overdue, self._ticks() - self._true_at)

    async def __call__(self) -> None:
        """Make sure that what is known is of the last seconds, if the catalogue answers in time. Raises nothing."""
        if self._counting is None and self._ticks() - self._began >= PAUSE:
            self._began = self._ticks()
            self._counting = asyncio.create_task(self._count(), name="backlog")
        if self._counting is not None:
            await asyncio.wait([self._counting], timeout=_WAIT)

    async def settled(self) -> None:
        """Let go of a count that is under way."""
        if self._counting is not None:
            self._counting.cancel()
            await asyncio.wait([self._counting])

    async def _count(self) -> None:
        try:
            now = self._clock.now()
            found = await self._accounts.overdue(now, LIMIT)
            self._overdue = 0.0 if found.oldest is None else max(0.0, (now - found.oldest).total_seconds())
            self._last, self._true_at = found, self._ticks()
        except CoatcheckError:
            self.failures += 1
        finally:
            self._counting = None
