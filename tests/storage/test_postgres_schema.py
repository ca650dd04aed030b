"""The schema on PostgreSQL: the same tables, by replicas at once, refused when it is another release's."""
# pyright: reportPrivateUsage=false

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection

from coatcheck.adapters.sql import schema
from coatcheck.adapters.sql.postgres import PostgresCatalog
from coatcheck.adapters.sql.postgres_connection import Session, open_engine
from coatcheck.adapters.sql.tables import metadata
from coatcheck.core.errors import CoatcheckError, Code
from support.postgres import away
from support.postgres_shared import databases


@pytest.fixture
def empty() -> Iterator[str]:
    with databases().lent(empty=True) as url:
        yield url


@pytest.fixture
def migrated() -> Iterator[str]:
    with databases().lent() as url:
        yield url


def differences(url: str) -> list[object]:
    def compare(conn: Connection) -> list[object]:
        context = MigrationContext.configure(conn, opts={"compare_type": True})
        return list(compare_metadata(context, metadata))

    async def asked() -> list[object]:
        engine = open_engine(url, Session())
        try:
            async with engine.connect() as conn:
                return await conn.run_sync(compare)
        finally:
            await engine.dispose()

    return away(asked)


def test_upgrading_an_empty_database_arrives_at_the_tables_of_the_code(migrated: str) -> None:
    assert differences(migrated) == []


def test_replicas_that_migrate_at_once_all_arrive_and_do_the_work_once(empty: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(schema.migrate, [empty] * 4))
    assert schema.current_revision(empty) == schema.REVISION
    assert differences(empty) == []


def test_all_ways_to_write_a_url_name_the_same_database(migrated: str) -> None:
    rest = migrated.partition(":")[2]
    for url in (f"postgresql:{rest}", f"postgres:{rest}", f"postgresql+asyncpg:{rest}", f"{migrated}?sslmode=prefer"):
        assert schema.current_revision(url) == schema.REVISION


async def refusal(url: str) -> CoatcheckError:
    catalog = await PostgresCatalog.open(url)
    try:
        with pytest.raises(CoatcheckError) as caught:
            await catalog.check_reads()
    finally:
        await catalog.close()
    assert caught.value.code is Code.SCHEMA_OUTDATED
    return caught.value


async def test_a_database_without_a_schema_is_not_ready_and_the_error_says_what_to_run(empty: str) -> None:
    error = await refusal(empty)
    assert error.extra == {"found": None, "needed": schema.REVISION}
    assert "coatcheck migrate" in error.detail


@pytest.mark.parametrize(("revision", "advice"), [("0000", "coatcheck migrate"), ("9999", "Install the release")])
async def test_an_older_or_newer_schema_is_not_ready_and_the_error_says_what_to_do(
    migrated: str, revision: str, advice: str
) -> None:
    written = f"UPDATE alembic_version SET version_num = '{revision}'"  # noqa: S608 - our own words
    await asyncio.to_thread(databases().cluster.run, written, url=migrated)
    error = await refusal(migrated)
    assert error.extra == {"found": revision, "needed": schema.REVISION}
    assert advice in error.detail


@pytest.mark.parametrize(
    ("url", "code", "said"),
    [
        ("postgresql://nobody:secret@127.0.0.1:1/none", Code.STORAGE_UNAVAILABLE, "nobody:***@127.0.0.1:1/none"),
        ("postgresql://127.0.0.1:secret/x", Code.INVALID_REQUEST, "cannot be used as it is written"),
        ("postgresql://nobody:secret/word@127.0.0.1:1/none", Code.INVALID_REQUEST, "cannot be used as it is written"),
        ("postgresql://u:secret@127.0.0.1:1/x?sslmode=no", Code.INVALID_REQUEST, "`sslmode` parameter must be one of"),
    ],
)
async def test_a_url_that_leads_nowhere_says_so_without_its_password(url: str, code: Code, said: str) -> None:
    with pytest.raises(CoatcheckError) as caught:
        await PostgresCatalog.open(url)
    assert caught.value.code is code
    assert said in caught.value.detail
    assert "secret" not in caught.value.detail
