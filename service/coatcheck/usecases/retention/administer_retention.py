"""Let administrators use retention: a key of one namespace plans, applies, undoes and reads the audit log there.

Plans for the whole store and the schedule need a key of `*`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from coatcheck.core.artifact import Caller
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.keys import administered, is_everywhere, require_everywhere
from coatcheck.core.retention import REMOVING, Job, JobScope, JobState, Outcome, RetentionPlan, RetentionRun
from coatcheck.core.retention.audit import AuditLine, By
from coatcheck.ports.clock import Clock
from coatcheck.ports.retention import Retention
from coatcheck.ports.telemetry import Accounts, Overdue
from coatcheck.upkeep.job_schedule import JobSchedule
from coatcheck.usecases.retention.plan_retention import PlanRetention
from coatcheck.usecases.retention.run_retention import RunRetention, no_such_plan
from coatcheck.usecases.retention.undo_removal import LIMIT, UndoRemoval, UndoResult

MOST_WAIT = 30.0
"""Most seconds that a call may wait for the end of a run."""
_MOST_OVERDUE = 100_000
"""Most rows that are counted for the status."""


class Status(Struct, frozen=True, kw_only=True):
    """The state of retention: what is overdue, the schedule and the runs in progress."""

    at: datetime
    overdue: Overdue
    jobs: tuple[JobState, ...]
    running: tuple[RetentionRun, ...]


@dataclass(frozen=True, kw_only=True)
class AdministerRetention:
    """Plans, applies and undoes retention, and reads its runs and the audit log, as far as the caller may."""

    retention: Retention
    accounts: Accounts
    clock: Clock
    planning: PlanRetention
    running: RunRetention
    undoing: UndoRemoval
    job_schedule: JobSchedule

    async def plan(self, caller: Caller, job: Job, scope: JobScope) -> RetentionPlan:
        """Returns the plan of a job.

        Raises:
            CoatcheckError: `forbidden`, `invalid_request`, `storage_unavailable`.
        """
        if job not in REMOVING:
            require_everywhere(caller)  # about the whole store, whichever namespace is named
        return await self.planning(job, _allowed(caller, scope))

    async def apply(self, caller: Caller, digest: str, *, confirm: bool, wait: float) -> RetentionRun:
        """Applies a plan and returns its run.

        Raises:
            CoatcheckError: `plan_changed`, also for a plan that is not the caller's to apply; `confirmation_needed`,
                `storage_unavailable`.
        """
        kept = await self.retention.kept_plan(digest, self.clock.now())
        if kept is not None and not (is_everywhere(caller) or kept.plan.scope.namespace == caller.namespace):
            raise no_such_plan()
        return await self.running.apply(digest, confirm=confirm, by=By.of(caller), wait=min(wait, MOST_WAIT))

    async def run(self, caller: Caller, run_id: str) -> RetentionRun:
        """Returns a retention run.

        Raises:
            CoatcheckError: `run_not_found`, also for a run that is not the caller's to see.
        """
        found = await self.retention.run(run_id)
        if found is None or not (is_everywhere(caller) or found.scope.namespace == caller.namespace):
            raise CoatcheckError(
                Code.RUN_NOT_FOUND, f"There is no run {run_id[:80]!r}. List the runs to see their IDs."
            )
        return found

    async def runs(
        self,
        caller: Caller,
        *,
        before: tuple[datetime, str] | None,
        limit: int,
        job: str | None,
        outcome: Outcome | None,
    ) -> list[RetentionRun]:
        """Returns runs, newest first: of the caller's namespace, or all."""
        own = None if is_everywhere(caller) else caller.namespace
        return await self.retention.list_runs(before=before, limit=limit, job=job, outcome=outcome, namespace=own)

    async def status(self, caller: Caller) -> Status:
        """Returns what is overdue, the schedule, and the runs in progress.

        Raises:
            CoatcheckError: `forbidden` unless the caller administers the whole store.
        """
        require_everywhere(caller)
        now = self.clock.now()
        return Status(
            at=now,
            overdue=await self.accounts.overdue(now, _MOST_OVERDUE),
            jobs=tuple(await self.job_schedule.states()),
            running=tuple(await self.retention.list_runs(limit=100, outcome=Outcome.RUNNING)),
        )

    async def change_job(self, caller: Caller, name: str, *, paused: bool | None, interval: int | None) -> JobState:
        """Pauses or resumes a scheduled job, or changes its interval.

        Raises:
            CoatcheckError: `forbidden`, `invalid_request`.
        """
        require_everywhere(caller)
        return await self.job_schedule.change(name, paused=paused, interval=interval, by=By.of(caller))

    async def undo(self, caller: Caller, namespace: str | None, numbers: Sequence[int], ttl: int | None) -> UndoResult:
        """Restores removed artifacts by their IDs.

        Raises:
            CoatcheckError: `forbidden`, `invalid_request`.
        """
        if not 1 <= len(numbers) <= LIMIT:
            raise CoatcheckError(Code.INVALID_REQUEST, f"Name 1 to {LIMIT} artifacts.", parameter="artifacts")
        named = administered(caller, namespace)
        return await self.undoing.artifacts(named, list(dict.fromkeys(numbers)), ttl=ttl, by=By.of(caller))

    async def undo_run(self, caller: Caller, run_id: str, *, after: int, ttl: int | None) -> tuple[UndoResult, int]:
        """Restores a part of what a run removed; also returns where to continue.

        Raises:
            CoatcheckError: `run_not_found`.
        """
        await self.run(caller, run_id)
        return await self.undoing.run(run_id, after=after, ttl=ttl, by=By.of(caller))

    async def audit(
        self,
        caller: Caller,
        namespace: str | None,
        *,
        before: int | None,
        limit: int,
        run_id: str | None,
        action: str | None,
    ) -> list[AuditLine]:
        """Returns audit lines, newest first: of a namespace, or of all.

        Raises:
            CoatcheckError: `forbidden`.
        """
        own = namespace if is_everywhere(caller) else administered(caller, namespace)
        return await self.retention.find_audit_lines(
            before=before, limit=limit, namespace=own, run_id=run_id, action=action
        )


def _allowed(caller: Caller, scope: JobScope) -> JobScope:
    """Returns the scope that a caller means and may have: their own namespace if they administer only that."""
    if scope.namespace is None and is_everywhere(caller):
        return scope
    return replace(scope, namespace=administered(caller, scope.namespace))
