"""Write down what the sessions' tokens came to and what was done: all of the last second in one change."""

import asyncio
from collections.abc import Callable
from typing import Final

from coatcheck.ports.clock import Clock
from coatcheck.ports.session_accounts import AddSessionUsage, SessionAccounts
from coatcheck.storing.ledger import Ledger

BATCH: Final = 500
"""Sessions of one change."""


class NoteAccounts:
    """Writes the ledger down. One at a time: who comes second waits until the first one's counts are in their rows."""

    def __init__(self, accounts: SessionAccounts, ledger: Ledger, clock: Clock, number: Callable[[], int]) -> None:
        """`number` returns random numbers of 62 bits."""
        self._accounts = accounts
        self._ledger = ledger
        self._clock = clock
        self._number = number
        self._one = asyncio.Lock()
        self._changes: list[AddSessionUsage] = []
        """What was drained and is not known to be written: made again as they are, so that nothing counts twice."""

    async def __call__(self) -> None:
        """Return when everything that was counted before is durable.

        Raises:
            CoatcheckError: `storage_full`, `storage_unavailable`; then it is tried again the next time.
        """
        async with self._one:
            if len(self._changes) * BATCH < Ledger.LIMIT:
                self._drain()
            while self._changes:
                await self._accounts.commit(self._changes[0])
                del self._changes[0]

    def _drain(self) -> None:
        spent, activity, events = self._ledger.drain(), self._ledger.drain_activity(), self._ledger.drain_events()
        for start in range(0, max(len(spent), len(activity), len(events)), BATCH):
            change = AddSessionUsage(
                batch=self._number(),
                at=self._clock.now(),
                sessions=tuple(spent[start : start + BATCH]),
                activity=tuple(activity[start : start + BATCH]),
                events=tuple(events[start : start + BATCH]),
            )
            self._changes.append(change)
