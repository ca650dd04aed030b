"""Show an administrator the overview of a namespace, list events, and check whether the service is ready.

`ShowOverview` shows the activity of each hour, the sessions with the latest activity, and the artifacts that expire
next. `ListEvents` lists the events of an artifact or a session: who read what and how many tokens it took, and what a
compaction replaced.

`CheckReadiness` checks whether the catalogue and the blob store answer, and names the store that does not. It answers
in bounded time: a store that hangs is reported as away. A check that hangs keeps running, and later calls wait for that
check instead of starting another. Simultaneous callers share a check, and its result is reused for a second, so that
anonymous callers cannot put load on the stores.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from coatcheck.core.artifact import Artifact, Caller, DeclaredMetadata
from coatcheck.core.errors import CoatcheckError, Code, invalid_request
from coatcheck.core.event import Event
from coatcheck.core.keys import ADMIN, EVERYWHERE, is_everywhere
from coatcheck.core.redact.mask import Mask
from coatcheck.ports.catalog import ActivityHour, CheckedStore, Health, HealthReason, Overview, SessionSummary
from coatcheck.ports.keys import SessionAccounts
from coatcheck.ports.telemetry import Clock
from coatcheck.runtime.circuit_breaker import CircuitBreaker
from coatcheck.storing.find import SessionNames
from coatcheck.storing.redaction import RedactionPolicy
from coatcheck.upkeep.store_binding import NoteAccounts

_FETCHED_ROWS = 50
"""Rows that are fetched by default, and for a list of which the caller is allowed to see only a part."""

_EXAMINED_SESSIONS = 1_000
"""How many of a namespace's latest sessions are read to find those that a caller with a session prefix may see."""


@dataclass(frozen=True)
class ShowOverview:
    """Shows the activity, the latest sessions and the next expiring artifacts that the caller may see."""

    overview: Overview
    clock: Clock
    note: NoteAccounts
    redacting: RedactionPolicy

    async def activity(self, caller: Caller, days: int) -> list[ActivityHour]:
        """Returns the activity of the last `days` days, for each hour in which something happened.

        The activity is that of the caller's namespace; for an administrator of all namespaces, of all of them. A caller
        who is bound to sessions gets an empty list, because the sums include the activity of other sessions.

        Raises:
            CoatcheckError: `storage_full`, `storage_unavailable`.
        """
        if caller.session_prefix is not None:
            return []
        await self.note()
        everywhere = ADMIN in caller.scopes and is_everywhere(caller)
        return await self.overview.activity(
            EVERYWHERE if everywhere else caller.namespace, self.clock.now() - timedelta(days=days)
        )

    async def sessions(self, caller: Caller, limit: int = _FETCHED_ROWS) -> list[SessionSummary]:
        """Returns up to `limit` sessions that the caller may see, those with the latest activity.

        A caller with a session prefix sees those among the namespace's latest _EXAMINED_SESSIONS.

        Raises:
            CoatcheckError: `storage_full`, `storage_unavailable`.
        """
        await self.note()
        # A caller who is bound to sessions may see only a few rows, so more rows are read than are returned.
        examined = limit if caller.session_prefix is None else _EXAMINED_SESSIONS
        summaries = await self.overview.recent_sessions(caller.namespace, limit=examined)
        visible_sessions = [each for each in summaries if caller.sees(each.session)][:limit]
        return [
            replace(each, session=self.redacting.session(caller.namespace, each.session)) for each in visible_sessions
        ]

    async def expiring(self, caller: Caller, limit: int) -> list[Artifact]:
        """Returns up to `limit` artifacts that the caller may see, those that expire next.

        A caller with a session prefix sees those among the namespace's next _FETCHED_ROWS.

        Raises:
            CoatcheckError: `storage_unavailable`.
        """
        artifacts = await self.overview.next_expiring(
            caller.namespace, self.clock.now(), limit=limit if caller.session_prefix is None else _FETCHED_ROWS
        )
        visible_artifacts = [each for each in artifacts if caller.sees(each.declared.session)][:limit]
        return list(map(self.redacting.mask_listed_artifact, visible_artifacts))


class EventPage(Struct, frozen=True):
    """A page of a list of events."""

    events: list[Event]
    next: int | None
    """The value of `before` with which the next page is read; None: this is the last page."""


@dataclass(frozen=True)
class ListEvents:
    """Lists events: those of this process up to now, and those of other processes up to a second ago."""

    accounts: SessionAccounts
    note: NoteAccounts
    redacting: RedactionPolicy
    session_names: SessionNames

    async def __call__(
        self,
        caller: Caller,
        *,
        session: str | None = None,
        artifact: int | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> EventPage:
        """Returns a page of the events of a session, an artifact, or an artifact in a session, latest first.

        Args:
            caller: the caller, who gets only the events of sessions that the caller may see.
            session: the session; None: any session.
            artifact: the artifact; None: any artifact.
            before: number of the event before which the page begins; None: the page begins with the latest event.
            limit: maximum events of the page.

        Raises:
            CoatcheckError: `invalid_request` if neither a session nor an artifact is given; `storage_full`,
                `storage_unavailable`.
        """
        if session is None and artifact is None:
            raise invalid_request("Name a session, an artifact, or both.", parameter="session")
        await self.note()
        if session is not None:
            session = await self.session_names.real(caller, session)
        events = await self.accounts.events(
            caller.namespace, session=session, artifact=artifact, before=before, limit=limit
        )
        visible_events = [self._mask_event(each) for each in events if caller.sees(each.session)]
        # The next page begins after the last event that was read, even if that event is hidden from the caller.
        # Otherwise, a page of hidden events alone would end the list.
        return EventPage(visible_events, events[-1].number if len(events) == limit else None)

    def _mask_event(self, event: Event) -> Event:
        # Events quote queries and patterns, and a caller may have written a secret into them.
        mask = self.redacting.mask(event.namespace, DeclaredMetadata(session=event.session))
        if mask is None:
            return event
        session = None if event.session is None else mask.text(event.session)
        return replace(event, session=session, details=_mask_value(event.details, mask))


def _mask_value(value: Any, mask: Mask) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, str):
        return mask.text(value)
    if isinstance(value, dict):
        return {name: _mask_value(each, mask) for name, each in cast("dict[str, Any]", value).items()}
    return [_mask_value(each, mask) for each in cast("list[Any]", value)] if isinstance(value, list) else value


log = logging.getLogger(__name__)

CHECK_SECONDS: Final = 3.0
"""Maximum seconds that a store may take to answer: less than the ten seconds that a Prometheus probe waits."""
REUSE_SECONDS: Final = 1.0
"""Seconds for which the result of a check is reused."""


class Readiness(Struct, frozen=True):
    """Whether the service is ready, and if not, why."""

    health: Health
    reasons: tuple[HealthReason, ...] = ()


@dataclass(eq=False)
class StoreCheck:
    """Checks one store, in bounded time."""

    store: CheckedStore
    breaker: CircuitBreaker
    """The store's circuit breaker, the same that ingest uses; the check closes it when the store accepts writes."""
    _running: asyncio.Task[HealthReason | None] | None = field(default=None, init=False)

    async def __call__(self) -> HealthReason | None:
        """Returns why the store is not healthy; None if it serves reads and writes. Takes `CHECK_SECONDS` at most."""
        if self._running is None:
            self._running = asyncio.create_task(self._query_store(), name=f"check of the {self.breaker.name}")
        # `asyncio.wait` does not cancel the task as `wait_for` would: a check that hangs keeps running, and the next
        # call waits for the same check. So hanging checks never pile up.
        finished_tasks, _ = await asyncio.wait([self._running], timeout=CHECK_SECONDS)
        if not finished_tasks:
            slow = f"The {self.breaker.name} did not answer within {CHECK_SECONDS:.0f} seconds."
            return self._reason("away", CoatcheckError(Code.STORAGE_UNAVAILABLE, slow))
        task, self._running = self._running, None
        return task.result()

    async def close(self) -> None:
        """Cancels a check in progress."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])

    async def _query_store(self) -> HealthReason | None:
        health: Health = "away"
        try:
            await self.store.check_reads()
            # Reads work. If a later step fails, only writes are affected.
            health = "degraded"
            await self.store.check_writes(room=self.breaker.full)
        except CoatcheckError as error:
            return self._reason(health, error)
        except Exception:
            log.exception("the check of the %s failed", self.breaker.name)
            return self._reason(health, CoatcheckError(Code.INTERNAL, "The check failed; the log says why."))
        # The breaker is closed only after reads and writes have worked, because ingest then calls the store again.
        self.breaker.answers()
        return None

    def _reason(self, health: Health, error: CoatcheckError) -> HealthReason:
        return HealthReason(component=self.breaker.name, health=health, code=error.code, detail=error.detail)


@dataclass(eq=False)
class CheckReadiness:
    """Checks whether the service can serve all requests. Shares the stores' circuit breakers with ingest."""

    catalog: StoreCheck
    """The check of the catalogue, without which nothing can be read."""
    blobs: StoreCheck
    """The check of the blob store, without which only small payloads can be stored and read."""
    ticks: Callable[[], float] = time.monotonic
    """A monotonic clock, in seconds."""
    known: Readiness | None = field(default=None, init=False)
    """The last result; None before the first check has finished."""
    _checking: asyncio.Task[Readiness] | None = field(default=None, init=False)
    _checked_at: float = field(default=float("-inf"), init=False)

    async def __call__(self) -> Readiness:
        """Returns the readiness, at most a second old. A check closes the circuit breakers of stores that pass it."""
        if self.known is not None and self.ticks() - self._checked_at < REUSE_SECONDS:
            return self.known
        if self._checking is None:
            self._checking = asyncio.create_task(self._check(), name="readiness")
        return await asyncio.shield(self._checking)

    async def close(self) -> None:
        """Cancels a check in progress."""
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.wait([self._checking])
        await self.catalog.close()
        await self.blobs.close()

    async def _check(self) -> Readiness:
        try:
            # Both stores are checked at the same time, so that a check takes only as long as the slower store.
            catalog, blobs = await asyncio.gather(self.catalog(), self.blobs())
        finally:
            self._checking = None
        reasons = tuple(reason for reason in (catalog, blobs) if reason is not None)
        # Small payloads work without the blob store, so the service is `away` only if the catalogue is.
        away = catalog is not None and catalog.health == "away"
        self.known = Readiness("away" if away else "degraded" if reasons else "ready", reasons)
        self._checked_at = self.ticks()
        return self.known
