"""Apply a retention plan: check that the plan still matches the store, begin a run, and carry it out part by part.

Crash story: each part of the plan is one transaction, which removes the part's artifacts, writes the line in the audit
log and advances the run. If the process that carries out a run crashes, any process resumes the run at the next part
once the run's lease has ended. If the first process was only slow, it then finds its part done. Only artifacts of the
plan are ever removed, because each part lists its artifacts.
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
"""Lease of a run, renewed by each part. After it ends, any process may take over the run."""
_MAINTENANCE_LEASE: Final = timedelta(hours=2)
"""Lease of a run of a maintenance job, which has no parts that renew it. After it ends, any process may take over."""
_RESUMED_RUNS: Final = 200
"""Maximum interrupted runs that a process resumes at its start if it uses the store alone. All other runs are resumed
when their leases have ended."""
WAIT_SECONDS: Final = 30.0
"""Maximum seconds that a call waits for the end of a run."""

MaintenanceJob = Callable[[], Awaitable[MaintenanceJobResult]]
MaintenanceJobs = Mapping[RetentionJob, MaintenanceJob]
"""Functions that carry out maintenance jobs, by job. The run of a job without a function fails."""
Lives = Callable[[timedelta], tuple[timedelta, Mapping[str, timedelta]]]
"""A function that takes the default life of tombstones. It returns the life of a tombstone in general, and the lives in
the namespaces that have their own, by name."""


@dataclass(eq=False)
class RunRetention:
    """Applies retention plans as runs, and resumes interrupted runs."""

    retention: Retention
    clock: DeletionClock
    plan: PlanRetention
    """Counts the live artifacts of a scope."""
    new_id: Callable[[], str]
    """Returns an ID that is unique."""
    _: KW_ONLY
    me: str
    """The name of this process, which no other process has."""
    tombstone_life: timedelta
    lives: Lives = lambda life: (life, {})
    """Returns how long tombstones last according to the policies: in general, and in certain namespaces."""
    maintenance_jobs: MaintenanceJobs = field(default_factory=dict[RetentionJob, MaintenanceJob])
    """Functions that carry out the jobs that remove no artifacts."""
    alone: bool = False
    """Whether no other process uses the store, so that interrupted runs can be resumed before their leases end."""
    _working: dict[str, asyncio.Task[None]] = field(default_factory=dict[str, "asyncio.Task[None]"], init=False)
    """Tasks of the runs that this process carries out, by the run's ID."""

    async def apply(self, caller: Caller, digest: str, *, confirm: bool, wait: float = 0.0) -> RetentionRun:
        """Begins a run that applies a plan, or finds the run that already applies this plan; returns the run.

        Args:
            caller: the caller.
            digest: the digest of the plan.
            confirm: whether the caller has confirmed that a large part of the store may be removed.
            wait: seconds to wait for the end of the run, at most WAIT_SECONDS; the run continues afterwards.

        Raises:
            CoatcheckError: `plan_changed` if the plan no longer exists, if the caller may not apply it, or if too few
                of its artifacts are left; `confirmation_needed` if the plan would remove a large part of the store;
                `deletions_paused`; `storage_unavailable`.
        """
        now = self.clock.deletion_time()
        plan_record = await self.retention.find_plan(digest, now)
        if plan_record is None or not _concerns(caller, plan_record.plan.scope):
            raise _no_such_plan()
        plan = plan_record.plan
        if plan.job in REMOVING:
            # The remaining artifacts of the plan are counted part by part, because no single query may take long.
            remaining = LiveTotals()
            for part in range(plan_record.parts):
                remaining += await self.retention.part_left(plan_record.id, part, now)
            check_still(plan, remaining.artifacts, remaining.bytes)
            # Both sides of the share are counted now: what has expired since the plan is in neither of them.
            live = await self.plan.live(plan.job, plan.scope, now)
            check_share(replace(plan, bytes=remaining.bytes), live.bytes, confirm=confirm)
        new = begin_run(f"run_{self.new_id()}", plan.job.value, plan.scope, By.of(caller), now)
        run = replace(new, plan=digest, planned=plan.artifacts)
        # A maintenance job never renews its lease, so the lease must be long enough for the whole job.
        lease = now + (_LEASE if plan.job in REMOVING else _MAINTENANCE_LEASE)
        current_run = await self.retention.commit(
            BeginRun(run=run, plan_id=plan_record.id, worker=self.me, lease_until=lease)
        )
        # If the IDs differ, the plan is being applied already, perhaps by another process, and that run is returned.
        if current_run.id == run.id:
            self._start(current_run)
        return await self._await_end(current_run, min(wait, WAIT_SECONDS))

    async def resume(self) -> int:
        """Resumes interrupted runs in the background; returns how many.

        Raises:
            CoatcheckError: `storage_unavailable`.
        """
        # A run deletes what has expired by the clock, so no run is resumed while the clock may be wrong.
        if self.clock.pause_reason is not None:
            return 0
        if self.alone:
            # No other process can be carrying out these runs: the process that did has ended, even if a lease has not.
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
        """Carries out a run until its end.

        Raises:
            CoatcheckError: the error of storage; the run is then resumed when its lease has ended.
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
            # The result is None if the run has ended already, perhaps in another process.
            batch_result = await self._part(run)
            if batch_result is None:
                return
            run, more = batch_result.run, batch_result.more
        detail = (
            f"{run.left_count:,} of its artifacts were gone, pinned, held or changed by then." if run.left_count else ""
        )
        await self._end(run, RunOutcome.FINISHED, began, MaintenanceJobResult(detail=detail))

    async def close(self, seconds: float) -> None:
        """Waits up to `seconds` for the runs of this process, and cancels those that remain.

        Cancelled runs are resumed when their leases have ended.
        """
        if not self._working:
            return
        _, pending_tasks = await asyncio.wait(list(self._working.values()), timeout=seconds)
        for task in pending_tasks:
            task.cancel()
        if pending_tasks:
            await asyncio.wait(pending_tasks)

    async def _part(self, run: RetentionRun) -> BatchResult | None:
        """Carries out the next part of a run; returns None if the run has ended already."""
        now = self.clock.deletion_time()
        # The lives of tombstones are read again for each part, so that a long run follows a change of the policies.
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
        # An unexpected error would occur again at every resumption, so the run ends as failed.
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
    """Returns the retention run with this ID.

    Raises:
        CoatcheckError: `run_not_found`, also for a run that the caller may not see.
    """
    run = await retention.run(run_id)
    if run is None or not _concerns(caller, run.scope):
        raise CoatcheckError(Code.RUN_NOT_FOUND, f"There is no run {run_id[:80]!r}. List the runs to see their IDs.")
    return run


def _concerns(caller: Caller, scope: JobScope) -> bool:
    """Returns whether the caller administers the scope of a run or plan."""
    return is_everywhere(caller) or scope.namespace == caller.namespace


def _no_such_plan() -> CoatcheckError:
    return CoatcheckError(
        Code.PLAN_CHANGED,
        "There is no such plan, or it is older than an hour. Nothing was done. Make a new plan, review it, and apply "
        "that one.",
    )
