"""A server that crashes while the answer to a commit is under way: what is acknowledged is there."""

import asyncio
from collections.abc import Iterator

import pytest

from coatcheck.adapters.sql.postgres import PostgresCatalog
from coatcheck.adapters.sql.schema import migrate
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.artifacts import IngestResult, StoreArtifact
from coatcheck.ports.catalog import FoundArtifact
from coatcheck.ports.maintenance import PurgeRecords
from contract.sample_changes import START, number_of, store
from support.postgres import Server, running_postgres
from support.postgres_proxy import Break, proxied


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_postgres(durable=True) as server:
        yield server


@pytest.fixture
def url(server: Server) -> Iterator[str]:
    url = server.database()
    migrate(url)
    yield url
    server.drop(url)


async def stored_by_another(catalog: PostgresCatalog, change: StoreArtifact) -> None:
    """Once the server is back."""
    while True:
        try:
            assert isinstance(await catalog.commit(change), IngestResult)
        except CoatcheckError as error:
            if error.code is not Code.STORAGE_UNAVAILABLE:
                raise
        else:
            return


async def test_a_transaction_that_a_crash_took_back_is_not_mistaken_for_one_that_got_its_number(
    server: Server, url: str
) -> None:
    async with proxied(url) as (through, proxy):
        ours, another = await PostgresCatalog.open(through), await PostgresCatalog.open(url)
        await ours.commit(store(b"ours"))
        await another.commit(store(b"another's"))
        proxy.next, proxy.stays_away = Break.BEFORE_COMMIT, True
        change = store(b"taken back")
        storing = asyncio.create_task(ours.commit(change))
        while not proxy.refuses:  # noqa: ASYNC110 - until the commit is on its way
            await asyncio.sleep(0)
        await asyncio.to_thread(server.restart, immediate=True)
        # The numbers that the crash took back are given out again, to others.
        for i in range(4):
            await stored_by_another(another, store(b"later %d" % i))
        proxy.refuses = False
        answer = await asyncio.gather(storing, return_exceptions=True)
        found = await another.find("acme", number_of(change), START)
        await ours.close()
        await another.close()
    acknowledged = isinstance(answer[0], IngestResult)
    assert acknowledged or isinstance(answer[0], CoatcheckError)
    assert isinstance(found, FoundArtifact) == acknowledged


async def test_marks_are_dropped_when_nobody_asks_for_them_any_more_and_later_ones_are_left(
    server: Server, url: str
) -> None:
    catalogs = [await PostgresCatalog.open(url) for _ in range(3)]
    for i, catalog in enumerate(catalogs):
        await catalog.commit(store(b"%d" % i))
    count = "SELECT count(*) FROM writers"
    assert server.run(count, url=url)[0][0] == 3
    server.run("UPDATE writers SET at = at - interval '2 hours'", url=url)
    await catalogs[0].commit(store(b"again"))
    assert await catalogs[1].commit(PurgeRecords(now=START, limit=5)) == 0
    # The two that have written since.
    assert server.run(count, url=url)[0][0] == 2
    assert isinstance(await catalogs[2].commit(store(b"and again")), IngestResult)
    for catalog in catalogs:
        await catalog.close()
