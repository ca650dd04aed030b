"""Replicas that hold, delete and fill at once: a hold waits for a delete or wins, and a limit is never passed."""

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from coatcheck.adapters.sql.changes.usage import find_drifts
from coatcheck.adapters.sql.postgres import PostgresCatalog
from coatcheck.core.artifact import DeclaredMetadata, Gone
from coatcheck.core.policies.quota import QuotaExceeded, QuotaLimits
from coatcheck.core.retention.audit import Hold, HoldConflict
from coatcheck.ports.artifacts import DeleteArtifact, DeleteSession, IngestResult
from coatcheck.ports.catalog import FoundArtifact
from coatcheck.ports.decisions import PlaceHold
from coatcheck.ports.maintenance import EvictArtifacts, ExpireArtifacts
from contract.sample_changes import DAY, START, number_of, store
from support.catalogs import open_replicas
from support.postgres import connect


class Replicas(NamedTuple):
    """Catalogues on one database, and its URL."""

    url: str
    catalogs: list[PostgresCatalog]


@pytest.fixture
async def replicas(url: str) -> AsyncIterator[Replicas]:
    async with open_replicas(url, 3) as opened:
        yield Replicas(url, opened)


def hold_on(number: int | None, at: int = 0, session: str | None = None) -> PlaceHold:
    hold = Hold(
        id=f"hold_{at:016x}",
        namespace="acme",
        number=number,
        session=session,
        reason="case 7",
        made_by="tester",
        at=START,
    )
    return PlaceHold(hold=hold)


def delete_of(number: int) -> DeleteArtifact:
    return DeleteArtifact(namespace="acme", number=number, now=START, tombstone_until=START + DAY)


async def looking(url: str) -> Any:  # noqa: ANN401 - the driver's connection, which has no types
    conn = await connect(url)
    await conn.execute("SELECT set_config('coatcheck.upkeep', 'on', false)")
    return conn


async def waiting(conn: Any, count: int) -> None:  # noqa: ANN401 - as above
    """Return when so many sessions of this database wait for a lock."""
    question = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    while await conn.fetchval(question) < count:  # noqa: ASYNC110 - nothing tells
        await asyncio.sleep(0)


async def test_a_hold_waits_for_a_delete_that_is_under_way(replicas: Replicas) -> None:
    change = store()
    number = number_of(change)
    await replicas.catalogs[0].commit(change)
    conn, eyes = await looking(replicas.url), await looking(replicas.url)
    async with conn.transaction():
        await conn.fetch("SELECT 1 FROM blobs FOR UPDATE")  # the delete has begun, and cannot end before us
        deleting = asyncio.create_task(replicas.catalogs[0].commit(delete_of(number)))
        await waiting(eyes, 1)
        placing = asyncio.create_task(replicas.catalogs[1].commit(hold_on(number)))
        await waiting(eyes, 2)
    assert (await deleting, type(await placing)) == (True, Gone)
    assert await replicas.catalogs[2].holds(None) == []
    await conn.close()
    await eyes.close()


async def test_a_delete_waits_for_a_hold_that_is_being_placed(replicas: Replicas) -> None:
    change = store(said=DeclaredMetadata(session="s", tool_call_id="1"))
    number = number_of(change)
    await replicas.catalogs[0].commit(change)
    conn, eyes = await looking(replicas.url), await looking(replicas.url)
    async with conn.transaction():
        await conn.fetch("SELECT 1 FROM artifacts FOR SHARE")
        await conn.fetch("LOCK TABLE holds IN EXCLUSIVE MODE")  # the hold has begun, and cannot be written before us
        placing = asyncio.create_task(replicas.catalogs[1].commit(hold_on(None, session="s")))
        await waiting(eyes, 1)
        deleting = asyncio.create_task(replicas.catalogs[0].commit(delete_of(number)))
        await waiting(eyes, 2)
    assert await placing is True
    assert isinstance(await deleting, HoldConflict)
    assert isinstance(await replicas.catalogs[2].find("acme", number, START), FoundArtifact)
    await conn.close()
    await eyes.close()


async def test_of_a_hold_and_a_delete_at_once_never_both_succeed(replicas: Replicas) -> None:
    rng = random.Random(20260301)
    deleter, placer, other = replicas.catalogs
    outcomes: set[str] = set()
    for turn in range(60):
        change = store(b"%d\n" % turn, said=DeclaredMetadata(session=f"s{turn}", tool_call_id="1"), ttl=60)
        number = number_of(change)
        await deleter.commit(change)
        late = START + DAY
        ways = [
            deleter.commit(delete_of(number)),
            deleter.commit(
                DeleteSession(namespace="acme", session=f"s{turn}", now=START, tombstone_until=START + DAY, limit=9)
            ),
            deleter.commit(ExpireArtifacts(now=late, tombstone_until=late + DAY, limit=500)),
            deleter.commit(
                EvictArtifacts(
                    namespace="acme", now=START, room=QuotaLimits(None, 0), tombstone_until=START + DAY, limit=500
                )
            ),
        ]
        way = ways.pop(turn % 4)
        for unused in ways:
            unused.close()
        placing = placer.commit(hold_on(number, turn))
        calls: list[Any] = [way, placing] if rng.random() < 0.5 else [placing, way]
        await asyncio.gather(*calls)
        there = isinstance(await other.find("acme", number, START), FoundArtifact)
        held = bool([hold for hold in await other.holds("acme") if hold.number == number])
        assert there == held, f"turn {turn}: there is {there}, held is {held}"
        outcomes.add("held" if held else "deleted")
    assert outcomes == {"held", "deleted"}


async def test_a_limit_holds_and_sums_are_true_however_many_replicas_fill_a_namespace(replicas: Replicas) -> None:
    room = QuotaLimits(max_bytes=2_000, max_artifacts=12)
    rng = random.Random(20260301)
    seen: set[type] = set()

    async def fills(catalog: PostgresCatalog, of: int) -> None:
        for turn in range(40):
            change = store(b"%d\n" % rng.randrange(30), said=DeclaredMetadata(tool_call_id=f"{of}.{turn}"))
            answer = await catalog.commit(replace(change, room=room))
            seen.add(type(answer))
            if isinstance(answer, IngestResult) and turn % 3 == 0:
                await catalog.commit(delete_of(number_of(change)))
            usage = await catalog.usage_of("acme")
            assert usage.artifacts <= 12
            assert usage.bytes <= 2_000

    await asyncio.gather(*(fills(catalog, at) for at, catalog in enumerate(replicas.catalogs)))
    assert seen == {IngestResult, QuotaExceeded}
    assert await replicas.catalogs[0].ask(None, find_drifts) == []


async def test_replicas_that_make_room_at_once_let_go_of_no_more_than_is_needed(replicas: Replicas) -> None:
    for at in range(30):
        await replicas.catalogs[0].commit(store(b"%d\n" % at, said=DeclaredMetadata(tool_call_id=str(at))))
    change = EvictArtifacts(
        namespace="acme", now=START, room=QuotaLimits(None, 20), tombstone_until=START + DAY, limit=500
    )
    answers = await asyncio.gather(*(catalog.commit(change) for catalog in replicas.catalogs))
    assert sorted(answer.artifacts for answer in answers) == [0, 0, 10]
    assert (await replicas.catalogs[0].usage_of("acme")).artifacts == 20
