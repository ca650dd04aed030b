"""Opens the store that the settings name: the embedded one, or the one on PostgreSQL."""

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
"""Maximum number of read tasks that wait for a thread: about as many as the threads can finish in ten seconds."""


_FILE_THREADS: Final = 8
"""Number of threads that write files. They mostly wait for disks, so there may be more of them than processors."""


@dataclass(frozen=True, kw_only=True)
class Store(Engines):
    """An opened store, and the threads that use it."""

    pool: ThreadPoolExecutor
    """Threads for ingest and maintenance."""
    readers: ReadThreads
    """Threads for reads."""
    open_content: OpenContent
    """Reads stored bytes, with caches that all readers share."""


def migrate(settings: Settings) -> tuple[str | None, str]:
    """Migrates the store to this release's schema; returns the revision before and after. Blocks.

    Raises:
        CoatcheckError: the store cannot be opened; `schema_outdated` if a newer release made it.
    """
    if is_embedded(settings):
        return embedded.migrate_embedded(Path(settings.data))
    from coatcheck.bootstrap import scale  # noqa: PLC0415 - the embedded store does without the driver

    return scale.migrate_scale(settings.database_url)


def is_embedded(settings: Settings) -> bool:
    """Returns whether the store is a data directory; otherwise it is on PostgreSQL."""
    return not settings.database_url


def _processors() -> int:
    """Returns the number of processors, but at least two: one of two threads may wait while the other computes."""
    return max(2, os.cpu_count() or 1)


def place_of(settings: Settings) -> str:
    """Describes the location of the store, without secrets, for the person who starts the service."""
    if is_embedded(settings):
        return f"in {Path(settings.data).resolve()}"
    blobs = settings.blob_url.partition("?")[0] or str(Path(settings.data))
    return f"in {mask_url(settings.database_url)} and {blobs}"


@asynccontextmanager
async def open_store(settings: Settings, *, beside: bool = False, clock: Clock | None = None) -> AsyncGenerator[Store]:
    """Opens the store; the embedded one is created and migrated if necessary.

    Args:
        settings: the settings, which say where the store is.
        beside: whether to open the store only for reading, because another process may serve it. Then the catalogue is
            opened read-only, and nothing is created, migrated or locked.
        clock: the authoritative time; None: the database's, or the machine's if the database has no clock.

    Raises:
        CoatcheckError: as `migrate` does; `schema_outdated` if the store does not have this release's schema;
            `invalid_request` if the bytes at the configured place belong to another database.
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
            # A command that runs beside a server only reports damage. The server marks damaged blobs.
            damaged = None if beside else health.report_damage
            content = OpenContent(engines.catalog, engines.blobs, readers, damaged)
            try:
                opened = vars(replace(engines, clock=time))
                yield Store(**opened, pool=pool, readers=readers, open_content=content)
            finally:
                # The mark of a damaged blob may still be on its way into the catalogue, which closes next.
                await health.wait_until_recorded()
