"""The port of retention in SQL, whatever the database. How a change is committed is the database's own."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar, cast

from sqlalchemy import Connection

from coatcheck.adapters.sql import audit_reads, removed_reads
from coatcheck.adapters.sql import retention_reads as reads
from coatcheck.adapters.sql.change_group import Work
from coatcheck.adapters.sql.changes import plans, restore, runs, usage
from coatcheck.core.audit import AuditLine
from coatcheck.core.retention.changes import (
    BeginRun,
    ClaimRun,
    ClosePlan,
    EndRun,
    ForgetRemoved,
    KeepParts,
    KeptPlan,
    LiveTotals,
    MarkJob,
    NoteRound,
    OpenPlan,
    RemoveBatch,
    RemovedArtifact,
    RestoreArtifact,
    SetJob,
)
from coatcheck.core.retention.jobs import Criteria, Job
from coatcheck.core.retention.plan import PART, PlanPart, RetentionCandidate, Sample
from coatcheck.core.retention.runs import JobState, Outcome, RetentionRun
from coatcheck.ports.artifacts import IngestResult, UploadFenced

T = TypeVar("T")
_WEIGHT = 1024


class SqlRetention(ABC):
    """Plans, runs, what was removed, and the audit, over a way to commit changes and a way to ask questions."""

    @abstractmethod
    async def _commit(self, work: Work) -> object:
        """The answer of a change, once it is durable."""

    @abstractmethod
    async def _ask(self, namespace: str | None, question: Callable[[Connection], T]) -> T:
        """The answer to a question about a namespace; None: about all of them."""

    async def candidates(
        self, namespace: str, criteria: Criteria, now: datetime, *, after: int, limit: int
    ) -> list[RetentionCandidate]:
        """What a job would remove of a namespace."""
        return await self._ask(namespace, lambda conn: reads.candidates(conn, namespace, criteria, now, after, limit))

    async def samples(self, namespace: str, numbers: Sequence[int]) -> list[Sample]:
        """Some artifacts, as a plan shows them."""
        return await self._ask(namespace, lambda conn: reads.samples(conn, namespace, numbers))

    async def first_expired(self, namespace: str, moment: datetime) -> datetime | None:
        """When the first that has expired did."""
        return await self._ask(namespace, lambda conn: reads.first_expired(conn, namespace, moment))

    async def held_back(self, namespace: str, criteria: Criteria, now: datetime) -> int:
        """How many it would remove were they not held."""
        return await self._ask(namespace, lambda conn: reads.held(conn, namespace, criteria, now))

    async def oldest_read(
        self, namespace: str, moment: datetime, *, after: tuple[datetime, int], limit: int
    ) -> list[tuple[datetime, int, int]]:
        """What may be evicted, least recently read first."""
        return await self._ask(namespace, lambda conn: reads.oldest_read(conn, namespace, moment, after, limit))

    async def live(self, namespace: str, *, after: int, limit: int) -> tuple[LiveTotals, int | None]:
        """What there is of a namespace."""
        return await self._ask(namespace, lambda conn: reads.live(conn, namespace, after, limit))

    async def items(self, job: Job, before: datetime, audit_life: timedelta | None) -> tuple[int, int]:
        """What a job is about that removes no artifacts."""
        return await self._ask(None, lambda conn: reads.items(conn, job, before, audit_life))

    async def open_plan(self, change: OpenPlan) -> None:
        """Begin to keep a plan."""
        await self._alone(plans.apply_open, change)

    async def keep_parts(self, change: KeepParts) -> None:
        """Keep parts of a plan."""
        await self._alone(plans.apply_parts, change, len(change.parts) * PART * 8)

    async def close_plan(self, change: ClosePlan) -> None:
        """Have a plan found."""
        await self._alone(plans.apply_close, change)

    async def kept_plan(self, digest: str, now: datetime) -> KeptPlan | None:
        """The plan of a digest."""
        return await self._ask(None, lambda conn: reads.kept_plan(conn, digest, now))

    async def plan_parts(self, plan_id: str, *, first: int, limit: int) -> list[PlanPart]:
        """Parts of a plan."""
        return await self._ask(None, lambda conn: reads.parts(conn, plan_id, first, limit))

    async def begin_run(self, change: BeginRun) -> RetentionRun:
        """Begin a run."""
        return cast("RetentionRun", await self._alone(runs.apply_begin_run, change))

    async def claim_run(self, change: ClaimRun) -> RetentionRun | None:
        """Take up a run that was left."""
        return cast("RetentionRun | None", await self._alone(runs.apply_claim, change))

    async def remove_batch(self, change: RemoveBatch) -> RetentionRun | None:
        """Carry out a part of a run."""
        return cast("RetentionRun | None", await self._alone(runs.apply_batch, change, PART * _WEIGHT))

    async def end_run(self, change: EndRun) -> RetentionRun | None:
        """End a run."""
        return cast("RetentionRun | None", await self._alone(runs.apply_end, change))

    async def note_round(self, change: NoteRound) -> None:
        """Add a round to its hour's run."""
        await self._alone(runs.apply_round, change)

    async def run(self, run_id: str) -> RetentionRun | None:
        """A run."""
        return await self._ask(None, lambda conn: reads.run(conn, run_id))

    async def list_runs(
        self,
        *,
        before: tuple[datetime, str] | None = None,
        limit: int,
        job: str | None = None,
        outcome: Outcome | None = None,
        namespace: str | None = None,
    ) -> list[RetentionRun]:
        """Runs, the latest first."""
        return await self._ask(None, lambda conn: reads.list_runs(conn, before, limit, job, outcome, namespace))

    async def set_job(self, change: SetJob) -> JobState:
        """Change a job of the schedule."""
        return cast("JobState", await self._alone(runs.apply_set_job, change))

    async def mark_job(self, change: MarkJob) -> None:
        """Write down how a job ran."""
        await self._alone(runs.apply_mark_job, change)

    async def list_jobs(self) -> list[JobState]:
        """Jobs that were changed or have run."""
        return await self._ask(None, reads.list_jobs)

    async def removed_artifact(self, namespace: str, number: int, since: datetime) -> RemovedArtifact | None:
        """The last removal of an artifact."""
        return await self._ask(namespace, lambda conn: removed_reads.removed_artifact(conn, namespace, number, since))

    async def removed_by_run(self, run_id: str, since: datetime, *, after: int, limit: int) -> list[RemovedArtifact]:
        """What a run has removed."""
        return await self._ask(None, lambda conn: removed_reads.removed_by_run(conn, run_id, since, after, limit))

    async def restore_artifact(self, change: RestoreArtifact) -> IngestResult | UploadFenced | None:
        """Bring an artifact back."""
        work = Work(restore.apply_restore, change, change.namespace, len(change.inline or b"") + _WEIGHT)
        try:
            return cast("IngestResult | UploadFenced | None", await self._commit(work))
        except usage.NamespaceClosing as error:
            raise usage.closing(change.namespace) from error

    async def forget_removed(self, change: ForgetRemoved) -> int:
        """Give up what cannot be undone any more."""
        return cast("int", await self._alone(plans.apply_forget_removed, change, change.limit * _WEIGHT))

    async def find_audit_lines(
        self,
        *,
        before: int | None = None,
        limit: int,
        namespace: str | None = None,
        run_id: str | None = None,
        action: str | None = None,
    ) -> list[AuditLine]:
        """Lines of the audit, the latest first."""
        return await self._ask(
            None, lambda conn: audit_reads.find_lines(conn, before, limit, namespace, run_id, action)
        )

    async def _alone(self, apply: Callable[[Connection, Any], Any], change: object, weight: int = 0) -> object:
        """Make a change of rows of any namespace."""
        return await self._commit(Work(apply, change, None, weight + _WEIGHT))
