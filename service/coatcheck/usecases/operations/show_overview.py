"""Show what an administrator looks at first: what happened hour by hour, which sessions are busy, what expires next.

List what was done with an artifact or in a session: who read what, what it cost, what a compaction replaced.

Check whether the service can serve everything: ask both stores, and name the one that is away.

Answers in bounded time: a store that hangs is reported, and the check that hangs is joined by the next one instead of
being followed by another. Callers at the same time share a check, and its result is reused for a second, so that
strangers who ask cost the stores nothing.
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
"""Rows fetched for a list of which the caller may see only some."""

_EXAMINED_SESSIONS = 1_000
"""Latest sessions of a namespace among which those of a caller who is bound to sessions are looked for."""


@dataclass(frozen=True)
class ShowOverview:
    """Shows what happened and what expires next, as far as the caller may see it."""

    overview: Overview
    clock: Clock
    note: NoteAccounts
    redacting: RedactionPolicy

    async def activity(self, caller: Caller, days: int) -> list[ActivityHour]:
        """Returns the hours in which anything happened in the caller's namespace; in any, for who administers all.

        A caller who is bound to sessions sees none, because the sums include what others did.

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
        """Returns the sessions with the latest activity.

        Raises:
            CoatcheckError: `storage_full`, `storage_unavailable`.
        """
        await self.note()
        # A caller bound to sessions gets some of many: more rows are read than are shown.
        examined = limit if caller.session_prefix is None else _EXAMINED_SESSIONS
        summaries = await self.overview.recent_sessions(caller.namespace, limit=examined)
        visible_sessions = [each for each in summaries if caller.sees(each.session)][:limit]
        return [
            replace(each, session=self.redacting.session(caller.namespace, each.session)) for each in visible_sessions
        ]

    async def expiring(self, caller: Caller, limit: int) -> list[Artifact]:
        """Returns the artifacts that expire next.

        Raises:
            CoatcheckError: `storage_unavailable`.
        """
        artifacts = await self.overview.next_expiring(
            caller.namespace, self.clock.now(), limit=limit if caller.session_prefix is None else _FETCHED_ROWS
        )
        visible_artifacts = [each for each in artifacts if caller.sees(each.declared.session)][:limit]
        return list(map(self.redacting.mask_listed_artifact, visible_artifacts))


class EventPage(Struct, frozen=True):
    """Events, and where the next page begins; None: there is none."""

    events: list[Event]
    next: int | None


@dataclass(frozen=True)
class ListEvents:
    """Lists events, as of now in this process and as of a second ago in others."""

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
        """Returns the events of a session, of an artifact, or of both, latest first, as far as the caller may see them.

        Raises:
            CoatcheckError: `invalid_request` without a session and an artifact; `storage_full`, `storage_unavailable`.
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
        # The next page follows the last event that was read, not the last that is shown: hidden ones must not end the
        # list.
        return EventPage(visible_events, events[-1].number if len(events) == limit else None)

    def _mask_event(self, event: Event) -> Event:
        # Events quote queries and patterns, in which a caller may have written a secret.
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
"""Seconds that a store may take to answer. Less than the ten that a Prometheus probe waits by default."""
REUSE_SECONDS: Final = 1.0
"""Seconds for which a result is reused."""


class Readiness(Struct, frozen=True):
    """Whether the service is ready, and if not, why."""

    health: Health
    reasons: tuple[HealthReason, ...] = ()


@dataclass(eq=False)
class StoreCheck:
    """Checks one store, in bounded time."""

    store: CheckedStore
    breaker: CircuitBreaker
    """The store's, which ingest uses: it closes when the store takes writes."""
    _running: asyncio.Task[HealthReason | None] | None = field(default=None, init=False)

    async def __call__(self) -> HealthReason | None:
        """Returns what is wrong with the store; None if it serves reads and writes."""
        if self._running is None:
            self._running = asyncio.create_task(self._query_store(), name=f"check of the {self.breaker.name}")
        # `wait` and not `wait_for`: a check that hangs goes on and is joined by the next, so hanging checks never pile
        # up.
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
            # Reads work from here on: whatever fails now costs only writes.
            health = "degraded"
            await self.store.check_writes(room=self.breaker.full)
        except CoatcheckError as error:
            return self._reason(health, error)
        except Exception:
            log.exception("the check of the %s failed", self.breaker.name)
            return self._reason(health, CoatcheckError(Code.INTERNAL, "The check failed; the log says why."))
        # Only after both: closing the breaker sends payloads to the store again.
        self.breaker.answers()
        return None

    def _reason(self, health: Health, error: CoatcheckError) -> HealthReason:
        return HealthReason(component=self.breaker.name, health=health, code=error.code, detail=error.detail)


@dataclass(eq=False)
class CheckReadiness:
    """Checks whether the service can serve everything. Shares the circuit breakers with ingest."""

    catalog: StoreCheck
    """Without the catalogue, nothing can be read."""
    blobs: StoreCheck
    """Without the blob store, small payloads can still be stored and read."""
    ticks: Callable[[], float] = time.monotonic
    """A monotonic clock, in seconds."""
    known: Readiness | None = field(default=None, init=False)
    """The last result; None before the first."""
    _checking: asyncio.Task[Readiness] | None = field(default=None, init=False)
    _checked_at: float = field(default=float("-inf"), init=False)

    async def __call__(self) -> Readiness:
        """Returns the readiness, at most a second old; the stores that answer are offered the next payload again."""
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
            # At the same time, so that a check takes as long as the slower store and not as both.
            catalog, blobs = await asyncio.gather(self.catalog(), self.blobs())
        finally:
            self._checking = None
        reasons = tuple(reason for reason in (catalog, blobs) if reason is not None)
        # Without the blob store small payloads still work, so only the catalogue makes the service `away`.
        away = catalog is not None and catalog.health == "away"
        self.known = Readiness("away" if away else "degraded" if reasons else "ready", reasons)
        self._checked_at = self.ticks()
        return self.known
