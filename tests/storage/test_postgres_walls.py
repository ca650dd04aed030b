"""Row-level security: the second wall between namespaces, behind the WHERE of every statement."""
# pyright: reportPrivateUsage=false

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from coatcheck.adapters.sql.postgres import PostgresCatalog
from coatcheck.adapters.sql.postgres_connection import PostgresLimits
from coatcheck.adapters.sql.tables import metadata
from coatcheck.core.artifact import DeclaredMetadata
from coatcheck.ports.artifacts import IngestResult
from coatcheck.ports.catalog import FoundArtifact
from contract.sample_changes import START, number_of, store, view
from support.namespace_call import run_in
from support.postgres_shared import databases

READ = ("artifacts", "blobs", "inline_bytes", "surveys", "views")


@pytest.fixture
async def catalog(url: str) -> AsyncIterator[PostgresCatalog]:
    opened = await PostgresCatalog.open(url, limits=PostgresLimits(connections=1))
    yield opened
    await opened.close()


def namespaces(conn: Connection) -> dict[str, set[str]]:
    """What a statement sees that forgot its WHERE."""
    return {
        table: set(conn.execute(text(f"SELECT namespace FROM {table}")).scalars())  # noqa: S608 - our own names
        for table in READ
    }


async def test_a_statement_without_its_where_sees_and_changes_nothing_of_another_namespace(
    catalog: PostgresCatalog,
) -> None:
    for name in ("acme", "other"):
        assert isinstance(await catalog.commit(store(namespace=name, text_view=view(), survey=b"s")), IngestResult)
    for name in ("acme", "other", "acme", "nobody"):
        seen = {name} if name != "nobody" else set[str]()
        assert await catalog.ask(name, namespaces) == dict.fromkeys(READ, seen)
    forged = await run_in(catalog, "acme", lambda conn: conn.execute(text("DELETE FROM inline_bytes")).rowcount)
    assert forged == 2
    found = await catalog.find("other", number_of(store(namespace="other")), START)
    assert found is None
    everything = await catalog.ask(None, namespaces)
    both = frozenset({"acme", "other"})
    assert everything == dict.fromkeys(READ, both) | {"inline_bytes": {"other"}}


async def test_a_row_of_another_namespace_cannot_be_written(catalog: PostgresCatalog) -> None:
    forged = "INSERT INTO uploads (blob_id, namespace, placement, lease_until) VALUES ('b', 'other', 'file', now())"
    with pytest.raises(DBAPIError, match="row-level security"):
        await run_in(catalog, "acme", lambda conn: conn.execute(text(forged)))
    assert await catalog.find_known_blobs([("", "b")]) == set()


async def test_groups_of_several_namespaces_and_failures_between_them_leave_no_stale_namespace(
    catalog: PostgresCatalog,
) -> None:
    def broken(_: Connection) -> None:
        raise ZeroDivisionError

    changes = [store(b"%d" % i, namespace=f"n{i % 5}", said=DeclaredMetadata(tool_call_id=str(i))) for i in range(60)]
    bad = [run_in(catalog, f"n{i}", broken) for i in range(3)]
    answers = await asyncio.gather(*map(catalog.commit, changes), *bad, return_exceptions=True)
    assert [type(answer) for answer in answers] == [IngestResult] * 60 + [ZeroDivisionError] * 3
    finds = [catalog.find(change.namespace, number_of(change), START, with_bytes=True) for change in changes]
    for change, found in zip(changes, await asyncio.gather(*finds), strict=True):
        assert isinstance(found, FoundArtifact)
        assert (found.artifact.namespace, found.inline) == (change.namespace, change.inline)


async def test_a_rolled_back_transaction_takes_the_namespace_it_entered_with_it(catalog: PostgresCatalog) -> None:
    def entered(conn: Connection) -> object:
        return conn.execute(text("SELECT current_setting('coatcheck.namespace')")).scalar_one()

    def enters_and_fails(_: Connection) -> None:
        raise ZeroDivisionError

    assert await run_in(catalog, "one", entered) == "one"
    with pytest.raises(ZeroDivisionError):
        await run_in(catalog, "two", enters_and_fails)
    assert await run_in(catalog, "two", entered) == "two"
    assert await run_in(catalog, "one", entered) == "one"


TABLES = """
    SELECT c.relname AS name, c.relrowsecurity AND c.relforcerowsecurity AS forced,
           array_agg(DISTINCT pg_get_expr(p.polqual, p.polrelid)) AS walls,
           array_agg(DISTINCT p.polwithcheck IS NULL AND p.polcmd = '*' AND p.polpermissive) AS whole,
           count(DISTINCT p.oid) AS policies
    FROM pg_class c
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'namespace' AND NOT a.attisdropped
    LEFT JOIN pg_policy p ON p.polrelid = c.oid
    WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace
    GROUP BY 1, 2"""
COLUMNS = """
    SELECT table_name, column_name, data_type
    FROM information_schema.columns WHERE table_schema = 'public' ORDER BY ordinal_position"""
ROWS = {"acme": 2, "other": 3}


async def test_every_table_with_a_namespace_is_walled_and_its_owner_too(url: str, catalog: PostgresCatalog) -> None:
    rows = databases().cluster.run(TABLES, url=url)
    assert {row["name"] for row in rows} == {t.name for t in metadata.tables.values() if "namespace" in t.c}
    # One policy a table, for every command, which what is written must meet as well as what is read.
    unwalled = {row["name"] for row in rows if not row["forced"] or row["policies"] != 1 or row["whole"] != [True]}
    assert unwalled == set()
    walls = {wall for row in rows for wall in row["walls"]}
    assert len(walls) == 1
    assert "coatcheck.namespace" in walls.pop()
    assert [warning for warning in await catalog.warnings() if "role" in warning] == []


def value(kind: str, namespace: str, number: int) -> str:
    """Some value of a column of this type, as SQL."""
    match kind:
        case "text":
            return f"'{namespace} {number}'"
        case "bytea":
            return f"'{namespace} {number}'::bytea"
        case "bigint" | "integer" | "smallint" | "double precision":
            return str(number + 1000 * len(namespace))
        case "boolean":
            return "false"
        case "timestamp with time zone":
            return "now()"
        case _:
            raise AssertionError(f"a column of a type that this test does not know: {kind}")


def fill(url: str) -> list[str]:
    """Rows of two namespaces in every table that has a namespace, whatever they refer to; answers the tables."""
    cluster = databases().cluster
    walled = sorted(row["name"] for row in cluster.run(TABLES, url=url))
    columns: dict[str, list[tuple[str, str]]] = {}
    for row in cluster.run(COLUMNS, url=url):
        columns.setdefault(row["table_name"], []).append((row["column_name"], row["data_type"]))
    statements = ["SET session_replication_role = replica"]
    for table in walled:
        names = ", ".join(f'"{name}"' for name, _ in columns[table])
        for namespace, count in ROWS.items():
            for number in range(count):
                given = [
                    f"'{namespace}'" if name == "namespace" else value(kind, namespace, number)
                    for name, kind in columns[table]
                ]
                statements.append(
                    f"INSERT INTO {table} ({names}) VALUES ({', '.join(given)}) ON CONFLICT DO NOTHING"  # noqa: S608
                )
    cluster.run(*statements, url=cluster.url(url.rpartition("/")[2]))
    return walled


async def test_a_session_of_one_namespace_sees_changes_and_adds_no_row_of_another_in_any_table(
    url: str, catalog: PostgresCatalog
) -> None:
    tables = await asyncio.to_thread(fill, url)

    def seen(conn: Connection) -> dict[str, set[str]]:
        return {
            table: set(conn.execute(text(f"SELECT namespace FROM {table}")).scalars())  # noqa: S608 - our own names
            for table in tables
        }

    def touched(conn: Connection) -> dict[str, int]:
        counts = dict[str, int]()
        for table in tables:
            done = conn.execute(text(f"UPDATE {table} SET namespace = namespace"))  # noqa: S608 - our own names
            counts[table] = done.rowcount
        return counts

    both = set(ROWS)
    assert await catalog.ask(None, seen) == dict.fromkeys(tables, both)
    for namespace in (*ROWS, "nobody", "", "*", "acme' OR true --"):
        own = {namespace} & both
        assert await catalog.ask(namespace, seen) == dict.fromkeys(tables, own), namespace
        counts = await run_in(catalog, namespace, touched)
        assert all(bool(count) is bool(own) for count in counts.values()), (namespace, counts)
    for table in tables:
        move = text(f"UPDATE {table} SET namespace = 'other'")  # noqa: S608 - our own names
        with pytest.raises(DBAPIError, match="row-level security"):
            await run_in(catalog, "acme", lambda conn, move=move: conn.execute(move))


async def test_a_role_that_no_wall_holds_is_warned_of(url: str) -> None:
    cluster = databases().cluster
    catalog = await PostgresCatalog.open(cluster.url(url.rpartition("/")[2]))
    found = await catalog.warnings()
    await catalog.close()
    assert [warning for warning in found if "row-level security" in warning]


async def test_compressed_bytes_are_stored_as_they_are(url: str) -> None:
    query = "SELECT attrelid::regclass::text || '.' || attname FROM pg_attribute WHERE attstorage = 'e' AND attnum > 0"
    rows = databases().cluster.run(query, url=url)
    assert {row[0] for row in rows} >= {"inline_bytes.stored", "blobs.frames"}
