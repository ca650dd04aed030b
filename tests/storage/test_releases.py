"""What an earlier release wrote opens with this one: each kept file is loaded, migrated and read back."""

import asyncio
import sqlite3
from pathlib import Path

import msgspec
import pytest

from coatcheck.adapters.sql import schema
from coatcheck.adapters.sql.engine import sqlite_url
from coatcheck.adapters.sql.postgres import PostgresCatalog
from coatcheck.adapters.sql.sqlite.store import SqliteCatalog
from storage.releases.make import told
from support.postgres import connect
from support.postgres_shared import databases

KEPT = Path(__file__).parent / "releases"


def kept(kind: str) -> list[str]:
    return sorted(path.stem.partition(".")[0] for path in KEPT.glob(f"*.{kind}.sql"))


def expected(stem: str) -> tuple[list[tuple[str, int]], list[str]]:
    lines = (KEPT / f"{stem}.jsonl").read_text().splitlines()
    return [msgspec.json.decode(line, type=tuple[tuple[str, int], msgspec.Raw])[0] for line in lines], lines


@pytest.mark.parametrize("revision", kept("sqlite"))
async def test_an_earlier_releases_embedded_catalogue_opens(revision: str, tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    conn = sqlite3.connect(path)
    conn.executescript((KEPT / f"{revision}.sqlite.sql").read_text())
    conn.close()
    schema.migrate(sqlite_url(path))
    catalog = SqliteCatalog.open(path)
    try:
        await catalog.check_reads()
        numbers, lines = expected(f"{revision}.sqlite")
        assert await told(catalog, numbers) == lines
    finally:
        catalog.close()


@pytest.mark.parametrize("revision", kept("postgresql"))
async def test_an_earlier_releases_postgresql_catalogue_opens(revision: str) -> None:
    with databases().lent(empty=True) as url:
        conn = await connect(url)
        await conn.execute((KEPT / f"{revision}.postgresql.sql").read_text())
        await conn.close()
        await asyncio.to_thread(schema.migrate, url)
        catalog = await PostgresCatalog.open(url)
        try:
            await catalog.check_reads()
            numbers, lines = expected(f"{revision}.postgresql")
            assert await told(catalog, numbers) == lines
        finally:
            await catalog.close()


def test_each_revision_has_a_kept_file_of_each_database() -> None:
    assert schema.REVISION in kept("sqlite")
    assert kept("sqlite") == kept("postgresql")
