"""Opens the store in the settings."""

import os
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from coatcheck.adapters.sql.dialect import mask_url
from coatcheck.bootstrap import embedded
from coatcheck.bootstrap.embedded import Engines, open_embedded
from coatcheck.ports.telemetry import Clock
from coatcheck.runtime.work_placement import ReadThreads
from coatcheck.settings import Settings
from coatcheck.storing.blob_health import BlobHealth
from coatcheck.storing.content import OpenContent

_MAX_WAITING_READS: Final = 2048
"""Read tasks that may wait for a thread: about as many as are done in ten seconds."""


_FILE_THREADS: Final = 8
"""Threads that write files and wait for disks, which needs no processor."""


@dataclass(frozen=True, kw_only=True)
class Store(Engines):
    """An opened store, and the threads that use it."""

    pool: ThreadPoolExecutor
    """For ingest and upkeep."""
    readers: ReadThreads
    """For reads."""
    open_content: OpenContent
    """Reads stored bytes, with caches that all readers share."""


def migrate(settings: Settings) -> tuple[str | None, str]:
    """Migrates the store's schema to this release's; returns the revision before and after. Blocks.

    Raises:
        CoatcheckError: whatever keeps the store from being opened; `schema_outdated` if a newer release made it.
    """
    if is_embedded(settings):
        return embedded.migrate_embedded(Path(settings.data))
    from coatcheck.bootstrap import scale  # noqa: PLC0415 - the embedded store does without the driver

    return scale.migrate_scale(settings.database_url)


def is_embedded(settings: Settings) -> bool:
    """Returns whether the store is a data directory; otherwise it is on PostgreSQL."""
    return not settings.database_url


def _processors() -> int:
    """Returns the number of threads that can compute at the same time; at least two, as one may wait."""
    return max(2, os.cpu_count() or 1)


def place_of(settings: Settings) -> str:
    """Describes where the store is for whoever starts the service, without secrets."""
    if is_embedded(settings):
        return f"in {Path(settings.data).resolve()}"
    blobs = settings.blob_url.partition("?")[0] or str(Path(settings.data))
    return f"in {mask_url(settings.database_url)} and {blobs}"


@asynccontextmanager
async def open_store(settings: Settings, *, beside: bool = False, clock: Clock | None = None) -> AsyncGenerator[Store]:
    """Opens the store; the embedded one is created and migrated if necessary.

    Args:
        settings: where it is.
        beside: whether only to read a store that others may be serving: without migrating or locking anything, opening
            the catalogue read-only and creating nothing.
        clock: the authoritative time; None: the database's, or the machine's if it has none.

    Raises:
        CoatcheckError: as `migrate`, and `schema_outdated` if it does not have this release's schema.
    """
    with (
        ThreadPoolExecutor(settings.threads or _processors(), thread_name_prefix="work") as pool,
        ThreadPoolExecutor(_FILE_THREADS, thread_name_prefix="files") as files,
        ReadThreads(settings.readers, _MAX_WAITING_READS) as readers,
    ):
        if is_embedded(settings):
            reserve = settings.reserve_bytes
            opening = open_embedded(Path(settings.data), files, readers, beside=beside, reserve_bytes=reserve)
        else:
            from coatcheck.bootstrap.scale import open_scale  # noqa: PLC0415 - as above

            opening = open_scale(settings, files, readers, beside=beside)
        async with opening as engines:
            time = clock or engines.clock
            health = BlobHealth(engines.catalog, engines.blobs, time)
            # A command beside a server only reports damage; marking it is the server's task.
            damaged = None if beside else health.report_damage
            content = OpenContent(engines.catalog, engines.blobs, readers, damaged)
            try:
                opened = vars(replace(engines, clock=time))
                yield Store(**opened, pool=pool, readers=readers, open_content=content)
            finally:
                # Damage that a read found may still be on its way into the catalogue, which closes next.
                await health.wait_until_recorded()
