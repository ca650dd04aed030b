"""What answers requests: the use cases over an opened store, with the schedule running."""

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from coatcheck.adapters.extract.extractor import TextExtractor
from coatcheck.adapters.tokenizer import load_tokenizer
from coatcheck.api.limits import LOOPBACK, Limits
from coatcheck.api.services import Services
from coatcheck.bootstrap.stores import Store, is_embedded, open_store
from coatcheck.core.blob_ids import new_blob_id
from coatcheck.jobs.schedule import running
from coatcheck.ports import TakeLease
from coatcheck.settings import Settings
from coatcheck.tools.desk import ToolDesk
from coatcheck.tools.listing import ListArtifacts
from coatcheck.tools.read import ReadArtifact
from coatcheck.usecases.browse import Browse
from coatcheck.usecases.card_text import CardText
from coatcheck.usecases.describe import Describe
from coatcheck.usecases.extend import Extend
from coatcheck.usecases.find import Find
from coatcheck.usecases.forget import Forget, ForgetSession
from coatcheck.usecases.index import Index
from coatcheck.usecases.ingest import Ingest, IngestPlaces
from coatcheck.usecases.json_path import ReadJson
from coatcheck.usecases.keep_text import KeepText
from coatcheck.usecases.outage import Outage
from coatcheck.usecases.outline import Outline
from coatcheck.usecases.read import Read
from coatcheck.usecases.reads import NoteReads, ReadLog
from coatcheck.usecases.search import Search
from coatcheck.usecases.search_results import SearchPlaces, SearchResults
from coatcheck.usecases.shelter import Shelter
from coatcheck.usecases.sources import Sources
from coatcheck.usecases.tidy import Crew, Tidy
from coatcheck.usecases.verify_citations import VerifyCitations
from coatcheck.usecases.view import OpenView
from coatcheck.usecases.windows import Windows
from coatcheck.usecases.write_through import LAST_SECONDS, WriteThrough

log = logging.getLogger(__name__)

_INDEX_LEASE = 30.0
"""Seconds for which one process indexes; longer than all but rounds that rest."""


@dataclass(frozen=True)
class Running:
    """A service that is ready to be served."""

    services: Services
    limits: Limits


@asynccontextmanager
async def open_service(settings: Settings) -> AsyncGenerator[Running]:
    """Everything that answers requests, with the schedule running; closed in reverse order on leaving."""
    async with open_store(settings) as store:
        for warning in store.warnings:
            log.warning(warning)
        tokenizer = load_tokenizer()
        reads = ReadLog()
        shelter = Shelter(settings.fallback_bytes)
        find = Find(store.catalog, store.clock, reads, shelter)
        life = timedelta(seconds=settings.tombstone_ttl)
        note = NoteReads(store.catalog, reads)
        tidy = Tidy(
            store.catalog,
            store.catalog,
            store.blobs,
            store.clock,
            reads,
            tombstone_life=life,
            grace=timedelta(seconds=settings.grace_seconds),
            note=note,
            crew=None if is_embedded(settings) else Crew(secrets.token_hex(8), settings.sweep_seconds),
        )
        lease = timedelta(seconds=settings.lease_seconds)

        def name_blob() -> str:
            return new_blob_id(store.clock.now(), secrets.token_bytes(10))

        places = IngestPlaces(
            catalog=store.catalog,
            blobs=store.blobs,
            clock=store.clock,
            pool=store.pool,
            tokenizer=tokenizer,
            new_blob_id=name_blob,
            lease=lease,
            inline_bytes=settings.inline_bytes,
            payload_limit=settings.payload_limit,
            ttl=settings.ttl,
            card_tokens=settings.card_tokens,
            inline_tokens=settings.inline_tokens,
            shelter=shelter,
            catalog_outage=Outage("catalogue"),
            blobs_outage=Outage("blob store"),
        )
        write_through = WriteThrough(places)
        extractor = TextExtractor(
            settings.extract_workers, seconds=settings.extract_seconds, memory=settings.extract_memory
        )
        keep_text = KeepText(places, store.open_content, extractor)
        card_text = CardText(
            extractor, store.open_content, keep_text, tokenizer, name_blob, inline_bytes=settings.inline_bytes
        )
        describe = Describe(find, store.open_content, tokenizer, store.pool, settings.card_tokens, card_text)
        open_view = OpenView(find, store.open_content, keep_text)
        read = Read(open_view, tokenizer, store.pool)
        search = Search(open_view, tokenizer, store.pool)
        windows = Windows(open_view, tokenizer, store.pool)
        read_json = ReadJson(open_view, tokenizer, store.pool)
        outline = Outline(open_view, tokenizer, store.pool)
        index = Index(
            store.catalog, store.open_content, store.pool, _random_number, _leader(settings, store), keep_text
        )
        browse = Browse(store.catalog, store.clock, index)
        tools = ToolDesk(
            ReadArtifact(open_view, read, search, outline, tokenizer, store.pool, passages=windows, values=read_json),
            ListArtifacts(browse, tokenizer, store.pool),
            tokenizer,
        )
        ingest = Ingest(places, card_text)
        search_places = SearchPlaces(
            ingest=ingest,
            find=find,
            keep_text=keep_text,
            sources=Sources(store.catalog, store.clock, store.open_content, store.pool),
            tokenizer=tokenizer,
            pool=store.pool,
        )
        services = Services(
            ingest=ingest,
            describe=describe,
            browse=browse,
            forget=Forget(store.catalog, store.clock, life, shelter),
            forget_session=ForgetSession(store.catalog, store.clock, life, shelter),
            extend=Extend(store.catalog, store.clock, shelter),
            open_view=open_view,
            outline=outline,
            read=read,
            search=search,
            windows=windows,
            read_json=read_json,
            search_results=SearchResults(search_places),
            verify_citations=VerifyCitations(open_view, store.pool),
            tools=tools,
            clock=store.clock,
            ready=store.catalog.ready,
        )
        try:
            async with running(tidy, settings.sweep_seconds, note, write_through, index):
                yield Running(services, _limits(settings))
        finally:
            if places.afterwards:  # what is not undone by then is the reaper's
                await asyncio.wait(places.afterwards, timeout=LAST_SECONDS)
            await keep_text.settled(LAST_SECONDS)
            extractor.close()
            await tidy.leave()


def _random_number() -> int:
    return secrets.randbits(62)


def _leader(settings: Settings, store: Store) -> Callable[[], Awaitable[bool]] | None:
    """Who of several processes indexes; one that stops or hangs loses the lease soon."""
    if is_embedded(settings):
        return None
    me = secrets.token_hex(8)

    async def lead() -> bool:
        lease = TakeLease(name="index", holder=me, seconds=_INDEX_LEASE, now=store.clock.now())
        return await store.catalog.take_lease(lease)

    return lead


def _limits(settings: Settings) -> Limits:
    extra = tuple(h.strip().lower() for h in settings.allowed_hosts.split(",") if h.strip())
    hosts = None if settings.allow_unauthenticated and not extra else (*LOOPBACK, *extra)
    return Limits(payload=settings.payload_limit, json_body=settings.json_limit, allowed_hosts=hosts)
