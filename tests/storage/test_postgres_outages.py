"""A PostgreSQL server that goes, returns, freezes or is crowded: answers come in time, and no restart is needed."""
# pyright: reportPrivateUsage=false

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import Any

import pytest

from coatcheck.adapters.sql.postgres import PostgresCatalog
from coatcheck.adapters.sql.postgres_connection import PostgresLimits
from coatcheck.adapters.sql.schema import migrate
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.artifacts import IngestResult
from coatcheck.ports.catalog import FoundArtifact
from contract.sample_changes import START, number_of, store
from support.postgres import Server, connect, running_postgres

LIMITS = PostgresLimits(connections=3, connect=0.5, statement=0.8, lock=0.5, answer=1.6)
SLACK = 1.5
"""Seconds that a busy machine may add to an answer."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_postgres() as server:
        server.database(name="home")
        migrate(server.url("home", "plain"))
        yield server


@pytest.fixture
def url(server: Server) -> Iterator[str]:
    url = server.database(template="home")
    yield url
    server.drop(url)


@pytest.fixture
async def catalog(url: str) -> AsyncIterator[PostgresCatalog]:
    opened = await PostgresCatalog.open(url, limits=LIMITS)
    yield opened
    await opened.close()


async def answers_of(calls: list[Awaitable[Any]]) -> tuple[list[Any], float]:
    """What all of them answer or raise, and how long the last one took."""
    began = time.monotonic()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    return answers, time.monotonic() - began


def load(catalog: PostgresCatalog, number: int, marker: str) -> list[Awaitable[Any]]:
    stores: list[Awaitable[Any]] = [catalog.commit(store(b"%d" % i + marker.encode())) for i in range(20)]
    return [*stores, *(catalog.find("acme", number, START) for _ in range(20)), catalog.check_reads()]


def codes(answers: list[Any]) -> set[Code | None]:
    return {answer.code if isinstance(answer, CoatcheckError) else None for answer in answers}


async def works(catalog: PostgresCatalog, number: int, marker: str) -> None:
    answers, _ = await answers_of(load(catalog, number, marker))
    assert {type(answer) for answer in answers} == {IngestResult, FoundArtifact, type(None)}


async def works_soon(catalog: PostgresCatalog, number: int, marker: str) -> None:
    """As `works`, once the server has noticed that what it was asked before it froze was given up."""
    end, turn = time.monotonic() + 10, 0
    while time.monotonic() < end:
        answers, _ = await answers_of(load(catalog, number, f"{marker} {turn}"))
        if codes(answers) == {None}:
            break
        turn += 1
    await works(catalog, number, f"{marker} at last")


async def test_a_restarted_server_is_used_again_at_once_and_without_an_error(
    server: Server, catalog: PostgresCatalog
) -> None:
    change = store(b"first")
    await catalog.commit(change)
    for turn, immediate in enumerate((False, True)):
        await works(catalog, number_of(change), f"before {turn}")
        await asyncio.to_thread(server.restart, immediate=immediate)
        await works(catalog, number_of(change), f"after {turn}")


async def test_while_the_server_is_away_every_call_says_so_and_afterwards_all_is_well(
    server: Server, catalog: PostgresCatalog
) -> None:
    change = store(b"first")
    await catalog.commit(change)
    await asyncio.to_thread(server.stop)
    try:
        answers, took = await answers_of(load(catalog, number_of(change), "away"))
        assert (codes(answers), took < LIMITS.answer + SLACK) == ({Code.STORAGE_UNAVAILABLE}, True)
        with pytest.raises(CoatcheckError) as caught:
            await PostgresCatalog.open(server.admin, limits=LIMITS)
        assert caught.value.code is Code.STORAGE_UNAVAILABLE
        assert "postgres:***@127.0.0.1" in caught.value.detail
    finally:
        await asyncio.to_thread(server.start)
    await catalog.check_reads()
    await works(catalog, number_of(change), "back")


async def test_a_frozen_server_is_answered_for_in_time_and_used_again_when_it_thaws(
    server: Server, url: str, catalog: PostgresCatalog
) -> None:
    change = store(b"first")
    await works_first(catalog, change)
    server.freeze()
    try:
        answers, took = await answers_of(load(catalog, number_of(change), "frozen"))
        assert codes(answers) == {Code.STORAGE_UNAVAILABLE}
        assert took < LIMITS.answer + SLACK
        answers, took = await answers_of(load(catalog, number_of(change), "still"))
        assert (codes(answers), took < LIMITS.answer + SLACK) == ({Code.STORAGE_UNAVAILABLE}, True)
    finally:
        server.thaw()
    await works_soon(catalog, number_of(change), "thawed")
    assert await settled(url) <= LIMITS.connections + 1


async def works_first(catalog: PostgresCatalog, change: Any) -> None:  # noqa: ANN401 - a change
    await catalog.commit(change)
    await works(catalog, number_of(change), "first")


async def settled(url: str) -> int:
    """How many connections there are once the server has noticed the ones that were cut, all of them idle."""
    conn = await connect(url)
    query = (
        "SELECT count(*), count(*) FILTER (WHERE state = 'idle') FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    end = time.monotonic() + 10
    while True:
        everyone, idle = await conn.fetchrow(query)
        if (everyone == idle and everyone <= LIMITS.connections + 1) or time.monotonic() > end:
            break
        await asyncio.sleep(0.05)  # the server notices a cut connection when it next looks
    await conn.close()
    assert everyone == idle
    count: int = everyone
    return count


async def test_a_server_without_room_for_connections_is_unavailable_and_then_used_again(
    server: Server, catalog: PostgresCatalog
) -> None:
    change = store(b"first")
    await catalog.commit(change)
    server.run("ALTER ROLE plain CONNECTION LIMIT 2")
    try:
        answers, took = await answers_of(load(catalog, number_of(change), "crowded"))
        assert codes(answers) <= {None, Code.STORAGE_UNAVAILABLE}
        assert Code.STORAGE_UNAVAILABLE in codes(answers)
        assert took < LIMITS.answer + SLACK
    finally:
        server.run("ALTER ROLE plain CONNECTION LIMIT -1")
    await works(catalog, number_of(change), "room")


async def test_a_server_that_restarts_under_load_loses_nothing_that_was_acknowledged(
    server: Server, url: str, catalog: PostgresCatalog
) -> None:
    acknowledged: list[Any] = []
    refused: set[Code] = set()
    over = False

    async def client(name: int) -> None:
        turn = 0
        while not over:
            change = store(b"%d %d" % (name, turn))
            turn += 1
            try:
                await catalog.commit(change)
            except CoatcheckError as error:
                refused.add(error.code)
                await asyncio.sleep(0.01)
            else:
                acknowledged.append(change)

    clients = [asyncio.create_task(client(i)) for i in range(8)]
    for immediate in (True, False, True):
        have = len(acknowledged)
        while len(acknowledged) < have + 50:  # noqa: ASYNC110 - as many as the machine makes
            await asyncio.sleep(0.01)
        await asyncio.to_thread(server.restart, immediate=immediate)
    over = True
    await asyncio.gather(*clients)
    assert refused <= {Code.STORAGE_UNAVAILABLE}
    found = [await catalog.find("acme", number_of(change), START) for change in acknowledged]
    assert {type(each) for each in found} == {FoundArtifact}
    assert await settled(url) <= LIMITS.connections + 1
