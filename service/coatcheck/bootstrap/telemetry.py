"""Builds what an administrator sees of the running service: metrics, traces, and the state of its limits."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from coatcheck import __version__
from coatcheck.adapters.extract.workers import Workers
from coatcheck.adapters.metrics import Metrics, Standing, render_metrics
from coatcheck.adapters.metrics_of_all import MetricsOfAll
from coatcheck.adapters.traced import TracedBlobs, trace_catalog
from coatcheck.api.http.rates import Allowances
from coatcheck.api.routes import ROUTES
from coatcheck.bootstrap.stores import Store
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.jobs.lag import lagging
from coatcheck.ports.blobs import BlobStore
from coatcheck.ports.telemetry import Tracer
from coatcheck.runtime.circuit_breaker import CircuitBreaker
from coatcheck.runtime.noop_telemetry import UNTRACED
from coatcheck.runtime.pool import in_pool
from coatcheck.settings import Settings
from coatcheck.storing.commit_artifact import ApproachingCommits
from coatcheck.storing.fallback_buffer import FallbackBuffer
from coatcheck.storing.ingest_deps import IngestLimiters
from coatcheck.upkeep.backlog import CountBacklog
from coatcheck.upkeep.clock_jumps import ClockJumpGuard
from coatcheck.usecases.operations.check_readiness import CheckReadiness

log = logging.getLogger(__name__)
_LEFT_SECONDS: Final = 1.0


class Telemetry:
    """The meter, the tracer, and what they observe. Created by `watching`."""

    def __init__(self, settings: Settings, store: Store, tracer: Tracer, metrics: Path | None) -> None:
        self._readers = store.readers
        self._backlog = CountBacklog(store.catalog, store.clock)
        self._fallback: FallbackBuffer | None = None
        self._readiness: CheckReadiness | None = None
        self._extract: Workers | None = None
        self._deletions: ClockJumpGuard | None = None
        self.tracer = tracer
        self.meter = Metrics(
            __version__, self._standing, [(route.path, str(route.method)) for route in ROUTES if route.method != "HEAD"]
        )
        self._all = None if metrics is None else MetricsOfAll(metrics, self.meter.registry)
        self._pool = store.pool
        self.limiters = IngestLimiters(settings.ingests, settings.ingests_waiting, float(settings.ingests_wait_seconds))
        self.catalog_breaker = CircuitBreaker("catalogue", meter=self.meter)
        self.blobs_breaker = CircuitBreaker("blob store", meter=self.meter)
        self.allowances = Allowances(settings.rate_requests, settings.rate_bytes, self.meter)
        self.approaching = ApproachingCommits()
        store.catalog.watch_commits(self.meter.record_commit)
        store.catalog.gather_commits(lambda: self.approaching.count)

    def look_at(
        self, fallback: FallbackBuffer, extract: Workers, deletions: ClockJumpGuard, readiness: CheckReadiness
    ) -> None:
        """Observes these as well."""
        self._fallback, self._extract, self._deletions = fallback, extract, deletions
        self._readiness = readiness

    async def render(self, accept: str) -> tuple[bytes, str]:
        """Returns the metrics, with a count of the catalogue that is at most a few seconds old, if it responds.

        Also checks the readiness: while nobody stores anything, nobody else would notice that a store is away.
        """
        await asyncio.gather(self._backlog(), self._check_readiness())
        if self._all is not None:
            return await in_pool(self._pool, render_metrics, self._all.registry, accept)
        return render_metrics(self.meter.registry, accept)

    @asynccontextmanager
    async def leaving(self) -> AsyncGenerator[None]:
        """Writes the metrics of this process for its siblings every second, until exit."""
        if self._all is None:
            yield
            return
        task = asyncio.create_task(self._leave(self._all))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _leave(self, metrics: MetricsOfAll) -> None:
        while True:
            try:
                await in_pool(self._pool, metrics.leave)
            except OSError as error:
                log.warning("the other workers do not report this worker's metrics: %s", error.strerror)
            await asyncio.sleep(_LEFT_SECONDS)

    async def _check_readiness(self) -> None:
        """Checks the readiness; a check that takes longer counts at the next scrape."""
        if self._readiness is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._readiness(), _LEFT_SECONDS)

    async def close(self) -> None:
        """Cancels a count in progress."""
        await self._backlog.stop()

    def _standing(self) -> Standing:
        backlog = self._backlog.last_backlog
        overdue = None if backlog is None else backlog.overdue
        fallback, extract, deletions = self._fallback, self._extract, self._deletions
        readiness = None if self._readiness is None else self._readiness.known
        reasons = () if readiness is None else readiness.reasons
        away = {reason.component for reason in reasons if reason.health == "away"}
        return Standing(
            ingests_running=self.limiters.running,
            ingests_waiting=self.limiters.waiting,
            ingests_shed_total=self.limiters.cards.granted_count,
            ingests_refused_total=self.limiters.cards.refused,
            ingests_stalled_total=self.limiters.stalled_count,
            reads_waiting=self._readers.waiting,
            reads_refused_total=self._readers.refused,
            fallback_payloads=0 if fallback is None else fallback.count,
            fallback_bytes=0 if fallback is None else fallback.used_bytes,
            catalog_silent=self.catalog_breaker.silent or self.catalog_breaker.name in away,
            blobs_silent=self.blobs_breaker.silent or self.blobs_breaker.name in away,
            degraded=bool(reasons),
            storage_full=any(reason.code is Code.STORAGE_FULL for reason in reasons),
            catalog_damaged=any(reason.code is Code.INTEGRITY for reason in reasons),
            extract_workers_started_total=0 if extract is None else extract.started,
            extract_workers_lost_total=0 if extract is None else extract.lost,
            deletions_paused=deletions is not None and deletions.pause_reason is not None,
            clock_drift_seconds=0.0 if deletions is None else deletions.drift.total_seconds(),
            artifacts=None if overdue is None else overdue.artifacts,
            stored_bytes=None if overdue is None else overdue.stored_bytes,
            expired_artifacts=None if overdue is None else overdue.expired,
            overdue_seconds=None if backlog is None else backlog.overdue_seconds,
            dead_blobs=None if overdue is None else overdue.dead,
            dead_blob_bytes=None if overdue is None else overdue.dead_bytes,
            backlog_age_seconds=None if backlog is None else backlog.age,
        )


@asynccontextmanager
async def watching(
    settings: Settings, store: Store, metrics: Path | None = None
) -> AsyncGenerator[tuple[Telemetry, Store]]:
    """Observes a store until exit; also yields the store as whatever answers requests must use it.

    Args:
        settings: what is observed, and where traces go.
        store: the store to observe.
        metrics: the directory where this process and its siblings write their metrics; None: there are no siblings.
    """
    tracer, close = _tracer(settings)
    traced_store = _trace_store(store, tracer) if tracer.on else store
    telemetry = Telemetry(settings, store, tracer, metrics)
    try:
        async with lagging(telemetry.meter), telemetry.leaving():
            yield telemetry, traced_store
    finally:
        await telemetry.close()
        await in_pool(store.pool, close)


def _trace_store(store: Store, tracer: Tracer) -> Store:
    blobs: BlobStore = TracedBlobs(store.blobs, tracer)
    content = store.open_content.through(blobs)
    return replace(store, catalog=trace_catalog(store.catalog, tracer), blobs=blobs, open_content=content)


def _tracer(settings: Settings) -> tuple[Tracer, Callable[[], None]]:
    """Returns the tracer in the settings, and what closes it."""
    if not settings.otlp_endpoint and not settings.standard_telemetry:
        return UNTRACED, lambda: None
    try:
        from coatcheck.adapters.traces import OtlpTracer  # noqa: PLC0415 - an extra
    except ImportError as error:
        missing = "Traces need the SDK: install coatcheck[telemetry]"
        if settings.otlp_endpoint:
            raise CoatcheckError(Code.INVALID_REQUEST, f"{missing}, or unset COATCHECK_OTLP_ENDPOINT.") from error
        log.warning("%s. The OTEL_ variables are ignored.", missing)
        return UNTRACED, lambda: None
    tracer = OtlpTracer(settings.otlp_endpoint or None, __version__)
    return tracer, tracer.close
