"""The composition root: open the adapters, build the use cases, close in reverse."""

import secrets
from collections.abc import AsyncGenerator, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from coatcheck.adapters.blobs.faults import storage_error
from coatcheck.adapters.blobs.files import FileBlobStore
from coatcheck.adapters.clock import SystemClock
from coatcheck.adapters.sql import schema
from coatcheck.adapters.sql.datadir import DirectoryLock, refuse_network_file_system
from coatcheck.adapters.sql.engine import sqlite_url
from coatcheck.adapters.sql.faults import known_fault
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
from coatcheck.usecases.find import Find
from coatcheck.usecases.forget import Forget, ForgetSession
from coatcheck.usecases.ingest import Ingest, IngestPlaces
from coatcheck.usecases.outage import Outage
from coatcheck.usecases.pool import in_pool
from coatcheck.usecases.read import Read
from coatcheck.usecases.reads import NoteReads, ReadLog
from coatcheck.usecases.search import Search
from coatcheck.usecases.shelter import Shelter
from coatcheck.usecases.tidy import Tidy
from coatcheck.usecases.trust import Trust
from coatcheck.usecases.write_through import WriteThrough

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
        CoatcheckError: the directory is served by another process, on a network file system, or cannot be written;
            `schema_outdated` when a newer release made it.
    """
    root = Path(settings.data)
    with _explained(root):
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        refuse_network_file_system(root)
        url = sqlite_url(root / DATABASE)
        before = schema.current_revision(url) if (root / DATABASE).exists() else None
        if before is not None and before > schema.REVISION:
            raise CoatcheckError(
                Code.SCHEMA_OUTDATED,
                f"The database has schema {before}, which is newer than this release's {schema.REVISION}. Install the "
                "release that made it, or restore the backup from before the upgrade.",
            )
        if before != schema.REVISION:
            lock = DirectoryLock(root)
            try:
                schema.migrate(url)
            finally:
                lock.release()
        return before, schema.current_revision(url) or ""


@contextmanager
def _explained(root: Path) -> Generator[None]:
    """Say what keeps a store from being opened, in a sentence for whoever starts the service."""
    try:
        yield
    except OSError as error:
        raise _opening_fault(storage_error(error).code, root, error.strerror or str(error)) from error
    except Exception as error:
        fault = known_fault(error)
        if fault is None or fault.code is Code.INTEGRITY:
            raise fault or error from error
        raise _opening_fault(fault.code, root, fault.detail.partition(",")[0]) from error


def _opening_fault(code: Code, root: Path, why: str) -> CoatcheckError:
    """The error of a store that cannot be opened."""
    if code is Code.STORAGE_FULL:
        return CoatcheckError(code, f"The disk that holds {root} is full. Free space, then start again.")
    return CoatcheckError(
        Code.STORAGE_UNAVAILABLE,
        f"The data directory {root} cannot be used: {why}. Let this user write to it, or name another with --data.",
    )


@asynccontextmanager
async def open_store(settings: Settings, *, beside: bool = False) -> AsyncGenerator[Store]:
    """Open the embedded store, creating it where there is none.

    Args:
        settings: where it is.
        beside: only look at a store, which another process may be serving: migrates nothing, takes no lock, opens the
            catalogue read-only and makes nothing.

    Raises:
        CoatcheckError: as `migrate`, and `schema_outdated` when a newer release made it.
    """
    root = Path(settings.data)
    pool = ThreadPoolExecutor(settings.workers, thread_name_prefix="work")
    try:
        if not beside:
            await in_pool(pool, migrate, settings)
        with _explained(root):
            catalog = SqliteCatalog.look(root / DATABASE) if beside else SqliteCatalog.open(root / DATABASE)
        try:
            await catalog.ready()
            blobs, clock = FileBlobStore(root, pool, make=not beside), SystemClock()
            trust = Trust(catalog, blobs, clock)
            try:
                yield Store(
                    catalog, blobs, clock, pool, OpenContent(catalog, blobs, pool, None if beside else trust.damaged)
                )
            finally:
                await trust.settled()
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
            catalog_outage=Outage("catalogue", store.clock),
            blobs_outage=Outage("blob store", store.clock),
        )
        write_through = WriteThrough(
            shelter,
            store.catalog,
            store.blobs,
            store.clock,
            new_blob_id=name_blob,
            lease=lease,
            inline_bytes=settings.inline_bytes,
            tombstone_life=life,
        )
        describe = Describe(find, store.open_content, tokenizer, store.pool, settings.card_tokens)
        services = Services(
            ingest=Ingest(places),
            describe=describe,
            browse=Browse(store.catalog, store.clock),
            forget=Forget(store.catalog, store.clock, life, shelter),
            forget_session=ForgetSession(store.catalog, store.clock, life, shelter),
            extend=Extend(store.catalog, store.clock, shelter),
            find=find,
            open_content=store.open_content,
            read=Read(find, store.open_content, tokenizer, store.pool),
            search=Search(find, store.open_content, tokenizer, store.pool),
            clock=store.clock,
            ready=store.catalog.ready,
        )
        async with running(tidy, settings.sweep_seconds, note, write_through):
            yield Running(services, _limits(settings))


def _limits(settings: Settings) -> Limits:
    extra = tuple(h.strip().lower() for h in settings.allowed_hosts.split(",") if h.strip())
    hosts = None if settings.allow_unauthenticated and not extra else (*LOOPBACK, *extra)
    return Limits(payload=settings.payload_limit, json_body=settings.json_limit, allowed_hosts=hosts)


def audit_of(store: Store) -> Audit:
    """The audit over an opened store, for the command line."""
    return Audit(store.catalog, store.blobs, store.open_content, store.clock)
