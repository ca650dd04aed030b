"""Catalogues on empty databases of either kind, for one test each."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path

from coatcheck.adapters.sql.engine import sqlite_url
from coatcheck.adapters.sql.postgres import PostgresCatalog
from coatcheck.adapters.sql.postgres_connection import PostgresLimits
from coatcheck.adapters.sql.schema import migrate
from coatcheck.adapters.sql.sqlite.store import SqliteCatalog
from coatcheck.core import ids
from support.postgres_shared import databases

Number = Callable[[bytes, int], int]


@asynccontextmanager
async def open_sqlite(folder: Path, number: Number = ids.number) -> AsyncGenerator[SqliteCatalog]:
    """The embedded catalogue."""
    path = folder / "catalog.db"
    migrate(sqlite_url(path))
    opened = SqliteCatalog.open(path, threads=2, number=number)
    try:
        yield opened
    finally:
        opened.close()


@asynccontextmanager
async def open_postgresql(_: Path, number: Number = ids.number) -> AsyncGenerator[PostgresCatalog]:
    """The catalogue of many replicas."""
    with databases().lent() as url:
        opened = await PostgresCatalog.open(url, limits=PostgresLimits(connections=2), number=number)
        try:
            yield opened
        finally:
            await opened.close()


@asynccontextmanager
async def open_replicas(url: str, count: int, connections: int = 2) -> AsyncGenerator[list[PostgresCatalog]]:
    """Several processes' catalogues on one database."""
    async with AsyncExitStack() as stack:
        opened: list[PostgresCatalog] = []
        for _ in range(count):
            opened.append(await PostgresCatalog.open(url, limits=PostgresLimits(connections=connections)))
            stack.push_async_callback(opened[-1].close)
        yield opened


CATALOGS: dict[str, Callable[[Path], AbstractAsyncContextManager[SqliteCatalog | PostgresCatalog]]] = {
    "sqlite": open_sqlite,
    "postgresql": open_postgresql,
}
