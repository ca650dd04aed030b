"""Builds the parts that all use cases of one service share: access, retention, ingest, metrics and traces."""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Final

from msgspec import structs

from coatcheck import __version__
from coatcheck.adapters.extract.workers import Workers
from coatcheck.adapters.metrics import Metrics, Standing, render_metrics
from coatcheck.adapters.metrics_of_all import MetricsOfAll
from coatcheck.adapters.redaction_rules import Masks
from coatcheck.adapters.system import steady_seconds
from coatcheck.adapters.tokenizer import OnDemandTokenizer
from coatcheck.adapters.waiting_files import WaitingFileFolder
from coatcheck.api.http.rates import Allowances
from coatcheck.api.routes import ROUTES
from coatcheck.bootstrap.stores import Store, is_embedded
from coatcheck.core.encoding.frames import RANDOM_BYTES, new_blob_id
from coatcheck.core.errors import CoatcheckError, Code, invalid_request
from coatcheck.core.policies.policy import as_redaction
from coatcheck.jobs.schedule import lagging
from coatcheck.ports.telemetry import Tracer
from coatcheck.runtime.circuit_breaker import CircuitBreaker
from coatcheck.runtime.noop_telemetry import UNTRACED
from coatcheck.runtime.work_placement import RandomWords, in_pool
from coatcheck.settings import Settings, is_loopback
from coatcheck.storing.commit_artifact import ApproachingCommits
from coatcheck.storing.evict import Evict
from coatcheck.storing.fallback_buffer import FallbackBuffer
from coatcheck.storing.find import Find
from coatcheck.storing.ingest_deps import IngestDeps, IngestLimiters
from coatcheck.storing.ledger import Ledger, NoteReads, ReadLog
from coatcheck.storing.policies import Policies
from coatcheck.storing.redaction import RedactionPolicy
from coatcheck.upkeep.clock_jumps import ClockJumpGuard
from coatcheck.upkeep.job_schedule import JobSchedule
from coatcheck.upkeep.maintenance import CountBacklog, Maintenance, maintenance_lease
from coatcheck.usecases.operations.show_overview import CheckReadiness, StoreCheck
from coatcheck.usecases.tenants.authenticate import Authenticate

log = logging.getLogger(__name__)
_METRICS_SECONDS: Final = 1.0
"""Seconds between two times at which a worker process writes its metrics for its siblings.

Also the seconds that a scrape waits for the check of readiness: a scraper usually gives up after ten seconds."""


class Telemetry:
    """The meter and the tracer, with the limiters and breakers whose state the meter reports. Created by `watching`."""

    def __init__(self, settings: Settings, store: Store, tracer: Tracer, metrics: Path | None) -> None:
        self._readers = store.readers
        self._backlog = CountBacklog(store.catalog, store.clock)
        self.observed: tuple[Foundation, Workers] | None = None
        """The foundation and the extract workers that are observed besides the store.

        None until they are built, because the meter exists before everything else."""
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
        # The catalogue reports each group of commits to the meter, and asks how many commits are on their way. Meter
        # and counter exist only from here on.
        store.catalog.watch_commits(self.meter.record_commit)
        store.catalog.gather_commits(lambda: self.approaching.count)

    async def render(self, accept: str) -> tuple[bytes, str]:
        """Returns the metrics in the format that `accept` selects, and their content type.

        If the catalogue responds, its counts are at most a few seconds old. A scrape also checks the readiness: while
        nobody stores anything, nothing else would notice that a store is away.
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
            await asyncio.sleep(_METRICS_SECONDS)

    async def _check_readiness(self) -> None:
        """Checks the readiness, and waits at most _METRICS_SECONDS; a later result appears in the next scrape."""
        if self.observed is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.observed[0].readiness(), _METRICS_SECONDS)

    async def close(self) -> None:
        """Cancels a count of the backlog that is in progress."""
        await self._backlog.stop()

    def _standing(self) -> Standing:
        # A scrape during the start gets zeros instead of an error.
        if self.observed is None:
            return Standing()
        base, extract = self.observed
        readiness, backlog = base.readiness.known, self._backlog.last_backlog
        reasons = () if readiness is None else readiness.reasons
        # A breaker notices only calls that fail. While nobody calls a store, only the check of readiness finds out that
        # the store is away.
        away = {reason.component for reason in reasons if reason.health == "away"}
        standing = Standing(
            ingests_running=self.limiters.running,
            ingests_waiting=self.limiters.waiting,
            ingests_shed_total=self.limiters.cards.granted_count,
            ingests_refused_total=self.limiters.cards.refused,
            ingests_stalled_total=self.limiters.stalled_count,
            reads_waiting=self._readers.waiting,
            reads_refused_total=self._readers.refused,
            fallback_payloads=base.deps.fallback.count,
            fallback_bytes=base.deps.fallback.used_bytes,
            catalog_silent=self.catalog_breaker.silent or self.catalog_breaker.name in away,
            blobs_silent=self.blobs_breaker.silent or self.blobs_breaker.name in away,
            degraded=bool(reasons),
            storage_full=any(reason.code is Code.STORAGE_FULL for reason in reasons),
            catalog_damaged=any(reason.code is Code.INTEGRITY for reason in reasons),
            extract_workers_started_total=extract.started,
            extract_workers_lost_total=extract.lost,
            deletions_paused=base.deletions.pause_reason is not None,
            clock_drift_seconds=base.deletions.drift.total_seconds(),
        )
        if backlog is None:
            return standing
        return structs.replace(
            standing,
            artifacts=backlog.overdue.artifacts,
            stored_bytes=backlog.overdue.stored_bytes,
            expired_artifacts=backlog.overdue.expired,
            overdue_seconds=backlog.overdue_seconds,
            dead_blobs=backlog.overdue.dead,
            dead_blob_bytes=backlog.overdue.dead_bytes,
            backlog_age_seconds=backlog.age,
        )


@asynccontextmanager
async def watching(
    settings: Settings, store: Store, metrics: Path | None = None
) -> AsyncGenerator[tuple[Telemetry, Store]]:
    """Observes a store until exit. Yields the telemetry, and the store to use from then on, whose calls are traced.

    Args:
        settings: the service's settings, which also say where traces go.
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
    from coatcheck.adapters.traces import trace_blobs, trace_catalog  # noqa: PLC0415 - an extra, as below

    blobs = trace_blobs(store.blobs, tracer)
    content = store.open_content.through(blobs)
    return replace(store, catalog=trace_catalog(store.catalog, tracer), blobs=blobs, open_content=content)


def _tracer(settings: Settings) -> tuple[Tracer, Callable[[], None]]:
    """Returns the tracer that the settings select, and the function that closes it."""
    if not settings.otlp_endpoint and not settings.standard_telemetry:
        return UNTRACED, lambda: None
    try:
        from coatcheck.adapters.traces import OtlpTracer  # noqa: PLC0415 - an extra
    except ImportError as error:
        missing = "Traces need an extra: pip install 'coatcheck[telemetry]'"
        if settings.otlp_endpoint:
            raise invalid_request(f"{missing}, or unset COATCHECK_OTLP_ENDPOINT.") from error
        log.warning("%s. The OTEL_ variables are ignored.", missing)
        return UNTRACED, lambda: None
    tracer = OtlpTracer(settings.otlp_endpoint or None, __version__)
    return tracer, tracer.close


@dataclass(frozen=True)
class Foundation:
    """The parts that all use cases share. `foundation` creates them once per service."""

    settings: Settings
    store: Store
    telemetry: Telemetry
    authenticate: Authenticate
    policies: Policies
    reads: ReadLog
    """Reads that are not written to the artifacts' rows yet. Shared, because every look-up must know of them."""
    note: NoteReads
    """Writes the reads in `reads` to the catalogue. Shared, because a read must not be written twice."""
    find: Find
    """Finds artifacts that are stored, and payloads that wait in memory for storage."""
    make_room: Evict
    """Evicts the artifacts that were read longest ago, in namespaces whose policy says so."""
    job_schedule: JobSchedule
    deletions: ClockJumpGuard
    """Decides whether expired artifacts may be deleted now: they may not while the clock is possibly wrong."""
    maintenance: Maintenance
    deps: IngestDeps
    """The dependencies of every ingest."""
    readiness: CheckReadiness

    tombstone_life: timedelta
    """How long tombstones are kept in namespaces whose policy does not say. While a tombstone is kept, routes answer
    that the artifact is gone."""


async def foundation(settings: Settings, store: Store, telemetry: Telemetry, *, is_private: bool = False) -> Foundation:
    """Creates the parts that use cases share, and reads keys and policies from the store.

    Args:
        settings: the service's settings.
        store: the opened store.
        telemetry: metrics and traces.
        is_private: whether only the user who runs the service can connect to it, so that no key is needed.

    Raises:
        CoatcheckError: `storage_unavailable`.
        ValueError: `settings.redaction_rules` has the name of an unknown rule.
    """
    catalog, clock, life = store.catalog, store.clock, timedelta(seconds=settings.tombstone_ttl)
    # Access: keys and policies are loaded before any request is served.
    authenticate = Authenticate(catalog, clock, required=None if is_private else settings.require_keys)
    await _load(store, authenticate.learn)
    if store.damage() is not None and not (is_loopback(settings.host) or settings.allow_unauthenticated):
        authenticate.require()  # keys may exist in rows that cannot be read
    policies = Policies(catalog, clock)
    await _load(store, policies.refresh)
    masks = Masks(settings.redaction_rules)
    redacting = RedactionPolicy(as_redaction(settings.redaction), masks, store.pool, policies.now)
    if not redacting.never:
        await in_pool(store.pool, masks)  # compiling the rules would delay the first payload
    # Retention: the clock is checked before any job may delete.
    reads = ReadLog()
    note = NoteReads(catalog, reads)
    job_schedule = JobSchedule(catalog, clock, default=settings.sweep_seconds)
    deletions = ClockJumpGuard(clock, job_schedule, steady_seconds, getattr(clock, "learn", None), store.damage)
    await _load(store, deletions.check)
    make_room = Evict(catalog, deletions, policies, note, tombstone_life=life)
    lease = maintenance_lease(catalog, deletions, secrets.token_hex(8), settings.sweep_seconds)
    maintenance = Maintenance(
        catalog,
        store.blobs,
        deletions,
        reads,
        note,
        tombstone_life=life,
        lives=policies.tombstone_lives,
        grace=timedelta(seconds=settings.grace_seconds),
        audit_life=timedelta(seconds=settings.audit_ttl),
        most_events=settings.events,
        leader=None if is_embedded(settings) else lease,
        job_schedule=job_schedule,
        retention=catalog,
    )
    # Ingest: the fallback buffer reads the payloads that an earlier process could not store. The files of these
    # payloads are in the data directory even if the catalogue is on PostgreSQL, because a store that refuses payloads
    # cannot keep them.
    fallback = FallbackBuffer(settings.fallback_bytes, WaitingFileFolder(Path(settings.data)))
    fallback.restore()
    tokenizer = OnDemandTokenizer()
    deps = IngestDeps(
        catalog=catalog,
        blobs=store.blobs,
        clock=clock,
        pool=store.pool,
        tokenizer=tokenizer,
        is_warm=lambda: tokenizer.is_loaded,
        new_blob_id=_blob_names(store),
        lease=timedelta(seconds=settings.lease_seconds),
        inline_bytes=settings.inline_bytes,
        payload_limit=settings.payload_limit,
        ttl=settings.ttl,
        card_tokens=settings.card_tokens,
        inline_tokens=settings.inline_tokens,
        fallback=fallback,
        catalog_breaker=telemetry.catalog_breaker,
        blobs_breaker=telemetry.blobs_breaker,
        limiters=telemetry.limiters,
        approaching=telemetry.approaching,
        meter=telemetry.meter,
        tracer=telemetry.tracer,
        rooms=make_room,
        rules=policies.now,
        redacting=redacting,
        ledger=Ledger(logs=settings.events > 0),
    )
    return Foundation(
        settings=settings,
        store=store,
        telemetry=telemetry,
        authenticate=authenticate,
        policies=policies,
        reads=reads,
        note=note,
        # `find` also searches the fallback buffer, so that a payload that waits for storage can be read by its ID.
        find=Find(catalog, clock, reads, fallback, policies.evicts, redacting),
        make_room=make_room,
        job_schedule=job_schedule,
        deletions=deletions,
        maintenance=maintenance,
        deps=deps,
        readiness=CheckReadiness(
            StoreCheck(catalog, telemetry.catalog_breaker), StoreCheck(store.blobs, telemetry.blobs_breaker)
        ),
        tombstone_life=life,
    )


async def _load(store: Store, load: Callable[[], Awaitable[object]]) -> None:
    """Awaits `load`, which reads from the catalogue. If the catalogue is damaged, a failure is only logged.

    Raises:
        CoatcheckError: `storage_unavailable` if the catalogue is not damaged but cannot be read.
    """
    try:
        await load()
    except CoatcheckError as error:
        if store.damage() is None:
            raise
        log.warning("the service starts without what cannot be read: %s", error.detail)


def _blob_names(store: Store) -> Callable[[], str]:
    random = RandomWords(RANDOM_BYTES)
    return lambda: new_blob_id(store.clock.now(), random())
