"""A plan rehearses, its run removes what it covers, an undo brings it back, and the audit tells of each once."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from coatcheck.core import ids
from coatcheck.core.artifact import Artifact, Caller, Gone, Said
from coatcheck.core.audit import unpack_numbers
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.holds import Hold
from coatcheck.core.retention import Group, Job, Outcome, Run, Scope
from coatcheck.core.retention.changes import BeginRun
from coatcheck.ports.artifacts import PatchArtifact
from coatcheck.ports.catalog import Found
from coatcheck.ports.decisions import PlaceHold
from contract.conftest import CATALOGS
from contract.making import number_of, store
from retention.shop import ALICE, GRACE, Shop, shop_in

DAY = 86_400
_CALLER = Caller(namespace="acme", name="alice", key_id="k1")


@pytest.fixture(params=CATALOGS)
async def shop(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shop]:
    async with shop_in(request.param, tmp_path) as opened:
        yield opened


async def _filled(
    shop: Shop,
    count: int,
    *,
    namespace: str = "acme",
    ttl: int | None = None,
    session: str | None = None,
    tool_name: str | None = None,
) -> list[int]:
    """Store so many, as fast as a group commit takes them."""
    changes = [
        store(
            f"payload {i:04d}\n".encode(),
            namespace=namespace,
            said=Said(tool_call_id=f"{namespace} {session} {i}", session=session, tool_name=tool_name),
            now=shop.now(),
            ttl=ttl,
        )
        for i in range(count)
    ]
    for start in range(0, count, 100):
        await asyncio.gather(*(shop.catalog.store_artifact(change) for change in changes[start : start + 100]))
    return [number_of(change) for change in changes]


async def test_a_plan_says_what_and_why_and_changes_nothing(shop: Shop) -> None:
    mine = [*await _filled(shop, 3, session="s", tool_name="bash"), await shop.put(b"x" * 9000, session="s")]
    await _filled(shop, 2, session="t")
    await _filled(shop, 2, session="s", namespace="other")
    before = await shop.there()
    plan = await shop.plan(Job.SESSION, namespace="acme", session="s")
    assert (plan.artifacts, plan.live_artifacts, plan.held, plan.needs_confirm) == (4, 6, 0, True)
    assert plan.why == "every live artifact of session s in namespace acme"
    assert plan.bytes == sum([len(await shop.bytes_of(n)) for n in mine])
    assert [(group.name, group.artifacts) for group in plan.by_tool] == [("", 1), ("bash", 3)]
    assert plan.by_session == (Group("s", 4, plan.bytes),)
    assert plan.by_age == (Group("under 1 hour", 4, plan.bytes),)
    assert plan.samples[0].id == ids.render(mine[3])
    assert await shop.there() == before
    assert (await shop.plan(Job.SESSION, namespace="acme", session="s")).digest == plan.digest


async def test_a_run_removes_exactly_the_plan_and_the_audit_says_each_once(shop: Shop) -> None:
    mine = await _filled(shop, 1203, session="s")
    others = await _filled(shop, 40, session="t")
    plan = await shop.plan(Job.SESSION, namespace="acme", session="s")
    late = await shop.put(b"came after the plan", session="s")
    run = await shop.apply(plan, confirm=True)
    assert (run.artifacts, run.bytes, run.planned, run.parts) == (1203, plan.bytes, 1203, 3)
    assert (run.outcome, run.actor, run.key_id) == (Outcome.FINISHED, "alice", "k1")
    assert await shop.there() == {*others, late}
    assert sorted(await shop.removed_lines()) == sorted(mine)
    lines = await shop.trail.lines(limit=100, run_id=run.id)
    assert [line.action for line in lines] == ["run.finished", *["artifact.removed"] * 3, "run.started"]
    assert sum(line.size for line in lines) == plan.bytes
    assert (await shop.trail.verify()).breach is None


async def test_a_plan_that_covers_much_needs_a_confirmation_and_nothing_is_done_without(shop: Shop) -> None:
    await _filled(shop, 10, session="s")
    plan = await shop.plan(Job.NAMESPACE, namespace="acme")
    with pytest.raises(CoatcheckError) as refused:
        await shop.apply(plan)
    assert refused.value.code is Code.CONFIRMATION_NEEDED
    assert len(await shop.there()) == 10
    assert await shop.removed_lines() == []
    assert (await shop.apply(plan, confirm=True)).artifacts == 10


@pytest.mark.parametrize("gone", [2, 3])
async def test_what_has_gone_meanwhile_shrinks_a_plan_until_it_is_too_much(shop: Shop, gone: int) -> None:
    await _filled(shop, 80, session="kept")
    mine = await _filled(shop, 20, session="s")
    plan = await shop.plan(Job.SESSION, namespace="acme", session="s")
    for number in mine[:gone]:
        patch = PatchArtifact(namespace="acme", number=number, now=shop.now(), ttl=1)
        await shop.catalog.patch_artifact(patch)
    shop.clock.forward(seconds=5)
    if gone == 2:
        assert (await shop.apply(plan)).artifacts == 18
        return
    with pytest.raises(CoatcheckError) as refused:
        await shop.apply(plan)
    assert (refused.value.code, refused.value.extra) == (Code.PLAN_CHANGED, {"planned": 20, "left": 17})
    assert await shop.removed_lines() == []


async def test_what_is_held_is_counted_and_stays(shop: Shop) -> None:
    mine = await _filled(shop, 30, session="s")
    await _filled(shop, 150)
    placed = Hold(
        id="hold_1", namespace="acme", session=None, number=mine[0], reason="x", made_by="a", at=shop.now(), until=None
    )
    await shop.catalog.place_hold(PlaceHold(hold=placed))
    plan = await shop.plan(Job.SESSION, namespace="acme", session="s")
    assert (plan.artifacts, plan.held) == (29, 1)
    second = Hold(
        id="hold_2", namespace="acme", session=None, number=mine[1], reason="x", made_by="a", at=shop.now(), until=None
    )
    await shop.catalog.place_hold(PlaceHold(hold=second))
    run = await shop.apply(plan)
    assert (run.artifacts, run.left) == (28, 1)
    assert {mine[0], mine[1]} <= await shop.there()


async def test_expired_ones_are_planned_and_the_schedule_sums_its_rounds_by_the_hour(shop: Shop) -> None:
    await _filled(shop, 5, ttl=60)
    await _filled(shop, 50)
    shop.clock.forward(seconds=100)
    plan = await shop.plan(Job.EXPIRE)
    assert (plan.artifacts, plan.oldest_overdue) == (5, 40.0)
    assert (await shop.tidy()).expired == 5
    await _filled(shop, 2, ttl=60, session="later")
    shop.clock.forward(seconds=100)
    assert (await shop.tidy()).expired == 2
    (run,) = await shop.catalog.list_runs(limit=9, job="expire")
    assert (run.id, run.artifacts, run.actor, run.oldest_overdue) == ("run_expire_2024030112", 7, "schedule", 40.0)
    with pytest.raises(CoatcheckError) as refused:
        await shop.apply(plan)
    assert refused.value.code is Code.PLAN_CHANGED


async def test_a_sweep_of_the_schedule_says_how_many_bytes_went(shop: Shop) -> None:
    numbers = [await shop.put(bytes(range(256)) * 100 + b"%d" % n) for n in range(3)]
    sizes = 0
    for number in numbers:
        found = await shop.catalog.find("acme", number, shop.now())
        assert isinstance(found, Found)
        sizes += found.artifact.blob.stored_size
        await shop.forget(_CALLER, number)
    shop.clock.forward(seconds=GRACE.total_seconds() + 1)
    assert (await shop.tidy()).removed == 3
    (run,) = await shop.catalog.list_runs(limit=9, job="sweep")
    assert (run.items, run.bytes) == (3, sizes)
    assert sizes > 0


async def test_a_limit_of_one_is_told_in_the_singular(shop: Shop) -> None:
    await _filled(shop, 3)
    plan = await shop.plan(Job.EVICT, namespace="acme", max_artifacts=1, max_bytes=1)
    assert plan.why.endswith("until it is down to 1 byte and 1 artifact")
    plan = await shop.plan(Job.EVICT, namespace="acme", max_artifacts=2)
    assert plan.why.endswith("until it is down to 2 artifacts")


async def test_an_eviction_takes_the_least_recently_read_down_to_the_limit_and_no_pinned_one(shop: Shop) -> None:
    pinned = await shop.put(b"0123456789", pinned=True, session="p")
    old: list[int] = []
    for i in range(9):
        shop.clock.forward(seconds=1)
        old.append(await shop.put(b"%010d" % i, session="s"))
    plan = await shop.plan(Job.EVICT, namespace="acme", max_bytes=60)
    assert (plan.artifacts, plan.bytes, plan.live_bytes) == (4, 40, 100)
    await shop.apply(plan, confirm=True)
    assert await shop.there() == {pinned, *old[4:]}
    assert await shop.catalog.find("acme", old[0], shop.now()) == Gone(
        id=ids.render(old[0]), reason="evicted", at=shop.now(), tool_name=None, session="s"
    )


async def test_a_run_that_was_left_between_two_parts_is_taken_up_where_it_was(shop: Shop) -> None:
    mine = await _filled(shop, 1100, session="s")
    plan = await shop.plan(Job.SESSION, namespace="acme", session="s")
    kept = await shop.catalog.kept_plan(plan.digest, shop.now())
    assert kept is not None
    begun = await _begun(shop, kept.id, plan.digest, plan.artifacts, kept.parts)
    await shop.runs._part(begun)  # pyright: ignore[reportPrivateUsage] - one part, and then the process is gone
    shop.clock.forward(seconds=59)
    second = shop.worker("second")
    assert await second.resume() == 0
    shop.clock.forward(seconds=2)
    assert await second.resume() == 1
    await second.close(60)
    run = await shop.catalog.run(begun.id)
    assert run is not None
    assert (run.outcome, run.artifacts) == (Outcome.FINISHED, 1100)
    assert sorted(await shop.removed_lines()) == sorted(mine)


async def _begun(shop: Shop, plan_id: str, digest: str, planned: int, parts: int) -> Run:
    now = shop.now()
    run = Run(
        id="run_1",
        job="session",
        scope=Scope(namespace="acme", session="s"),
        actor="alice",
        started_at=now,
        updated_at=now,
        outcome=Outcome.RUNNING,
        plan_id=plan_id,
        plan_digest=digest,
        planned=planned,
        parts=parts,
    )
    return await shop.catalog.begin_run(BeginRun(run=run, worker="first", lease_until=now + timedelta(seconds=60)))


async def test_what_was_removed_comes_back_whole_within_the_grace(shop: Shop) -> None:
    small = await shop.put(b"small and inline\n", session="s", labels=("a", "b"), ttl=DAY)
    large = await shop.put(bytes(range(256)) * 4000, session="s")
    was = [await shop.catalog.find("acme", n, shop.now(), with_view=True) for n in (small, large)]
    payloads = [await shop.bytes_of(n) for n in (small, large)]
    plan = await shop.plan(Job.SESSION, namespace="acme", session="s")
    run = await shop.apply(plan, confirm=True)
    shop.clock.forward(seconds=599)
    await shop.tidy()
    undone, _ = await shop.undo.run(run.id, ttl=None, by=ALICE)
    assert undone.restored == tuple(sorted(ids.render(n) for n in (small, large)))
    assert [await shop.bytes_of(n) for n in (small, large)] == payloads
    now = [await shop.catalog.find("acme", n, shop.now(), with_view=True) for n in (small, large)]
    for old, new in zip(was, now, strict=True):
        assert old is not None
        assert new is not None
        assert not isinstance(old, Gone)
        assert not isinstance(new, Gone)
        assert new.artifact.blob.id != old.artifact.blob.id
        assert _without_blob(new.artifact) == _without_blob(old.artifact)
    back = [
        n for line in await shop.trail.lines(limit=9, action="artifact.restored") for n in unpack_numbers(line.numbers)
    ]
    assert sorted(back) == sorted([small, large])
    shop.clock.forward(hours=2)
    await shop.tidy()
    assert await shop.bytes_of(large) == payloads[1]
    assert (await shop.trail.verify()).breach is None


def _without_blob(artifact: Artifact) -> Artifact:
    return replace(artifact, blob=replace(artifact.blob, id="", index=b""))


async def test_after_the_grace_an_undo_says_that_it_is_too_late(shop: Shop) -> None:
    number = await shop.put(b"gone for good\n")
    await shop.forget(_CALLER, number)
    shop.clock.forward(seconds=GRACE.total_seconds() + 1)
    undone = await shop.undo.artifacts("acme", [number], ttl=None, by=ALICE)
    assert [(failure.id, failure.code) for failure in undone.failed] == [(ids.render(number), "artifact_gone")]
    assert "600 s" in undone.failed[0].detail


async def test_what_expired_comes_back_only_with_a_time_to_live(shop: Shop) -> None:
    number = await shop.put(b"for a minute\n", ttl=60)
    shop.clock.forward(seconds=100)
    await shop.tidy()
    undone = await shop.undo.artifacts("acme", [number], ttl=None, by=ALICE)
    assert [failure.code for failure in undone.failed] == ["invalid_request"]
    assert '"7d"' in undone.failed[0].detail
    undone = await shop.undo.artifacts("acme", [number], ttl=500, by=ALICE)
    assert undone.restored == (ids.render(number),)
    shop.clock.forward(seconds=499)
    assert number in await shop.there()
    shop.clock.forward(seconds=2)
    assert number not in await shop.there()


async def test_what_was_posted_again_meanwhile_is_left_as_it_is(shop: Shop) -> None:
    said = {"session": "s", "tool_call_id": "c1"}
    number = await shop.put(b"the same\n", **said)
    await shop.forget(_CALLER, number)
    assert await shop.put(b"the same\n", **said) == number
    undone = await shop.undo.artifacts("acme", [number], ttl=None, by=ALICE)
    assert undone.there == (ids.render(number),)
    assert await shop.bytes_of(number) == b"the same\n"


async def test_a_paused_job_waits_and_says_so(shop: Shop) -> None:
    await _filled(shop, 3, ttl=60)
    shop.clock.forward(seconds=100)
    await shop.agenda.change("expire", paused=True, interval=None, by=ALICE)
    assert (await shop.tidy()).expired == 0
    await shop.agenda.change("expire", paused=False, interval=30, by=ALICE)
    assert (await shop.tidy()).expired == 3
    (state,) = [state for state in await shop.agenda.states() if state.name == "expire"]
    assert (state.paused, state.interval, state.changed_by, state.last_outcome) == (False, 30, "alice", "done")
    lines = await shop.trail.lines(limit=9, action="job")
    assert [line.details for line in lines] == ['{"interval":30,"paused":false}', '{"interval":null,"paused":true}']
