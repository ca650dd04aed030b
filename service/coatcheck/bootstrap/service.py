"""Builds what answers requests: the use cases over an opened store, with the schedule running.

Builds the use cases of contexts: compaction, measuring, and the sessions' accounts.

Builds what reads stored payloads: their views, the use cases over them, and the model's tools.

Keys for an administrator at the command line: directly in the database, even while a service uses it.
"""

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from coatcheck.adapters.extract.extractor import TextExtractor
from coatcheck.adapters.sql.sqlite.store import SqliteCatalog
from coatcheck.adapters.system import SystemClock
from coatcheck.api.http.limits import LOOPBACK, RequestLimits
from coatcheck.api.services import Inspection, Services
from coatcheck.bootstrap import embedded
from coatcheck.bootstrap.foundation import Foundation, foundation, watching
from coatcheck.bootstrap.stores import Store, is_embedded, open_store
from coatcheck.bootstrap.upkeep import administer_retention, retaining, when_due
from coatcheck.core.context import CountCache
from coatcheck.core.search import Limits
from coatcheck.core.search.model import Switches
from coatcheck.jobs.schedule import deciding, running
from coatcheck.ports.keys import Keys, SessionAccounts
from coatcheck.ports.maintenance import TakeLease
from coatcheck.ports.telemetry import Clock
from coatcheck.reading.sources import Sources
from coatcheck.reading.view import OpenView
from coatcheck.runtime.work_placement import WaitUntilIdle
from coatcheck.settings import Settings, is_loopback
from coatcheck.storing.card_text import CardText
from coatcheck.storing.content import OpenContent
from coatcheck.storing.find import Find, SessionNames
from coatcheck.storing.ingest_deps import IngestDeps
from coatcheck.storing.keep_text import KeepText
from coatcheck.tools.calls import ListArtifacts
from coatcheck.tools.dispatcher import ToolDispatcher
from coatcheck.tools.read import ReadArtifact
from coatcheck.upkeep.index import Index
from coatcheck.upkeep.store_binding import NoteAccounts, SealKey
from coatcheck.usecases.context.compact_context import Compact, CompactDeps
from coatcheck.usecases.context.look_up_references import LookUpDeps, LookUpReferences
from coatcheck.usecases.context.measure_context import MeasureContext, MeasureDeps, ShowSessionUsage
from coatcheck.usecases.operations.flush_fallback import LAST_SECONDS, FlushFallback
from coatcheck.usecases.operations.show_overview import ListEvents, ShowOverview
from coatcheck.usecases.payloads.browse import Browse
from coatcheck.usecases.payloads.describe import Describe
from coatcheck.usecases.payloads.extend import Extend
from coatcheck.usecases.payloads.find_or_ingest import FindOrIngest, FindOrIngestDeps
from coatcheck.usecases.payloads.forget import Forget, ForgetSession
from coatcheck.usecases.payloads.ingest import Ingest
from coatcheck.usecases.reading.find_passages import FindPassages
from coatcheck.usecases.reading.grep import Search
from coatcheck.usecases.reading.outline import Outline
from coatcheck.usecases.reading.read import Read
from coatcheck.usecases.reading.read_json import ReadJson
from coatcheck.usecases.retention.administer_holds import Holds
from coatcheck.usecases.retention.administer_retention import AdministerRetention
from coatcheck.usecases.tenants.administer_keys import AdministerKeys, AdministerNamespaces
from coatcheck.usecases.tenants.show_usage import EmptyNamespace, ShowUsage
from coatcheck.usecases.web_search.budget_search import SearchResults, SearchResultsDeps
from coatcheck.usecases.web_search.verify_citations import VerifyCitations


@dataclass(frozen=True)
class Contexts:
    """The use cases for model requests, and what writes the sessions' accounts."""

    compact: Compact
    measure: MeasureContext
    tell_usage: ShowSessionUsage
    events: ListEvents
    note: NoteAccounts


def contexts(
    accounts: SessionAccounts,
    ingest: Ingest,
    deps: IngestDeps,
    card_text: CardText | None,
    find: Find,
    open_content: OpenContent,
    session_names: SessionNames | None = None,
    switches: Switches = Switches(),  # noqa: B008 - frozen
    search_limits: Limits = Limits(),  # noqa: B008 - frozen
) -> Contexts:
    """Returns the use cases; `find` finds only what is stored, not what waits in memory.

    `switches` and `search_limits` are those of web searches where no policy decides.
    """
    counts, ledger, pool = CountCache(), deps.ledger, deps.pool
    note = NoteAccounts(accounts, ledger, deps.clock, _random_number)
    step = FindOrIngest(FindOrIngestDeps(ingest=ingest, deps=deps, find=find, card_text=card_text))
    events = ListEvents(accounts, note, deps.redacting, session_names)
    look_up = LookUpReferences(
        LookUpDeps(
            find=find,
            open_content=open_content,
            tokenizer=deps.tokenizer,
            pool=pool,
            events=events,
            redacting=deps.redacting,
            rules=deps.rules,
            switches=switches,
            max_total_tokens=search_limits.max_total_tokens,
        )
    )
    return Contexts(
        compact=Compact(
            CompactDeps(store=step, look_up=look_up, tokenizer=deps.tokenizer, pool=pool, ledger=ledger, counts=counts)
        ),
        measure=MeasureContext(
            MeasureDeps(tokenizer=deps.tokenizer, pool=pool, look_up=look_up, ledger=ledger, counts=counts)
        ),
        tell_usage=ShowSessionUsage(accounts, note, session_names),
        events=events,
        note=note,
    )


def _random_number() -> int:
    return secrets.randbits(62)


@dataclass(frozen=True)
class Readers:
    """The use cases that show a stored payload, and the text views that they make."""

    extractor: TextExtractor
    keep_text: KeepText
    card_text: CardText
    describe: Describe
    open_view: OpenView
    """Opens views as models and callers read them: masked according to policy."""
    read_span: Read
    search: Search
    windows: FindPassages
    read_json: ReadJson
    outline: Outline
    browse: Browse
    session_names: SessionNames
    tools: ToolDispatcher


def text_extractor(base: Foundation) -> TextExtractor:
    """Returns what makes text views of large pages and documents, in processes of its own."""
    settings = base.settings
    return TextExtractor(settings.extract_workers, seconds=settings.extract_seconds, memory=settings.extract_memory)


def readers(base: Foundation, extractor: TextExtractor, keep_text: KeepText, index: Index) -> Readers:
    """Returns the use cases; `index` is used for searches in all artifacts."""
    store, tokenizer = base.store, base.tokenizer
    open_content = store.open_content
    card_text = CardText(
        extractor,
        open_content,
        keep_text,
        tokenizer,
        base.deps.new_blob_id,
        inline_bytes=base.settings.inline_bytes,
    )
    open_view = OpenView(base.find, open_content, keep_text, base.deps.ledger, base.redacting)
    read_span, search = Read(open_view, tokenizer, store.readers), Search(open_view, tokenizer, store.readers)
    passages = FindPassages(open_view, tokenizer, store.readers)
    read_json = ReadJson(open_view, tokenizer, store.readers)
    outline = Outline(open_view, tokenizer, store.readers)
    seal_key = SealKey(store.catalog, store.clock, secrets.token_hex)
    session_names = SessionNames(store.catalog, base.redacting)
    browse = Browse(store.catalog, store.clock, seal_key, index, base.redacting, session_names)
    reading_tool = ReadArtifact(
        open_view, read_span, search, outline, tokenizer, store.readers, passages=passages, values=read_json
    )
    return Readers(
        extractor=extractor,
        keep_text=keep_text,
        card_text=card_text,
        describe=Describe(
            base.find,
            open_content,
            tokenizer,
            store.readers,
            base.settings.card_tokens,
            card_text,
            base.policies.now,
            base.redacting,
        ),
        open_view=open_view,
        read_span=read_span,
        search=search,
        windows=passages,
        read_json=read_json,
        outline=outline,
        browse=browse,
        session_names=session_names,
        tools=ToolDispatcher(reading_tool, ListArtifacts(browse, tokenizer, store.readers), tokenizer),
    )


def inspection(base: Foundation, reading: Readers) -> Inspection:
    """Returns what the administrator's page reads with: the same use cases, over look-ups that leave no trace."""
    store, tokenizer, threads = base.store, base.tokenizer, base.store.readers
    find = Find(
        store.catalog, store.clock, base.reads, base.fallback, base.policies.evicts, base.redacting, notes=False
    )
    open_view = OpenView(find, store.open_content, reading.keep_text, None, base.redacting)
    return Inspection(
        describe=Describe(
            find,
            store.open_content,
            tokenizer,
            threads,
            base.settings.card_tokens,
            reading.card_text,
            base.policies.now,
            base.redacting,
        ),
        read_span=Read(open_view, tokenizer, threads),
        search=Search(open_view, tokenizer, threads),
        windows=FindPassages(open_view, tokenizer, threads),
        read_json=ReadJson(open_view, tokenizer, threads),
        outline=Outline(open_view, tokenizer, threads),
        open_view=open_view,
        stored_view=OpenView(find, store.open_content, reading.keep_text),
        seal_key=SealKey(store.catalog, store.clock, secrets.token_hex),
    )


log = logging.getLogger(__name__)

_INDEX_LEASE = 30.0
"""Seconds for which one process indexes; longer than any round, except those that pause."""


@dataclass(frozen=True)
class RunningService:
    """A service that is ready."""

    services: Services
    limits: RequestLimits
    needs_keys: bool
    """Whether callers need a key now."""


@asynccontextmanager
async def open_service(
    settings: Settings, *, clock: Clock | None = None, metrics: Path | None = None
) -> AsyncGenerator[RunningService]:
    """Opens everything that answers requests, with the schedule running; on exit, closes it in reverse order.

    Args:
        settings: the service's settings.
        clock: the authoritative time; None: the store's own.
        metrics: the directory where this process and its siblings write their metrics; None: there are no siblings.
    """
    async with (
        open_store(settings, clock=clock) as base_store,
        watching(settings, base_store, metrics) as (telemetry, store),
    ):
        for warning in store.warnings:
            log.warning(warning)
        base = await foundation(settings, store, telemetry)
        extractor = text_extractor(base)
        telemetry.look_at(base.fallback, extractor.workers, base.deletions, base.readiness)
        keep_text = KeepText(base.deps, store.open_content, extractor)
        index = _index(base, keep_text)
        reading = readers(base, extractor, keep_text, index)
        ingest = Ingest(base.deps, reading.card_text)
        find = Find(store.catalog, store.clock, base.reads)
        context = contexts(
            store.catalog,
            ingest,
            base.deps,
            reading.card_text,
            find,
            store.open_content,
            reading.session_names,
            _switches(settings),
            _search_limits(settings),
        )
        empty = EmptyNamespace(store.catalog, store.clock, base.policies, tombstone_life=base.tombstone_life)
        retention = administer_retention(
            settings, store, base.deps, base.maintenance, base.policies, base.job_schedule, base.deletions
        )
        services = _services(base, reading, ingest, context, empty, retention)
        try:
            async with (
                deciding(
                    base.policies,
                    empty,
                    base.make_room,
                    base.deletions,
                    store.catalog,
                    settings.sweep_seconds,
                    telemetry.meter,
                ),
                retaining(retention, telemetry.meter),
                running(
                    base.maintenance,
                    base.job_schedule.pause,
                    base.note,
                    FlushFallback(base.deps, base.readiness),
                    index,
                    context.note,
                    wait_until_idle=WaitUntilIdle(telemetry.limiters),
                    meter=telemetry.meter,
                ),
            ):
                yield RunningService(services, _limits(settings), base.authenticate.is_required)
        finally:
            await _close(base, reading)


async def _close(base: Foundation, reading: Readers) -> None:
    """Ends what is in progress, and lets other processes take over maintenance."""
    await base.authenticate.close()
    if base.deps.afterwards:  # the reaper handles what is not undone by then
        await asyncio.wait(base.deps.afterwards, timeout=LAST_SECONDS)
    await reading.keep_text.finish_views(LAST_SECONDS)
    reading.extractor.close()
    await base.maintenance.leave()
    await base.readiness.close()


def _services(
    base: Foundation,
    reading: Readers,
    ingest: Ingest,
    context: Contexts,
    empty: EmptyNamespace,
    retention: AdministerRetention,
) -> Services:
    catalog, clock, policies = base.store.catalog, base.store.clock, base.policies
    life, telemetry = base.tombstone_life, base.telemetry
    return Services(
        ingest=ingest,
        describe=reading.describe,
        browse=reading.browse,
        forget=Forget(catalog, clock, life, base.fallback, policies),
        forget_session=ForgetSession(catalog, clock, life, base.fallback, policies, reading.session_names),
        extend=Extend(catalog, clock, base.fallback, policies.now, base.redacting),
        # for programs: bytes as stored
        open_view=OpenView(base.find, base.store.open_content, reading.keep_text, base.deps.ledger),
        outline=reading.outline,
        read_span=reading.read_span,
        search=reading.search,
        windows=reading.windows,
        read_json=reading.read_json,
        search_results=SearchResults(_search_deps(base, reading, ingest)),
        verify_citations=VerifyCitations(reading.open_view, base.store.readers),
        compact=context.compact,
        measure=context.measure,
        tell_usage=context.tell_usage,
        events=context.events,
        overview=ShowOverview(catalog, clock, context.note, base.redacting),
        tools=reading.tools,
        authenticate=base.authenticate,
        keys=AdministerKeys(catalog, clock, secrets.token_bytes, base.authenticate.require),
        namespaces=AdministerNamespaces(catalog, clock),
        policies=policies,
        holds=Holds(catalog, clock, secrets.token_bytes),
        usage=ShowUsage(catalog, policies),
        empty_namespace=empty,
        retention=retention,
        clock=clock,
        deletions=base.deletions,
        allowances=telemetry.allowances,
        metrics=telemetry.render,
        meter=telemetry.meter,
        tracer=telemetry.tracer,
        inspection=inspection(base, reading) if base.settings.page else None,
        readiness=base.readiness,
    )


def _search_deps(base: Foundation, reading: Readers, ingest: Ingest) -> SearchResultsDeps:
    store = base.store
    return SearchResultsDeps(
        ingest=ingest,
        find=base.find,
        keep_text=reading.keep_text,
        sources=Sources(store.catalog, store.clock, store.open_content, store.pool),
        tokenizer=base.tokenizer,
        pool=store.pool,
        ledger=base.deps.ledger,
        redacting=base.redacting,
        rules=base.policies.now,
        switches=_switches(base.settings),
        limits=_search_limits(base.settings),
    )


def _search_limits(settings: Settings) -> Limits:
    return Limits(
        max_results=settings.search_max_results,
        max_tokens_per_result=settings.search_max_tokens_per_result,
        max_total_tokens=settings.search_max_total_tokens,
    )


def _switches(settings: Settings) -> Switches:
    return Switches(
        enabled=settings.search_enabled,
        keep_summary=settings.search_keep_summary,
        max_searches=settings.search_max_searches or None,
        max_searches_per_turn=settings.search_max_searches_per_turn or None,
    )


def _index(base: Foundation, keep_text: KeepText) -> Index:
    store = base.store
    due = when_due(base.job_schedule, _leader(base.settings, store))
    return Index(store.catalog, store.open_content, store.pool, _random_number, due, keep_text, base.redacting)


def _leader(settings: Settings, store: Store) -> Callable[[], Awaitable[bool]] | None:
    """Returns a function that tells whether this process indexes; one that stops or hangs soon loses the lease."""
    if is_embedded(settings):
        return None
    me = secrets.token_hex(8)

    async def lead() -> bool:
        lease = TakeLease(name="index", holder=me, seconds=_INDEX_LEASE, now=store.clock.now())
        return await store.catalog.commit(lease)

    return lead


def _limits(settings: Settings) -> RequestLimits:
    extra = tuple(h.strip().lower() for h in settings.allowed_hosts.split(",") if h.strip())
    # Where host names need no checking, keys are checked: here, or, if the administrator says so, in front of the
    # service.
    beyond = settings.allow_unauthenticated or not is_loopback(settings.host)
    hosts = None if beyond and not extra else (*LOOPBACK, *extra)
    return RequestLimits(
        payload=settings.payload_limit,
        json_body=settings.json_limit,
        allowed_hosts=hosts,
        metrics_open=settings.metrics_open,
    )


@asynccontextmanager
async def open_keys(settings: Settings) -> AsyncGenerator[AdministerKeys]:
    """Opens the use cases of keys over the database in the settings. An embedded one is migrated first.

    Raises:
        CoatcheckError: whatever keeps the store from being opened; `schema_outdated`.
    """
    opening = _open_embedded(Path(settings.data)) if is_embedded(settings) else _scale(settings.database_url)
    async with opening as (keys, clock):
        yield AdministerKeys(keys, clock, secrets.token_bytes)


@asynccontextmanager
async def _open_embedded(root: Path) -> AsyncGenerator[tuple[Keys, Clock]]:
    await asyncio.to_thread(embedded.migrate_embedded, root)
    with embedded.explain_opening_errors(root):
        catalog = await asyncio.to_thread(SqliteCatalog.beside, root / embedded.DATABASE)
    try:
        await catalog.check_reads()
        yield catalog, SystemClock()
    finally:
        await asyncio.to_thread(catalog.close)


@asynccontextmanager
async def _scale(url: str) -> AsyncGenerator[tuple[Keys, Clock]]:
    # The embedded store works without the driver.
    from coatcheck.adapters.sql.postgres import PostgresCatalog  # noqa: PLC0415
    from coatcheck.adapters.sql.postgres_connection import PostgresLimits  # noqa: PLC0415

    catalog = await PostgresCatalog.open(url, limits=PostgresLimits(connections=1))
    try:
        await catalog.check_reads()
        yield catalog, catalog.clock
    finally:
        await catalog.close()
