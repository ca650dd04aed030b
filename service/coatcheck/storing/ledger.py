"""Keeps records of requests in memory until they are written, about once a second: accounts, events, and reads.

`Ledger` sums the tokens of each session for its account, and the activity of each namespace, with or without a session.
It also collects events: single reads, searches and compactions. No request waits until its numbers are written; all
sessions are written in one change. A crash loses the records of the last second or two. Payloads without a session have
no account.

`ReadLog` collects reads of artifacts, which move their idle expiry. Until a read is written, the expiry in the
artifact's row is too early. `Find` also looks into the log, so that an artifact that one request found live does not
look expired to the next, and an artifact that was gone does not come back. A crash loses at most one second of reads.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from copy import copy
from datetime import datetime, timedelta
from typing import Any, TypeVar

from coatcheck.core import ids
from coatcheck.core.artifact import Artifact, Caller, Gone
from coatcheck.core.context.measure import ContextMeasurement
from coatcheck.core.event import Action, Event, UsageDelta, event_number, shorten_details
from coatcheck.ports.artifacts import Touch
from coatcheck.ports.catalog import Catalog

log = logging.getLogger(__name__)

T = TypeVar("T")


class Ledger:
    """Counts and events that are not written yet. Over its limits, it counts no new session until the next write."""

    LIMIT = 100_000
    """Maximum number of sessions, and of namespaces, that are counted between two writes."""
    EVENTS = 2_000
    """Maximum number of events that are kept between two writes. Further events are only counted, not logged."""

    def __init__(self, clock: Callable[[], int] = time.time_ns, *, logs: bool = True) -> None:
        """`clock` returns nanoseconds since 1970; without `logs`, events are not kept, only counts."""
        self._clock = clock
        self._logs = logs
        self._spent: dict[tuple[str, str], UsageDelta] = {}
        """Unwritten counts, by namespace and session."""
        self._activity: dict[str, UsageDelta] = {}
        """Unwritten activity, by namespace."""
        self._events: list[Event] = []
        self._unlogged = 0
        """Number of events since the last write that were not kept, because there were more than EVENTS."""
        self._last = 0
        """Microseconds since 1970 in the number of the latest event."""
        self._process = secrets.randbits(8)
        """Random bits in the number of each event, so that two processes rarely use the same number."""

    def took(self, namespace: str, session: str | None, raw: int, given_tokens: int) -> None:
        """Counts a new payload of `raw` tokens, and the `given_tokens` of the text that was returned in its place."""
        self._add(namespace, session, UsageDelta(artifacts=1, raw_tokens=raw, given_tokens=given_tokens))

    def gave(self, namespace: str, session: str | None, more: int) -> None:
        """Adds `more` to the counted tokens of the text that was returned in a payload's place.

        The tokens of a card were counted, but the model gets another text, which has `more` tokens than the card; the
        number may be negative.
        """
        self._add(namespace, session, UsageDelta(given_tokens=more))

    def read(self, caller: Caller, artifact: Artifact, tokens: int, action: Action, details: dict[str, Any]) -> None:
        """Adds the tokens of an answer that read from an artifact, and logs the request."""
        self._add(artifact.namespace, artifact.declared.session, UsageDelta(reads=1, read_tokens=tokens))
        self.log(caller, artifact.declared.session, action, tokens, artifact=ids.parse(artifact.id), details=details)

    def record_compaction(
        self, caller: Caller, session: str | None, before: int, after: int, details: dict[str, Any]
    ) -> None:
        """Counts the tokens by which compaction made a request smaller, and logs its changes.

        `before` and `after` are the request's tokens before and after the compaction.
        """
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
        """Keeps an event for the log. An event that belongs to no session and to no artifact is dropped."""
        if not self._logs or (session is None and artifact is None):
            return
        # While storage is away, events beyond the limit are only counted. The next write reports their number.
        if len(self._events) >= self.EVENTS:
            self._unlogged += 1
            return
        # Numbers must grow even if the clock stands still, because lists continue after the last number that they have
        # shown.
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
        """Records the latest measurement of a session's context."""
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
            # The session below keeps `spent` itself, so the activity needs a copy. Otherwise both tables would add to
            # the same object.
            self._activity[namespace] = copy(spent)
        if session is None:
            return
        usage = self._spent.get((namespace, session))
        if usage is not None:
            usage.add(spent)
        elif len(self._spent) < self.LIMIT:
            self._spent[namespace, session] = spent

    def drain(self) -> list[tuple[str, str, UsageDelta]]:
        """Returns namespace, session and counts of each session, and starts again from zero."""
        spent, self._spent = self._spent, {}
        return [(namespace, session, each) for (namespace, session), each in spent.items()]

    def drain_events(self) -> list[Event]:
        """Returns the events since the last call, in order."""
        if self._unlogged:
            log.warning("%d events were not logged: there were more than can be kept at once", self._unlogged)
            self._unlogged = 0
        events, self._events = self._events, []
        return events

    def drain_activity(self) -> list[tuple[str, UsageDelta]]:
        """Returns the activity of each namespace since the last call."""
        activity, self._activity = self._activity, {}
        return list(activity.items())


BATCH = 500
"""Maximum reads that one change writes."""

Reads = tuple[tuple[str, int, datetime], ...]
_Key = tuple[str, int]


class ReadLog:
    """Reads that are not written yet, in a bounded log. A crash loses them.

    Only reads that move the expiry of an artifact, or the order in which artifacts are evicted, are recorded. For each
    artifact, the log keeps the first read and the last read. Between them it keeps enough reads to show that each read
    kept the artifact alive until the next one.
    """

    LIMIT = 100_000
    """Maximum number of artifacts whose reads are kept between two writes."""

    def __init__(self) -> None:
        self._reads: dict[_Key, list[datetime]] = {}
        self._leaving: dict[_Key, list[datetime]] = {}
        """Drained reads that may not be in their rows yet. They count as pending until their write is confirmed."""
        self._looks: dict[object, datetime] = {}
        """Look-ups in progress, each with the moment for which it answers whether an artifact is live."""

    def note(self, namespace: str, number: int, moment: datetime, idle: timedelta = timedelta()) -> None:
        """Records a read of a live artifact; over the limit, new artifacts are not recorded until the next drain."""
        key = (namespace, number)
        chain = self._reads.get(key)
        if chain is None:
            if len(self._reads) < self.LIMIT:
                self._reads[key] = [moment]
        elif moment > chain[-1]:
            # If the last read but one keeps the artifact alive until now, the last one is not needed. So the chain
            # stays short.
            if len(chain) > 1 and moment < chain[-2] + idle:
                chain.pop()
            chain.append(moment)

    def pending(self, namespace: str, number: int) -> tuple[datetime, datetime] | None:
        """Returns the first and the last of an artifact's unwritten reads; None if there are none.

        A drained read counts as unwritten until its write is confirmed.
        """
        key = (namespace, number)
        chain = [*self._leaving.get(key, ()), *self._reads.get(key, ())]
        return (chain[0], chain[-1]) if chain else None

    @contextmanager
    def look(self, moment: datetime) -> Generator[None]:
        """Registers a look-up until exit: an artifact that was live at `moment` may still be recorded as read then."""
        mark = object()
        self._looks[mark] = moment
        try:
            yield
        finally:
            del self._looks[mark]

    def horizon(self, now: datetime) -> datetime:
        """Returns a moment before which no further read will be recorded.

        An artifact that expired after this moment must not get its tombstone yet, because a look-up in progress may
        still record a read of it.
        """
        return min(now, *self._looks.values()) if self._looks else now

    def drain(self) -> Reads:
        """Returns the recorded reads, and starts an empty log. The reads stay pending until `forget_drained`.

        The reads of each artifact are in order, oldest first.
        """
        self._leaving, self._reads = self._reads, {}
        return tuple((ns, number, moment) for (ns, number), chain in self._leaving.items() for moment in chain)

    def forget_drained(self) -> None:
        """Forgets the drained reads, which are now in their rows."""
        self._leaving = {}

    def restore(self, reads: Reads) -> None:
        """Puts drained reads that could not be written back into the log."""
        self._leaving = {}
        newer, self._reads = self._reads, {}
        for namespace, number, moment in reads:
            self._reads.setdefault((namespace, number), []).append(moment)
        # Older reads come first in a chain, because reads are written in order, and each read counts only if the
        # artifact was still alive at its moment.
        for key, chain in newer.items():
            if key in self._reads or len(self._reads) < self.LIMIT:
                self._reads.setdefault(key, []).extend(chain)


class NoteReads:
    """Writes the reads in a log to the catalogue, for one caller at a time: a second caller waits for the first."""

    def __init__(self, catalog: Catalog, reads: ReadLog) -> None:
        self._catalog = catalog
        self._reads = reads
        self._lock = asyncio.Lock()

    async def __call__(self) -> None:
        """Returns once every read recorded before is durable.

        Raises:
            CoatcheckError: `storage_full`, `storage_unavailable`; then unwritten reads stay in the log.
        """
        async with self._lock:
            reads = self._reads.drain()
            for start in range(0, len(reads), BATCH):
                try:
                    await self._catalog.commit(Touch(reads=reads[start : start + BATCH]))
                except BaseException:
                    # Reads are also put back if the task is cancelled. If their batch was written nevertheless, writing
                    # it again does no harm.
                    self._reads.restore(reads[start:])
                    raise
            self._reads.forget_drained()

    async def make_change(self, namespace: str, number: int, change: Callable[[], Awaitable[T]]) -> T:
        """Makes a change of one artifact, and returns its answer.

        The artifact may have expired by its row, while a read that is not written yet kept it alive. Then the reads are
        written, and the change is made again.

        Raises:
            CoatcheckError: as the change, and as `__call__` if reads must be written.
        """
        # The log is queried first, because the reads may be written while the change is made. They are written only if
        # it matters: a full disk takes deletions when it takes no reads.
        pending = self._reads.pending(namespace, number)
        answer = await change()
        if pending is None or not isinstance(answer, Gone) or answer.reason != "expired":
            return answer
        await self()
        return await change()
