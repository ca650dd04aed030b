"""Let administrators plan and apply retention, undo removals, change the job schedule and read the audit log.

With a key of one namespace, an administrator may do this for that namespace. The job schedule, and plans for the whole
store, need a key of the namespace `*`.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from coatcheck.core.artifact import Caller
from coatcheck.core.keys import EVERYWHERE, is_everywhere, require_everywhere, resolve_administered
from coatcheck.core.retention.audit import AuditLine, By
from coatcheck.core.retention.jobs import JobState, RetentionRun, RunOutcome
from coatcheck.ports.retention import Retention
from coatcheck.ports.telemetry import Accounts, Clock
from coatcheck.upkeep.job_schedule import JobSchedule
from coatcheck.usecases.retention.plan_retention import PlanRetention
from coatcheck.usecases.retention.run_retention import RunRetention, find_run
from coatcheck.usecases.retention.undo_removal import UndoRemoval

_COUNTED_ROWS = 100_000
"""Maximum rows of each kind that a status counts; the description of `expired` states this number. Chosen, not
measured."""


class RetentionStatus(Struct, frozen=True, kw_only=True):
    """The status of retention."""

    at: datetime
    """The moment to which all numbers of the status refer."""
    expired: Annotated[int, Meta(description="Artifacts that have expired and are not removed yet; up to 100,000.")]
    oldest_overdue_seconds: float
    """Seconds since the expiry of the oldest artifact that is expired and not removed yet; 0: all are removed."""
    dead_blobs: int
    """Number of blobs that no artifact uses and that the sweep has not removed yet."""
    dead_bytes: int
    """Stored bytes of the dead blobs."""
    artifacts: int | None
    """Number of artifacts in the store; None: the number is not known."""
    stored_bytes: int | None
    """Stored bytes of all blobs; None: the number is not known."""
    jobs: tuple[JobState, ...]
    """The jobs of the schedule, with their last results."""
    running: tuple[RetentionRun, ...]
    """The runs in progress, at most 100."""


@dataclass(frozen=True, kw_only=True)
class AdministerRetention:
    """Bundles the operations of retention, and shows the runs, schedule and audit lines that the caller may see."""

    retention: Retention
    accounts: Accounts
    clock: Clock
    plan: PlanRetention
    running: RunRetention
    """Applies plans as runs."""
    undo: UndoRemoval
    job_schedule: JobSchedule

    async def run(self, caller: Caller, run_id: str) -> RetentionRun:
        """Returns the retention run with this ID.

        Raises:
            CoatcheckError: `run_not_found`, also for a run that the caller may not see.
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
        """Returns runs, newest first: those of the caller's namespace, or all runs if the caller administers the store.

        Args:
            caller: the caller.
            before: the time and ID of the run after which the list continues; None: it begins with the newest run.
            limit: maximum runs.
            job: the job of the runs; None: any job.
            outcome: the outcome of the runs; None: any outcome.
        """
        own = None if is_everywhere(caller) else caller.namespace
        return await self.retention.list_runs(before=before, limit=limit, job=job, outcome=outcome, namespace=own)

    async def status(self, caller: Caller) -> RetentionStatus:
        """Returns how much is overdue, the job schedule, and the runs in progress.

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
        """Pauses or resumes a scheduled job, or changes its interval; see `JobSchedule.change`.

        Raises:
            CoatcheckError: `forbidden` unless the caller administers the whole store; `invalid_request`.
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
        """Returns audit lines, newest first, with secrets in the names of sessions masked.

        Args:
            caller: the caller.
            namespace: the namespace; None: all namespaces that the caller administers.
            before: number of the line before which the list begins; None: it begins with the newest line.
            limit: maximum lines.
            run_id: the run that wrote the lines; None: any run, or none.
            action: the recorded action; None: any action.

        Raises:
            CoatcheckError: `forbidden` for a namespace that the caller does not administer.
        """
        own = namespace if is_everywhere(caller) else resolve_administered(caller, namespace)
        lines = await self.retention.find_audit_lines(
            before=before, limit=limit, namespace=own, run_id=run_id, action=action
        )
        return list(map(self._mask, lines))

    def _mask(self, line: AuditLine) -> AuditLine:
        session = line.details.get("session")
        if not isinstance(session, str):
            return line
        shown_name = self.plan.session_names.shown(line.namespace or EVERYWHERE, session)
        return replace(line, details={**line.details, "session": shown_name})
