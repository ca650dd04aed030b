"""What the use cases of one service share: access, retention, and where payloads go."""

import logging
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from coatcheck.adapters.clock import steady_seconds
from coatcheck.adapters.redaction_rules import Masks
from coatcheck.adapters.tokenizer import OnDemandTokenizer
from coatcheck.adapters.waiting_files import WaitingFileFolder
from coatcheck.bootstrap.stores import Store, is_embedded
from coatcheck.bootstrap.telemetry import Telemetry
from coatcheck.core.encoding.blob_ids import RANDOM_BYTES, new_blob_id
from coatcheck.core.errors import CoatcheckError
from coatcheck.core.policies.policy import as_redaction
from coatcheck.runtime.pool import in_pool
from coatcheck.runtime.randomness import RandomWords
from coatcheck.settings import Settings, is_loopback
from coatcheck.storing.evict import Evict
from coatcheck.storing.fallback_buffer import FallbackBuffer
from coatcheck.storing.find import Find
from coatcheck.storing.ingest_deps import IngestDeps
from coatcheck.storing.ledger import Ledger
from coatcheck.storing.policies import Policies
from coatcheck.storing.reads import NoteReads, ReadLog
from coatcheck.storing.redaction import RedactionPolicy
from coatcheck.upkeep.clock_jumps import ClockJumpGuard
from coatcheck.upkeep.job_schedule import JobSchedule
from coatcheck.upkeep.maintenance import LeaderLease, Maintenance
from coatcheck.usecases.operations.check_readiness import CheckReadiness, StoreCheck
from coatcheck.usecases.tenants.authenticate import Authenticate

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Foundation:
    """Created once per service, from its settings and its store."""

    settings: Settings
    store: Store
    telemetry: Telemetry
    tokenizer: OnDemandTokenizer
    authenticate: Authenticate
    policies: Policies
    redacting: RedactionPolicy
    reads: ReadLog
    note: NoteReads
    fallback: FallbackBuffer
    find: Find
    make_room: Evict
    job_schedule: JobSchedule
    deletions: ClockJumpGuard
    maintenance: Maintenance
    deps: IngestDeps
    readiness: CheckReadiness

    tombstone_life: timedelta
    """How long routes answer that an artifact is gone."""


async def foundation(settings: Settings, store: Store, telemetry: Telemetry) -> Foundation:
    """Creates what use cases share, and reads keys and policies from the store.

    Raises:
        CoatcheckError: `storage_unavailable`.
    """
    authenticate = Authenticate(store.catalog, store.clock, required=settings.require_keys)
    await _load(store, authenticate.learn)
    if store.damage() is not None and not (is_loopback(settings.host) or settings.allow_unauthenticated):
        authenticate.require()  # whether there are keys may be unknown
    tokenizer, reads = OnDemandTokenizer(), ReadLog()
    fallback = FallbackBuffer(settings.fallback_bytes, WaitingFileFolder(Path(settings.data)))
    fallback.restore()
    policies = Policies(store.catalog, store.clock)
    await _load(store, policies.refresh)
    redacting = await _redacting(settings, store, policies)
    life = timedelta(seconds=settings.tombstone_ttl)
    note = NoteReads(store.catalog, reads)
    job_schedule = JobSchedule(store.catalog, store.clock, default=settings.sweep_seconds)
    refresh = getattr(store.clock, "learn", None)
    deletions = ClockJumpGuard(store.clock, job_schedule, steady_seconds, refresh, store.damage)
    await _load(store, deletions.check)
    make_room = Evict(store.catalog, deletions, policies, note, tombstone_life=life)
    return Foundation(
        settings=settings,
        store=store,
        telemetry=telemetry,
        tokenizer=tokenizer,
        authenticate=authenticate,
        policies=policies,
        redacting=redacting,
        reads=reads,
        note=note,
        fallback=fallback,
        find=Find(store.catalog, store.clock, reads, fallback, policies.evicts, redacting),
        make_room=make_room,
        job_schedule=job_schedule,
        deletions=deletions,
        maintenance=_tidier(settings, store, deletions, reads, note, policies, job_schedule),
        deps=_ingest_deps(settings, store, telemetry, tokenizer, fallback, make_room, policies, redacting),
        readiness=CheckReadiness(
            StoreCheck(store.catalog, telemetry.catalog_breaker), StoreCheck(store.blobs, telemetry.blobs_breaker)
        ),
        tombstone_life=life,
    )


async def _load(store: Store, load: Callable[[], Awaitable[object]]) -> None:
    """Reads what a start needs from the catalogue, and does without if that is damaged.

    Raises:
        CoatcheckError: `storage_unavailable`.
    """
    try:
        await load()
    except CoatcheckError as error:
        if store.damage() is None:
            raise
        log.warning("the service starts without what cannot be read: %s", error.detail)


def _ingest_deps(
    settings: Settings,
    store: Store,
    telemetry: Telemetry,
    tokenizer: OnDemandTokenizer,
    fallback: FallbackBuffer,
    make_room: Evict,
    policies: Policies,
    redacting: RedactionPolicy,
) -> IngestDeps:
    return IngestDeps(
        catalog=store.catalog,
        blobs=store.blobs,
        clock=store.clock,
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


async def _redacting(settings: Settings, store: Store, policies: Policies) -> RedactionPolicy:
    masks = Masks(settings.redaction_rules)
    redacting = RedactionPolicy(as_redaction(settings.redaction), masks, store.pool, policies.now)
    if not redacting.never:
        await in_pool(store.pool, masks)
    return redacting


def _tidier(
    settings: Settings,
    store: Store,
    deletions: ClockJumpGuard,
    reads: ReadLog,
    note: NoteReads,
    policies: Policies,
    job_schedule: JobSchedule,
) -> Maintenance:
    return Maintenance(
        store.catalog,
        store.catalog,
        store.blobs,
        deletions,
        reads,
        tombstone_life=timedelta(seconds=settings.tombstone_ttl),
        lives=policies.tombstone_lives,
        grace=timedelta(seconds=settings.grace_seconds),
        audit_life=timedelta(seconds=settings.audit_ttl),
        most_events=settings.events,
        note=note,
        leader=None if is_embedded(settings) else LeaderLease(secrets.token_hex(8), settings.sweep_seconds),
        job_schedule=job_schedule,
        retention=store.catalog,
    )


def _blob_names(store: Store) -> Callable[[], str]:
    random = RandomWords(RANDOM_BYTES)
    return lambda: new_blob_id(store.clock.now(), random())
