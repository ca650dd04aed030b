"""Row-level security: the second wall between namespaces, behind the WHERE of every statement."""
# pyright: reportPrivateUsage=false

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from coatcheck.adapters.sql.postgres import PostgresCatalog
from coatcheck.adapters.sql.postgres_line import Limits
from coatcheck.adapters.sql.tables import metadata
from coatcheck.core.artifact import Said
from coatcheck.ports import Found, Stored
from contract.making import START, number_of, store, view
from support.postgres_shared import databases

PAYLOADS = {"blobs", "inline_bytes", "artifacts", "views", "uploads", "tombstones", "idempotency_keys"}
WALLED = PAYLOADS | {"unindexed", "text_segments", "text_parts"}
READ = ("artifacts", "blobs", "inline_bytes", "views")


@pytest.fixture
def url() -> Iterator[str]:
    with databases().lent() as url:
        yield url


@pytest.fixture
async def catalog(url: str) -> AsyncIterator[PostgresCatalog]:
    opened = await PostgresCatalog.open(url, limits=Limits(connections=1))
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
        assert isinstance(await catalog.store_artifact(store(namespace=name, text_view=view())), Stored)
    for name in ("acme", "other", "acme", "nobody"):
        seen = {name} if name != "nobody" else set[str]()
        assert await catalog._pool.run(name, namespaces) == dict.fromkeys(READ, seen)
    forged = await catalog._writer.run(lambda conn: conn.execute(text("DELETE FROM inline_bytes")).rowcount, "acme")
    assert forged == 2
    found = await catalog.find("other", number_of(store(namespace="other")), START)
    assert found is None
    everything = await catalog._pool.run(None, namespaces)
    both = frozenset({"acme", "other"})
    assert everything == dict.fromkeys(READ, both) | {"inline_bytes": {"other"}}


async def test_a_row_of_another_namespace_cannot_be_written(catalog: PostgresCatalog) -> None:
    forged = "INSERT INTO uploads (blob_id, namespace, placement, lease_until) VALUES ('b', 'other', 'file', now())"
    with pytest.raises(DBAPIError, match="row-level security"):
        await catalog._writer.run(lambda conn: conn.execute(text(forged)), "acme")
    assert await catalog.known_blobs([("", "b")]) == set()


async def test_groups_of_several_namespaces_and_failures_between_them_leave_no_stale_namespace(
    catalog: PostgresCatalog,
) -> None:
    def broken(_: Connection) -> None:
        raise ZeroDivisionError

    changes = [store(b"%d" % i, namespace=f"n{i % 5}", said=Said(tool_call_id=str(i))) for i in range(60)]
    bad = [catalog._writer.run(broken, f"n{i}") for i in range(3)]
    answers = await asyncio.gather(*map(catalog.store_artifact, changes), *bad, return_exceptions=True)
    assert [type(answer) for answer in answers] == [Stored] * 60 + [ZeroDivisionError] * 3
    finds = [catalog.find(change.namespace, number_of(change), START, with_bytes=True) for change in changes]
    for change, found in zip(changes, await asyncio.gather(*finds), strict=True):
        assert isinstance(found, Found)
        assert (found.artifact.namespace, found.inline) == (change.namespace, change.inline)


async def test_a_rolled_back_transaction_takes_the_namespace_it_entered_with_it(catalog: PostgresCatalog) -> None:
    def entered(conn: Connection) -> object:
        return conn.execute(text("SELECT current_setting('coatcheck.namespace')")).scalar_one()

    def enters_and_fails(_: Connection) -> None:
        raise ZeroDivisionError

    assert await catalog._writer.run(entered, "one") == "one"
    with pytest.raises(ZeroDivisionError):
        await catalog._writer.run(enters_and_fails, "two")
    assert await catalog._writer.run(entered, "two") == "two"
    assert await catalog._writer.run(entered, "one") == "one"


async def test_every_table_with_a_namespace_is_walled_and_its_owner_too(url: str, catalog: PostgresCatalog) -> None:
    query = """
        SELECT c.relname, c.relrowsecurity AND c.relforcerowsecurity AS forced,
               array_agg(pg_get_expr(p.polqual, p.polrelid)) AS walls
        FROM pg_class c
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'namespace'
        LEFT JOIN pg_policy p ON p.polrelid = c.oid
        WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
        GROUP BY 1, 2"""
    rows = databases().cluster.run(query, url=url)
    assert (
        {row["relname"] for row in rows} == WALLED == {t.name for t in metadata.tables.values() if "namespace" in t.c}
    )
    assert [row["forced"] for row in rows] == [True] * len(WALLED)
    walls = {wall for row in rows for wall in row["walls"]}
    assert len(walls) == 1
    assert "coatcheck.namespace" in walls.pop()
    assert [warning for warning in await catalog.warnings() if "role" in warning] == []


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
