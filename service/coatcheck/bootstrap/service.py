"""Builds a running service: the use cases that answer requests, over an opened store, and the scheduled jobs."""

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from coatcheck.adapters.extract.extractor import TextExtractor
from coatcheck.adapters.sql.sqlite.store import SqliteCatalog
from coatcheck.adapters.system import SystemClock
from coatcheck.api.http.limits import LOOPBACK, RequestLimits
from coatcheck.api.services import ContextServices, Inspection, ReadingServices, Services
from coatcheck.bootstrap import embedded
from coatcheck.bootstrap.foundation import Foundation, foundation, watching
from coatcheck.bootstrap.stores import is_embedded, open_store
from coatcheck.bootstrap.upkeep import administer_retention
from coatcheck.core.search.model import SearchLimits, Switches
from coatcheck.core.tokens import Tokenizer
from coatcheck.jobs.schedule import PeriodicJob, carry_out_decisions, run_jobs, run_maintenance
from coatcheck.ports.keys import Keys, SessionAccounts
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
from coatcheck.storing.policies import REFRESH_SECONDS
from coatcheck.tools.calls import ListArtifacts
from coatcheck.tools.dispatcher import ToolDispatcher
from coatcheck.tools.read import ReadArtifact
from coatcheck.upkeep.clock_jumps import CHECK_SECONDS
from coatcheck.upkeep.index import Index
from coatcheck.upkeep.maintenance import LeaderLease
from coatcheck.upkeep.store_binding import NoteAccounts, SealKey
from coatcheck.usecases.context.compact_context import Compact
from coatcheck.usecases.context.look_up_references import LookUpReferences
from coatcheck.usecases.context.measure_context import MeasureContext, ShowSessionUsage
from coatcheck.usecases.operations.flush_fallback import LAST_SECONDS, FlushFallback
from coatcheck.usecases.operations.show_overview import ListEvents, ShowOverview
from coatcheck.usecases.payloads.browse import Browse
from coatcheck.usecases.payloads.describe import Describe
from coatcheck.usecases.payloads.extend import Extend
from coatcheck.usecases.payloads.find_or_ingest import FindOrIngest
from coatcheck.usecases.payloads.forget import Forget, ForgetSession
from coatcheck.usecases.payloads.ingest import Ingest
from coatcheck.usecases.reading.find_passages import FindPassages
from coatcheck.usecases.reading.grep import Search
from coatcheck.usecases.reading.outline import Outline
from coatcheck.usecases.reading.read import Read
from coatcheck.usecases.reading.read_json import ReadJson
from coatcheck.usecases.retention.administer_holds import Holds
from coatcheck.usecases.tenants.administer_keys import AdministerKeys, AdministerNamespaces
from coatcheck.usecases.tenants.show_usage import EmptyNamespace, ShowUsage
from coatcheck.usecases.web_search.budget_search import SearchResults
from coatcheck.usecases.web_search.verify_citations import VerifyCitations


def contexts(
    accounts: SessionAccounts,
    ingest: Ingest,
    deps: IngestDeps,
    card_text: CardText | None,
    find: Find,
    open_content: OpenContent,
    session_names: SessionNames,
    switches: Switches = Switches(),  # noqa: B008 - frozen
    search_limits: SearchLimits = SearchLimits(),  # noqa: B008 - frozen
) -> tuple[ContextServices, NoteAccounts]:
    """Returns the use cases of contexts and sessions, and the job that writes the sessions' accounts.

    `find` finds only stored artifacts, not payloads that wait in memory: a model's history must not refer to a payload
    that may still be lost. `switches` and `search_limits` apply to web searches for which no policy sets other values.
    """
    note = NoteAccounts(accounts, deps.ledger, deps.clock, _random_number)
    events = ListEvents(accounts, note, deps.redacting, session_names)
    look_up = LookUpReferences(
        find=find,
        open_content=open_content,
        tokenizer=deps.tokenizer,
        pool=deps.pool,
        events=events,
        redacting=deps.redacting,
        rules=deps.rules,
        switches=switches,
        max_total_tokens=search_limits.max_total_tokens,
    )
    measure = MeasureContext(tokenizer=deps.tokenizer, pool=deps.pool, look_up=look_up, ledger=deps.ledger)
    services = ContextServices(
        compact=Compact(store=FindOrIngest(ingest, deps, find, card_text), **vars(measure)),
        measure=measure,
        tell_usage=ShowSessionUsage(accounts, note, session_names),
        events=events,
    )
    return services, note


def _random_number() -> int:
    return secrets.randbits(62)


def _reading_services(base: Foundation, find: Find, open_view: OpenView, card_text: CardText) -> ReadingServices:
    content, deps, readers, rules = base.store.open_content, base.deps, base.store.readers, base.policies.now
    describe = Describe(
        find, content, deps.tokenizer, readers, base.settings.card_tokens, deps.redacting, card_text, rules
    )
    return reading_services(describe, open_view, deps.tokenizer, readers)


def reading_services(
    describe: Describe, open_view: OpenView, tokenizer: Tokenizer, threads: Executor
) -> ReadingServices:
    """Returns the use cases that show a payload; all of them find it with the same `Find`."""
    reader = (open_view, tokenizer, threads)
    return ReadingServices(
        describe=describe,
        read_span=Read(*reader),
        search=Search(*reader),
        windows=FindPassages(*reader),
        read_json=ReadJson(*reader),
        outline=Outline(*reader),
        open_view=open_view,
    )


def _inspection(base: Foundation, keep_text: KeepText, card_text: CardText) -> Inspection:
    """Returns the use cases with which the administrator's page reads. Their reads are not recorded."""
    store, deps = base.store, base.deps
    # Reads by an administrator are not recorded: they must not keep artifacts from expiring or from being evicted.
    find = Find(
        store.catalog, store.clock, base.reads, deps.fallback, base.policies.evicts, deps.redacting, notes=False
    )
    open_view = OpenView(find, store.open_content, keep_text, None, deps.redacting)
    return Inspection(
        **vars(_reading_services(base, find, open_view, card_text)),
        stored_view=OpenView(find, store.open_content, keep_text),
        seal_key=SealKey(store.catalog, store.clock, secrets.token_hex),
    )


log = logging.getLogger(__name__)

_INDEX_LEASE_SECONDS = 30.0
"""Duration of the lease with which one process indexes, in seconds: longer than any round that does not pause."""
_NOTE_SECONDS = 1.0
"""Seconds between two writes of reads and accounts. A crash loses at most what was counted in one such interval."""
_INDEX_REST = 15.0
"""Pause after a round of indexing, as a multiple of the round's duration. The pause is long because storing has
priority, and because a query itself indexes the artifacts that it needs."""
_RESUME_SECONDS = 5.0
"""Seconds between two checks for interrupted retention runs. Chosen, not measured: a run that another process left
unfinished can be resumed only once the lease of that process has ended."""
_RUN_END_SECONDS = 5.0
"""Seconds that a retention run may continue when the service stops; the rest of the run is resumed later."""


@dataclass(frozen=True)
class RunningService:
    """A service that can answer requests."""

    services: Services
    limits: RequestLimits
    needs_keys: bool
    """Whether callers need a key now."""


@asynccontextmanager
async def open_service(
    settings: Settings, *, clock: Clock | None = None, metrics: Path | None = None, is_private: bool = False
) -> AsyncGenerator[RunningService]:
    """Opens a service and starts its scheduled jobs; on exit, stops the jobs and closes everything in reverse order.

    Args:
        settings: the service's settings.
        clock: the authoritative time; None: the store's own.
        metrics: the directory where this process and its siblings write their metrics; None: there are no siblings.
        is_private: whether only the user who runs the service can connect to it, so that no key is needed.
    """
    async with (
        open_store(settings, clock=clock) as base_store,
        watching(settings, base_store, metrics) as (telemetry, store),
    ):
        for warning in store.warnings:
            log.warning(warning)
        # The order follows the dependencies: first the shared parts, then views and index, then the use cases that
        # read, ingest and compact.
        base = await foundation(settings, store, telemetry, is_private=is_private)
        extractor = TextExtractor(
            settings.extract_workers, seconds=settings.extract_seconds, memory=settings.extract_memory
        )
        telemetry.observed = base, extractor.workers
        keep_text = KeepText(base.deps, store.open_content, extractor)
        index = _index(base, keep_text)
        # From here on work may be in progress, so a start that fails must end it, too.
        services, accounts = _services(base, extractor, keep_text, index)
        try:
            async with run_jobs(_jobs(base, services, index, accounts), telemetry.meter):
                yield RunningService(services, _limits(settings), base.authenticate.is_required)
        finally:
            # First, wait for work that requests began, while threads and stores are still open.
            await _close(base, keep_text)
            extractor.close()
            # The lease of maintenance is released last: until now this process may still have removed artifacts.
            await base.maintenance.leave()
            await base.readiness.close()


def _jobs(base: Foundation, services: Services, index: Index, accounts: NoteAccounts) -> list[PeriodicJob]:
    """Returns the jobs that a running service repeats. At a stop, the `last` functions are called in this order."""
    meter, flush = base.telemetry.meter, FlushFallback(base.deps, base.readiness)
    runs = services.retention.running
    return [
        PeriodicJob(
            name="maintenance", work=lambda: run_maintenance(base.maintenance, meter), pause=base.job_schedule.pause
        ),
        PeriodicJob(name="write_reads", work=base.note, pause=_NOTE_SECONDS, last=base.note),
        PeriodicJob(name="write_usage", work=accounts, pause=_NOTE_SECONDS, last=accounts),
        PeriodicJob(
            name="index",
            work=index,
            pause=_NOTE_SECONDS,
            rest=_INDEX_REST,
            ready=WaitUntilIdle(base.telemetry.limiters),
            is_cancelled_at_stop=True,  # a round may pause for long, and can be interrupted at any point
        ),
        PeriodicJob(
            name="flush_fallback",
            work=flush,
            pause=_NOTE_SECONDS,
            is_cancelled_at_stop=True,  # a store may be silent for longer than a stop may take
            last=flush.last,
        ),
        PeriodicJob(name="refresh_policies", work=base.policies.refresh, pause=REFRESH_SECONDS),
        PeriodicJob(name="check_clock", work=base.deletions.check, pause=CHECK_SECONDS),
        PeriodicJob(
            name="carry_out_decisions",
            work=lambda: carry_out_decisions(services.empty_namespace, base.make_room, base.store.catalog),
            pause=base.settings.sweep_seconds,
        ),
        PeriodicJob(
            name="resume_runs", work=runs.resume, pause=_RESUME_SECONDS, last=lambda: runs.close(_RUN_END_SECONDS)
        ),
    ]


async def _close(base: Foundation, keep_text: KeepText) -> None:
    """Waits a few seconds for work that is still in progress although its request was answered."""
    await base.authenticate.close()
    if base.deps.afterwards:  # the reaper removes uploads that are not undone by then
        await asyncio.wait(base.deps.afterwards, timeout=LAST_SECONDS)
    await keep_text.finish_views(LAST_SECONDS)


def _services(
    base: Foundation, extractor: TextExtractor, keep_text: KeepText, index: Index
) -> tuple[Services, NoteAccounts]:
    """Returns all use cases, and the job that writes the sessions' accounts."""
    store, deps, policies, tokenizer = base.store, base.deps, base.policies, base.deps.tokenizer
    catalog, clock, content, telemetry = store.catalog, store.clock, store.open_content, base.telemetry
    switches, search_limits = _switches(base.settings), _search_limits(base.settings)
    card_text = CardText(
        extractor, content, keep_text, tokenizer, deps.new_blob_id, inline_bytes=base.settings.inline_bytes
    )
    # Models read through this `OpenView`, which masks secrets according to policy.
    open_view = OpenView(base.find, content, keep_text, deps.ledger, deps.redacting)
    reading = _reading_services(base, base.find, open_view, card_text)
    session_names = SessionNames(catalog, deps.redacting)
    seal_key = SealKey(catalog, clock, secrets.token_hex)
    browse = Browse(catalog, clock, seal_key, deps.redacting, session_names, index)
    reader = ReadArtifact(
        open_view,
        reading.read_span,
        reading.search,
        reading.outline,
        tokenizer,
        store.readers,
        passages=reading.windows,
        values=reading.read_json,
    )
    ingest = Ingest(deps, card_text)
    # This `Find` does not search the fallback buffer: a history must not refer to a payload that is lost if this
    # process crashes.
    find_stored = Find(catalog, clock, base.reads)
    context, accounts = contexts(
        catalog, ingest, deps, card_text, find_stored, content, session_names, switches, search_limits
    )
    deleting = catalog, clock, base.tombstone_life, deps.fallback, policies, base.note
    services = Services(
        # Programs get the bytes as stored; models and the administrator's page read views that policy masks.
        **vars(replace(reading, open_view=OpenView(base.find, content, keep_text, deps.ledger))),
        **vars(context),
        ingest=ingest,
        browse=browse,
        forget=Forget(*deleting),
        forget_session=ForgetSession(*deleting, session_names),
        extend=Extend(catalog, clock, deps.fallback, deps.redacting, base.note, policies.now),
        search_results=SearchResults(
            ingest=ingest,
            find=base.find,
            keep_text=keep_text,
            sources=Sources(catalog, clock, content, store.pool),
            tokenizer=tokenizer,
            pool=store.pool,
            ledger=deps.ledger,
            redacting=deps.redacting,
            rules=policies.now,
            switches=switches,
            limits=search_limits,
        ),
        verify_citations=VerifyCitations(open_view, store.readers),
        overview=ShowOverview(catalog, clock, accounts, deps.redacting),
        tools=ToolDispatcher(reader, ListArtifacts(browse, tokenizer, store.readers), tokenizer),
        authenticate=base.authenticate,
        keys=AdministerKeys(catalog, clock, secrets.token_bytes, base.authenticate.require),
        namespaces=AdministerNamespaces(catalog, clock),
        policies=policies,
        holds=Holds(catalog, clock, secrets.token_bytes, session_names, deps.fallback),
        usage=ShowUsage(catalog, policies),
        empty_namespace=EmptyNamespace(catalog, clock, policies, tombstone_life=base.tombstone_life),
        retention=administer_retention(base, session_names),
        clock=clock,
        deletions=base.deletions,
        allowances=telemetry.allowances,
        metrics=telemetry.render,
        meter=telemetry.meter,
        tracer=telemetry.tracer,
        # Only the administrator's page may read without being counted. If the page is off, no such use case exists.
        inspection=_inspection(base, keep_text, card_text) if base.settings.page else None,
        readiness=base.readiness,
    )
    return services, accounts


def _search_limits(settings: Settings) -> SearchLimits:
    return SearchLimits(
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
    store, lease = base.store, None
    if not is_embedded(base.settings):
        lease = LeaderLease(store.catalog, store.clock, "index", secrets.token_hex(8), _INDEX_LEASE_SECONDS)

    async def is_due() -> bool:
        """Returns whether this process should index now: the job is not paused, and no other process has the lease."""
        return await base.job_schedule.runs("index") and (lease is None or await lease.lead())

    return Index(store.catalog, store.open_content, store.pool, _random_number, is_due, keep_text, base.deps.redacting)


def _limits(settings: Settings) -> RequestLimits:
    extra = tuple(h.strip().lower() for h in settings.allowed_hosts.split(",") if h.strip())
    # Host names need no check where callers are authenticated: by this service, which requires keys on addresses other
    # than loopback, or, with `allow_unauthenticated`, by the administrator's proxy in front of it.
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
    """Opens the use cases that administer keys in the database of the settings. An embedded database is migrated first.

    Raises:
        CoatcheckError: the store cannot be opened; `schema_outdated` if its schema is not that of this release.
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
    # Imported here, because the embedded store must work without PostgreSQL's driver.
    from coatcheck.adapters.sql.postgres import PostgresCatalog  # noqa: PLC0415
    from coatcheck.adapters.sql.postgres_connection import PostgresLimits  # noqa: PLC0415

    catalog = await PostgresCatalog.open(url, limits=PostgresLimits(connections=1))
    try:
        await catalog.check_reads()
        yield catalog, catalog.clock
    finally:
        await catalog.close()
