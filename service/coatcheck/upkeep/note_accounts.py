"""Writes sessions' token counts and events: all of the last second in one change."""

import asyncio
from collections.abc import Callable
from typing import Final

from coatcheck.ports.clock import Clock
from coatcheck.ports.session_accounts import AddSessionUsage, SessionAccounts
from coatcheck.storing.ledger import Ledger

NOTE_BATCH: Final = 500
"""Sessions per change."""


class NoteAccounts:
    """Writes the ledger. One at a time: a second caller waits until the first one's counts are written."""

    def __init__(self, accounts: SessionAccounts, ledger: Ledger, clock: Clock, number: Callable[[], int]) -> None:
        """`number` returns random numbers of 62 bits."""
        self._accounts = accounts
        self._ledger = ledger
        self._clock = clock
        self._number = number
        self._one = asyncio.Lock()
        self._changes: list[AddSessionUsage] = []
        """Drained changes that may not be written yet; they are repeated unchanged, so nothing counts twice."""

    async def __call__(self) -> None:
        """Returns once everything that was counted before is durable.

        Raises:
            CoatcheckError: `storage_full`, `storage_unavailable`; the next call tries again.
        """
        async with self._one:
            if len(self._changes) * NOTE_BATCH < Ledger.LIMIT:
                self._drain()
            while self._changes:
                await self._accounts.commit(self._changes[0])
                del self._changes[0]

    def _drain(self) -> None:
        spent, activity, events = self._ledger.drain(), self._ledger.drain_activity(), self._ledger.drain_events()
        for start in range(0, max(len(spent), len(activity), len(events)), NOTE_BATCH):
            change = AddSessionUsage(
                batch=self._number(),
                at=self._clock.now(),
                sessions=tuple(spent[start : start + NOTE_BATCH]),
                activity=tuple(activity[start : start + NOTE_BATCH]),
                events=tuple(events[start : start + NOTE_BATCH]),
            )
            self._changes.append(change)
