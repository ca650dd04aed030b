"""Counts the backlog of upkeep for metrics, at most once every few seconds, however often it is requested.

A request returns the last count, and waits only briefly for a new one: a slow or silent catalogue must not block the
metrics.
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
"""Maximum rows counted of each sort; beyond that the number makes no difference."""
PAUSE: Final = 5.0
"""Seconds for which a count is reused."""
_WAIT: Final = 1.0
"""Seconds that a request waits for a new count."""


class Backlog(Struct, frozen=True):
    """The last count of the backlog, and when it was taken."""

    overdue: Overdue
    overdue_seconds: float
    age: float
    """Seconds since it was taken."""


class CountBacklog:
    """Counts what maintenance still has to do, at most once every few seconds."""

    def __init__(self, accounts: Accounts, clock: Clock, ticks: Callable[[], float] = time.monotonic) -> None:
        """`ticks` is monotonic, in seconds."""
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
    def last_backlog(self) -> Backlog | None:
        """Returns the last count; None before the first one."""
        if self._last is None:
            return None
        return Backlog(self._last, self._overdue, self._ticks() - self._true_at)

    async def __call__(self) -> None:
        """Refreshes the count if it is old and the catalogue responds in time. Raises nothing."""
        if self._counting is None and self._ticks() - self._began >= PAUSE:
            self._began = self._ticks()
            self._counting = asyncio.create_task(self._count(), name="backlog")
        if self._counting is not None:
            await asyncio.wait([self._counting], timeout=_WAIT)

    async def stop(self) -> None:
        """Cancels a count in progress."""
        if self._counting is not None:
            self._counting.cancel()
            await asyncio.wait([self._counting])

    async def _count(self) -> None:
        try:
            now = self._clock.now()
            backlog = await self._accounts.overdue(now, LIMIT)
            self._overdue = 0.0 if backlog.oldest is None else max(0.0, (now - backlog.oldest).total_seconds())
            self._last, self._true_at = backlog, self._ticks()
        except CoatcheckError:
            self.failures += 1
        finally:
            self._counting = None
