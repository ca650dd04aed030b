# pyright: reportPrivateUsage=false
import contextlib
import sqlite3
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, text

from coatcheck.adapters.sql import schema
from coatcheck.adapters.sql.engine import sqlite_url
from coatcheck.adapters.sql.sqlite.store import SqliteCatalog
from coatcheck.adapters.sql.tables import metadata
from coatcheck.core.errors import CoatcheckError, Code
from support.postgres_shared import databases


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "catalog.db"
    schema.migrate(sqlite_url(path))
    return path


def test_upgrading_an_empty_database_arrives_at_the_tables_of_the_code(database: Path) -> None:
    engine = create_engine(sqlite_url(database))
    with engine.connect() as conn:
        context = MigrationContext.configure(conn, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
    engine.dispose()


def ddl(path: Path) -> dict[str, str]:
    conn = sqlite3.connect(path)
    rows = conn.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL").fetchall()
    conn.close()
    return {name: " ".join(sql.split()) for name, sql in rows if name != "alembic_version"}


def test_the_ddl_of_the_migrations_is_word_for_word_that_of_the_tables(database: Path, tmp_path: Path) -> None:
    other = tmp_path / "metadata.db"
    engine = create_engine(sqlite_url(other))
    metadata.create_all(engine)
    engine.dispose()
    assert ddl(database) == ddl(other)


def test_migrating_twice_is_fine_and_arrives_at_the_revision_that_this_release_needs(database: Path) -> None:
    schema.migrate(sqlite_url(database))
    newest = ScriptDirectory.from_config(schema._config()).get_current_head()
    assert schema.current_revision(sqlite_url(database)) == newest == schema.REVISION


def test_a_new_database_has_the_settings_that_cannot_be_changed_later(database: Path) -> None:
    conn = sqlite3.connect(database)
    assert conn.execute("PRAGMA auto_vacuum").fetchone() == (2,)
    assert conn.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    conn.close()


def test_a_database_is_its_owners_alone(database: Path) -> None:
    catalog = SqliteCatalog.open(database)
    modes = {path.name: path.stat().st_mode & 0o077 for path in database.parent.iterdir()}
    catalog.close()
    assert set(modes.values()) == {0}


async def refusal(path: Path) -> CoatcheckError:
    catalog = SqliteCatalog.open(path)
    with pytest.raises(CoatcheckError) as caught:
        await catalog.check_reads()
    catalog.close()
    assert caught.value.code is Code.SCHEMA_OUTDATED
    return caught.value


async def test_a_database_without_a_schema_is_not_ready_and_the_error_says_what_to_run(tmp_path: Path) -> None:
    error = await refusal(tmp_path / "empty.db")
    assert error.extra == {"found": None, "needed": schema.REVISION}
    assert "coatcheck migrate" in error.detail


@pytest.mark.parametrize(("revision", "advice"), [("0000", "coatcheck migrate"), ("9999", "Install the release")])
async def test_an_older_or_newer_schema_is_not_ready_and_the_error_says_what_to_do(
    database: Path, revision: str, advice: str
) -> None:
    engine = create_engine(sqlite_url(database))
    with engine.begin() as conn:
        conn.execute(text("UPDATE alembic_version SET version_num = :revision"), {"revision": revision})
    engine.dispose()
    error = await refusal(database)
    assert error.extra == {"found": revision, "needed": schema.REVISION}
    assert advice in error.detail


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.parametrize(
    ("edit", "lacking"),
    [
        ("DROP TABLE session_usage", "session_usage"),
        ("ALTER TABLE keys DROP COLUMN bytes_per_minute", "keys.bytes_per_minute"),
    ],
)
def test_a_database_of_an_edited_first_revision_is_told_apart_and_left_as_it_is(
    kind: str, edit: str, lacking: str, tmp_path: Path
) -> None:
    with contextlib.ExitStack() as stack:
        url = sqlite_url(tmp_path / "old.db") if kind == "sqlite" else stack.enter_context(databases().lent(empty=True))
        schema.migrate(url, "0001")
        schema._with_connection(url, lambda conn: (conn.execute(text(edit)), conn.commit()))
        with pytest.raises(CoatcheckError, match=f"lacks {lacking}: a build from before the first release") as refused:
            schema.migrate(url)
        assert refused.value.code is Code.SCHEMA_OUTDATED
        assert schema.current_revision(url) == "0001"


def test_what_the_first_revision_had_not_is_what_later_ones_made(tmp_path: Path) -> None:
    schema.migrate(sqlite_url(tmp_path / "first.db"), "0001")
    engine = create_engine(sqlite_url(tmp_path / "first.db"))
    there = inspect(engine)
    tables = set(there.get_table_names())
    later = metadata.tables.keys() - tables
    for table in metadata.tables.keys() & tables:
        columns = {column["name"] for column in there.get_columns(table)}
        later |= {f"{table}.{column.name}" for column in metadata.tables[table].columns if column.name not in columns}
    engine.dispose()
    assert later == schema._LATER
