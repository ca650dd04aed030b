"""Builds what answers requests: the use cases over an opened store, with the schedule running."""

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from coatcheck.api.http.limits import LOOPBACK, RequestLimits
from coatcheck.api.services import Services
from coatcheck.bootstrap.contexts import Contexts, contexts
from coatcheck.bootstrap.foundation import Foundation, foundation
from coatcheck.bootstrap.readers import Readers, inspection, readers, text_extractor
from coatcheck.bootstrap.retention import administer_retention, retaining, when_due
from coatcheck.bootstrap.stores import Store, is_embedded, open_store
from coatcheck.bootstrap.telemetry import watching
from coatcheck.core.search import Limits
from coatcheck.core.search.limits import Switches
from coatcheck.jobs.decisions import deciding
from coatcheck.jobs.schedule import running
from coatcheck.ports.clock import Clock
from coatcheck.ports.maintenance import TakeLease
from coatcheck.reading.sources import Sources
from coatcheck.reading.view import OpenView
from coatcheck.runtime.wait_until_idle import WaitUntilIdle
from coatcheck.settings import Settings, is_loopback
from coatcheck.storing.find import Find
from coatcheck.storing.keep_text import KeepText
from coatcheck.upkeep.index import Index
from coatcheck.usecases.operations.flush_fallback import LAST_SECONDS, FlushFallback
from coatcheck.usecases.operations.show_overview import ShowOverview
from coatcheck.usecases.payloads.extend import Extend
from coatcheck.usecases.payloads.forget import Forget, ForgetSession
from coatcheck.usecases.payloads.ingest import Ingest
from coatcheck.usecases.retention.administer_holds import Holds
from coatcheck.usecases.retention.administer_retention import AdministerRetention
from coatcheck.usecases.tenants.administer_keys import AdministerKeys, AdministerNamespaces
from coatcheck.usecases.tenants.empty_namespace import EmptyNamespace
from coatcheck.usecases.tenants.show_usage import ShowUsage
from coatcheck.usecases.web_search.budget_search import SearchResults, SearchResultsDeps
from coatcheck.usecases.web_search.verify_citations import VerifyCitations

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


def _random_number() -> int:
    return secrets.randbits(62)


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
