"""A clock that jumps deletes nothing; one that went on while nobody looked is no jump."""

import dataclasses
from datetime import timedelta

import pytest
from msgspec.structs import replace

from coatcheck.core.artifact import Caller
from coatcheck.core.errors import Code
from coatcheck.core.policies.policy import Policy, PolicyScope
from coatcheck.core.retention.audit import By
from coatcheck.core.retention.jobs import WHOLE_STORE, RetentionJob
from coatcheck.ports.catalog import FoundArtifact
from coatcheck.storing.evict import Evict
from coatcheck.storing.ledger import NoteReads
from coatcheck.storing.policies import Policies
from coatcheck.upkeep.clock_jumps import MAX_DRIFT, ClockJumpGuard
from coatcheck.upkeep.job_schedule import DELETIONS, JobSchedule
from coatcheck.upkeep.maintenance import MaintenanceRound
from coatcheck.usecases.retention.plan_retention import PlanRetention
from coatcheck.usecases.retention.run_retention import RunRetention
from retention.retention_harness import ALICE, AUDIT_LIFE, EVERYONES, RetentionHarness
from support.clock import HandClock
from support.harness import GRACE, TOMBSTONE_LIFE
from support.refusals import refusal

HOUR = 3_600
JUMPS = pytest.mark.parametrize("jump", [timedelta(days=400), timedelta(days=-400)], ids=["ahead", "back"])


class Replica:
    """A process over the harness's store, with a wall clock and a steady clock of its own."""

    def __init__(self, harness: RetentionHarness, wall: HandClock) -> None:
        self.wall, self.steady = wall, 0.0
        self.job_schedule = JobSchedule(harness.catalog, wall, default=10, monotonic=lambda: self.steady)
        self.guard = ClockJumpGuard(wall, self.job_schedule, lambda: self.steady)
        self.maintenance = dataclasses.replace(
            harness.tidy(),
            clock=self.guard,
            audit_life=AUDIT_LIFE,
            job_schedule=self.job_schedule,
            retention=harness.catalog,
        )
        self.plan = PlanRetention(
            harness.catalog,
            self.guard,
            harness.new_id,
            grace=GRACE,
            flush_reads=self.maintenance.flush_reads,
            session_names=harness.session_names,
        )
        self.runs = RunRetention(
            harness.catalog, self.guard, self.plan, harness.new_id, me=harness.new_id(), tombstone_life=TOMBSTONE_LIFE
        )

    async def pass_time(self, by: timedelta) -> None:
        """Let time pass by both clocks, whether or not the process runs meanwhile."""
        self.wall.forward(by)
        await self.tick(by)

    async def tick(self, by: timedelta = timedelta(seconds=10)) -> None:
        """Let time pass by the steady clock, and compare the clocks."""
        self.steady += by.total_seconds()
        await self.guard.check()

    async def resume(self, by: By = ALICE) -> None:
        """Say that the clock is right."""
        await self.job_schedule.change(DELETIONS, paused=False, interval=None, by=by)
        await self.tick()


@pytest.fixture
async def replica(harness: RetentionHarness) -> Replica:
    opened = Replica(harness, harness.clock)
    await opened.guard.check()
    return opened


async def _is_readable(harness: RetentionHarness, number: int) -> bool:
    return isinstance(await harness.catalog.find("acme", number, harness.clock.now()), FoundArtifact)


async def test_a_jump_ahead_deletes_nothing_and_reads_expire_until_it_is_corrected(
    harness: RetentionHarness, replica: Replica
) -> None:
    number = await harness.store(b"kept" * 3_000, ttl=HOUR)
    jump = timedelta(days=400)
    replica.wall.forward(jump)
    assert not await _is_readable(harness, number)
    assert await replica.maintenance() == MaintenanceRound()  # before anything has noticed, too
    await replica.tick()
    assert await replica.maintenance() == MaintenanceRound()
    replica.wall.forward(-jump)
    await replica.tick()
    assert (replica.guard.pause_reason, await _is_readable(harness, number)) == (None, True)
    # The control: the same time that really passes removes it.
    await replica.pass_time(jump)
    assert (await replica.maintenance()).expired == 1


@JUMPS
async def test_a_jump_pauses_sweeps_purges_plans_and_runs(
    harness: RetentionHarness, replica: Replica, jump: timedelta
) -> None:
    await harness.store(b"expires" * 3_000, ttl=HOUR)
    stays = await harness.store(b"stays", session="s1")
    await replica.pass_time(timedelta(hours=2))
    assert (await replica.maintenance()).expired == 1
    scope = replace(WHOLE_STORE, namespace="acme", session="s1")
    plan = await replica.plan(EVERYONES, RetentionJob.SESSION, scope)
    replica.wall.forward(jump)
    for work in (
        replica.maintenance.sweep(),
        replica.maintenance.purge(),
        replica.maintenance.flush_reads(),
        replica.plan(EVERYONES, RetentionJob.SESSION, scope),
        replica.runs.apply(EVERYONES, plan.digest, confirm=True),
    ):
        error = await refusal(work)
        assert error.code is Code.DELETIONS_PAUSED
        assert "400.0 days" in error.detail
    assert await replica.runs.resume() == 0
    replica.wall.forward(-jump)
    assert await replica.runs.apply(EVERYONES, plan.digest, confirm=True, wait=30)
    assert stays not in await harness.there()
    assert (await replica.maintenance.sweep()).items == 0  # its grace has not passed
    await replica.pass_time(2 * GRACE)
    assert (await replica.maintenance.sweep()).items == 2


async def test_a_full_namespace_evicts_nothing_by_a_clock_that_jumped(
    harness: RetentionHarness, replica: Replica
) -> None:
    policies = Policies(harness.catalog, replica.guard)
    policy = Policy(max_artifacts=1, evict="least_recently_read")
    await policies.set(Caller(namespace="acme"), PolicyScope("acme"), policy)
    note = NoteReads(harness.catalog, harness.reads)
    evict = Evict(harness.catalog, replica.guard, policies, note, tombstone_life=TOMBSTONE_LIFE)
    numbers = {await harness.store(b"%d" % at) for at in range(3)}
    replica.wall.forward(timedelta(days=400))
    assert await evict.relieve_all(harness.catalog) == 0
    replica.wall.forward(timedelta(days=-400))
    assert await harness.there() == numbers
    assert await evict.relieve_all(harness.catalog) == 2


@JUMPS
async def test_an_administrator_who_says_that_the_clock_is_right_lets_deletions_go_on(
    harness: RetentionHarness, replica: Replica, jump: timedelta
) -> None:
    number = await harness.store(b"x", ttl=HOUR)
    replica.wall.forward(jump)
    await replica.tick()
    (state,) = [each for each in await replica.job_schedule.states() if each.name == DELETIONS]
    assert (state.paused, state.changed_by, state.last_outcome) == (True, "schedule", "failed")
    assert state.last_detail == replica.guard.pause_reason
    await replica.resume()
    assert (replica.guard.pause_reason, abs(replica.guard.drift) < MAX_DRIFT) == (None, True)
    await replica.pass_time(timedelta(hours=2))
    assert (await replica.maintenance()).expired == int(jump > timedelta())
    assert (number in await harness.there()) == (jump < timedelta())
    lines = await harness.audit_lines(action="job.changed")
    assert [(line.by.actor, line.details["paused"]) for line in lines] == [("alice", False), ("schedule", True)]
    (state,) = [each for each in await replica.job_schedule.states() if each.name == DELETIONS]
    assert (state.paused, state.last_outcome) == (False, "done")


async def test_weeks_in_which_a_process_is_stopped_or_asleep_are_no_jump(
    harness: RetentionHarness, replica: Replica
) -> None:
    await harness.store(b"x", ttl=HOUR)
    replica.wall.forward(timedelta(weeks=3))
    replica.steady += timedelta(weeks=3).total_seconds()  # nothing is compared before it goes on
    assert (await replica.maintenance()).expired == 1
    await replica.guard.check()
    assert (replica.guard.pause_reason, await harness.audit_lines(action="job.changed")) == (None, [])


async def test_a_service_that_was_down_for_weeks_starts_without_doubt(
    harness: RetentionHarness, replica: Replica
) -> None:
    await harness.store(b"x", ttl=HOUR)
    replica.wall.forward(timedelta(weeks=3))
    restarted = Replica(harness, replica.wall)
    await restarted.guard.check()
    assert (await restarted.maintenance()).expired == 1
    assert await replica.maintenance() == MaintenanceRound()  # the control: for one that ran, it was a jump


async def test_a_restart_does_not_confirm_a_jump(harness: RetentionHarness, replica: Replica) -> None:
    await harness.store(b"x", ttl=HOUR)
    replica.wall.forward(timedelta(days=400))
    await replica.tick()
    doubt = replica.guard.pause_reason
    restarted = Replica(harness, replica.wall)
    await restarted.guard.check()
    assert restarted.guard.pause_reason == doubt
    assert await restarted.maintenance() == MaintenanceRound()
    await restarted.resume()
    assert (await restarted.maintenance()).expired == 1


async def test_replicas_agree_and_one_that_started_after_the_jump_too(
    harness: RetentionHarness, replica: Replica
) -> None:
    await harness.store(b"x", ttl=HOUR)
    jump = timedelta(days=400)
    replica.wall.forward(jump)
    await replica.tick()
    late = Replica(harness, replica.wall)
    await late.guard.check()
    assert late.guard.drift == timedelta()
    assert await late.maintenance() == MaintenanceRound()
    replica.wall.forward(-jump)
    await replica.tick()
    assert replica.guard.pause_reason is None
    for each in (late, replica, late, replica):
        await each.tick()
        assert each.guard.pause_reason is None
    assert len(await harness.audit_lines(action="job.changed")) == 2
    await replica.pass_time(jump)
    await late.tick(jump)
    assert (await late.maintenance()).expired == 1


async def test_an_administrator_can_pause_deletions_and_only_one_resumes_them(
    harness: RetentionHarness, replica: Replica
) -> None:
    await harness.store(b"x", ttl=HOUR)
    await replica.pass_time(timedelta(hours=2))
    await replica.job_schedule.change(DELETIONS, paused=True, interval=None, by=ALICE)
    await replica.tick()
    assert "paused by alice" in (replica.guard.pause_reason or "")
    assert await replica.maintenance() == MaintenanceRound()
    await replica.tick()
    assert await replica.maintenance() == MaintenanceRound()
    await replica.resume()
    assert (await replica.maintenance()).expired == 1


async def test_a_drift_of_less_than_a_day_changes_nothing(harness: RetentionHarness, replica: Replica) -> None:
    await harness.store(b"x", ttl=HOUR)
    replica.wall.forward(MAX_DRIFT)
    await replica.tick(timedelta())
    assert (await replica.maintenance()).expired == 1
    replica.wall.forward(timedelta(seconds=1))
    assert replica.guard.pause_reason is not None
