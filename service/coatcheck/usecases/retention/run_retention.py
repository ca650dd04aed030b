"""Apply a plan: check that it still describes what is stored, begin a run, and carry it out part by part.

Crash story: a part is one transaction, which removes its artifacts, writes the line in the audit log and advances the
run. If its worker is gone, any process resumes the run once its lease has passed, at the part where it stopped; a
worker that was only slow finds its part done. Nothing outside the plan is ever removed: a part names its artifacts.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from coatcheck.core.artifact import Caller
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.keys import is_everywhere
from coatcheck.core.retention.audit import By
from coatcheck.core.retention.jobs import REMOVING, JobScope, RetentionJob, RetentionRun, RunOutcome, begin_run
from coatcheck.core.retention.plan import check_share, check_still
from coatcheck.ports.retention import BatchResult, BeginRun, ClaimRun, EndRun, LiveTotals, RemoveBatch, Retention
from coatcheck.ports.telemetry import DeletionClock
from coatcheck.upkeep.maintenance import MaintenanceJobResult
from coatcheck.usecases.retention.plan_retention import PlanRetention

log = logging.getLogger(__name__)

_LEASE: Final = timedelta(seconds=60)
"""Time without a finished part after which any process may take a run."""
_MAINTENANCE_LEASE: Final = timedelta(hours=2)
"""Time after which any process may take a run of one part, which reports no progress."""
_RESUMED_RUNS: Final = 200
"""Interrupted runs that a start resumes at once; the others follow when their leases have passed."""
WAIT_SECONDS: Final = 30.0
"""Seconds for which a call may wait for the end of a run."""

MaintenanceJob = Callable[[], Awaitable[MaintenanceJobResult]]
MaintenanceJobs = Mapping[RetentionJob, MaintenanceJob]
"""By job; one that is missing fails its run."""
Lives = Callable[[timedelta], tuple[timedelta, Mapping[str, timedelta]]]
"""Given the default life of tombstones: that of most namespaces, and those of the others by name."""


@dataclass(eq=False)
class RunRetention:
    """Applies retention plans as runs, and resumes interrupted runs."""

    retention: Retention
    clock: DeletionClock
    plan: PlanRetention
    """Tells what is stored."""
    new_id: Callable[[], str]
    """Makes names that are unique."""
    _: KW_ONLY
    me: str
    """A name that no other process has."""
    tombstone_life: timedelta
    lives: Lives = lambda life: (life, {})
    """How long tombstones last by the policies: in general, and in the namespaces that policies name."""
    maintenance_jobs: MaintenanceJobs = field(default_factory=dict[RetentionJob, MaintenanceJob])
    """Run the jobs that remove no artifacts."""
    alone: bool = False
    """Whether no other process has the store, so that an interrupted run can be resumed at once."""
    _working: dict[str, asyncio.Task[None]] = field(default_factory=dict[str, "asyncio.Task[None]"], init=False)
    """Runs that this process carries out, by ID."""

    async def apply(self, caller: Caller, digest: str, *, confirm: bool, wait: float = 0.0) -> RetentionRun:
        """Begins to carry out a plan, or finds the run that is at it; waits for its end for up to WAIT_SECONDS seconds.

        Raises:
            CoatcheckError: `plan_changed` when there is no such plan any more, when it is not the caller's to apply, or
                when too little of it is left; `confirmation_needed` when it would remove a large part of what there is;
                `deletions_paused`; `storage_unavailable`.
        """
        now = self.clock.deletion_time()
        plan_record = await self.retention.find_plan(digest, now)
        if plan_record is None or not _concerns(caller, plan_record.plan.scope):
            raise _no_such_plan()
        plan = plan_record.plan
        if plan.job in REMOVING:
            # What is left of the plan is counted part by part, as none of these statements may take long.
            remaining = LiveTotals()
            for part in range(plan_record.parts):
                remaining += await self.retention.part_left(plan_record.id, part, now)
            check_still(plan, remaining.artifacts, remaining.bytes)
            check_share(plan, (await self.plan.live(plan.scope)).bytes, confirm=confirm)
        new = begin_run(f"run_{self.new_id()}", plan.job.value, plan.scope, By.of(caller), now)
        run = replace(new, plan=digest, planned=plan.artifacts)
        # A job that removes no artifacts reports nothing until its end, so its lease must cover all of it.
        lease = now + (_LEASE if plan.job in REMOVING else _MAINTENANCE_LEASE)
        current_run = await self.retention.commit(
            BeginRun(run=run, plan_id=plan_record.id, worker=self.me, lease_until=lease)
        )
        # Otherwise the plan is being applied already, perhaps by another process: its run is returned.
        if current_run.id == run.id:
            self._start(current_run)
        return await self._await_end(current_run, min(wait, WAIT_SECONDS))

    async def resume(self) -> int:
        """Resumes interrupted runs; returns how many. They continue in the background.

        Raises:
            CoatcheckError: `storage_unavailable`.
        """
        # A run removes by time as well; it waits until the clock is known to be right.
        if self.clock.pause_reason is not None:
            return 0
        if self.alone:
            # Nobody else can be at them: whoever was is gone, whatever its leases say.
            interrupted_runs = await self.retention.list_runs(limit=_RESUMED_RUNS, outcome=RunOutcome.RUNNING)
            self.alone = False
            return sum([self._take_up(run) for run in interrupted_runs])
        count = 0
        while True:
            now = self.clock.now()
            run = await self.retention.commit(ClaimRun(worker=self.me, now=now, lease_until=now + _LEASE))
            if run is None:
                return count
            count += self._take_up(run)

    def _take_up(self, run: RetentionRun) -> bool:
        """Resumes a run, unless this process is already carrying it out."""
        if run.id in self._working:
            return False
        log.info("run %s was left after %d of %d artifacts, and continues", run.id, run.artifacts, run.planned)
        self._start(run)
        return True

    async def carry_on(self, run: RetentionRun) -> None:
        """Carries a run to its end.

        Raises:
            CoatcheckError: storage's refusal; the run is then resumed when its lease has passed.
        """
        began = time.monotonic()
        job = RetentionJob(run.job)
        if job not in REMOVING:
            maintenance_job = self.maintenance_jobs.get(job)
            if maintenance_job is None:
                await self._end(
                    run, RunOutcome.FAILED, began, MaintenanceJobResult(detail="This service cannot do it.")
                )
            else:
                await self._end(run, RunOutcome.FINISHED, began, await maintenance_job())
            return
        more = True
        while more:
            # None: the run has ended already, perhaps by another worker.
            batch_result = await self._part(run)
            if batch_result is None:
                return
            run, more = batch_result.run, batch_result.more
        detail = (
            f"{run.left_count:,} of its artifacts were gone, pinned, held or changed by then." if run.left_count else ""
        )
        await self._end(run, RunOutcome.FINISHED, began, MaintenanceJobResult(detail=detail))

    async def close(self, seconds: float) -> None:
        """Lets runs go on for that long; the rest is resumed after its lease."""
        if not self._working:
            return
        _, pending_tasks = await asyncio.wait(list(self._working.values()), timeout=seconds)
        for task in pending_tasks:
            task.cancel()
        if pending_tasks:
            await asyncio.wait(pending_tasks)

    async def _part(self, run: RetentionRun) -> BatchResult | None:
        now = self.clock.deletion_time()
        # For each part anew, so that a long run follows a change of the policies.
        life, own = self.lives(self.tombstone_life)
        return await self.retention.commit(
            RemoveBatch(
                run_id=run.id,
                worker=self.me,
                now=now,
                lease_until=now + _LEASE,
                tombstone_until=now + life,
                tombstone_lives=own,
            )
        )

    async def _end(
        self, run: RetentionRun, outcome: RunOutcome, began: float, job_result: MaintenanceJobResult
    ) -> None:
        await self.retention.commit(
            EndRun(
                run_id=run.id,
                now=self.clock.now(),
                outcome=outcome,
                detail=job_result.detail,
                items=job_result.items,
                bytes=job_result.bytes,
                busy_seconds=time.monotonic() - began,
            )
        )

    def _start(self, run: RetentionRun) -> None:
        task = asyncio.create_task(self._supervise_run(run), name=f"retention {run.id}")
        self._working[run.id] = task
        task.add_done_callback(lambda _: self._working.pop(run.id, None))

    async def _supervise_run(self, run: RetentionRun) -> None:
        try:
            await self.carry_on(run)
        except CoatcheckError as error:
            log.warning("run %s is interrupted and will continue: %s", run.id, error.detail)
        # A fault of ours would repeat at every resumption: the run ends as failed instead of coming back for ever.
        except Exception:
            log.exception("run %s failed", run.id)
            try:
                failure = MaintenanceJobResult(detail="An error of the service; see its log.")
                await self._end(run, RunOutcome.FAILED, time.monotonic(), failure)
            except CoatcheckError as error:
                log.warning("run %s could not be ended: %s", run.id, error.detail)

    async def _await_end(self, run: RetentionRun, wait: float) -> RetentionRun:
        task = self._working.get(run.id)
        if task is not None and wait > 0:
            await asyncio.wait([task], timeout=wait)
        return await self.retention.run(run.id) or run


async def find_run(retention: Retention, caller: Caller, run_id: str) -> RetentionRun:
    """Returns a run.

    Raises:
        CoatcheckError: `run_not_found`, also for a run that is not the caller's to see.
    """
    run = await retention.run(run_id)
    if run is None or not _concerns(caller, run.scope):
        raise CoatcheckError(Code.RUN_NOT_FOUND, f"There is no run {run_id[:80]!r}. List the runs to see their IDs.")
    return run


def _concerns(caller: Caller, scope: JobScope) -> bool:
    return is_everywhere(caller) or scope.namespace == caller.namespace


def _no_such_plan() -> CoatcheckError:
    return CoatcheckError(
        Code.PLAN_CHANGED,
        "There is no such plan, or it is older than an hour. Nothing was done. Make a new plan, review it, and apply "
        "that one.",
    )
