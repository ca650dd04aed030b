import asyncio
import random
from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from coatcheck.core import ids
from coatcheck.core.artifact import Artifact, DeclaredMetadata, Gone, Kind, PageFetch, Placement
from coatcheck.core.policies.policy import expiry
from coatcheck.ports.artifacts import (
    DeleteArtifact,
    DeleteSession,
    IdempotencyKey,
    IngestResult,
    KeyConflict,
    KeyRecord,
    PatchArtifact,
    StoreArtifact,
    Touch,
    UploadFenced,
)
from coatcheck.ports.blobs import AbandonUpload, RenewUpload
from coatcheck.ports.catalog import ArtifactFilter, FoundArtifact
from coatcheck.ports.maintenance import DeadBlob, ExpireArtifacts, MarkBlobCorrupt
from contract.sample_changes import DAY, START, Everything, beginning, deleting, fresh_blob_id, number_of, store
from support.refusals import expect

HOUR = timedelta(hours=1)
MOMENT = timedelta(microseconds=1)


async def stored(catalog: Everything, change: StoreArtifact) -> IngestResult:
    return expect(IngestResult, await catalog.commit(change))


async def test_a_stored_artifact_is_found_whole_with_its_bytes(catalog: Everything) -> None:
    said = DeclaredMetadata(
        media_type="text/plain",
        tool_name="bash",
        tool_call_id="call_1",
        session="s1",
        url="https://example.org/a?b=1",
        title="Ünïcode \0 title",
        kind=Kind.LOG,
        labels=("nightly", 'odd "label"'),
    )
    change = store(b"one\ntwo\n", said=said, ttl=3600, idle_ttl=600)
    artifact = Artifact(
        namespace="acme",
        id=ids.render(number_of(change)),
        declared=said,
        measure=change.measure,
        facts=change.facts,
        blob=change.blob,
        created_at=START,
        expires_at=START + timedelta(seconds=600),
        ttl=3600,
        idle_ttl=600,
        pinned=False,
        engine=1,
    )
    assert await catalog.commit(change) == IngestResult(artifact, created=True, blob_used=True)
    assert await catalog.find("acme", number_of(change), START) == FoundArtifact(artifact, None)
    assert await catalog.find("acme", number_of(change), START, with_bytes=True) == FoundArtifact(
        artifact, change.inline
    )


async def test_inline_bytes_are_found_by_their_blob_in_their_own_namespace_only(catalog: Everything) -> None:
    change = store(b"one\ntwo\n")
    await stored(catalog, change)
    assert await catalog.inline_bytes("acme", change.blob.id) == change.inline
    assert await catalog.inline_bytes("other", change.blob.id) is None
    assert await catalog.inline_bytes("acme", fresh_blob_id()) is None


async def test_a_file_that_no_artifact_came_to_use_is_left_to_the_sweep(catalog: Everything) -> None:
    first = store(b"same", placement="file")
    await catalog.commit(beginning(first.blob.id))
    await stored(catalog, first)
    second = store(b"same", placement="file", said=DeclaredMetadata(tool_call_id="another"))
    await catalog.commit(beginning(second.blob.id))
    assert not (await stored(catalog, second)).blob_used
    dead = await catalog.dead_blobs(START + DAY, 9)
    assert [blob.id for blob in dead] == [second.blob.id]


async def test_another_namespace_never_hears_of_an_artifact(catalog: Everything) -> None:
    change = store(said=DeclaredMetadata(session="s"))
    await stored(catalog, change)
    number = number_of(change)
    assert await catalog.find("other", number, START) is None
    assert (await catalog.list_artifacts("other", ArtifactFilter(), START, before=None, limit=9)).artifacts == []
    assert await catalog.commit(PatchArtifact(namespace="other", number=number, now=START)) is None
    gone = DeleteArtifact(namespace="other", number=number, now=START, tombstone_until=START + DAY)
    assert await catalog.commit(gone) is None
    session = DeleteSession(namespace="other", session="s", now=START, tombstone_until=START + DAY, limit=9)
    assert await catalog.commit(session) == 0
    assert isinstance(await catalog.find("acme", number, START), FoundArtifact)


async def test_posting_again_with_the_same_or_no_declaration_answers_the_artifact_unchanged(
    catalog: Everything,
) -> None:
    first = store(said=DeclaredMetadata(tool_call_id="c", title="first"), ttl=60)
    before = await stored(catalog, first)
    silent = store(
        said=DeclaredMetadata(tool_call_id="c", labels=("new",)), ttl=999, now=START + 30 * timedelta(seconds=1)
    )
    assert await catalog.commit(silent) == IngestResult(before.artifact, created=False, blob_used=False)
    again = store(
        said=DeclaredMetadata(tool_call_id="c", title="first"), ttl=999, now=START + 30 * timedelta(seconds=1)
    )
    assert await catalog.commit(again) == IngestResult(before.artifact, created=False, blob_used=False)


async def test_the_same_bytes_of_another_call_share_one_blob_within_a_namespace_only(
    catalog: Everything,
) -> None:
    first, second, foreign = store(b"same"), store(b"same"), store(b"same", namespace="other")
    await stored(catalog, first)
    shared = await stored(catalog, second)
    assert (shared.created, shared.blob_used, shared.artifact.blob) == (True, False, first.blob)
    assert (await stored(catalog, foreign)).blob_used
    found = expect(FoundArtifact, await catalog.find("acme", number_of(second), START, with_bytes=True))
    assert found.inline == first.inline


async def test_a_store_whose_intent_is_gone_is_fenced_and_changes_nothing(catalog: Everything) -> None:
    change = store(placement="file")
    assert await catalog.commit(change) == UploadFenced()
    assert await catalog.find("acme", number_of(change), START) is None
    await catalog.commit(beginning(change.blob.id, "other"))
    assert await catalog.commit(change) == UploadFenced()
    assert await catalog.find_known_blobs([("acme", change.blob.id)]) == set()


async def test_a_store_uses_its_intent_up(catalog: Everything) -> None:
    change = store(placement="file")
    await catalog.commit(beginning(change.blob.id))
    assert (await stored(catalog, change)).blob_used
    assert await catalog.commit(change) == UploadFenced()
    assert await catalog.commit(RenewUpload(namespace="acme", blob_id=change.blob.id, lease_until=START + DAY)) is False


async def test_a_lease_is_renewed_while_it_is_ours_and_abandoning_is_always_fine(catalog: Everything) -> None:
    blob_id = fresh_blob_id()
    renew = RenewUpload(namespace="acme", blob_id=blob_id, lease_until=START + DAY)
    assert await catalog.commit(renew) is False
    await catalog.commit(beginning(blob_id))
    assert await catalog.commit(renew) is True
    for _ in range(2):
        await catalog.commit(AbandonUpload(namespace="acme", blob_id=blob_id))
    assert await catalog.commit(renew) is False


def key(name: str = "k", fingerprint: bytes = b"f", hours: int = 24) -> IdempotencyKey:
    return IdempotencyKey(key=name, fingerprint=fingerprint, expires_at=START + hours * HOUR)


async def test_an_idempotency_key_is_remembered_until_it_expires(catalog: Everything) -> None:
    change = store(key=key())
    await stored(catalog, change)
    record = KeyRecord(b"f", number_of(change), created=True)
    assert await catalog.find_key("acme", "k", START + 24 * HOUR - MOMENT) == record
    assert await catalog.find_key("acme", "k", START + 24 * HOUR) is None
    assert await catalog.find_key("other", "k", START) is None


async def test_a_key_of_another_request_is_refused_and_only_the_intent_is_gone(catalog: Everything) -> None:
    await stored(catalog, store(key=key()))
    other = store(b"other", placement="file", key=key(fingerprint=b"g"))
    await catalog.commit(beginning(other.blob.id))
    assert await catalog.commit(other) == KeyConflict()
    assert await catalog.find("acme", number_of(other), START) is None
    assert await catalog.commit(other) == UploadFenced()


async def test_a_key_that_has_expired_may_be_used_for_another_request(catalog: Everything) -> None:
    await stored(catalog, store(key=key(hours=1)))
    later = store(b"later", now=START + HOUR, key=key(fingerprint=b"g"))
    await stored(catalog, later)
    assert await catalog.find_key("acme", "k", START + HOUR) == KeyRecord(b"g", number_of(later), created=True)


async def test_the_first_answer_to_a_key_stays_when_the_request_is_repeated(catalog: Everything) -> None:
    said = DeclaredMetadata(tool_call_id="c")
    changes = [store(said=said, key=key()) for _ in range(20)]
    answers = await asyncio.gather(*(stored(catalog, change) for change in changes))
    assert {answer.created for answer in answers} == {True}
    assert {answer.artifact for answer in answers} == {answers[0].artifact}
    assert sum(answer.blob_used for answer in answers) == 1
    found = await catalog.find_key("acme", "k", START)
    assert found is not None
    assert found.created is True
    assert (await stored(catalog, store(said=said, key=key("other")))).created is False
    assert (await stored(catalog, store(said=said, key=key("other")))).created is False


@pytest.mark.parametrize("how", ["deleted", "expired", "forgotten"])
async def test_a_repeated_request_never_revives_what_went_since(catalog: Everything, how: str) -> None:
    said = DeclaredMetadata(tool_call_id="c", tool_name="bash")
    first = store(said=said, key=key(), ttl=60)
    await stored(catalog, first)
    later = START + timedelta(seconds=60 if how == "expired" else 1)
    if how != "expired":
        await catalog.commit(deleting(first))
    if how == "forgotten":
        later = START + 31 * DAY
    again = store(said=said, key=key(hours=24 * 60), now=later)
    if how == "forgotten":
        other = store(b"o", said=said, key=key("long", hours=24 * 60))
        await stored(catalog, other)
        await catalog.commit(deleting(other))
        again = store(b"o", said=said, key=key("long", hours=24 * 60), now=later)
    reason = "expired" if how == "expired" else "deleted"
    at = START + timedelta(seconds=60) if how == "expired" else START
    gone = Gone(id=ids.render(number_of(first)), reason=reason, at=at, tool_name="bash")
    assert await catalog.commit(again) == (None if how == "forgotten" else gone)
    assert not isinstance(await catalog.find("acme", number_of(again), later), FoundArtifact)


def mark_corrupt(change: StoreArtifact, namespace: str = "acme") -> MarkBlobCorrupt:
    return MarkBlobCorrupt(namespace=namespace, blob_id=change.blob.id, now=START)


async def test_a_blob_is_condemned_once_in_its_namespace_while_it_lives(catalog: Everything) -> None:
    change, gone = store(), store(b"gone")
    for one in (change, gone):
        await stored(catalog, one)
    await catalog.commit(deleting(gone))
    assert await catalog.commit(mark_corrupt(change, "other")) is False
    assert await catalog.commit(mark_corrupt(gone)) is False
    assert await catalog.same_bytes("acme", change.blob.sha256, change.blob.size) == change.blob
    assert [await catalog.commit(mark_corrupt(change)) for _ in range(2)] == [True, False]
    assert await catalog.same_bytes("acme", change.blob.sha256, change.blob.size) is None
    assert await catalog.same_bytes("acme", gone.blob.sha256, gone.blob.size) is None
    found = expect(FoundArtifact, await catalog.find("acme", number_of(change), START))
    assert found.artifact.blob == replace(change.blob, condemned=True)


@pytest.mark.parametrize("placement", ["inline", "file"])
@pytest.mark.parametrize("same", [True, False])
async def test_posting_the_payload_of_a_condemned_blob_heals_all_that_share_it(
    catalog: Everything, placement: Placement, same: bool
) -> None:
    said = DeclaredMetadata(tool_call_id="c")
    first, sharing, elsewhere = store(said=said), store(), store(namespace="other")
    for change in (first, sharing, elsewhere):
        await stored(catalog, change)
    await catalog.commit(mark_corrupt(first))
    fresh = store(said=said if same else None, placement=placement)
    if placement == "file":
        await catalog.commit(beginning(fresh.blob.id))
    answer = await stored(catalog, fresh)
    assert (answer.created, answer.blob_used, answer.artifact.blob) == (not same, True, fresh.blob)
    for change in (first, sharing):
        found = expect(FoundArtifact, await catalog.find("acme", number_of(change), START, with_bytes=True))
        assert (found.artifact.blob, found.inline) == (fresh.blob, fresh.inline)
    dead = DeadBlob("acme", first.blob.id, "inline", START, first.blob.stored_size)
    assert await catalog.dead_blobs(START + DAY, 9) == [dead]
    found = expect(FoundArtifact, await catalog.find("other", number_of(elsewhere), START))
    assert found.artifact.blob == elsewhere.blob
    assert (await stored(catalog, store(said=said))).blob_used is False


async def test_a_repeated_request_heals_what_its_key_stands_for(catalog: Everything) -> None:
    said = DeclaredMetadata(tool_call_id="c")
    first = store(said=said, key=key())
    await stored(catalog, first)
    await catalog.commit(mark_corrupt(first))
    fresh = store(said=said, key=key())
    answer = await stored(catalog, fresh)
    assert (answer.created, answer.blob_used, answer.artifact.blob) == (True, True, fresh.blob)


async def test_expiry_is_exact_on_every_route_before_any_sweep(catalog: Everything) -> None:
    change = store(said=DeclaredMetadata(tool_name="bash", session="s"), ttl=60)
    await stored(catalog, change)
    end, number = START + timedelta(seconds=60), number_of(change)
    gone = Gone(id=ids.render(number), reason="expired", at=end, tool_name="bash", session="s")
    assert isinstance(await catalog.find("acme", number, end - MOMENT), FoundArtifact)
    assert await catalog.find("acme", number, end) == gone
    assert (await catalog.list_artifacts("acme", ArtifactFilter(), end, before=None, limit=5)).artifacts == []
    assert await catalog.commit(PatchArtifact(namespace="acme", number=number, now=end)) == gone
    assert await catalog.commit(deleting(change, end)) == gone
    session = DeleteSession(namespace="acme", session="s", now=end, tombstone_until=end + DAY, limit=5)
    assert await catalog.commit(session) == 0
    sweep = ExpireArtifacts(now=end + HOUR, tombstone_until=end + DAY, limit=5)
    assert await catalog.commit(sweep) == 1
    assert await catalog.find("acme", number, end + HOUR) == gone


async def test_of_many_numbers_those_are_answered_that_live_in_the_namespace_at_that_moment(
    catalog: Everything,
) -> None:
    kept, short, removed = (
        store(said=DeclaredMetadata(tool_call_id=name), ttl=ttl) for name, ttl in (("a", None), ("b", 60), ("c", None))
    )
    for change in (kept, short, removed):
        await stored(catalog, change)
    assert await catalog.commit(deleting(removed)) is True
    numbers = [number_of(change) for change in (kept, short, removed)]
    asked = [*numbers, *range(1, 3_000)]
    end = START + timedelta(seconds=60)
    live = await catalog.live_artifacts("acme", asked, end - MOMENT)
    assert live.keys() == set(numbers[:2])
    for number, artifact in live.items():
        found = expect(FoundArtifact, await catalog.find("acme", number, START))
        assert artifact == found.artifact
    assert (await catalog.live_artifacts("acme", asked, end)).keys() == {numbers[0]}
    assert await catalog.live_artifacts("other", asked, START) == {}
    assert await catalog.live_artifacts("acme", [], START) == {}


async def test_a_deleted_artifact_is_gone_until_its_tombstone_is_over_and_then_unknown(
    catalog: Everything,
) -> None:
    change = store()
    await stored(catalog, change)
    delete, number = deleting(change), number_of(change)
    gone = Gone(id=ids.render(number), reason="deleted", at=START, tool_name="bash")
    assert await catalog.commit(delete) is True
    assert await catalog.commit(delete) == gone
    assert await catalog.find("acme", number, START + 30 * DAY - MOMENT) == gone
    assert await catalog.find("acme", number, START + 30 * DAY) is None


@pytest.mark.parametrize("how", ["deleted", "expired", "swept"])
async def test_posting_what_is_gone_makes_a_new_artifact_under_the_same_id(catalog: Everything, how: str) -> None:
    said = DeclaredMetadata(tool_call_id="c")
    first = store(said=said, ttl=60, placement="file")
    await catalog.commit(beginning(first.blob.id))
    old = await stored(catalog, first)
    later = START + HOUR
    if how == "deleted":
        assert await catalog.commit(deleting(first)) is True
    elif how == "swept":
        sweep = ExpireArtifacts(now=later, tombstone_until=later + DAY, limit=5)
        assert await catalog.commit(sweep) == 1
    again = store(said=said, ttl=60, now=later)
    new = await stored(catalog, again)
    assert (new.created, new.artifact.id, new.artifact.created_at) == (True, old.artifact.id, later)
    assert await catalog.find("acme", number_of(first), later) == FoundArtifact(new.artifact)
    # Unswept, the old blob is still live, and the new artifact points at it; dead, it never comes back.
    dead = {blob.id for blob in await catalog.dead_blobs(later + DAY, 9)}
    assert (new.artifact.blob.id in dead, new.blob_used) == (False, how != "expired")
    assert dead == (set() if how == "expired" else {first.blob.id})


@pytest.mark.parametrize("how", ["deleted", "expired", "swept"])
async def test_who_comes_late_does_not_revive_what_went_since_and_revives_what_went_before(
    catalog: Everything, how: str
) -> None:
    said = DeclaredMetadata(tool_name="bash", tool_call_id="c")
    first = store(said=said, ttl=60)
    await stored(catalog, first)
    end = START + timedelta(seconds=60)
    if how == "deleted":
        assert await catalog.commit(deleting(first, START + timedelta(seconds=59))) is True
        end = START + timedelta(seconds=59)
    elif how == "swept":
        sweep = ExpireArtifacts(now=START + HOUR, tombstone_until=START + HOUR, limit=5)
        assert await catalog.commit(sweep) == 1
    reason = "deleted" if how == "deleted" else "expired"
    gone = Gone(id=ids.render(number_of(first)), reason=reason, at=end, tool_name="bash")
    key = IdempotencyKey(key="k", fingerprint=b"f", expires_at=START + DAY)
    # Long after, when its tombstone may be over: what matters is when it went.
    late = replace(store(said=said, placement="file", now=START + 60 * DAY, key=key), unless_buried_since=end - MOMENT)
    await catalog.commit(beginning(late.blob.id))
    assert await catalog.commit(late) == gone
    assert await catalog.find_key("acme", "k", START) is None
    assert not isinstance(await catalog.find("acme", number_of(first), late.now), FoundArtifact)
    assert late.blob.id in {blob.id for blob in await catalog.dead_blobs(late.now + DAY, 9)}
    again = replace(store(said=said, now=START + 60 * DAY), unless_buried_since=end)
    assert (await stored(catalog, again)).created


async def test_who_comes_late_is_answered_what_lives_and_makes_what_never_was(catalog: Everything) -> None:
    there = store(said=DeclaredMetadata(tool_call_id="c"))
    first = await stored(catalog, there)
    late = [
        replace(store(said=DeclaredMetadata(tool_call_id=name)), unless_buried_since=START) for name in ("c", "d", "e")
    ]
    answers = await asyncio.gather(*(stored(catalog, change) for change in late))
    assert [answer.created for answer in answers] == [False, True, True]
    assert answers[0].artifact == first.artifact


async def test_a_session_is_deleted_in_parts_and_says_why(catalog: Everything) -> None:
    changes = [store(b"%d" % i, said=DeclaredMetadata(session="s", tool_call_id=str(i))) for i in range(5)]
    other = store(said=DeclaredMetadata(session="t"))
    for change in [*changes, other]:
        await stored(catalog, change)
    part = DeleteSession(namespace="acme", session="s", now=START, tombstone_until=START + DAY, limit=2)
    assert [await catalog.commit(part) for _ in range(4)] == [2, 2, 1, 0]
    for change in changes:
        found = expect(Gone, await catalog.find("acme", number_of(change), START))
        assert found.reason == "session_deleted"
    assert isinstance(await catalog.find("acme", number_of(other), START), FoundArtifact)


async def patched(catalog: Everything, change: PatchArtifact) -> Artifact:
    answer = expect(Artifact, await catalog.commit(change))
    assert await catalog.find(change.namespace, change.number, change.now) == FoundArtifact(answer)
    return answer


async def test_a_new_ttl_counts_from_creation_and_a_new_idle_ttl_from_now(catalog: Everything) -> None:
    change = store(ttl=7200)
    await stored(catalog, change)
    now, number = START + timedelta(seconds=100), number_of(change)
    answer = await patched(catalog, PatchArtifact(namespace="acme", number=number, now=now, ttl=500))
    assert answer.expires_at == START + timedelta(seconds=500)
    answer = await patched(catalog, PatchArtifact(namespace="acme", number=number, now=now, idle_ttl=30))
    assert answer.expires_at == now + timedelta(seconds=30)
    answer = await patched(catalog, PatchArtifact(namespace="acme", number=number, now=now, idle_ttl=None, ttl=None))
    assert (answer.expires_at, answer.ttl, answer.idle_ttl) == (None, None, None)


async def test_a_pin_suspends_expiry_and_its_end_restores_it_from_now_if_it_has_passed(
    catalog: Everything,
) -> None:
    change = store(ttl=100)
    await stored(catalog, change)
    number, soon, late = number_of(change), START + timedelta(seconds=50), START + HOUR
    pin = PatchArtifact(namespace="acme", number=number, now=soon, pinned=True)
    assert (await patched(catalog, pin)).expires_at is None
    assert isinstance(await catalog.find("acme", number, late), FoundArtifact)
    unpin = PatchArtifact(namespace="acme", number=number, now=soon, pinned=False)
    assert (await patched(catalog, unpin)).expires_at == START + timedelta(seconds=100)
    await patched(catalog, pin)
    unpin = PatchArtifact(namespace="acme", number=number, now=late, pinned=False)
    assert (await patched(catalog, unpin)).expires_at == late + timedelta(seconds=100)


async def test_labels_are_replaced_and_nothing_else_of_what_was_said(catalog: Everything) -> None:
    change = store(said=DeclaredMetadata(title="t", labels=("a", "b")), ttl=60)
    before = await stored(catalog, change)
    number = number_of(change)
    answer = await patched(catalog, PatchArtifact(namespace="acme", number=number, now=START, labels=("c",)))
    assert answer.declared == DeclaredMetadata(title="t", labels=("c",))
    assert answer.expires_at == before.artifact.expires_at
    answer = await patched(catalog, PatchArtifact(namespace="acme", number=number, now=START, labels=()))
    assert answer.declared == DeclaredMetadata(title="t")


async def test_a_read_moves_the_idle_expiry_but_never_past_the_ttl_or_backwards(catalog: Everything) -> None:
    change = store(ttl=1000, idle_ttl=100)
    await stored(catalog, change)
    number = number_of(change)

    async def expiry_after(*seconds: int) -> float:
        reads = tuple(("acme", number, START + timedelta(seconds=s)) for s in seconds)
        await catalog.commit(Touch(reads=reads))
        found = expect(FoundArtifact, await catalog.find("acme", number, START))
        assert found.artifact.expires_at is not None
        return (found.artifact.expires_at - START).total_seconds()

    assert await expiry_after(50) == 150
    assert await expiry_after(20) == 150
    assert await expiry_after(140, 100) == 240
    assert await expiry_after(240) == 240
    for second in range(300, 1000, 60):
        await expiry_after(second - 70)
    assert await expiry_after(950) == 1000


async def test_a_read_leaves_what_is_pinned_gone_unknown_or_without_idle_ttl_alone(
    catalog: Everything,
) -> None:
    plain, pinned, gone = store(ttl=60), store(b"p", idle_ttl=60, pinned=True), store(b"g", idle_ttl=60)
    for change in (plain, pinned, gone):
        await stored(catalog, change)
    await catalog.commit(deleting(gone))
    before = [await catalog.find("acme", number_of(c), START) for c in (plain, pinned, gone)]
    moment = START + timedelta(seconds=30)
    reads = tuple(("acme", number, moment) for number in (*map(number_of, (plain, pinned, gone)), 97))
    await catalog.commit(Touch(reads=reads))
    assert [await catalog.find("acme", number_of(c), START) for c in (plain, pinned, gone)] == before


async def test_many_reads_at_once_move_what_they_would_one_after_the_other(catalog: Everything) -> None:
    rng = random.Random(4)
    names = ["acme", "other", "third"]
    changes = [
        store(b"%d" % i, namespace=names[i % 3], ttl=rng.choice([None, 400]), idle_ttl=rng.choice([None, 60, 90]))
        for i in range(40)
    ]
    twins = [store(b"%d" % i, namespace="twin", ttl=c.ttl, idle_ttl=c.idle_ttl) for i, c in enumerate(changes)]
    for change in (*changes, *twins):
        await stored(catalog, change)
    reads = [(rng.randrange(len(changes)), START + timedelta(seconds=rng.randrange(1, 300))) for _ in range(300)]

    def touched(among: list[StoreArtifact]) -> list[tuple[str, int, datetime]]:
        return [(among[at].namespace, number_of(among[at]), moment) for at, moment in reads]

    await catalog.commit(Touch(reads=tuple(touched(changes))))
    for read in sorted(touched(twins)):
        await catalog.commit(Touch(reads=(read,)))
    for change, twin in zip(changes, twins, strict=True):
        found = [await catalog.find(c.namespace, number_of(c), START) for c in (change, twin)]
        ends = [each.artifact.expires_at for each in found if isinstance(each, FoundArtifact)]
        assert len(ends) == 2
        assert ends[0] == ends[1]


async def test_lists_page_newest_first_and_lose_nothing_to_what_arrives_meanwhile(catalog: Everything) -> None:
    changes = [store(b"%d" % i) for i in range(7)]
    for change in changes:
        await stored(catalog, change)
    seen: list[str] = []
    before: int | None = None
    while True:
        page = await catalog.list_artifacts("acme", ArtifactFilter(), START, before=before, limit=3)
        seen += [artifact.id for artifact in page.artifacts]
        await stored(catalog, store(b"new"))
        if (before := page.before) is None:
            break
    assert seen == [ids.render(number_of(change)) for change in reversed(changes)]


LED = 'https://e.org/"status":200,ä'
LISTED: list[tuple[ArtifactFilter, list[str]]] = [
    (ArtifactFilter(session="s"), ["a", "b"]),
    (ArtifactFilter(kind=Kind.LOG), ["b", "c"]),
    (ArtifactFilter(tool_name="curl"), ["c"]),
    (ArtifactFilter(url="https://example.org/"), ["c"]),
    (ArtifactFilter(status=404), ["a", "c"]),
    (ArtifactFilter(status=200), ["b"]),
    (ArtifactFilter(status=200, session="t"), []),
    (ArtifactFilter(final_url=LED), ["a"]),
    (ArtifactFilter(final_url="https://e.org/q"), ["c"]),
    (ArtifactFilter(final_url=LED[:-1]), []),
    (ArtifactFilter(label="x"), ["a"]),
    (ArtifactFilter(label='x"y'), ["b"]),
    (ArtifactFilter(label="y"), []),
    (ArtifactFilter(session="s", kind=Kind.LOG), ["b"]),
    (ArtifactFilter(session="t", label="x"), []),
]


@pytest.mark.parametrize(("where", "titles"), LISTED)
async def test_a_list_holds_exactly_what_meets_all_conditions(
    catalog: Everything, where: ArtifactFilter, titles: list[str]
) -> None:
    stated = PageFetch(status=404, final_url="https://e.org/q", title="\0")
    for said, fetch in (
        (DeclaredMetadata(title="a", session="s", labels=("x", "z"), status=404, final_url=LED), None),
        (
            DeclaredMetadata(
                title="b", session="s", kind=Kind.LOG, labels=('x"y',), status=200, final_url="https://e.org/o"
            ),
            stated,
        ),
        (
            DeclaredMetadata(title="c", session="t", kind=Kind.LOG, tool_name="curl", url="https://example.org/"),
            stated,
        ),
    ):
        change = store(str(said.title).encode(), said=said)
        await stored(catalog, replace(change, facts=replace(change.facts, fetch=fetch)))
    page = await catalog.list_artifacts("acme", where, START, before=None, limit=200)
    assert [artifact.declared.title for artifact in page.artifacts] == titles[::-1]
    assert page.before is None


async def test_changes_at_once_all_take_effect_and_duplicates_make_one_artifact(catalog: Everything) -> None:
    said = [DeclaredMetadata(tool_call_id=str(i % 40)) for i in range(200)]
    answers = await asyncio.gather(*(stored(catalog, store(b"same", said=one)) for one in said))
    assert sum(answer.created for answer in answers) == 40
    assert sum(answer.blob_used for answer in answers) == 1
    assert len({answer.artifact.id for answer in answers}) == 40
    page = await catalog.list_artifacts("acme", ArtifactFilter(), START, before=None, limit=200)
    assert len(page.artifacts) == 40


async def test_a_ready_catalogue_says_so(catalog: Everything) -> None:
    await catalog.check_reads()
    await catalog.check_writes()
    await catalog.check_writes(room=True)


def test_expiry_is_the_earlier_of_ttl_and_idle_ttl_and_never_when_pinned() -> None:
    second = timedelta(seconds=1)
    assert expiry(START, START + 5 * second, ttl=10, idle_ttl=3, pinned=False) == START + 8 * second
    assert expiry(START, START + 5 * second, ttl=6, idle_ttl=3, pinned=False) == START + 6 * second
    assert expiry(START, START, ttl=None, idle_ttl=None, pinned=False) is None
    assert expiry(START, START, ttl=1, idle_ttl=1, pinned=True) is None
