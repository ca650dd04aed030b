"""A plan rehearses, its run removes what it covers, an undo brings it back, and the audit tells of each once."""

import asyncio
import contextlib
import sqlite3
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from coatcheck.core import ids
from coatcheck.core.artifact import Artifact, Caller, DeclaredMetadata, Gone
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.event import Event, UsageDelta, first_number
from coatcheck.core.policies.policy import Policy, PolicyScope
from coatcheck.core.retention.audit import Hold
from coatcheck.core.retention.jobs import WHOLE_STORE, RetentionJob, RetentionRun, RunOutcome, begin_run
from coatcheck.core.retention.plan import ArtifactGroup, PlanBuilder, RetentionCandidate, check_share
from coatcheck.ports.artifacts import PatchArtifact
from coatcheck.ports.catalog import FoundArtifact
from coatcheck.ports.decisions import PlaceHold
from coatcheck.ports.keys import AddSessionUsage
from coatcheck.ports.retention import BeginRun, KeptPlan
from contract.sample_changes import number_of, store
from retention.retention_harness import ALICE, EVERYONES, RetentionHarness, harness_on
from support.clock import START
from support.harness import GRACE
from support.refusals import code_of, expect

DAY = 86_400
_CALLER = Caller(namespace="acme", name="alice", key_id="k1")


async def _filled(
    harness: RetentionHarness,
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
            said=DeclaredMetadata(tool_call_id=f"{namespace} {session} {i}", session=session, tool_name=tool_name),
            now=harness.clock.now(),
            ttl=ttl,
        )
        for i in range(count)
    ]
    for start in range(0, count, 100):
        await asyncio.gather(*(harness.catalog.commit(change) for change in changes[start : start + 100]))
    return [number_of(change) for change in changes]


async def test_a_plan_says_what_and_why_and_changes_nothing(harness: RetentionHarness) -> None:
    mine = [*await _filled(harness, 3, session="s", tool_name="bash"), await harness.store(b"x" * 9000, session="s")]
    await _filled(harness, 2, session="t")
    await _filled(harness, 2, session="s", namespace="other")
    before = await harness.there()
    plan = await harness.plan(RetentionJob.SESSION, namespace="acme", session="s")
    assert (plan.artifacts, plan.live_artifacts, plan.held, plan.needs_confirm) == (4, 6, 0, True)
    assert plan.why == "every live artifact of session s in namespace acme"
    assert plan.bytes == sum([len(await harness.bytes_of(n)) for n in mine])
    assert [(group.name, group.artifacts) for group in plan.by_tool] == [("", 1), ("bash", 3)]
    assert plan.by_session == (ArtifactGroup("s", 4, plan.bytes),)
    assert plan.by_age == (ArtifactGroup("under 1 hour", 4, plan.bytes),)
    assert plan.samples[0].id == ids.render(mine[3])
    assert await harness.there() == before
    assert (await harness.plan(RetentionJob.SESSION, namespace="acme", session="s")).digest == plan.digest


async def test_a_run_removes_exactly_the_plan_and_the_audit_says_each_once(harness: RetentionHarness) -> None:
    mine = await _filled(harness, 1203, session="s")
    others = await _filled(harness, 40, session="t")
    plan = await harness.plan(RetentionJob.SESSION, namespace="acme", session="s")
    late = await harness.store(b"came after the plan", session="s")
    run = await harness.apply(plan, confirm=True)
    assert (run.artifacts, run.bytes, run.planned) == (1203, plan.bytes, 1203)
    assert (run.outcome, run.actor, run.key_id) == (RunOutcome.FINISHED, "alice", "k1")
    assert await harness.there() == {*others, late}
    assert sorted(await harness.removed_lines()) == sorted(mine)
    lines = await harness.audit_lines(run_id=run.id)
    assert [line.action for line in lines] == ["run.finished", *["artifact.removed"] * 3, "run.started"]
    assert sum(line.size for line in lines) == plan.bytes


async def test_a_plan_that_covers_much_needs_a_confirmation_and_nothing_is_done_without(
    harness: RetentionHarness,
) -> None:
    await _filled(harness, 10, session="s")
    plan = await harness.plan(RetentionJob.NAMESPACE, namespace="acme")
    assert await code_of(harness.apply(plan)) is Code.CONFIRMATION_NEEDED
    assert len(await harness.there()) == 10
    assert await harness.removed_lines() == []
    assert (await harness.apply(plan, confirm=True)).artifacts == 10


@pytest.mark.parametrize(("size", "live", "share"), [(500, 0, 1.0), (0, 0, 0.0), (1, 5, 0.2), (2, 5, 0.4)])
def test_a_plan_says_whether_applying_it_needs_a_confirmation(size: int, live: int, share: float) -> None:
    builder = PlanBuilder(RetentionJob.EXPIRE, WHOLE_STORE, START)
    builder.take("acme", [RetentionCandidate(1, 1, size, "log", None, None, 0)])
    builder.cut()
    plan = builder.plan(1, live)
    assert plan.share == share
    with pytest.raises(CoatcheckError) if plan.needs_confirm else contextlib.nullcontext():
        check_share(plan, live, confirm=False)


@pytest.mark.parametrize("gone", [2, 3])
async def test_what_has_gone_meanwhile_shrinks_a_plan_until_it_is_too_much(
    harness: RetentionHarness, gone: int
) -> None:
    await _filled(harness, 80, session="kept")
    mine = await _filled(harness, 20, session="s")
    plan = await harness.plan(RetentionJob.SESSION, namespace="acme", session="s")
    for number in mine[:gone]:
        patch = PatchArtifact(namespace="acme", number=number, now=harness.clock.now(), ttl=1)
        await harness.catalog.commit(patch)
    harness.clock.forward(seconds=5)
    if gone == 2:
        assert (await harness.apply(plan)).artifacts == 18
        return
    with pytest.raises(CoatcheckError) as refused:
        await harness.apply(plan)
    assert (refused.value.code, refused.value.extra) == (Code.PLAN_CHANGED, {"planned": 20, "left": 17})
    assert await harness.removed_lines() == []


async def test_what_is_held_is_counted_and_stays(harness: RetentionHarness) -> None:
    mine = await _filled(harness, 30, session="s")
    await _filled(harness, 150)
    placed = Hold(
        id="hold_1",
        namespace="acme",
        session=None,
        number=mine[0],
        reason="x",
        made_by="a",
        at=harness.clock.now(),
        until=None,
    )
    await harness.catalog.commit(PlaceHold(hold=placed))
    plan = await harness.plan(RetentionJob.SESSION, namespace="acme", session="s")
    assert (plan.artifacts, plan.held) == (29, 1)
    second = Hold(
        id="hold_2",
        namespace="acme",
        session=None,
        number=mine[1],
        reason="x",
        made_by="a",
        at=harness.clock.now(),
        until=None,
    )
    await harness.catalog.commit(PlaceHold(hold=second))
    run = await harness.apply(plan)
    assert (run.artifacts, run.left_count) == (28, 1)
    assert {mine[0], mine[1]} <= await harness.there()


async def test_expired_ones_are_planned_and_the_schedule_sums_its_rounds_by_the_hour(harness: RetentionHarness) -> None:
    await _filled(harness, 5, ttl=60)
    await _filled(harness, 50)
    harness.clock.forward(seconds=100)
    plan = await harness.plan(RetentionJob.EXPIRE)
    assert (plan.artifacts, plan.oldest_overdue_seconds) == (5, 40.0)
    assert (await harness.maintenance()).expired == 5
    await _filled(harness, 2, ttl=60, session="later")
    harness.clock.forward(seconds=100)
    assert (await harness.maintenance()).expired == 2
    (run,) = await harness.catalog.list_runs(limit=9, job="expire")
    assert (run.id, run.artifacts, run.actor) == ("run_expire_2024030112", 7, "schedule")
    assert run.oldest_overdue_seconds == 40.0
    assert await code_of(harness.apply(plan)) is Code.PLAN_CHANGED


async def test_a_sweep_of_the_schedule_says_how_many_bytes_went(harness: RetentionHarness) -> None:
    numbers = [await harness.store(bytes(range(256)) * 100 + b"%d" % n) for n in range(3)]
    sizes = 0
    for number in numbers:
        found = expect(FoundArtifact, await harness.catalog.find("acme", number, harness.clock.now()))
        sizes += found.artifact.blob.stored_size
        await harness.forget(_CALLER, number)
    harness.clock.forward(seconds=GRACE.total_seconds() + 1)
    assert (await harness.maintenance()).removed == 3
    (run,) = await harness.catalog.list_runs(limit=9, job="sweep")
    assert (run.items, run.bytes) == (3, sizes)
    assert sizes > 0


async def test_a_limit_of_one_is_told_in_the_singular(harness: RetentionHarness) -> None:
    await _filled(harness, 3)
    plan = await harness.plan(RetentionJob.EVICT, namespace="acme", max_artifacts=1, max_bytes=1)
    assert plan.why.endswith("until it is down to 1 byte and 1 artifact")
    plan = await harness.plan(RetentionJob.EVICT, namespace="acme", max_artifacts=2)
    assert plan.why.endswith("until it is down to 2 artifacts")


async def test_an_eviction_takes_the_least_recently_read_down_to_the_limit_and_no_pinned_one(
    harness: RetentionHarness,
) -> None:
    pinned = await harness.store(b"0123456789", pinned=True, session="p")
    old: list[int] = []
    for i in range(9):
        harness.clock.forward(seconds=1)
        old.append(await harness.store(b"%010d" % i, session="s"))
    plan = await harness.plan(RetentionJob.EVICT, namespace="acme", max_bytes=60)
    assert (plan.artifacts, plan.bytes, plan.live_bytes) == (4, 40, 100)
    await harness.apply(plan, confirm=True)
    assert await harness.there() == {pinned, *old[4:]}
    assert await harness.catalog.find("acme", old[0], harness.clock.now()) == Gone(
        id=ids.render(old[0]), reason="evicted", at=harness.clock.now(), tool_name=None, session="s"
    )


@pytest.mark.parametrize("scope", [{"session": "s"}, {}])
async def test_a_session_that_a_plan_deletes_leaves_no_account_and_no_events(
    harness: RetentionHarness, scope: dict[str, str]
) -> None:
    await _filled(harness, 600, session="s")
    await _filled(harness, 1, session="t")
    spent = UsageDelta(artifacts=1, raw_tokens=5)
    moment = harness.clock.now()
    search: dict[str, Any] = {"namespace": "acme", "artifact": None, "action": "search", "key_id": "key_1", "tokens": 9}
    events = tuple(Event(number=first_number(moment) + i, session="st"[i], **search) for i in range(2))
    accounts = (("acme", "s", spent), ("acme", "t", spent), ("other", "s", spent))
    await harness.catalog.commit(AddSessionUsage(batch=1, at=moment, sessions=accounts, events=events))
    plan = await harness.plan(RetentionJob.SESSION if scope else RetentionJob.NAMESPACE, namespace="acme", **scope)
    later = await harness.store(b"posted after the plan", session="t")
    await harness.apply(plan, confirm=True)
    assert later in await harness.there()
    assert await harness.catalog.session_usage("acme", "s") is None
    for namespace, session in (("acme", "t"), ("other", "s")):
        assert await harness.catalog.session_usage(namespace, session) is not None
    listed = await harness.catalog.events("acme", session=None, artifact=None, before=None, limit=9)
    assert [event.session for event in listed] == ["t"]


async def test_what_has_expired_counts_neither_for_an_eviction_nor_for_a_confirmation(
    harness: RetentionHarness,
) -> None:
    await _filled(harness, 9, ttl=60)
    live = [await harness.store(b"%010d" % i, session=f"s{i}") for i in range(3)]
    harness.clock.forward(seconds=61)
    plan = await harness.plan(RetentionJob.EVICT, namespace="acme", max_artifacts=3)
    assert (plan.artifacts, plan.live_artifacts, plan.live_bytes) == (0, 3, 30)
    plan = await harness.plan(RetentionJob.SESSION, namespace="acme", session="s0")
    assert (plan.artifacts, plan.live_artifacts, plan.needs_confirm) == (1, 3, True)
    assert await code_of(harness.apply(plan)) is Code.CONFIRMATION_NEEDED
    assert await harness.there() == set(live)
    assert (await harness.plan(RetentionJob.NAMESPACE, namespace="acme")).live_artifacts == 12


async def test_a_plan_to_evict_knows_the_reads_that_are_not_written_yet(harness: RetentionHarness) -> None:
    oldest, newest = [await harness.store(each, idle_ttl=DAY) for each in (b"oldest", b"newest")]
    harness.clock.forward(hours=12)
    await harness.find(_CALLER, oldest)
    plan = await harness.plan(RetentionJob.EVICT, namespace="acme", max_artifacts=1)
    assert [sample.id for sample in plan.samples] == [ids.render(newest)]


async def test_a_run_that_was_left_between_two_parts_is_taken_up_where_it_was(harness: RetentionHarness) -> None:
    mine = await _filled(harness, 1100, session="s")
    plan = await harness.plan(RetentionJob.SESSION, namespace="acme", session="s")
    kept = await harness.catalog.find_plan(plan.digest, harness.clock.now())
    assert kept is not None
    begun = await _begun(harness, kept)
    await harness.runs._part(begun)  # pyright: ignore[reportPrivateUsage] - one part, and then the process is gone
    harness.clock.forward(seconds=59)
    second = harness.worker("second")
    assert await second.resume() == 0
    harness.clock.forward(seconds=2)
    assert await second.resume() == 1
    await second.close(60)
    run = await harness.catalog.run(begun.id)
    assert run is not None
    assert (run.outcome, run.artifacts) == (RunOutcome.FINISHED, 1100)
    assert sorted(await harness.removed_lines()) == sorted(mine)


async def _begun(harness: RetentionHarness, kept: KeptPlan) -> RetentionRun:
    now = harness.clock.now()
    run = replace(
        begin_run("run_1", "session", replace(WHOLE_STORE, namespace="acme", session="s"), ALICE, now),
        plan=kept.plan.digest,
        planned=kept.plan.artifacts,
    )
    lease = now + timedelta(seconds=60)
    return await harness.catalog.commit(BeginRun(run=run, plan_id=kept.id, worker="first", lease_until=lease))


async def test_what_was_removed_comes_back_whole_within_the_grace(harness: RetentionHarness) -> None:
    small = await harness.store(b"small and inline\n", session="s", labels=("a", "b"), ttl=DAY)
    large = await harness.store(bytes(range(256)) * 4000, session="s")
    was = [await harness.catalog.find("acme", n, harness.clock.now(), with_view=True) for n in (small, large)]
    payloads = [await harness.bytes_of(n) for n in (small, large)]
    plan = await harness.plan(RetentionJob.SESSION, namespace="acme", session="s")
    run = await harness.apply(plan, confirm=True)
    harness.clock.forward(seconds=599)
    await harness.maintenance()
    undone = await harness.undo.run(EVERYONES, run.id, ttl=UNSET)
    assert undone.restored == tuple(sorted(ids.render(n) for n in (small, large)))
    assert [await harness.bytes_of(n) for n in (small, large)] == payloads
    now = [await harness.catalog.find("acme", n, harness.clock.now(), with_view=True) for n in (small, large)]
    for old, new in zip(was, now, strict=True):
        assert old is not None
        assert new is not None
        assert not isinstance(old, Gone)
        assert not isinstance(new, Gone)
        assert new.artifact.blob.id != old.artifact.blob.id
        assert _without_blob(new.artifact) == _without_blob(old.artifact)
    back = [n for line in await harness.audit_lines(action="artifact.restored") for n in line.numbers]
    assert sorted(back) == sorted([small, large])
    harness.clock.forward(hours=2)
    await harness.maintenance()
    assert await harness.bytes_of(large) == payloads[1]


def _without_blob(artifact: Artifact) -> Artifact:
    return replace(artifact, blob=replace(artifact.blob, id="", index=b""))


async def test_after_the_grace_an_undo_says_that_it_is_too_late(harness: RetentionHarness) -> None:
    number = await harness.store(b"gone for good\n")
    await harness.forget(_CALLER, number)
    harness.clock.forward(seconds=GRACE.total_seconds() + 1)
    undone = await harness.undo.artifacts(EVERYONES, "acme", [number], ttl=UNSET)
    assert [(failure.id, failure.code) for failure in undone.failed] == [(ids.render(number), "artifact_gone")]
    assert "600 s" in undone.failed[0].detail


async def test_bytes_that_are_not_those_that_were_removed_are_not_restored(tmp_path: Path) -> None:
    async with harness_on("sqlite", tmp_path) as harness:
        _, number = [await harness.store(payload) for payload in (b"other 1\n", b"other 2\n")]
        await harness.forget(_CALLER, number)
        with contextlib.closing(sqlite3.connect(tmp_path / "catalog.db")) as conn, conn:
            # The bytes of the other one, whole and with their checksums.
            conn.execute("UPDATE blobs SET frames = (SELECT frames FROM blobs ORDER BY seq LIMIT 1)")
            conn.execute("UPDATE inline_bytes SET stored = (SELECT stored FROM inline_bytes ORDER BY blob_seq LIMIT 1)")
        undone = await harness.undo.artifacts(EVERYONES, "acme", [number], ttl=UNSET)
    assert [(failure.id, failure.code) for failure in undone.failed] == [(ids.render(number), "integrity")]


async def test_what_expired_comes_back_only_with_a_time_to_live(harness: RetentionHarness) -> None:
    number = await harness.store(b"for a minute\n", ttl=60)
    harness.clock.forward(seconds=100)
    await harness.maintenance()
    undone = await harness.undo.artifacts(EVERYONES, "acme", [number], ttl=UNSET)
    assert [failure.code for failure in undone.failed] == ["invalid_request"]
    assert '"7d"' in undone.failed[0].detail
    undone = await harness.undo.artifacts(EVERYONES, "acme", [number], ttl=500)
    assert undone.restored == (ids.render(number),)
    harness.clock.forward(seconds=499)
    assert number in await harness.there()
    harness.clock.forward(seconds=2)
    assert number not in await harness.there()


async def test_what_expired_comes_back_for_ever_if_that_is_asked_for(harness: RetentionHarness) -> None:
    number = await harness.store(b"for a minute\n", ttl=60)
    harness.clock.forward(seconds=100)
    await harness.maintenance()
    undone = await harness.undo.artifacts(EVERYONES, "acme", [number], ttl=None)
    assert undone.restored == (ids.render(number),)
    found = expect(FoundArtifact, await harness.catalog.find("acme", number, harness.clock.now()))
    assert (found.artifact.ttl, found.artifact.expires_at) == (None, None)


@pytest.mark.parametrize("removed_before", [False, True])
async def test_what_has_expired_and_has_its_row_yet_is_told_as_that(
    harness: RetentionHarness, removed_before: bool
) -> None:
    said = {"session": "s", "tool_call_id": "c1"}
    if removed_before:
        await harness.forget(_CALLER, await harness.store(b"the same\n", **said))
    number = await harness.store(b"the same\n", ttl=60, **said)
    harness.clock.forward(seconds=100)
    undone = await harness.undo.artifacts(EVERYONES, "acme", [number], ttl=500)
    assert (undone.restored, undone.there) == ((), ())
    assert [(failure.id, failure.code) for failure in undone.failed] == [(ids.render(number), "artifact_gone")]
    assert "not removed yet" in undone.failed[0].detail
    await harness.maintenance()
    undone = await harness.undo.artifacts(EVERYONES, "acme", [number], ttl=500)
    assert undone.restored == (ids.render(number),)


async def test_an_undo_keeps_to_the_longest_life_and_a_full_namespace_does_not_stop_it(
    harness: RetentionHarness,
) -> None:
    number = await harness.store(b"for a minute\n", session="s", ttl=60)
    harness.clock.forward(seconds=100)
    await harness.maintenance()
    await harness.policies.set(EVERYONES, PolicyScope("acme"), Policy(max_artifacts=0))
    await harness.policies.set(EVERYONES, PolicyScope("acme", "session", "s"), Policy(max_ttl=3600))
    undone = await harness.undo.artifacts(EVERYONES, "acme", [number], ttl=10 * 365 * DAY)
    assert undone.restored == (ids.render(number),)
    found = expect(FoundArtifact, await harness.catalog.find("acme", number, harness.clock.now()))
    assert found.artifact.expires_at == harness.clock.now() + timedelta(hours=1)


async def test_what_was_posted_again_meanwhile_is_left_as_it_is(harness: RetentionHarness) -> None:
    said = {"session": "s", "tool_call_id": "c1"}
    number = await harness.store(b"the same\n", **said)
    await harness.forget(_CALLER, number)
    assert await harness.store(b"the same\n", **said) == number
    undone = await harness.undo.artifacts(EVERYONES, "acme", [number], ttl=UNSET)
    assert undone.there == (ids.render(number),)
    assert await harness.bytes_of(number) == b"the same\n"


async def test_the_undo_of_a_run_leaves_what_somebody_removed_again_later(harness: RetentionHarness) -> None:
    number, other = await harness.store(b"the same\n", session="s"), await harness.store(b"other\n", session="s")
    run = await harness.apply(await harness.plan(RetentionJob.SESSION, namespace="acme", session="s"), confirm=True)
    assert await harness.store(b"the same\n", session="s") == number
    await harness.forget(_CALLER, number)
    undone = await harness.undo.run(EVERYONES, run.id, ttl=None)
    assert (undone.restored, [(each.id, each.code) for each in undone.failed]) == (
        (ids.render(other),),
        [(ids.render(number), "artifact_gone")],
    )
    undone = await harness.undo.artifacts(EVERYONES, "acme", [number], ttl=None)
    assert undone.restored == (ids.render(number),)


async def test_a_paused_job_waits_and_says_so(harness: RetentionHarness) -> None:
    await _filled(harness, 3, ttl=60)
    harness.clock.forward(seconds=100)
    await harness.job_schedule.change("expire", paused=True, interval=None, by=ALICE)
    assert (await harness.maintenance()).expired == 0
    await harness.job_schedule.change("expire", paused=False, interval=30, by=ALICE)
    assert (await harness.maintenance()).expired == 3
    (state,) = [state for state in await harness.job_schedule.states() if state.name == "expire"]
    assert (state.paused, state.interval, state.changed_by, state.last_outcome) == (False, 30, "alice", "done")
    lines = await harness.audit_lines(action="job")
    assert [line.details for line in lines] == [
        {"interval": 30, "paused": False},
        {"interval": None, "paused": True},
    ]
