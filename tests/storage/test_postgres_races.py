"""Replicas that store and delete the same at once: each call is answered by a state that was, and none fails."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count

import pytest
from msgspec.structs import replace

from coatcheck.adapters.sql.postgres import PostgresCatalog
from coatcheck.core.artifact import DeclaredMetadata, Gone
from coatcheck.ports.artifacts import (
    DeleteArtifact,
    IngestResult,
    NewView,
    PatchArtifact,
    StoreArtifact,
    StoredView,
    StoreView,
    UploadFenced,
)
from coatcheck.ports.catalog import FoundArtifact
from contract.sample_changes import DAY, START, blob_of, number_of, store, view
from support.catalogs import open_replicas
from support.refusals import expect

SAID = DeclaredMetadata(tool_call_id="same")
NUMBER = number_of(store(b"same", said=SAID))
DELETE = DeleteArtifact(namespace="acme", number=NUMBER, now=START, tombstone_until=START + DAY)


@pytest.fixture
async def replicas(url: str) -> AsyncIterator[list[PostgresCatalog]]:
    async with open_replicas(url, 4) as opened:
        yield opened


async def test_what_always_was_live_or_gone_is_never_unknown_and_storing_beside_deleting_never_fails(
    replicas: list[PostgresCatalog],
) -> None:
    seen: Counter[object] = Counter()
    await replicas[0].commit(store(b"same", said=SAID))

    async def stores(catalog: PostgresCatalog) -> None:
        while seen[Gone] < 40 or seen[True] < 40:
            answer = expect(IngestResult, await catalog.commit(store(b"same", said=SAID)))
            seen["created", answer.created] += 1

    async def deletes() -> None:
        while seen[Gone] < 40 or seen[True] < 40:
            answer = await replicas[2].commit(DELETE)
            seen[answer if isinstance(answer, bool) else type(answer)] += 1

    async def patches() -> None:
        while seen[Gone] < 40 or seen[True] < 40:
            change = PatchArtifact(namespace="acme", number=NUMBER, now=START, labels=("x",))
            seen["patched", await replicas[3].commit(change) is None] += 1

    await asyncio.gather(stores(replicas[0]), stores(replicas[1]), deletes(), patches())
    assert (seen[type(None)], seen["patched", True]) == (0, 0)
    assert seen["created", True] + 1 - seen[True] in {0, 1}


TEXT = store(b"shared\n", said=DeclaredMetadata(tool_call_id="text"))
PAGES = [store(b"<p>%d" % i, said=DeclaredMetadata(tool_call_id=str(i))) for i in range(3)]


def text_for(turn: int) -> NewView:
    """A view that shares its bytes with a payload, with other views, or with nothing, or has none."""
    return view([b"shared\n", b"%d\n" % (turn % 5), None][turn % 3])


async def posts_pages(catalog: PostgresCatalog, turn: int) -> None:
    """A page, with and without a view, beside a payload whose bytes some views have."""
    page = PAGES[turn % 3]
    blob = blob_of(b"<p>%d" % (turn % 3))
    page = replace(page, blob=blob, text_view=text_for(turn // 3) if turn % 2 else None)
    await asyncio.gather(catalog.commit(page), catalog.commit(replace(TEXT, blob=blob_of(b"shared\n"))))


async def keeps_views(catalog: PostgresCatalog, turn: int) -> list[object]:
    """Two views at once; what became of them."""
    changes = [
        StoreView(namespace="acme", number=number_of(page), now=START, new=text_for(turn + at))
        for at, page in enumerate(PAGES[turn % 2 :][:2])
    ]
    answers = await asyncio.gather(*map(catalog.commit, changes))
    assert not any(isinstance(answer, UploadFenced) for answer in answers)
    return [answer.blob_used if isinstance(answer, StoredView) else None for answer in answers]


async def deletes_pages(catalog: PostgresCatalog, turn: int) -> None:
    """Pages and the payload, in both orders."""
    numbers = [number_of(PAGES[turn % 3]), number_of(TEXT)]
    await asyncio.gather(*(catalog.commit(replace(DELETE, number=n)) for n in numbers[:: 1 - 2 * (turn % 2)]))


async def test_views_kept_beside_deletes_and_posts_leave_nothing_that_contradicts_itself(
    replicas: list[PostgresCatalog],
) -> None:
    seen: Counter[object] = Counter()

    async def repeats(act: Callable[[PostgresCatalog, int], Awaitable[list[object] | None]], replica: int) -> None:
        for turn in count():
            seen.update(await act(replicas[replica], turn) or [])
            if min(seen[True], seen[False], seen[None]) >= 20:
                return

    acts = (posts_pages, keeps_views, keeps_views, deletes_pages)
    await asyncio.gather(*(repeats(act, replica) for replica, act in enumerate(acts)))
    assert (await replicas[0].examine(deep=True, repair=None)).findings == ()
    for turn in range(3):
        await deletes_pages(replicas[0], turn)
    assert [pair async for pair in replicas[1].all_blobs()] == []


async def test_who_comes_late_never_revives_what_another_replica_stores_and_deletes_meanwhile(
    replicas: list[PostgresCatalog],
) -> None:
    late = replace(store(b"same", said=SAID), unless_buried_since=START - DAY)

    async def writes_late(change: StoreArtifact, done: asyncio.Event) -> None:
        while not done.is_set():
            await replicas[0].commit(replace(change, blob=blob_of(b"same")))  # a name is used once

    for turn in count():
        done = asyncio.Event()
        said = DeclaredMetadata(tool_call_id=f"turn {turn}")
        change = store(b"same", said=said)
        task = asyncio.create_task(
            writes_late(replace(late, declared=said, identity=change.identity), done), name="writes late"
        )
        await replicas[1].commit(change)
        await replicas[1].commit(replace(DELETE, number=number_of(change)))
        found = [await replicas[2].find("acme", number_of(change), START) for _ in range(3)]
        done.set()
        await task
        found.append(await replicas[2].find("acme", number_of(change), START))
        assert [type(each) for each in found] == [Gone] * 4
        assert not any(isinstance(each, FoundArtifact) for each in found)
        if turn == 25:
            break
