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
    """The catalogue for retention: plans, runs, removed artifacts, the schedule, the audit log."""

    async def candidates(
        self, namespace: str, /, criteria: Criteria, now: datetime, *, after: int, limit: int
    ) -> list[RetentionCandidate]:
        """Returns artifacts that meet a job's criteria now and are not held, in row order, after row `after`."""
        ...

    async def sample(self, namespace: str, /, number: int) -> Sample | None:
        """Returns an artifact as a plan shows it; None if it no longer exists."""
        ...

    async def first_expired(self, namespace: str, /, moment: datetime) -> datetime | None:
        """Returns when the first artifact of a namespace that expired by `moment` did; None if none has."""
        ...

    async def count_held(self, namespace: str, /, criteria: Criteria, now: datetime) -> int:
        """Returns how many artifacts meet the criteria but are held."""
        ...

    async def oldest_read(
        self, namespace: str, /, moment: datetime, *, after: tuple[datetime, int], limit: int
    ) -> list[tuple[datetime, int, int]]:
        """Returns what may be evicted, least recently read first: moment of the last read, row, bytes of content."""
        ...

    async def live(self, namespace: str, /, *, after: int, limit: int) -> tuple[LiveTotals, int | None]:
        """Returns totals of up to `limit` rows of a namespace after a row.

        And the row to continue after, None at the end.
        """
        ...

    async def items(self, job: Job, before: datetime, audit_life: timedelta | None) -> tuple[int, int]:
        """Returns how many items a job that removes no artifacts would delete up to `before`, and their stored bytes.

        A purge deletes audit lines older than `audit_life`; None: none.
        """
        ...

    async def next_namespace(self, after: str) -> str | None:
        """Returns the next namespace that has artifacts, in order of names."""
        ...

    async def find_plan(self, digest: str, now: datetime) -> KeptPlan | None:
        """Returns the plan of this digest, while it can be applied."""
        ...

    async def part_left(self, plan_id: str, part: int, now: datetime) -> LiveTotals:
        """Returns totals of the artifacts in one part of a plan that meet the criteria now and are not held."""
        ...

    async def run(self, run_id: str) -> RetentionRun | None:
        """Returns a run; None if the ID is unknown."""
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
        """Returns runs that meet all conditions, latest first.

        `before` is start and ID of the run to continue after.
        """
        ...

    async def list_jobs(self) -> list[JobState]:
        """Returns jobs that were changed or have run, by name."""
        ...

    async def find_removal(self, namespace: str, /, number: int, since: datetime) -> RemovedArtifact | None:
        """Returns the last removal of an artifact after `since`; None if there is none."""
        ...

    async def list_removals(self, run_id: str, since: datetime, *, after: int, limit: int) -> list[RemovedArtifact]:
        """Returns what a run has removed after `since`, in order of removal, starting after `after`."""
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
        """Returns lines that meet all conditions, latest first. `action` also matches actions that begin with it."""
        ...
