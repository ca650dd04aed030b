"""The composition root: open the adapters, build the use cases, close in reverse."""

import secrets
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from coatcheck.adapters.blobs.files import FileBlobStore
from coatcheck.adapters.clock import SystemClock
from coatcheck.adapters.sql import schema
from coatcheck.adapters.sql.datadir import DirectoryLock, refuse_network_file_system
from coatcheck.adapters.sql.engine import sqlite_url
from coatcheck.adapters.sql.sqlite import SqliteCatalog
from coatcheck.adapters.tokenizer import load_tokenizer
from coatcheck.api.limits import LOOPBACK, Limits
from coatcheck.api.services import Services
from coatcheck.core.blob_ids import new_blob_id
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.jobs.schedule import running
from coatcheck.settings import Settings
from coatcheck.usecases.audit import Audit
from coatcheck.usecases.browse import Browse
from coatcheck.usecases.content import OpenContent
from coatcheck.usecases.describe import Describe
from coatcheck.usecases.extend import Extend
from coatcheck.usecases.find import Find, ReadLog
from coatcheck.usecases.forget import Forget, ForgetSession
from coatcheck.usecases.ingest import Ingest, IngestPlaces
from coatcheck.usecases.pool import in_pool
from coatcheck.usecases.read import Read
from coatcheck.usecases.search import Search
from coatcheck.usecases.tidy import Tidy

DATABASE = "coatcheck.db"
"""The catalogue's file in the data directory."""


@dataclass(frozen=True)
class Store:
    """The opened adapters."""

    catalog: SqliteCatalog
    blobs: FileBlobStore
    clock: SystemClock
    pool: ThreadPoolExecutor
    open_content: OpenContent


@dataclass(frozen=True)
class Running:
    """A service that is ready to be served."""

    services: Services
    limits: Limits


def migrate(settings: Settings) -> tuple[str | None, str]:
    """Bring the embedded catalogue to this release's schema; answers the revision before and after.

    Raises:
        CoatcheckError: the directory is served by another process, on a network file system, or cannot be written.
    """
    root = Path(settings.data)
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        refuse_network_file_system(root)
        url = sqlite_url(root / DATABASE)
        before = schema.current_revision(url) if (root / DATABASE).exists() else None
        if before != schema.REVISION:
            lock = DirectoryLock(root)
            try:
                schema.migrate(url)
            finally:
                lock.release()
        return before, schema.current_revision(url) or ""
    except OSError as error:
        raise CoatcheckError(
            Code.STORAGE_UNAVAILABLE,
            f"The data directory {root} cannot be used: {error.strerror}. Name another with --data.",
        ) from error


@asynccontextmanager
async def open_store(settings: Settings, *, beside: bool = False) -> AsyncGenerator[Store]:
    """Open the embedded store, creating it where there is none.

    Args:
        settings: where it is.
        beside: look at a store that another process may be serving: migrates nothing, takes no lock.

    Raises:
        CoatcheckError: as `migrate`, and `schema_outdated` when a newer release made it.
    """
    root = Path(settings.data)
    pool = ThreadPoolExecutor(settings.workers, thread_name_prefix="work")
    try:
        if not beside:
            await in_pool(pool, migrate, settings)
        catalog = SqliteCatalog.open(root / DATABASE, exclusive=not beside)
        try:
            await catalog.ready()
            blobs = FileBlobStore(root, pool)
            yield Store(catalog, blobs, SystemClock(), pool, OpenContent(catalog, blobs, pool))
        finally:
            await in_pool(pool, catalog.close)
    finally:
        pool.shutdown(wait=True)


@asynccontextmanager
async def open_service(settings: Settings) -> AsyncGenerator[Running]:
    """Everything that answers requests, with the schedule running; closed in reverse order on leaving."""
    async with open_store(settings) as store:
        tokenizer = load_tokenizer()
        reads = ReadLog()
        find = Find(store.catalog, store.clock, reads)
        life = timedelta(seconds=settings.tombstone_ttl)
        tidy = Tidy(
            store.catalog,
            store.catalog,
            store.blobs,
            store.clock,
            reads,
            tombstone_life=life,
            grace=timedelta(seconds=settings.grace_seconds),
        )
        places = IngestPlaces(
            catalog=store.catalog,
            blobs=store.blobs,
            clock=store.clock,
            pool=store.pool,
            tokenizer=tokenizer,
            new_blob_id=lambda: new_blob_id(store.clock.now(), secrets.token_bytes(10)),
            lease=timedelta(seconds=settings.lease_seconds),
            inline_bytes=settings.inline_bytes,
            payload_limit=settings.payload_limit,
            ttl=settings.ttl,
            card_tokens=settings.card_tokens,
            inline_tokens=settings.inline_tokens,
        )
        describe = Describe(find, store.open_content, tokenizer, store.pool, settings.card_tokens)
        services = Services(
            ingest=Ingest(places),
            describe=describe,
            browse=Browse(store.catalog, store.clock),
            forget=Forget(store.catalog, store.clock, life),
            forget_session=ForgetSession(store.catalog, store.clock, life),
            extend=Extend(store.catalog, store.clock),
            find=find,
            open_content=store.open_content,
            read=Read(find, store.open_content, tokenizer, store.pool),
            search=Search(find, store.open_content, tokenizer, store.pool),
            clock=store.clock,
            ready=store.catalog.ready,
        )
        async with running(tidy, settings.sweep_seconds):
            yield Running(services, _limits(settings))


def _limits(settings: Settings) -> Limits:
    extra = tuple(h.strip().lower() for h in settings.allowed_hosts.split(",") if h.strip())
    hosts = None if settings.allow_unauthenticated and not extra else (*LOOPBACK, *extra)
    return Limits(payload=settings.payload_limit, json_body=settings.json_limit, allowed_hosts=hosts)


def audit_of(store: Store) -> Audit:
    """The audit over an opened store, for the command line."""
    return Audit(store.catalog, store.blobs, store.open_content, store.clock)
