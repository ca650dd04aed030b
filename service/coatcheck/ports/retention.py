"""Plans, runs and the audit log."""

from datetime import datetime, timedelta
from typing import Protocol

from coatcheck.core.retention.audit import AuditLine
from coatcheck.core.retention.jobs import Criteria, Job
from coatcheck.core.retention.plan import RetentionCandidate, Sample
from coatcheck.core.retention.runs import JobState, Outcome, RetentionRun
from coatcheck.ports.change import Commits
from coatcheck.ports.retention_changes import KeptPlan, LiveTotals, RemovedArtifact


class Retention(Commits, Protocol):
    """The catalogue as retention sees it: plans, runs, what was removed, the schedule, the audit log."""

    async def candidates(
        self, namespace: str, /, criteria: Criteria, now: datetime, *, after: int, limit: int
    ) -> list[RetentionCandidate]:
        """What meets a job's criteria at this moment and is not held, in the order of the rows, behind one of them."""
        ...

    async def sample(self, namespace: str, /, number: int) -> Sample | None:
        """An artifact as a plan shows it; None when it is not there any more."""
        ...

    async def first_expired(self, namespace: str, /, moment: datetime) -> datetime | None:
        """When the first artifact of a namespace that has expired by a moment did; None when none has."""
        ...

    async def held_back(self, namespace: str, /, criteria: Criteria, now: datetime) -> int:
        """How many artifacts meet the criteria and are held."""
        ...

    async def oldest_read(
        self, namespace: str, /, moment: datetime, *, after: tuple[datetime, int], limit: int
    ) -> list[tuple[datetime, int, int]]:
        """What may be evicted, least recently read first: moment of the last read, row, bytes of content."""
        ...

    async def live(self, namespace: str, /, *, after: int, limit: int) -> tuple[LiveTotals, int | None]:
        """What there is of a namespace behind a row, as far as `limit` rows; and where to go on, None at the end."""
        ...

    async def items(self, job: Job, before: datetime, audit_life: timedelta | None) -> tuple[int, int]:
        """What a job that removes no artifacts is about up to a moment: how many, and their stored bytes.

        A purge is about audit lines older than `audit_life`; None: about none of them.
        """
        ...

    async def next_namespace(self, after: str) -> str | None:
        """The next namespace that has artifacts, in the order of names."""
        ...

    async def kept_plan(self, digest: str, now: datetime) -> KeptPlan | None:
        """The plan of this digest, while it can be applied."""
        ...

    async def part_left(self, plan_id: str, part: int, now: datetime) -> LiveTotals:
        """What meets the criteria and is not held at this moment, of the artifacts of one part of a plan."""
        ...

    async def run(self, run_id: str) -> RetentionRun | None:
        """A run; None when there is none of this ID."""
        ...

    async def list_runs(
        self,
        *,
        before: tuple[datetime, str] | None = None,
        limit: int,
        job: str | None = None,
        outcome: Outcome | None = None,
        namespace: str | None = None,
    ) -> list[RetentionRun]:
        """Runs that meet all conditions, the latest first; `before` is start and ID of the one to go on behind."""
        ...

    async def list_jobs(self) -> list[JobState]:
        """Jobs that were changed or have run, by name."""
        ...

    async def removed_artifact(self, namespace: str, /, number: int, since: datetime) -> RemovedArtifact | None:
        """The last removal of an artifact after a moment; None when there is none."""
        ...

    async def removed_by_run(self, run_id: str, since: datetime, *, after: int, limit: int) -> list[RemovedArtifact]:
        """What a run has removed after a moment, in the order of removal, behind one."""
        ...

    async def find_audit_lines(
        self,
        *,
        before: int | None = None,
        limit: int,
        namespace: str | None = None,
        run_id: str | None = None,
        action: str | None = None,
    ) -> list[AuditLine]:
        """Lines that meet all conditions, the latest first. An action stands also for those that begin with it."""
        ...
