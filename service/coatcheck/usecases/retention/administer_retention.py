"""Let administrators use retention: a key of one namespace plans, applies, undoes and reads the audit log there.

Plans for the whole store and the schedule need a key of `*`.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from coatcheck.core.artifact import Caller
from coatcheck.core.keys import is_everywhere, require_everywhere, resolve_administered
from coatcheck.core.retention.audit import AuditLine, By
from coatcheck.core.retention.jobs import JobState, RetentionRun, RunOutcome
from coatcheck.ports.retention import Retention
from coatcheck.ports.telemetry import Accounts, Clock
from coatcheck.upkeep.job_schedule import JobSchedule
from coatcheck.usecases.retention.plan_retention import PlanRetention
from coatcheck.usecases.retention.run_retention import RunRetention, find_run
from coatcheck.usecases.retention.undo_removal import UndoRemoval

_COUNTED_ROWS = 100_000
"""Rows of each sort that one status counts at most: chosen, not measured; the member `expired` documents it."""


class RetentionStatus(Struct, frozen=True, kw_only=True):
    """The status of retention."""

    at: datetime
    """The moment for which everything here is counted."""
    expired: Annotated[int, Meta(description="Artifacts that have expired and are not removed yet; up to 100,000.")]
    oldest_overdue_seconds: float
    """How long the oldest expired artifact has waited for its removal; 0: none waits."""
    dead_blobs: int
    """Blobs that nothing points at and that the sweep has not removed yet."""
    dead_bytes: int
    artifacts: int | None
    """None: the count is not known."""
    stored_bytes: int | None
    jobs: tuple[JobState, ...]
    running: tuple[RetentionRun, ...]


@dataclass(frozen=True, kw_only=True)
class AdministerRetention:
    """Retention's verbs side by side, and its runs, schedule and audit log as far as the caller may see them."""

    retention: Retention
    accounts: Accounts
    clock: Clock
    plan: PlanRetention
    running: RunRetention
    """Applies plans."""
    undo: UndoRemoval
    job_schedule: JobSchedule

    async def run(self, caller: Caller, run_id: str) -> RetentionRun:
        """Returns a retention run.

        Raises:
            CoatcheckError: `run_not_found`, also for a run that is not the caller's to see.
        """
        return await find_run(self.retention, caller, run_id)

    async def runs(
        self,
        caller: Caller,
        *,
        before: tuple[datetime, str] | None,
        limit: int,
        job: str | None,
        outcome: RunOutcome | None,
    ) -> list[RetentionRun]:
        """Returns runs, newest first: of the caller's namespace, or all."""
        own = None if is_everywhere(caller) else caller.namespace
        return await self.retention.list_runs(before=before, limit=limit, job=job, outcome=outcome, namespace=own)

    async def status(self, caller: Caller) -> RetentionStatus:
        """Returns what is overdue, the schedule, and the runs in progress.

        Raises:
            CoatcheckError: `forbidden` unless the caller administers the whole store.
        """
        require_everywhere(caller)
        now = self.clock.now()
        overdue = await self.accounts.overdue(now, _COUNTED_ROWS)
        seconds = 0.0 if overdue.oldest is None else (now - overdue.oldest).total_seconds()
        return RetentionStatus(
            at=now,
            expired=overdue.expired,
            oldest_overdue_seconds=round(max(0.0, seconds), 3),  # another replica's clock may be ahead
            dead_blobs=overdue.dead,
            dead_bytes=overdue.dead_bytes,
            artifacts=overdue.artifacts,
            stored_bytes=overdue.stored_bytes,
            jobs=tuple(await self.job_schedule.states()),
            running=tuple(await self.retention.list_runs(limit=100, outcome=RunOutcome.RUNNING)),
        )

    async def change_job(self, caller: Caller, name: str, *, paused: bool | None, interval: int | None) -> JobState:
        """Pauses or resumes a scheduled job, or changes its interval.

        Raises:
            CoatcheckError: `forbidden`, `invalid_request`.
        """
        require_everywhere(caller)
        return await self.job_schedule.change(name, paused=paused, interval=interval, by=By.of(caller))

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
        own = namespace if is_everywhere(caller) else resolve_administered(caller, namespace)
        return await self.retention.find_audit_lines(
            before=before, limit=limit, namespace=own, run_id=run_id, action=action
        )
