"""Check whether the service can serve everything: ask both stores, and name the one that is away.

Answers in bounded time: a store that hangs is reported, and the check that hangs is joined by the next one instead of
being followed by another. Callers at the same time share a check, and its result is reused for a second, so that
strangers who ask cost the stores nothing.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.health import CheckedStore, Health, HealthReason
from coatcheck.runtime.circuit_breaker import CircuitBreaker

log = logging.getLogger(__name__)

CHECK_SECONDS: Final = 3.0
"""Seconds that a store may take to answer. Less than the ten that a Prometheus probe waits by default."""
REUSE_SECONDS: Final = 1.0
"""Seconds for which a result is reused."""


class Readiness(Struct, frozen=True):
    """Whether the service is ready, and if not, why."""

    health: Health
    reasons: tuple[HealthReason, ...] = ()


class StoreCheck:
    """Checks one store, in bounded time."""

    def __init__(self, store: CheckedStore, breaker: CircuitBreaker) -> None:
        """`breaker` is the store's circuit breaker, which ingest uses: it closes when the store takes writes."""
        self._store = store
        self._breaker = breaker
        self._running: asyncio.Task[HealthReason | None] | None = None

    async def __call__(self) -> HealthReason | None:
        """Returns what is wrong with the store; None if it serves reads and writes."""
        if self._running is None:
            self._running = asyncio.create_task(self._query_store(), name=f"check of the {self._breaker.name}")
        finished_tasks, _ = await asyncio.wait([self._running], timeout=CHECK_SECONDS)
        if not finished_tasks:
            slow = f"The {self._breaker.name} did not answer within {CHECK_SECONDS:.0f} seconds."
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
            await self._store.check_reads()
            health = "degraded"
            await self._store.check_writes(room=self._breaker.full)
        except CoatcheckError as error:
            return self._reason(health, error)
        except Exception:
            log.exception("the check of the %s failed", self._breaker.name)
            return self._reason(health, CoatcheckError(Code.INTERNAL, "The check failed; the log says why."))
        self._breaker.answers()
        return None

    def _reason(self, health: Health, error: CoatcheckError) -> HealthReason:
        return HealthReason(component=self._breaker.name, health=health, code=error.code, detail=error.detail)


class CheckReadiness:
    """Checks whether the service can serve everything."""

    def __init__(
        self,
        catalog: StoreCheck,
        blobs: StoreCheck,
        reports: Sequence[Callable[[], HealthReason | None]] = (),
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        """Shares the circuit breakers with ingest.

        Args:
            catalog: the check of the catalogue; without it, nothing can be read.
            blobs: the check of the blob store; without it, small payloads can still be stored and read.
            reports: functions of components that know themselves what is wrong with them; they return at once.
            ticks: a monotonic clock, in seconds.
        """
        self._catalog = catalog
        self._blobs = blobs
        self._reports = reports
        self._ticks = ticks
        self._checking: asyncio.Task[Readiness] | None = None
        self._checked_at = float("-inf")
        self.known: Readiness | None = None
        """The last result; None before the first."""

    async def __call__(self) -> Readiness:
        """Returns the readiness, at most a second old; the stores that answer are offered the next payload again."""
        if self.known is not None and self._ticks() - self._checked_at < REUSE_SECONDS:
            return self.known
        if self._checking is None:
            self._checking = asyncio.create_task(self._check(), name="readiness")
        return await asyncio.shield(self._checking)

    async def close(self) -> None:
        """Cancels a check in progress."""
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.wait([self._checking])
        await self._catalog.close()
        await self._blobs.close()

    async def _check(self) -> Readiness:
        try:
            catalog, blobs = await asyncio.gather(self._catalog(), self._blobs())
        finally:
            self._checking = None
        reports = [report() for report in self._reports]
        reasons = tuple(reason for reason in (catalog, blobs, *reports) if reason is not None)
        away = catalog is not None and catalog.health == "away"
        self.known = Readiness("away" if away else "degraded" if reasons else "ready", reasons)
        self._checked_at = self._ticks()
        return self.known
