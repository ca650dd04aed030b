"""Every revision can be gone back to on both databases: it is what that revision made, and its rows are still there."""
# pyright: reportPrivateUsage=false

import asyncio
import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from coatcheck.adapters.sql import schema
from coatcheck.adapters.sql.engine import sqlite_url
from coatcheck.adapters.sql.postgres import PostgresCatalog
from coatcheck.adapters.sql.sqlite.store import SqliteCatalog
from storage.releases.make import told
from support.postgres import connect
from support.postgres_shared import databases

KEPT = Path(__file__).parent / "releases"
REVISIONS = sorted(each.revision for each in ScriptDirectory.from_config(schema._config()).walk_revisions())
NewUrl = Callable[[], str]
_SQLITE = "SELECT name || ' ' || sql FROM sqlite_schema WHERE sql IS NOT NULL AND name <> 'sqlite_sequence'"
_POSTGRESQL = (
    """SELECT table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable || ' ' || is_identity || ' '
       || coalesce(column_default, '') FROM information_schema.columns WHERE table_schema = 'public'""",
    """SELECT conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid)
       FROM pg_constraint WHERE connamespace = 'public'::regnamespace""",
    "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'",
    "SELECT tablename || ' ' || policyname || ' ' || qual FROM pg_policies",
    """SELECT relname || ' ' || relrowsecurity || ' ' || relforcerowsecurity
       FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace""",
)


@pytest.fixture(params=["sqlite", "postgresql"])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NewUrl]:
    """Makes empty databases of one kind."""
    made: list[str] = []

    def make() -> str:
        made.append(
            sqlite_url(tmp_path / f"{len(made)}.db") if request.param == "sqlite" else databases().make(empty=True)
        )
        return made[-1]

    yield make
    for url in made if request.param == "postgresql" else ():
        databases().cluster.drop(url)


def structure(url: str) -> list[list[str]]:
    """Every table, column, constraint, index and policy, as the database tells of them."""

    def asked(conn: Connection) -> list[list[str]]:
        if conn.dialect.name == "sqlite":
            found = conn.execute(text(_SQLITE)).scalars()
            return [sorted(" ".join(line.split()) for line in found)]
        return [sorted(conn.execute(text(each)).scalars()) for each in _POSTGRESQL]

    return schema._with_connection(url, asked)


def downgrade(url: str, revision: str) -> None:
    def down(conn: Connection) -> None:
        config = schema._config()
        config.attributes["connection"] = conn
        command.downgrade(config, revision)

    schema._with_connection(url, down)


def fill(url: str) -> list[str]:
    """Load what this release wrote into an empty database; returns what its catalogue says of each artifact."""
    if url.startswith("sqlite"):
        kind = "sqlite"
        conn = sqlite3.connect(url.removeprefix("sqlite:///"))
        conn.executescript((KEPT / f"{schema.REVISION}.sqlite.sql").read_text())
        conn.close()
    else:
        kind = "postgresql"

        async def load() -> None:
            conn = await connect(url)
            await conn.execute((KEPT / f"{schema.REVISION}.postgresql.sql").read_text())
            await conn.close()

        asyncio.run(load())
    return (KEPT / f"{schema.REVISION}.{kind}.jsonl").read_text().splitlines()


async def says(url: str, lines: list[str]) -> list[str]:
    """What the catalogue says now of the artifacts that `lines` are about."""
    numbers: list[tuple[str, int]] = [(line[0][0], line[0][1]) for line in map(json.loads, lines)]
    if url.startswith("sqlite"):
        embedded = SqliteCatalog.open(Path(url.removeprefix("sqlite:///")))
        try:
            return await told(embedded, numbers)
        finally:
            embedded.close()
    shared = await PostgresCatalog.open(url)
    try:
        return await told(shared, numbers)
    finally:
        await shared.close()


def without(lines: list[str], *names: str) -> list[str]:
    """Lines without what an earlier revision cannot keep."""
    kept = list(map(json.loads, lines))
    for _, said in kept:
        if said is not None:
            for name in names:
                said.pop(name, None)
    return [json.dumps(each) for each in kept]


@pytest.mark.parametrize("revision", REVISIONS[:-1])
def test_a_downgrade_arrives_at_what_that_revision_made_and_the_way_back_finds_every_artifact(
    revision: str, new_url: NewUrl
) -> None:
    used, made = new_url(), new_url()
    lines = fill(used)
    newest = structure(used)
    schema.migrate(made, revision)
    downgrade(used, revision)
    assert schema.current_revision(used) == revision
    assert structure(used) == structure(made)
    assert structure(used) != newest
    schema.migrate(used)
    assert structure(used) == newest
    found = asyncio.run(says(used, lines))
    lost = {"0001": ["receipt", "survey"], "0007": []}.get(revision, ["receipt"])
    assert without(found, *lost) == without(lines, *lost)
    assert (found != lines) is bool(lost)


def test_a_downgrade_to_nothing_leaves_no_table_behind(new_url: NewUrl) -> None:
    url = new_url()
    schema.migrate(url)
    schema.migrate(url, "base")
    left = [line for part in structure(url) for line in part if "alembic_version" not in line]
    assert left == []
