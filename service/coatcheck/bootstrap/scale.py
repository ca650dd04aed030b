"""The store at scale: PostgreSQL, with bytes in an S3-compatible store or in a shared directory, for many replicas."""

from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

from coatcheck.adapters.sql import schema
from coatcheck.adapters.sql.postgres import PostgresCatalog
from coatcheck.adapters.sql.postgres_connection import PostgresLimits
from coatcheck.adapters.sql.postgres_examine import PostgresExamination
from coatcheck.bootstrap.embedded import refuse_newer
from coatcheck.bootstrap.engines import Engines
from coatcheck.bootstrap.scale_bytes import open_bytes
from coatcheck.bootstrap.store_binding import belonging
from coatcheck.settings import Settings
from coatcheck.usecases.operations.verify_store import RepairCatalog

PATIENT = PostgresLimits(connections=2, statement=600.0, answer=660.0)
"""For checks, whose queries read whole tables."""


def migrate_scale(url: str) -> tuple[str | None, str]:
    """Migrates a database to this release's schema; returns the revision before and after. Safe from many at once.

    Raises:
        CoatcheckError: `storage_unavailable`; `schema_outdated` if a newer release made it.
    """
    before = schema.current_revision(url)
    refuse_newer(before)
    if before != schema.REVISION:
        schema.migrate(url)
    return before, schema.current_revision(url) or ""


@asynccontextmanager
async def open_scale(
    settings: Settings, pool: ThreadPoolExecutor, readers: ThreadPoolExecutor, *, beside: bool
) -> AsyncGenerator[Engines]:
    """Opens the database and the location of the bytes, without migrating; `beside` is that of `open_store`.

    Raises:
        CoatcheckError: `storage_unavailable`, `schema_outdated`, `invalid_request` for an invalid URL, and for a
            location whose bytes belong to another database.
    """
    url, limits = settings.database_url, PostgresLimits(connections=settings.database_connections)
    opening = PostgresCatalog.look(url, limits=PATIENT) if beside else PostgresCatalog.open(url, limits=limits)
    catalog = await opening
    try:
        await catalog.check_reads()
        binding = belonging(catalog, catalog.clock, looking=beside)
        blobs, warnings = await open_bytes(settings, pool, readers, binding, make=not beside)
        warnings += await catalog.warnings()
        yield Engines(catalog, blobs, catalog.clock, (PostgresExamination(catalog),), warnings)
    finally:
        await catalog.close()


@asynccontextmanager
async def open_scale_repair(settings: Settings) -> AsyncGenerator[RepairCatalog]:
    """Yields the catalogue for repairing rows, even beside processes that serve it."""
    catalog = await PostgresCatalog.open(settings.database_url)
    try:
        yield catalog
    finally:
        await catalog.close()
