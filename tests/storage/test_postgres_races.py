"""Replicas that store and delete the same at once: each call is answered by a state that was, and none fails."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from itertools import count

import pytest
from msgspec.structs import replace

from coatcheck.adapters.sql.postgres import PostgresCatalog
from coatcheck.core.artifact import Gone, Said
from coatcheck.ports import DeleteArtifact, Found, PatchArtifact, StoreArtifact, Stored
from contract.making import DAY, START, number_of, store
from support.postgres_shared import databases

SAID = Said(tool_call_id="same")
NUMBER = number_of(store(b"same", said=SAID))
DELETE = DeleteArtifact(namespace="acme", number=NUMBER, now=START, tombstone_until=START + DAY)


@pytest.fixture
async def replicas() -> AsyncIterator[list[PostgresCatalog]]:
    with databases().lent() as url:
        opened = [await PostgresCatalog.open(url) for _ in range(4)]
        yield opened
        for catalog in opened:
            await catalog.close()


async def test_what_always_was_live_or_gone_is_never_unknown_and_storing_beside_deleting_never_fails(
    replicas: list[PostgresCatalog],
) -> None:
    seen: Counter[object] = Counter()
    await replicas[0].store_artifact(store(b"same", said=SAID))

    async def stores(catalog: PostgresCatalog) -> None:
        while seen[Gone] < 40 or seen[True] < 40:
            answer = await catalog.store_artifact(store(b"same", said=SAID))
            assert isinstance(answer, Stored)
            seen["created", answer.created] += 1

    async def deletes() -> None:
        while seen[Gone] < 40 or seen[True] < 40:
            answer = await replicas[2].delete_artifact(DELETE)
            seen[answer if isinstance(answer, bool) else type(answer)] += 1

    async def patches() -> None:
        while seen[Gone] < 40 or seen[True] < 40:
            change = PatchArtifact(namespace="acme", number=NUMBER, now=START, labels=("x",))
            seen["patched", await replicas[3].patch_artifact(change) is None] += 1

    await asyncio.gather(stores(replicas[0]), stores(replicas[1]), deletes(), patches())
    assert (seen[type(None)], seen["patched", True]) == (0, 0)
    assert seen["created", True] + 1 - seen[True] in {0, 1}


async def test_who_comes_late_never_revives_what_another_replica_stores_and_deletes_meanwhile(
    replicas: list[PostgresCatalog],
) -> None:
    late = replace(store(b"same", said=SAID), unless_buried_since=START - DAY)

    async def writes_late(change: StoreArtifact, done: asyncio.Event) -> None:
        while not done.is_set():
            await replicas[0].store_artifact(change)

    for turn in count():
        done = asyncio.Event()
        said = Said(tool_call_id=f"turn {turn}")
        change = store(b"same", said=said)
        task = asyncio.create_task(
            writes_late(replace(late, said=said, identity=change.identity), done), name="writes late"
        )
        await replicas[1].store_artifact(change)
        await replicas[1].delete_artifact(replace(DELETE, number=number_of(change)))
        found = [await replicas[2].find("acme", number_of(change), START) for _ in range(3)]
        done.set()
        await task
        found.append(await replicas[2].find("acme", number_of(change), START))
        assert [type(each) for each in found] == [Gone] * 4
        assert not any(isinstance(each, Found) for each in found)
        if turn == 25:
            break
