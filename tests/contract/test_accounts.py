"""The Accounts port, on every catalogue; and that a catalogue tells of its commits."""

import asyncio
from datetime import timedelta

from coatcheck.core.retention.audit import Hold
from coatcheck.ports.artifacts import IngestResult
from coatcheck.ports.decisions import PlaceHold
from coatcheck.ports.telemetry import Overdue
from contract.sample_changes import START, Everything, deleting, number_of, store

SECOND = timedelta(seconds=1)


async def test_an_empty_catalogue_has_nothing_to_do(catalog: Everything) -> None:
    assert await catalog.overdue(START, 10) == Overdue(artifacts=0, stored_bytes=0)


async def test_what_has_expired_is_counted_until_it_is_buried_over_all_namespaces(catalog: Everything) -> None:
    changes = [store(b"%d" % n, ttl=10 + n, namespace=f"n{n % 2}") for n in range(4)]
    for change in (*changes, store(b"stays"), store(b"pinned", ttl=1, pinned=True)):
        assert isinstance(await catalog.commit(change), IngestResult)
    found = await catalog.overdue(START + 12 * SECOND, 100)
    assert (found.expired, found.oldest) == (3, START + 10 * SECOND)
    assert found.artifacts == 6
    assert (await catalog.overdue(START + 12 * SECOND, 2)).expired == 2


async def test_dead_blobs_are_counted_with_their_bytes(catalog: Everything) -> None:
    changes = [store(b"%d" % n * 100) for n in range(3)]
    for change in changes:
        assert isinstance(await catalog.commit(change), IngestResult)
    before = await catalog.overdue(START, 100)
    for change in changes[:2]:
        assert await catalog.commit(deleting(change)) is True
    after = await catalog.overdue(START, 100)
    assert (after.dead, after.dead_bytes) == (2, sum(change.blob.stored_size for change in changes[:2]))
    assert before.stored_bytes is not None
    assert after.stored_bytes == before.stored_bytes - after.dead_bytes == changes[2].blob.stored_size
    assert (await catalog.overdue(START, 1)).dead == 1


async def test_what_a_hold_keeps_is_not_overdue(catalog: Everything) -> None:
    held, free = store(b"held", ttl=5), store(b"free", ttl=6)
    for change in (held, free):
        assert isinstance(await catalog.commit(change), IngestResult)
    hold = Hold(id="h1", namespace="acme", number=number_of(held), reason="audit", made_by="me", at=START)
    assert await catalog.commit(PlaceHold(hold=hold)) is True
    found = await catalog.overdue(START + 10 * SECOND, 100)
    assert (found.expired, found.oldest) == (1, START + 6 * SECOND)


async def test_a_catalogue_tells_of_every_commit_how_much_was_in_it_and_how_long_it_took(catalog: Everything) -> None:
    told: list[tuple[int, float, float]] = []
    catalog.watch_commits(lambda changes, waited, took: told.append((changes, waited, took)))
    await asyncio.gather(*(catalog.commit(store(b"%d" % n)) for n in range(20)))
    await catalog.commit(store(b"last"))
    await catalog.commit(store(b"after it"))  # what is told of a commit follows its answers
    assert 20 <= sum(changes for changes, _, _ in told) <= 22
    assert len(told) < 20
    assert all(waited >= 0 and took > 0 for _, waited, took in told)


async def test_a_commit_waits_for_changes_on_their_way_and_one_caller_by_itself_for_nothing(
    catalog: Everything,
) -> None:
    groups: list[int] = []
    catalog.watch_commits(lambda changes, waited, took: groups.append(changes))  # noqa: ARG005 - not what is asked here
    coming = 0
    catalog.gather_commits(lambda: coming)

    async def a_moment_later(payload: bytes) -> None:
        nonlocal coming
        await asyncio.sleep(0.001)
        coming -= 1
        await catalog.commit(store(payload))

    together = 0
    for number in range(20):  # a slow machine may miss the moment now and then, never each time
        groups.clear()
        coming = 1
        await asyncio.gather(catalog.commit(store(b"first %d" % number)), a_moment_later(b"second %d" % number))
        await catalog.commit(store(b"told %d" % number))  # what is told of a commit follows its answers
        together += 2 in groups
    assert together
    assert coming == 0
