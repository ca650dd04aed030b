"""Keys for an administrator at the command line: directly in the database, even while a service uses it."""

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from coatcheck.adapters.clock import SystemClock
from coatcheck.adapters.sql.sqlite.store import SqliteCatalog
from coatcheck.bootstrap import embedded
from coatcheck.bootstrap.stores import is_embedded
from coatcheck.ports.clock import Clock
from coatcheck.ports.keys import Keys
from coatcheck.settings import Settings
from coatcheck.usecases.tenants.administer_keys import AdministerKeys


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
