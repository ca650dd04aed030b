"""What requests leave behind, kept in memory until it is written every second: token accounts, events, and reads.

In addition, activity per namespace, within or outside sessions, and a log of single reads, searches and compactions.
Nothing waits for an account: everything is summed in memory and written every second, all sessions in one change. A
crash loses what was not written, the last second or two. Payloads without a session have no account.

A read moves idle expiry. Until a read is written, its artifact's row has an expiry that is too early. This process
knows better, and `Find` consults it, so that what was answered as live stays live, and what was answered as gone stays
gone. A crash loses what was not written: at most a second of reads.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from copy import copy
from datetime import datetime, timedelta
from typing import Any

from coatcheck.core import ids
from coatcheck.core.artifact import Artifact, Caller
from coatcheck.core.context.measure import ContextMeasurement
from coatcheck.core.event import Action, Event, UsageDelta, event_number, shorten_details
from coatcheck.ports.artifacts import Touch
from coatcheck.ports.catalog import Catalog

log = logging.getLogger(__name__)


class Ledger:
    """Unwritten counts. Bounded: over the limit, new sessions are not counted until it is written."""

    LIMIT = 100_000
    """Sessions, and namespaces, that are counted between two writes."""
    EVENTS = 2_000
    """Events that are kept until the log is written; more per second are counted, but not logged."""

    def __init__(self, clock: Callable[[], int] = time.time_ns, *, logs: bool = True) -> None:
        """`clock` returns nanoseconds since 1970; without `logs`, no single event is kept."""
        self._clock = clock
        self._logs = logs
        self._spent: dict[tuple[str, str], UsageDelta] = {}
        """By namespace and session."""
        self._activity: dict[str, UsageDelta] = {}
        self._events: list[Event] = []
        self._unlogged = 0
        """Events since the last write that exceeded EVENTS."""
        self._last = 0
        """Microseconds since 1970 in the number of the latest event."""
        self._process = secrets.randbits(8)
        """Random bits in each event's number, so that two processes seldom give the same one."""

    def took(self, namespace: str, session: str | None, raw: int, given_tokens: int) -> None:
        """Counts a new payload of `raw` tokens, and the `given_tokens` that were returned instead."""
        self._add(namespace, session, UsageDelta(artifacts=1, raw_tokens=raw, given_tokens=given_tokens))

    def gave(self, namespace: str, session: str | None, more: int) -> None:
        """Adjusts the tokens returned in a payload's place, which were `more` than its card's, or fewer if negative."""
        self._add(namespace, session, UsageDelta(given_tokens=more))

    def read(self, caller: Caller, artifact: Artifact, tokens: int, action: Action, details: dict[str, Any]) -> None:
        """Adds the tokens of an answer that read from an artifact, and logs the request."""
        self._add(artifact.namespace, artifact.declared.session, UsageDelta(reads=1, read_tokens=tokens))
        self.log(caller, artifact.declared.session, action, tokens, artifact=ids.parse(artifact.id), details=details)

    def record_compaction(
        self, caller: Caller, session: str | None, before: int, after: int, details: dict[str, Any]
    ) -> None:
        """Adds the tokens by which compaction made a request smaller, and logs what it changed."""
        self._add(caller.namespace, session, UsageDelta(compactions=1, unsent_tokens=max(before - after, 0)))
        self.log(caller, session, "compaction", after, before=before, details=details)

    def log(
        self,
        caller: Caller,
        session: str | None,
        action: Action,
        tokens: int,
        *,
        artifact: int | None = None,
        before: int | None = None,
        details: dict[str, Any],
    ) -> None:
        """Keeps an event; one that belongs to no session and no artifact is not logged."""
        if not self._logs or (session is None and artifact is None):
            return
        # Storage may be away for long: what does not fit is counted, and the count is logged with the next write.
        if len(self._events) >= self.EVENTS:
            self._unlogged += 1
            return
        # Numbers grow even if the clock does not, because lists continue after the last number they have seen.
        self._last = max(self._clock() // 1000, self._last + 1)
        event = Event(
            number=event_number(self._last, self._process),
            namespace=caller.namespace,
            session=session,
            artifact=artifact,
            action=action,
            key_id=caller.key_id,
            tokens=tokens,
            tokens_before=before,
            details=shorten_details(details),
        )
        self._events.append(event)

    def record_measurement(self, namespace: str, session: str | None, measured: ContextMeasurement) -> None:
        """Records the last measurement of a session's context."""
        gauges = UsageDelta(
            persisted_tokens=measured.next_turn.tokens,
            transient_tokens=measured.transient.tokens,
            window_tokens=None if measured.window is None else measured.window.usable,
            search_tokens=measured.search_payload.tokens,
            search_cap=measured.search_payload.cap,
        )
        self._add(namespace, session, gauges)

    def _add(self, namespace: str, session: str | None, spent: UsageDelta) -> None:
        busy = self._activity.get(namespace)
        if busy is not None:
            busy.add(spent)
        elif len(self._activity) < self.LIMIT:
            # A copy, as the session below keeps `spent` itself: one object in both tables would be added to twice.
            self._activity[namespace] = copy(spent)
        if session is None:
            return
        usage = self._spent.get((namespace, session))
        if usage is not None:
            usage.add(spent)
        elif len(self._spent) < self.LIMIT:
            self._spent[namespace, session] = spent

    def drain(self) -> list[tuple[str, str, UsageDelta]]:
        """Returns what was counted and starts from zero."""
        spent, self._spent = self._spent, {}
        return [(namespace, session, each) for (namespace, session), each in spent.items()]

    def drain_events(self) -> list[Event]:
        """Returns the events since this was last called, in order."""
        if self._unlogged:
            log.warning("%d events were not logged: there were more than can be kept at once", self._unlogged)
            self._unlogged = 0
        events, self._events = self._events, []
        return events

    def drain_activity(self) -> list[tuple[str, UsageDelta]]:
        """Returns what happened in each namespace since this was last called."""
        activity, self._activity = self._activity, {}
        return list(activity.items())


BATCH = 500
"""Artifacts per change."""

Reads = tuple[tuple[str, int, datetime], ...]
_Key = tuple[str, int]


class ReadLog:
    """Unwritten reads of artifacts with an idle TTL. Bounded; a crash loses it.

    For each artifact it keeps the first read, the last, and as many in between as are needed so that each happened
    while the one before it kept the artifact alive.
    """

    LIMIT = 100_000
    """Artifacts whose reads are kept between two writes."""

    def __init__(self) -> None:
        self._reads: dict[_Key, list[datetime]] = {}
        self._leaving: dict[_Key, list[datetime]] = {}
        """Drained reads that may not be in their rows yet. They count as pending until the write is confirmed."""
        self._looks: dict[object, datetime] = {}
        """Look-ups in progress, each with the moment as of which it answers."""

    def note(self, namespace: str, number: int, moment: datetime, idle: timedelta = timedelta()) -> None:
        """Records a read of a live artifact; over the limit, new artifacts are not recorded until the next drain."""
        key = (namespace, number)
        chain = self._reads.get(key)
        if chain is None:
            if len(self._reads) < self.LIMIT:
                self._reads[key] = [moment]
        elif moment > chain[-1]:
            # The last read adds nothing if the one before it still kept the artifact alive now, so the chain stays
            # short.
            if len(chain) > 1 and moment < chain[-2] + idle:
                chain.pop()
            chain.append(moment)

    def pending(self, namespace: str, number: int) -> tuple[datetime, datetime] | None:
        """Returns the first and the last read of an artifact that may be unwritten."""
        key = (namespace, number)
        chain = [*self._leaving.get(key, ()), *self._reads.get(key, ())]
        return (chain[0], chain[-1]) if chain else None

    @contextmanager
    def look(self, moment: datetime) -> Generator[None]:
        """While this is open, an artifact that was live at `moment` may still be recorded as read then."""
        mark = object()
        self._looks[mark] = moment
        try:
            yield
        finally:
            del self._looks[mark]

    def horizon(self, now: datetime) -> datetime:
        """Returns a moment up to which everything has been recorded: what expired later must get no tombstone yet."""
        return min(now, *self._looks.values()) if self._looks else now

    def drain(self) -> Reads:
        """Returns what was recorded, oldest read first, and starts anew. It stays pending until `forget_drained`."""
        self._leaving, self._reads = self._reads, {}
        return tuple((ns, number, moment) for (ns, number), chain in self._leaving.items() for moment in chain)

    def forget_drained(self) -> None:
        """Forgets the drained reads, which are now in their rows."""
        self._leaving = {}

    def restore(self, reads: Reads) -> None:
        """Takes back drained reads that could not be written."""
        self._leaving = {}
        newer, self._reads = self._reads, {}
        for namespace, number, moment in reads:
            self._reads.setdefault((namespace, number), []).append(moment)
        # Older reads first: a chain is written in order, and each read counts only if the artifact still lived then.
        for key, chain in newer.items():
            if key in self._reads or len(self._reads) < self.LIMIT:
                self._reads.setdefault(key, []).extend(chain)


class NoteReads:
    """Writes the log. One at a time: a second caller waits until the first one's reads are written."""

    def __init__(self, catalog: Catalog, reads: ReadLog) -> None:
        self._catalog = catalog
        self._reads = reads
        self._one = asyncio.Lock()

    async def __call__(self) -> None:
        """Returns once every read recorded before is durable.

        Raises:
            CoatcheckError: `storage_full`, `storage_unavailable`; then they are kept.
        """
        async with self._one:
            reads = self._reads.drain()
            for start in range(0, len(reads), BATCH):
                try:
                    await self._catalog.commit(Touch(reads=reads[start : start + BATCH]))
                except BaseException:
                    # Also when the task is cancelled: reads of a batch that may have been written are harmless to write
                    # again.
                    self._reads.restore(reads[start:])
                    raise
            self._reads.forget_drained()
