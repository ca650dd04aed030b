"""What answers requests: the use cases over an opened store, with the schedule running."""

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from coatcheck.adapters.extract.extractor import TextExtractor
from coatcheck.adapters.redaction_rules import Masks
from coatcheck.adapters.tokenizer import OnDemandTokenizer
from coatcheck.api.http.limits import LOOPBACK, RequestLimits
from coatcheck.api.services import Services
from coatcheck.bootstrap.contexts import contexts
from coatcheck.bootstrap.retention import retaining, retention_desk, when_due
from coatcheck.bootstrap.stores import Store, is_embedded, open_store
from coatcheck.bootstrap.telemetry import Telemetry, watching
from coatcheck.core.encoding.blob_ids import RANDOM_BYTES, new_blob_id
from coatcheck.core.policies.policy import as_redaction
from coatcheck.core.search import Limits
from coatcheck.jobs.decisions import deciding
from coatcheck.jobs.schedule import running
from coatcheck.ports.clock import Clock
from coatcheck.ports.maintenance import TakeLease
from coatcheck.reading.sources import Sources
from coatcheck.reading.view import OpenView
from coatcheck.runtime.pool import in_pool
from coatcheck.runtime.randomness import RandomWords
from coatcheck.runtime.wait_until_idle import WaitUntilIdle
from coatcheck.settings import Settings, is_loopback
from coatcheck.storing.card_text import CardText
from coatcheck.storing.evict import Evict
from coatcheck.storing.fallback_buffer import FallbackBuffer
from coatcheck.storing.find import Find
from coatcheck.storing.ingest_deps import IngestDeps
from coatcheck.storing.keep_text import KeepText
from coatcheck.storing.policies import Policies
from coatcheck.storing.reads import NoteReads, ReadLog
from coatcheck.storing.redaction import RedactionPolicy
from coatcheck.tools.dispatcher import ToolDispatcher
from coatcheck.tools.listing import ListArtifacts
from coatcheck.tools.read import ReadArtifact
from coatcheck.upkeep.index import Index
from coatcheck.upkeep.job_schedule import JobSchedule
from coatcheck.upkeep.maintenance import LeaderLease, Maintenance
from coatcheck.upkeep.seal_key import SealKey
from coatcheck.usecases.operations.check_readiness import CheckReadiness
from coatcheck.usecases.operations.flush_fallback import LAST_SECONDS, FlushFallback
from coatcheck.usecases.payloads.browse import Browse
from coatcheck.usecases.payloads.describe import Describe
from coatcheck.usecases.payloads.extend import Extend
from coatcheck.usecases.payloads.forget import Forget, ForgetSession
from coatcheck.usecases.payloads.ingest import Ingest
from coatcheck.usecases.reading.find_passages import FindPassages
from coatcheck.usecases.reading.outline import Outline
from coatcheck.usecases.reading.read import Read
from coatcheck.usecases.reading.read_json import ReadJson
from coatcheck.usecases.reading.search import Search
from coatcheck.usecases.retention.administer_holds import Holds
from coatcheck.usecases.tenants.administer_keys import AdministerKeys, AdministerNamespaces
from coatcheck.usecases.tenants.authenticate import Authenticate
from coatcheck.usecases.tenants.empty_namespace import EmptyNamespace
from coatcheck.usecases.tenants.show_usage import ShowUsage
from coatcheck.usecases.web_search.budget_search import SearchResults, SearchResultsDeps
from coatcheck.usecases.web_search.verify_citations import VerifyCitations

log = logging.getLogger(__name__)

_INDEX_LEASE = 30.0
"""Seconds for which one process indexes; longer than all but rounds that rest."""


@dataclass(frozen=True)
class RunningService:
    """A service that is ready to be served."""

    services: Services
    limits: RequestLimits
    needs_keys: bool
    """Whether callers need a key, at this moment."""


@asynccontextmanager
async def open_service(
    settings: Settings, *, clock: Clock | None = None, metrics: Path | None = None
) -> AsyncGenerator[RunningService]:
    """Everything that answers requests, with the schedule running; closed in reverse order on leaving.

    Args:
        settings: what it is made of.
        clock: the time that decides; None: the store's own.
        metrics: the directory where this process and those beside it leave their metrics; None: there is no other.
    """
    async with open_store(settings, clock=clock) as opened, watching(settings, opened, metrics) as (watched, store):
        for warning in store.warnings:
            log.warning(warning)
        authenticate = Authenticate(store.catalog, store.clock, required=settings.require_keys)
        await authenticate.learn()
        tokenizer = OnDemandTokenizer()
        reads = ReadLog()
        fallback = FallbackBuffer(settings.fallback_bytes)
        policies = Policies(store.catalog, store.clock)
        await policies.refresh()
        redacting = await _redacting(settings, store, policies)
        find = Find(store.catalog, store.clock, reads, fallback, policies.evicts, redacting)
        life = timedelta(seconds=settings.tombstone_ttl)
        note = NoteReads(store.catalog, reads)
        make_room = Evict(store.catalog, store.clock, policies, note, tombstone_life=life)
        empty = EmptyNamespace(store.catalog, store.clock, policies, tombstone_life=life)
        job_schedule = JobSchedule(store.catalog, store.clock, default=settings.sweep_seconds)
        tidy = _tidier(settings, store, reads, note, policies, job_schedule)
        deps = _ingest_deps(settings, store, watched, tokenizer, fallback, make_room, policies, redacting)
        extractor = TextExtractor(
            settings.extract_workers, seconds=settings.extract_seconds, memory=settings.extract_memory
        )
        watched.look_at(fallback, extractor.workers)
        keep_text = KeepText(deps, store.open_content, extractor)
        card_text = CardText(
            extractor, store.open_content, keep_text, tokenizer, deps.new_blob_id, inline_bytes=settings.inline_bytes
        )
        describe = Describe(
            find, store.open_content, tokenizer, store.readers, settings.card_tokens, card_text, policies.now, redacting
        )
        open_view = OpenView(find, store.open_content, keep_text, deps.ledger, redacting)
        readers = _readers(open_view, tokenizer, store)
        index = Index(
            store.catalog,
            store.open_content,
            store.pool,
            _random_number,
            when_due(job_schedule, _leader(settings, store)),
            keep_text,
            redacting,
        )
        seal_key = SealKey(store.catalog, store.clock, secrets.token_hex)
        browse = Browse(store.catalog, store.clock, seal_key, index, redacting)
        tools = ToolDispatcher(
            ReadArtifact(
                open_view,
                readers.read,
                readers.search,
                readers.outline,
                tokenizer,
                store.readers,
                passages=readers.windows,
                values=readers.read_json,
            ),
            ListArtifacts(browse, tokenizer, store.readers),
            tokenizer,
        )
        ingest = Ingest(deps, card_text)
        search_places = _search_places(settings, store, deps, ingest, find, keep_text)
        context = contexts(
            store.catalog, ingest, deps, card_text, Find(store.catalog, store.clock, reads), store.open_content
        )
        retention = retention_desk(settings, store, deps, tidy, policies, job_schedule)
        services = Services(
            ingest=ingest,
            describe=describe,
            browse=browse,
            forget=Forget(store.catalog, store.clock, life, fallback, policies),
            forget_session=ForgetSession(store.catalog, store.clock, life, fallback, policies),
            extend=Extend(store.catalog, store.clock, fallback, policies.now, redacting),
            open_view=OpenView(find, store.open_content, keep_text, deps.ledger),  # for programs: bytes as stored
            outline=readers.outline,
            read=readers.read,
            search=readers.search,
            windows=readers.windows,
            read_json=readers.read_json,
            search_results=SearchResults(search_places),
            verify_citations=VerifyCitations(open_view, store.readers),
            compact=context.compact,
            measure=context.measure,
            tell_usage=context.tell_usage,
            tools=tools,
            authenticate=authenticate,
            keys=AdministerKeys(store.catalog, store.clock, secrets.token_bytes, authenticate.require),
            namespaces=AdministerNamespaces(store.catalog, store.clock),
            policies=policies,
            holds=Holds(store.catalog, store.clock, secrets.token_bytes),
            usage=ShowUsage(store.catalog, policies),
            empty_namespace=empty,
            retention=retention,
            clock=store.clock,
            allowances=watched.allowances,
            metrics=watched.render,
            meter=watched.meter,
            tracer=watched.tracer,
            ready=CheckReadiness(store.catalog, deps.catalog_breaker),
        )
        try:
            async with (
                deciding(policies, empty, make_room, store.catalog, settings.sweep_seconds),
                retaining(retention),
                running(
                    tidy,
                    job_schedule.pause,
                    note,
                    FlushFallback(deps),
                    index,
                    context.note,
                    calm=WaitUntilIdle(watched.slots),
                    meter=watched.meter,
                ),
            ):
                yield RunningService(services, _limits(settings), authenticate.required)
        finally:
            await authenticate.close()
            if deps.afterwards:  # what is not undone by then is the reaper's
                await asyncio.wait(deps.afterwards, timeout=LAST_SECONDS)
            await keep_text.settled(LAST_SECONDS)
            extractor.close()
            await tidy.leave()


class _Readers(NamedTuple):
    """The use cases that read on in a stored payload."""

    read: Read
    search: Search
    windows: FindPassages
    read_json: ReadJson
    outline: Outline


def _readers(open_view: OpenView, tokenizer: OnDemandTokenizer, store: Store) -> _Readers:
    return _Readers(
        Read(open_view, tokenizer, store.readers),
        Search(open_view, tokenizer, store.readers),
        FindPassages(open_view, tokenizer, store.readers),
        ReadJson(open_view, tokenizer, store.readers),
        Outline(open_view, tokenizer, store.readers),
    )


def _ingest_deps(
    settings: Settings,
    store: Store,
    watched: Telemetry,
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
        catalog_breaker=watched.catalog_breaker,
        blobs_breaker=watched.blobs_breaker,
        slots=watched.slots,
        approaching=watched.approaching,
        meter=watched.meter,
        tracer=watched.tracer,
        rooms=make_room,
        rules=policies.now,
        redacting=redacting,
    )


def _search_places(
    settings: Settings, store: Store, deps: IngestDeps, ingest: Ingest, find: Find, keep_text: KeepText
) -> SearchResultsDeps:
    return SearchResultsDeps(
        ingest=ingest,
        find=find,
        keep_text=keep_text,
        sources=Sources(store.catalog, store.clock, store.open_content, store.pool),
        tokenizer=deps.tokenizer,
        pool=store.pool,
        ledger=deps.ledger,
        redacting=deps.redacting,
        rules=deps.rules,
        limits=Limits(
            max_results=settings.search_max_results,
            max_tokens_per_result=settings.search_max_tokens_per_result,
            max_total_tokens=settings.search_max_total_tokens,
        ),
    )


async def _redacting(settings: Settings, store: Store, policies: Policies) -> RedactionPolicy:
    masks = Masks(settings.redaction_rules)
    redacting = RedactionPolicy(as_redaction(settings.redaction), masks, store.pool, policies.now)
    if not redacting.never:
        await in_pool(store.pool, masks)
    return redacting


def _tidier(
    settings: Settings, store: Store, reads: ReadLog, note: NoteReads, policies: Policies, job_schedule: JobSchedule
) -> Maintenance:
    return Maintenance(
        store.catalog,
        store.catalog,
        store.blobs,
        store.clock,
        reads,
        tombstone_life=timedelta(seconds=settings.tombstone_ttl),
        lives=policies.tombstone_lives,
        grace=timedelta(seconds=settings.grace_seconds),
        audit_life=timedelta(seconds=settings.audit_ttl),
        note=note,
        leader=None if is_embedded(settings) else LeaderLease(secrets.token_hex(8), settings.sweep_seconds),
        job_schedule=job_schedule,
        retention=store.catalog,
    )


def _blob_names(store: Store) -> Callable[[], str]:
    random = RandomWords(RANDOM_BYTES)
    return lambda: new_blob_id(store.clock.now(), random())


def _random_number() -> int:
    return secrets.randbits(62)


def _leader(settings: Settings, store: Store) -> Callable[[], Awaitable[bool]] | None:
    """Who of several processes indexes; one that stops or hangs loses the lease soon."""
    if is_embedded(settings):
        return None
    me = secrets.token_hex(8)

    async def lead() -> bool:
        lease = TakeLease(name="index", holder=me, seconds=_INDEX_LEASE, now=store.clock.now())
        return await store.catalog.commit(lease)

    return lead


def _limits(settings: Settings) -> RequestLimits:
    extra = tuple(h.strip().lower() for h in settings.allowed_hosts.split(",") if h.strip())
    # Where names need no checking, keys are checked: here, or, if the administrator says so, in front of here.
    beyond = settings.allow_unauthenticated or not is_loopback(settings.host)
    hosts = None if beyond and not extra else (*LOOPBACK, *extra)
    return RequestLimits(
        payload=settings.payload_limit,
        json_body=settings.json_limit,
        allowed_hosts=hosts,
        metrics_open=settings.metrics_open,
    )
