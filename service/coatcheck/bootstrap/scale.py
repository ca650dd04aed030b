"""The store for several replicas: the catalogue on PostgreSQL, the bytes in an S3 bucket or a shared directory."""

from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

from coatcheck.adapters.blobs.files import FileBlobStore
from coatcheck.adapters.blobs.s3 import S3BlobStore
from coatcheck.adapters.sql import schema
from coatcheck.adapters.sql.postgres import PostgresCatalog
from coatcheck.adapters.sql.postgres_connection import PostgresLimits
from coatcheck.bootstrap.embedded import Engines, belonging, explain_opening_errors, refuse_newer
from coatcheck.core.errors import invalid_request
from coatcheck.ports.blobs import BlobStore
from coatcheck.runtime.work_placement import in_pool
from coatcheck.settings import Settings
from coatcheck.upkeep.store_binding import StoreBinding
from coatcheck.usecases.operations.verify_store import RepairCatalog


async def open_bytes(
    settings: Settings, pool: ThreadPoolExecutor, readers: ThreadPoolExecutor, binding: StoreBinding, *, make: bool
) -> tuple[BlobStore, list[str]]:
    """Opens the blob store in the settings; returns it with warnings for the person who starts the service.

    After a switch from files to a bucket, files from before the switch can still be read through the store.

    Raises:
        CoatcheckError: `invalid_request` for an invalid URL, for a location that has another database's bytes, and if
            the settings name no bucket although the database keeps its bytes in one; `storage_unavailable`.
    """
    if not settings.blob_url:
        await _refuse_without_bucket(binding)
        files = await in_pool(pool, _files, Path(settings.data), pool, readers, make=make)
        await binding(files)
        return files, []
    try:
        # New bytes go to the bucket. Files from before a switch to the bucket stay readable.
        bucket = S3BlobStore.open(settings.blob_url)
    except ValueError as error:
        raise invalid_request(f"COATCHECK_BLOB_URL: {error}") from error
    await bucket.reaches()
    await binding(bucket)
    before = await in_pool(pool, _files, Path(settings.data), pool, readers, make=False)
    if await binding.holds(before):
        bucket.others = (before,)
        return bucket, []
    return bucket, await _warn_of_files(binding, settings.data)


async def _refuse_without_bucket(binding: StoreBinding) -> None:
    """Raises `invalid_request` if the database keeps its bytes in a bucket, but the settings name none.

    New bytes would otherwise go to a directory that replicas do not share, and that may vanish with a container.
    """
    if await binding.bound("s3"):
        raise invalid_request(
            "This database keeps its bytes in an S3-compatible store, but COATCHECK_BLOB_URL is not set. Set it; "
            "files from before are still read from COATCHECK_DATA."
        )


async def _warn_of_files(binding: StoreBinding, data: str) -> list[str]:
    warning = (
        f"This database has kept bytes as files, and {Path(data)} is not the directory that has them: what is still in "
        "files cannot be read or removed. Name that directory with COATCHECK_DATA, beside COATCHECK_BLOB_URL."
    )
    return [warning] if await binding.bound("file") else []


def _files(root: Path, pool: ThreadPoolExecutor, readers: ThreadPoolExecutor, *, make: bool) -> FileBlobStore:
    with explain_opening_errors(root):
        if make:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
        return FileBlobStore(root, pool, make=make, readers=readers)


PATIENT = PostgresLimits(connections=2, statement=600.0, answer=660.0)
"""Limits of the connections for checks, whose queries read whole tables; times are in seconds."""


def migrate_scale(url: str) -> tuple[str | None, str]:
    """Migrates a database to this release's schema; returns the revision before and after.

    Several processes may call this function at once.

    Raises:
        CoatcheckError: `storage_unavailable`; `schema_outdated` if a newer release made the schema.
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
    """Opens the database and the blob store, without migrating the database.

    With `beside`, the store is only read, because other processes may serve it; see `open_store`.

    Raises:
        CoatcheckError: `storage_unavailable`; `schema_outdated`; `invalid_request` for an invalid URL, and for a blob
            store whose bytes belong to another database.
    """
    url, limits = settings.database_url, PostgresLimits(connections=settings.database_connections)
    opening = PostgresCatalog.look(url, limits=PATIENT) if beside else PostgresCatalog.open(url, limits=limits)
    catalog = await opening
    try:
        # The schema is checked before the first write, because a replica of another schema must not start.
        await catalog.check_reads()
        binding = belonging(catalog, catalog.clock, looking=beside)
        blobs, warnings = await open_bytes(settings, pool, readers, binding, make=not beside)
        warnings += await catalog.warnings()
        yield Engines(
            catalog=catalog,
            blobs=blobs,
            clock=catalog.clock,
            examinations=(catalog.examine,),
            warnings=warnings,
        )
    finally:
        await catalog.close()


@asynccontextmanager
async def open_scale_repair(settings: Settings) -> AsyncGenerator[RepairCatalog]:
    """Yields the catalogue for repairing rows, even while other processes serve it."""
    catalog = await PostgresCatalog.open(settings.database_url)
    try:
        yield catalog
    finally:
        await catalog.close()
