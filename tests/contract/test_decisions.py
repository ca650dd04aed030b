"""Policies, holds, limits and namespaces that go, in the catalogue: what is decided holds, on every database alike."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from coatcheck.core.artifact import DeclaredMetadata, Gone
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.policies.policy import Policy, PolicyScope, Rules
from coatcheck.core.policies.quota import QuotaExceeded, QuotaLimits, Usage
from coatcheck.core.retention.audit import Hold, HoldConflict
from coatcheck.ports.artifacts import (
    DeleteArtifact,
    DeleteSession,
    IngestResult,
    PatchArtifact,
    StoreArtifact,
    StoreView,
    Touch,
    UploadFenced,
)
from coatcheck.ports.blobs import AbandonUpload, BeginUpload, ReserveMore
from coatcheck.ports.catalog import FoundArtifact
from coatcheck.ports.decisions import (
    CatalogChange,
    DeleteNamespace,
    MarkNamespace,
    PlaceHold,
    ReleaseHold,
    SetPolicy,
)
from coatcheck.ports.maintenance import EvictArtifacts, EvictionResult, ExpireArtifacts, ReapUploads
from contract.sample_changes import START, Everything, number_of, store, view
from support.refusals import code_of, expect

LIFE = timedelta(days=30)
LATER = START + timedelta(hours=1)
HOUR = 3600


def second(count: float) -> datetime:
    return START + timedelta(seconds=count)


async def put(catalog: Everything, change: StoreArtifact) -> int:
    expect(IngestResult, await catalog.commit(change))
    return number_of(change)


def in_session(session: str | None, call: str, content: bytes = b"x\n", **how: object) -> StoreArtifact:
    return store(content, said=DeclaredMetadata(tool_name="bash", tool_call_id=call, session=session), **how)  # pyright: ignore[reportArgumentType]


def holding(number: int | None = None, session: str | None = None, **how: object) -> Hold:
    terms: dict[str, object] = {
        "id": f"hold_{len(how):08x}{abs(hash((number, session))) % 2**32:08x}",
        "namespace": "acme",
        "session": session,
        "number": number,
        "reason": "case 7",
        "made_by": "tester",
        "at": START,
    }
    return Hold(**(terms | how))  # pyright: ignore[reportArgumentType]


def deleting(number: int, at: datetime = LATER) -> DeleteArtifact:
    return DeleteArtifact(namespace="acme", number=number, now=at, tombstone_until=at + LIFE)


def expiring(at: datetime) -> ExpireArtifacts:
    return ExpireArtifacts(now=at, tombstone_until=at + LIFE, limit=100)


async def live(catalog: Everything, number: int, at: datetime = LATER) -> bool:
    return isinstance(await catalog.find("acme", number, at), FoundArtifact)


# ------------------------------------------------------------------------------------------------ policies


async def test_the_last_version_of_a_scope_holds_and_all_versions_are_kept(catalog: Everything) -> None:
    whole, logs = PolicyScope("acme"), PolicyScope("acme", "kind", "log")
    first = SetPolicy(scope=whole, policy=Policy(ttl=60), now=START)
    assert await catalog.policy_version() == 0
    assert await catalog.commit(first) == 1
    assert await catalog.commit(SetPolicy(scope=logs, policy=Policy(ttl=None), now=START)) == 2
    assert await catalog.commit(replace(first, policy=Policy(ttl=90, card_tokens=64), now=LATER)) == 3
    version, rules = await catalog.policies()
    assert (version, rules.all()) == (3, [(whole, Policy(ttl=90, card_tokens=64)), (logs, Policy(ttl=None))])
    history = await catalog.policy_history(whole, 9)
    assert [(each.version, each.policy, each.at) for each in history] == [
        (3, Policy(ttl=90, card_tokens=64), LATER),
        (1, Policy(ttl=60), START),
    ]


async def test_a_policy_is_removed_once_and_its_versions_stay(catalog: Everything) -> None:
    everywhere = PolicyScope("*")
    removal = SetPolicy(scope=everywhere, policy=None, now=LATER)
    assert await catalog.commit(removal) is None
    await catalog.commit(SetPolicy(scope=everywhere, policy=Policy(ttl=60), now=START))
    assert await catalog.commit(removal) == 2
    assert await catalog.commit(removal) is None
    version, rules = await catalog.policies()
    assert (version, rules.all(), bool(rules)) == (2, [], False)
    assert [each.policy for each in await catalog.policy_history(everywhere, 9)] == [None, Policy(ttl=60)]


async def test_versions_that_are_made_at_once_are_given_in_one_order(catalog: Everything) -> None:
    changes = [
        SetPolicy(scope=PolicyScope("acme", "tool", f"t{i}"), policy=Policy(ttl=60), now=START) for i in range(8)
    ]
    assert sorted(await asyncio.gather(*map(catalog.commit, changes)), key=str) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert len((await catalog.policies())[1].all()) == 8


# --------------------------------------------------------------------------------------------------- holds


ENDS: dict[str, Any] = {"now": LATER, "tombstone_until": LATER + LIFE, "limit": 9}
WAYS: dict[str, Callable[[int], list[CatalogChange[Any]]]] = {
    "delete": lambda number: [deleting(number)],
    "session": lambda _: [DeleteSession(namespace="acme", session="s", **ENDS)],
    "namespace": lambda _: [
        MarkNamespace(namespace="acme", now=LATER, deleting=True),
        DeleteNamespace(namespace="acme", **ENDS),
        MarkNamespace(namespace="acme", now=LATER, deleting=False),
    ],
    "expiry": lambda _: [expiring(second(2 * HOUR))],
    "eviction": lambda _: [EvictArtifacts(namespace="acme", room=QuotaLimits(0, 0), **ENDS)],
}
"""The changes that delete an artifact; the first one's answer says if a hold forbids it."""
COVERS = ("artifact", "session", "namespace")


@pytest.mark.parametrize("what", COVERS)
@pytest.mark.parametrize("way", WAYS)
async def test_what_is_held_is_deleted_by_no_way_and_by_every_way_once_it_is_released(
    catalog: Everything, way: str, what: str
) -> None:
    number = await put(catalog, in_session("s", "1", ttl=2 * HOUR - 1))
    hold = holding(number if what == "artifact" else None, "s" if what == "session" else None)
    assert await catalog.commit(PlaceHold(hold=hold)) is True
    answer, *_ = [await catalog.commit(change) for change in WAYS[way](number)]
    assert await live(catalog, number)
    if way == "delete" or (way == "session" and what != "artifact") or (way == "namespace" and what == "namespace"):
        assert answer == HoldConflict((hold.id,))
    assert await catalog.commit(ReleaseHold(id=hold.id, namespace="acme", now=LATER)) == hold
    for change in WAYS[way](number):
        await catalog.commit(change)
    assert not await live(catalog, number)


@pytest.mark.parametrize("way", WAYS)
async def test_a_hold_whose_time_is_over_holds_nothing(catalog: Everything, way: str) -> None:
    number = await put(catalog, in_session("s", "1", ttl=2 * HOUR - 1))
    await catalog.commit(PlaceHold(hold=holding(number, until=second(60))))
    for change in WAYS[way](number):
        await catalog.commit(change)
    assert not await live(catalog, number)


async def test_a_hold_covers_what_comes_later_but_no_other_session_or_namespace(catalog: Everything) -> None:
    await catalog.commit(PlaceHold(hold=holding(session="s")))
    number, apart = [await put(catalog, in_session(session, "1")) for session in "st"]
    deleted = await catalog.commit(DeleteSession(namespace="acme", session="t", **ENDS))
    assert not isinstance(deleted, HoldConflict)
    assert not await live(catalog, apart)
    foreign = store(b"z\n", namespace="other", said=DeclaredMetadata(tool_call_id="1", session="s"))
    await put(catalog, foreign)
    assert isinstance(await catalog.commit(deleting(number)), HoldConflict)
    change = replace(deleting(number_of(foreign)), namespace="other")
    assert await catalog.commit(change) is True


async def test_holds_are_listed_by_id_and_released_by_whoever_administers_their_namespace(catalog: Everything) -> None:
    mine = holding(session="s", id="hold_000000000000000a")
    other = holding(namespace="other", id="hold_000000000000000b", until=LATER)
    for hold in (other, mine):
        assert await catalog.commit(PlaceHold(hold=hold)) is True
    assert await catalog.holds(None) == [mine, other]
    assert await catalog.holds("other") == [other]
    assert await catalog.holds(None, after=mine.id) == [other]
    assert await catalog.commit(ReleaseHold(id=other.id, namespace="acme", now=LATER)) is None
    assert await catalog.commit(ReleaseHold(id=other.id, namespace=None, now=LATER)) == other
    assert await catalog.commit(ReleaseHold(id=other.id, namespace=None, now=LATER)) is None


async def test_what_covers_an_artifact_is_found_with_it_but_no_more_than_ten_of_each(catalog: Everything) -> None:
    first, second = [await put(catalog, in_session("s", each)) for each in ("1", "2")]
    later = LATER + timedelta(hours=1)
    covering = [
        holding(first, id="hold_0000000000000001"),
        holding(session="s", id="hold_0000000000000002", until=later),
        holding(id="hold_0000000000000003"),
    ]
    others = [
        holding(session="t", id="hold_0000000000000004"),
        holding(session="s", id="hold_0000000000000005", namespace="other"),
        holding(second, id="hold_0000000000000006"),
    ]
    for hold in (*covering, *others):
        assert await catalog.commit(PlaceHold(hold=hold)) is True
    assert await catalog.covering_holds("acme", {first: "another"}, LATER) == {first: covering}
    assert await catalog.covering_holds("acme", {first: None}, later) == {first: [covering[0], covering[2]]}
    both = {first: covering, second: [*covering[1:], others[2]], 1: [covering[2], others[0]], 2: [covering[2]]}
    assert await catalog.covering_holds("acme", {first: None, second: None, 1: "t", 2: None}, LATER) == both
    assert await catalog.covering_holds("other", {first: None}, LATER) == {first: []}
    for number in range(20):
        await catalog.commit(PlaceHold(hold=holding(second, id=f"hold_00000000000001{number:02}")))
    both = await catalog.covering_holds("acme", {first: None, second: None}, LATER)
    assert (both[first], len(both[second])) == (covering, 10)


async def test_only_what_is_there_can_be_held(catalog: Everything) -> None:
    number = await put(catalog, in_session("s", "1"))
    await catalog.commit(deleting(number))
    expect(Gone, await catalog.commit(PlaceHold(hold=holding(number, at=LATER))))
    assert await catalog.commit(PlaceHold(hold=holding(100_000_000_000_000_000))) is None
    assert await catalog.holds(None) == []


async def test_what_expires_under_a_hold_is_gone_for_readers_and_comes_back_when_it_is_given_time(
    catalog: Everything,
) -> None:
    number = await put(catalog, in_session("s", "1", ttl=60))
    await catalog.commit(PlaceHold(hold=holding(number)))
    assert await catalog.commit(expiring(LATER)) == 0
    assert isinstance(await catalog.find("acme", number, LATER), Gone)
    patch = PatchArtifact(namespace="acme", number=number, now=LATER, ttl=2 * HOUR)
    assert isinstance(await catalog.commit(patch), Gone)
    assert isinstance(await catalog.commit(replace(patch, revive=True, ttl=HOUR)), Gone)
    back = await catalog.commit(replace(patch, revive=True))
    assert not isinstance(back, Gone)
    assert back is not None
    assert back.expires_at == second(2 * HOUR)
    assert await live(catalog, number)


async def test_what_expires_without_a_hold_does_not_come_back(catalog: Everything) -> None:
    number = await put(catalog, in_session("s", "1", ttl=60))
    patch = PatchArtifact(namespace="acme", number=number, now=LATER, ttl=2 * HOUR, revive=True)
    assert isinstance(await catalog.commit(patch), Gone)


async def test_posting_what_has_expired_under_a_hold_finds_it_as_it_was(catalog: Everything) -> None:
    change = in_session("s", "1", ttl=60, text_view=view())
    number = await put(catalog, change)
    await catalog.commit(PlaceHold(hold=holding(number)))
    first = await catalog.find("acme", number, START, with_view=True)
    again = expect(IngestResult, await catalog.commit(replace(change, now=LATER, ttl=60)))
    assert isinstance(first, FoundArtifact)
    assert not again.created
    there = expect(FoundArtifact, await catalog.find("acme", number, LATER, with_view=True))
    assert there.artifact == replace(first.artifact, ttl=HOUR + 60, expires_at=second(HOUR + 60))
    assert there.text_view == first.text_view


async def test_the_holds_within_a_session_or_a_namespace_are_named(catalog: Everything) -> None:
    number = await put(catalog, in_session("s", "1"))
    assert await catalog.holds_within("acme", "s", LATER) is None
    hold = holding(number)
    await catalog.commit(PlaceHold(hold=hold))
    assert await catalog.holds_within("acme", "s", LATER) == HoldConflict((hold.id,))
    assert await catalog.holds_within("acme", None, LATER) == HoldConflict((hold.id,))
    assert await catalog.holds_within("acme", "t", LATER) is None


# ------------------------------------------------------------------------------------------ usage and room


async def used(catalog: Everything) -> tuple[int, int, int]:
    usage = await catalog.usage_of("acme")
    return usage.bytes, usage.artifacts, usage.reserved


async def test_usage_counts_artifacts_and_each_stored_byte_once(catalog: Everything) -> None:
    one, twin = in_session("s", "1", b"same\n"), in_session("s", "2", b"same\n")
    size = one.blob.stored_size
    await put(catalog, one)
    assert await used(catalog) == (size, 1, 0)
    await put(catalog, twin)
    assert await used(catalog) == (size, 2, 0)
    kept = view(b"a view of its own\n")
    assert kept.blob is not None
    change = StoreView(namespace="acme", number=number_of(one), now=START, new=kept)
    await catalog.commit(change)
    assert await used(catalog) == (size + kept.blob.stored_size, 2, 0)
    await catalog.commit(deleting(number_of(one)))
    assert await used(catalog) == (size, 1, 0)
    await catalog.commit(deleting(number_of(twin)))
    assert await used(catalog) == (0, 0, 0)
    assert await catalog.usages(None) == [Usage(namespace="acme")]


async def test_an_upload_reserves_and_gives_back_however_it_ends(catalog: Everything) -> None:
    change = store(b"file\n", placement="file")
    begin = BeginUpload(namespace="acme", blob_id=change.blob.id, placement="file", lease_until=second(9), reserve=500)
    await catalog.commit(begin)
    assert await used(catalog) == (0, 0, 500)
    more = ReserveMore(namespace="acme", blob_id=change.blob.id, reserve=700, room=None)
    assert await catalog.commit(more) is True
    assert await used(catalog) == (0, 0, 700)
    assert isinstance(await catalog.commit(change), IngestResult)
    assert await used(catalog) == (change.blob.stored_size, 1, 0)
    for end in (
        lambda: catalog.commit(AbandonUpload(namespace="acme", blob_id="b2")),
        lambda: catalog.commit(ReapUploads(now=LATER, limit=9)),
    ):
        await catalog.commit(replace(begin, blob_id="b2"))
        await end()
        assert await used(catalog) == (change.blob.stored_size, 1, 0)
    assert await catalog.commit(replace(more, blob_id="b2")) is False


async def test_a_full_namespace_takes_nothing_new_and_answers_what_is_there(catalog: Everything) -> None:
    first = in_session("s", "1", b"first\n")
    size = first.blob.stored_size
    room = QuotaLimits(max_bytes=size + 5, max_artifacts=9)
    await put(catalog, replace(first, room=room))
    before = await used(catalog)
    full = expect(QuotaExceeded, await catalog.commit(replace(in_session("s", "2", b"second\n"), room=room)))
    assert (full.usage.bytes, full.over_artifacts, full.hopeless) == (size, 0, False)
    assert full.over_bytes > 0
    assert await used(catalog) == before
    again = expect(IngestResult, await catalog.commit(replace(first, room=room)))
    assert not again.created
    expect(IngestResult, await catalog.commit(replace(in_session("s", "3", b"first\n"), room=room)))
    assert await used(catalog) == (size, 2, 0)


async def test_the_last_place_is_taken_once_by_many_at_once(catalog: Everything) -> None:
    changes = [replace(in_session("s", str(i), b"%d\n" % i), room=QuotaLimits(None, 3)) for i in range(12)]
    answers = await asyncio.gather(*map(catalog.commit, changes))
    assert [type(answer) for answer in answers].count(IngestResult) == 3
    assert [type(answer) for answer in answers].count(QuotaExceeded) == 9
    assert (await used(catalog))[1] == 3


async def test_an_upload_without_room_keeps_its_intent_and_can_commit_when_there_is_room(catalog: Everything) -> None:
    change = replace(store(b"file\n", placement="file"), room=QuotaLimits(max_artifacts=0))
    begin = BeginUpload(namespace="acme", blob_id=change.blob.id, placement="file", lease_until=LATER)
    assert await catalog.commit(begin) is None
    assert isinstance(await catalog.commit(change), QuotaExceeded)
    assert isinstance(await catalog.commit(replace(change, room=None)), IngestResult)
    assert isinstance(await catalog.commit(replace(change, declared=DeclaredMetadata(tool_call_id="n"))), UploadFenced)
    expect(
        QuotaExceeded, await catalog.commit(replace(begin, blob_id="b2", reserve=99, room=QuotaLimits(max_bytes=50)))
    )
    assert (await used(catalog))[2] == 0


def making_room(room: QuotaLimits, limit: int = 9, *, bytes_: int = 0, artifacts: int = 0) -> EvictArtifacts:
    ends: dict[str, Any] = {**ENDS, "limit": limit}
    return EvictArtifacts(namespace="acme", room=room, bytes=bytes_, artifacts=artifacts, **ends)


async def test_eviction_takes_the_expired_first_then_the_least_recently_read_and_never_pins_or_holds(
    catalog: Everything,
) -> None:
    numbers = [
        await put(
            catalog, in_session(None, str(i), b"%d\n" % i, now=second(i), ttl=60 if i == 6 else None, pinned=i == 1)
        )
        for i in range(7)
    ]
    await catalog.commit(PlaceHold(hold=holding(numbers[0])))
    await catalog.commit(Touch(reads=(("acme", numbers[2], second(100)),)))
    order: list[int] = []
    for left in (6, 5, 4, 3, 2):
        assert await catalog.commit(making_room(QuotaLimits(None, left))) == EvictionResult(1, enough=True)
        order += [at for at, number in enumerate(numbers) if at not in order and not await live(catalog, number)]
    assert order == [6, 3, 4, 5, 2]
    assert await catalog.commit(making_room(QuotaLimits(None, 1))) == EvictionResult(0, enough=False)
    assert [at for at, number in enumerate(numbers) if await live(catalog, number)] == [0, 1]
    gone = expect(Gone, await catalog.find("acme", numbers[3], LATER))
    assert gone.reason == "evicted"


async def test_eviction_goes_in_batches_and_takes_no_more_than_is_needed(catalog: Everything) -> None:
    changes = [in_session(None, str(i), b"%d" % i * 100, now=second(i)) for i in range(6)]
    for change in changes:
        await put(catalog, change)
    total = sum(change.blob.stored_size for change in changes)
    room = QuotaLimits(total - changes[0].blob.stored_size - changes[1].blob.stored_size - 1, None)
    assert await catalog.commit(making_room(room, limit=2)) == EvictionResult(2, enough=False)
    assert await catalog.commit(making_room(room, limit=2)) == EvictionResult(1, enough=True)
    assert await catalog.commit(making_room(room, limit=2)) == EvictionResult(0, enough=True)
    assert (await used(catalog))[1] == 3


async def test_nothing_is_evicted_for_what_would_not_fit_all_the_same(catalog: Everything) -> None:
    await put(catalog, in_session(None, "1", b"1\n"))
    await put(catalog, in_session(None, "2", b"2\n", pinned=True))
    before = await used(catalog)
    for change in (making_room(QuotaLimits(10, None), bytes_=11), making_room(QuotaLimits(None, 1), artifacts=1)):
        assert await catalog.commit(change) == EvictionResult(0, enough=False)
    assert await used(catalog) == before


async def test_shared_bytes_are_freed_with_the_last_that_points_at_them(catalog: Everything) -> None:
    for at in range(3):
        await put(catalog, in_session(None, str(at), b"same\n" * 20, now=second(at)))
    await put(catalog, in_session(None, "9", b"other\n" * 20, now=second(9)))
    size = (await used(catalog))[0]
    assert await catalog.commit(making_room(QuotaLimits(size - 1, None))) == EvictionResult(3, enough=True)
    assert (await used(catalog))[1] == 1


# -------------------------------------------------------------------------------------------- namespaces


async def test_a_namespace_that_goes_takes_nothing_new_and_is_as_new_when_it_is_empty(catalog: Everything) -> None:
    for at in range(5):
        await put(catalog, in_session("s", str(at), b"%d\n" % at, ttl=60 if at == 0 else None))
    mark = MarkNamespace(namespace="acme", now=LATER, deleting=True)
    going = DeleteNamespace(namespace="acme", now=LATER, tombstone_until=LATER + LIFE, limit=2)
    assert await catalog.commit(going) == 0
    assert await catalog.commit(mark) is True
    assert await catalog.commit(mark) is False
    assert [usage.namespace for usage in await catalog.list_marked_namespaces()] == ["acme"]
    new = in_session("s", "new", b"new\n")
    assert await code_of(catalog.commit(new)) is Code.NAMESPACE_DELETING
    assert isinstance(await catalog.commit(store(b"elsewhere\n", namespace="other")), IngestResult)
    assert [await catalog.commit(going) for _ in range(4)] == [2, 2, 1, 0]
    assert await catalog.commit(replace(mark, deleting=False)) is True
    assert await used(catalog) == (0, 0, 0)
    assert isinstance(await catalog.commit(new), IngestResult)


async def test_of_a_group_only_those_are_refused_whose_namespace_goes(catalog: Everything) -> None:
    await catalog.commit(MarkNamespace(namespace="acme", now=LATER, deleting=True))
    changes = [store(b"%d\n" % at, namespace="acme" if at % 2 else "other") for at in range(8)]
    answers = await asyncio.gather(*map(catalog.commit, changes), return_exceptions=True)
    assert [isinstance(answer, CoatcheckError) for answer in answers] == [bool(at % 2) for at in range(8)]


def test_rules_of_nothing_are_nothing() -> None:
    assert Rules().effective("acme") == Policy()
