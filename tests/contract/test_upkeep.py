import asyncio
from datetime import datetime, timedelta

from coatcheck.core.artifact import DeclaredMetadata
from coatcheck.ports.artifacts import DeleteArtifact, IdempotencyKey, IngestResult, StoreArtifact, UploadFenced
from coatcheck.ports.catalog import FoundArtifact
from coatcheck.ports.maintenance import DeadBlob, ExpireArtifacts, ForgetBlobs, PurgeRecords, ReapUploads, TakeLease
from coatcheck.upkeep.store_binding import SealKey
from contract.sample_changes import DAY, START, Everything, beginning, deleting, fresh_blob_id, number_of, store
from support.refusals import expect

SECOND = timedelta(seconds=1)


async def put(catalog: Everything, change: StoreArtifact) -> StoreArtifact:
    assert isinstance(await catalog.commit(change), IngestResult)
    return change


async def test_expiry_takes_the_longest_overdue_first_in_batches_across_namespaces(
    catalog: Everything,
) -> None:
    changes = [await put(catalog, store(b"%d" % i, ttl=10 - i, namespace=f"n{i % 2}")) for i in range(5)]
    kept = [await put(catalog, store(b"kept", ttl=11)), await put(catalog, store(b"pin", ttl=1, pinned=True))]
    sweep = ExpireArtifacts(now=START + 10 * SECOND, tombstone_until=START + DAY, limit=2)
    assert await catalog.commit(sweep) == 2
    assert {blob.id for blob in await catalog.dead_blobs(START + DAY, 9)} == {change.blob.id for change in changes[-2:]}
    assert [await catalog.commit(sweep) for _ in range(3)] == [2, 1, 0]
    for change in kept:
        assert isinstance(await catalog.find("acme", number_of(change), START + 10 * SECOND), FoundArtifact)


async def test_a_blob_dies_with_the_last_artifact_that_points_at_it(catalog: Everything) -> None:
    first, second = await put(catalog, store(b"x")), await put(catalog, store(b"x"))
    assert await catalog.commit(deleting(first)) is True
    assert await catalog.dead_blobs(START + DAY, 9) == []
    assert isinstance(await catalog.find("acme", number_of(second), START), FoundArtifact)
    assert await catalog.commit(deleting(second)) is True
    dead = DeadBlob("acme", first.blob.id, "inline", START, first.blob.stored_size)
    assert dead.stored_size > 0
    assert await catalog.dead_blobs(START + SECOND, 9) == [dead]
    assert await catalog.dead_blobs(START, 9) == []


async def test_dead_blobs_are_paged_past_each_other_also_when_they_died_together(catalog: Everything) -> None:
    changes = [await put(catalog, store(b"%d" % i)) for i in range(7)]
    for change in changes:
        assert await catalog.commit(deleting(change)) is True
    whole = await catalog.dead_blobs(START + SECOND, 99)
    assert {blob.id for blob in whole} == {change.blob.id for change in changes}
    seen: list[DeadBlob] = []
    while page := await catalog.dead_blobs(START + SECOND, 3, seen[-1] if seen else None):
        seen += page
    assert seen == whole


async def test_a_dead_blob_is_never_pointed_at_again(catalog: Everything) -> None:
    said = DeclaredMetadata(tool_call_id="c")
    first = await put(catalog, store(b"x", said=said))
    assert await catalog.commit(deleting(first)) is True
    again = expect(IngestResult, await catalog.commit(store(b"x", said=said)))
    assert (again.blob_used, again.artifact.blob.id == first.blob.id) == (True, False)


async def test_forgetting_drops_a_dead_blob_only_and_is_fine_when_repeated(catalog: Everything) -> None:
    live, dying = await put(catalog, store(b"live")), await put(catalog, store(b"dying"))
    assert await catalog.commit(deleting(dying)) is True
    for change in (live, dying, dying):
        await catalog.commit(ForgetBlobs(blobs=(("acme", change.blob.id),)))
    names = [("acme", live.blob.id), ("acme", dying.blob.id)]
    assert await catalog.find_known_blobs(names) == {("acme", live.blob.id)}
    found = expect(FoundArtifact, await catalog.find("acme", number_of(live), START, with_bytes=True))
    assert found.inline == live.inline


async def test_a_late_upload_becomes_a_dead_blob_and_its_writer_is_fenced(catalog: Everything) -> None:
    late, punctual = store(b"late", placement="file"), store(b"punctual", placement="file")
    await catalog.commit(beginning(late.blob.id, lease=60 * SECOND))
    await catalog.commit(beginning(punctual.blob.id, lease=61 * SECOND))
    now = START + 61 * SECOND
    assert await catalog.commit(ReapUploads(now=now, limit=9)) == 1
    assert await catalog.dead_blobs(now + SECOND, 9) == [DeadBlob("acme", late.blob.id, "file", now)]
    assert await catalog.commit(late) == UploadFenced()
    assert isinstance(await catalog.commit(punctual), IngestResult)
    assert await catalog.commit(ReapUploads(now=now + DAY, limit=9)) == 0


async def test_known_are_live_and_dead_blobs_and_open_uploads_of_the_namespace_asked_for(
    catalog: Everything,
) -> None:
    live, dead = await put(catalog, store(b"live")), await put(catalog, store(b"dead"))
    assert await catalog.commit(deleting(dead)) is True
    open_one, unknown = fresh_blob_id(), fresh_blob_id()
    await catalog.commit(beginning(open_one, lease=60 * SECOND))
    known = {("acme", live.blob.id), ("acme", dead.blob.id), ("acme", open_one), ("", live.blob.id)}
    others = {("other", live.blob.id), ("acme", unknown), ("", unknown)}
    assert await catalog.find_known_blobs([*known, *others]) == known
    many = [("acme", fresh_blob_id()) for _ in range(1500)]
    assert await catalog.find_known_blobs([*many, ("acme", live.blob.id)]) == {("acme", live.blob.id)}


async def test_all_live_blobs_are_walked_once(catalog: Everything) -> None:
    changes = [await put(catalog, store(b"%d" % i, namespace=f"n{i % 3}")) for i in range(7)]
    assert await catalog.commit(deleting(changes[3])) is True
    await catalog.commit(beginning(fresh_blob_id(), lease=60 * SECOND))
    expected = [(c.namespace, c.blob) for i, c in enumerate(changes) if i != 3]
    assert [pair async for pair in catalog.all_blobs()] == expected


def lease(holder: str, seconds: float = 60, *, name: str = "sweep", after: int = 0) -> TakeLease:
    return TakeLease(name=name, holder=holder, seconds=seconds, now=START + after * SECOND)


async def test_a_lease_has_one_holder_who_may_take_it_again_and_gives_it_back(catalog: Everything) -> None:
    assert [await catalog.commit(lease(holder)) for holder in ("a", "b", "a", "b")] == [True, False, True, False]
    assert await catalog.commit(lease("b", name="other")) is True
    assert await catalog.commit(lease("b", 0)) is False
    assert await catalog.commit(lease("b")) is False
    assert await catalog.commit(lease("a", 0)) is True
    assert [await catalog.commit(lease(holder)) for holder in ("b", "a")] == [True, False]


async def test_of_many_who_want_a_lease_at_once_one_gets_it(catalog: Everything) -> None:
    answers = await asyncio.gather(*(catalog.commit(lease(str(i))) for i in range(20)))
    assert sum(answers) == 1


class _Stopped:
    def now(self) -> datetime:
        return START


async def test_all_replicas_seal_with_the_key_that_the_first_one_made(catalog: Everything) -> None:
    keys = [SealKey(catalog, _Stopped(), lambda n=n: f"key {n}") for n in range(8)]
    asked = await asyncio.gather(*(key() for key in keys))
    assert set(asked) == {asked[0]}
    assert asked[0] in {f"key {n}".encode() for n in range(8)}
    assert await SealKey(catalog, _Stopped(), lambda: "later")() == asked[0]


async def test_purging_drops_what_is_over_and_nothing_else(catalog: Everything) -> None:
    key = IdempotencyKey(key="k", fingerprint=b"f", expires_at=START + 10 * SECOND)
    old, new = await put(catalog, store(b"old", key=key)), await put(catalog, store(b"new"))
    assert await catalog.commit(deleting(old)) is True
    await catalog.commit(
        DeleteArtifact(namespace="acme", number=number_of(new), now=START, tombstone_until=START + 60 * DAY)
    )
    purge = PurgeRecords(now=START + 30 * DAY, limit=5)
    assert [await catalog.commit(purge) for _ in range(2)] == [2, 0]
    assert await catalog.find("acme", number_of(old), START) is None
    assert await catalog.find_key("acme", "k", START) is None
    assert await catalog.find("acme", number_of(new), START) is not None
