"""What the sessions' tokens come to: counted on the request path, written down beside it.

Nothing waits for an account: what happens is added up in memory and written every second, all sessions in one change.
A crash loses what was not written down, the last second or two. Payloads without a session are not counted.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from coatcheck.core.artifact import Artifact, Caller
from coatcheck.core.session_usage import SessionUsage, UsageDelta
from coatcheck.ports.clock import Clock
from coatcheck.ports.session_accounts import AddSessionUsage, SessionAccounts

BATCH: Final = 500
"""Sessions of one change."""


class Ledger:
    """What no row shows yet. Bounded: over the limit, new sessions are not counted until it is written down."""

    LIMIT = 100_000

    def __init__(self) -> None:
        self._spent: dict[tuple[str, str], UsageDelta] = {}

    def took(self, namespace: str, session: str | None, raw: int, given: int) -> None:
        """A payload of so many tokens was taken in for the first time, and so many were answered in its place."""
        self._add(namespace, session, UsageDelta(artifacts=1, raw_tokens=raw, given_tokens=given))

    def gave(self, namespace: str, session: str | None, more: int) -> None:
        """What was answered in a payload's place was so many tokens larger than its card; or smaller, below zero."""
        self._add(namespace, session, UsageDelta(given_tokens=more))

    def read(self, artifact: Artifact, tokens: int) -> None:
        """Something of an artifact was read back."""
        self._add(artifact.namespace, artifact.said.session, UsageDelta(reads=1, read_tokens=tokens))

    def compacted(self, namespace: str, session: str | None, unsent: int) -> None:
        """A request was made so many tokens smaller."""
        self._add(namespace, session, UsageDelta(compactions=1, unsent_tokens=unsent))

    def measured(self, namespace: str, session: str | None, persisted: int, transient: int) -> None:
        """A context was measured."""
        self._add(namespace, session, UsageDelta(persisted_tokens=persisted, transient_tokens=transient))

    def _add(self, namespace: str, session: str | None, spent: UsageDelta) -> None:
        if session is None:
            return
        held = self._spent.get((namespace, session))
        if held is not None:
            held.add(spent)
        elif len(self._spent) < self.LIMIT:
            self._spent[namespace, session] = spent

    def drain(self) -> list[tuple[str, str, UsageDelta]]:
        """Hand over what was counted, and start anew."""
        spent, self._spent = self._spent, {}
        return [(namespace, session, each) for (namespace, session), each in spent.items()]


class NoteAccounts:
    """Writes the ledger down. One at a time: who comes second waits until the first one's counts are in their rows."""

    def __init__(self, accounts: SessionAccounts, ledger: Ledger, clock: Clock, number: Callable[[], int]) -> None:
        """Make it; `number` gives random numbers of 62 bits."""
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
            spent = self._ledger.drain() if len(self._changes) * BATCH < Ledger.LIMIT else []
            for start in range(0, len(spent), BATCH):
                part = tuple(spent[start : start + BATCH])
                self._changes.append(AddSessionUsage(batch=self._number(), at=self._clock.now(), sessions=part))
            while self._changes:
                await self._accounts.add_session_usage(self._changes[0])
                del self._changes[0]


class ShowSessionUsage:
    """The verb: what a session's tokens came to, as of now in this process and as of a second ago in others."""

    def __init__(self, accounts: SessionAccounts, note: NoteAccounts) -> None:
        self._accounts = accounts
        self._note = note

    async def __call__(self, caller: Caller, session: str) -> SessionUsage:
        """The account of a session; an empty one where nothing was counted, or where the caller does not see it.

        Raises:
            CoatcheckError: `storage_full`, `storage_unavailable`.
        """
        await self._note()
        found = await self._accounts.session_usage(caller.namespace, session) if caller.sees(session) else None
        return found or SessionUsage(spent=UsageDelta(), since=None, at=None)
