"""Plans, runs, jobs, removed artifacts and the audit log: the changes and queries of retention."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import ClassVar, Protocol

from msgspec import Struct
from typing_extensions import override

from coatcheck.core.artifact import Artifact, Blob
from coatcheck.core.retention.audit import AuditLine, By
from coatcheck.core.retention.jobs import Criteria, JobScope, JobState, RetentionJob, RetentionRun, RunOutcome
from coatcheck.core.retention.plan import PART_ARTIFACTS, PlanPart, PlanSample, RetentionCandidate, RetentionPlan
from coatcheck.ports.artifacts import FoundView, IngestResult, UploadFenced
from coatcheck.ports.decisions import ROW_BYTES, BatchChange, CatalogChange, Commits, NamespaceChange


class KeepPlan(CatalogChange[None], frozen=True, kw_only=True):
    """Keeps a plan, part by part. It can be found once the last change, which has its totals, is committed."""

    plan_id: str
    scope: JobScope
    criteria: Criteria
    """What an artifact must meet when its part is carried out, not only now."""
    parts: tuple[PlanPart, ...] = ()
    """Parts of this change; a large plan takes several changes."""
    plan: RetentionPlan | None = None
    """The totals, in the last change; until then the plan cannot be found."""

    @property
    @override
    def weight(self) -> int:
        return (1 + 4 * len(self.parts)) * ROW_BYTES


class KeptPlan(Struct, frozen=True, kw_only=True):
    """A stored plan."""

    id: str
    plan: RetentionPlan
    criteria: Criteria
    parts: int
    """Number of parts: transactions of a run that applies it."""


class BeginRun(CatalogChange[RetentionRun], frozen=True, kw_only=True):
    """Begins a run, or returns the one that already applies this plan."""

    run: RetentionRun
    plan_id: str
    worker: str
    """The process that carries it out; another takes over when the lease has ended."""
    lease_until: datetime
    """The lease of `worker`; each part renews it."""


class ClaimRun(CatalogChange[RetentionRun | None], frozen=True, kw_only=True):
    """Takes over the run whose lease ended longest ago. Returns it, or None if there is none."""

    worker: str
    now: datetime
    lease_until: datetime


class RemoveBatch(CatalogChange["BatchResult | None"], frozen=True, kw_only=True):
    """Carries out a run's next part: removes those of its artifacts that meet the plan's criteria now and are not held.

    The run's counts and position move in the same transaction, so each part is carried out once, whoever tries. Returns
    None if there is no such run, or it has ended.
    """

    deletes: ClassVar[bool] = True

    run_id: str
    worker: str
    now: datetime
    lease_until: datetime
    """The lease after this part: each part renews it."""
    tombstone_until: datetime
    """When tombstones are deleted, in namespaces without their own duration."""
    tombstone_lives: Mapping[str, timedelta] = {}
    """Durations of tombstones that differ, by namespace."""

    @property
    @override
    def weight(self) -> int:
        return (1 + PART_ARTIFACTS) * ROW_BYTES


class BatchResult(Struct, frozen=True):
    """A run after one of its parts."""

    run: RetentionRun
    more: bool
    """Whether parts are left."""


class EndRun(CatalogChange[None], frozen=True, kw_only=True):
    """Records how a run ended. A run that has ended is not changed."""

    run_id: str
    now: datetime
    outcome: RunOutcome
    detail: str = ""
    bytes: int = 0
    """Stored bytes of these items."""
    items: int = 0
    """Items other than artifacts, for jobs that remove none."""
    busy_seconds: float = 0.0
    """Time that the run took itself, without its pauses."""


class NoteRound(CatalogChange[None], frozen=True, kw_only=True):
    """Adds the result of a scheduled round, see `make_scheduled_round`, to the run of its job and hour."""

    run: RetentionRun


class SetJob(CatalogChange[JobState], frozen=True, kw_only=True):
    """Pauses or resumes a job of the schedule, or changes its interval; with a line in the audit log."""

    name: str
    now: datetime
    by: By
    """Whom the audit log names."""
    paused: bool | None = None
    """None: unchanged."""
    interval: int | None = None
    """Seconds; None: unchanged, 0: as in the settings."""


class MarkJob(CatalogChange[None], frozen=True, kw_only=True):
    """Records when a job of the schedule ran last, and how it went."""

    name: str
    now: datetime
    outcome: str
    """`done` or `failed`."""
    detail: str = ""


class RemovedArtifact(Struct, frozen=True, kw_only=True):
    """An artifact that was removed, and can be restored while its bytes exist."""

    seq: int
    """The row of the removal: an artifact may be removed, posted again and removed again."""
    removed_at: datetime
    reason: str
    """Why, as its tombstone has it."""
    run_id: str | None
    """The run that removed it; None: a caller or the schedule."""
    artifact: Artifact | None
    """The artifact with its former blob; None if that no longer exists."""
    number: int
    namespace: str
    views: tuple[FoundView, ...] = ()


class RestoredView(Struct, frozen=True):
    """A view to restore, with a copy of its bytes."""

    name: str
    blob: Blob | None
    inline: bytes | None
    """The stored bytes, if the placement is `inline`."""


class RestoreArtifact(NamespaceChange[IngestResult | UploadFenced | None], frozen=True, kw_only=True):
    """Restores an artifact that was removed: its row, its views, its place in the index; the tombstone is deleted.

    The copies' upload intents are deleted first, or `UploadFenced` is returned. If live bytes with the same content
    exist, they are used. Returns the artifact; None if nothing can be restored any more. If the artifact is live, it is
    returned with `created` false, and nothing is changed.
    """

    takes_room: ClassVar[bool] = True
    alone: ClassVar[bool] = True

    number: int
    seq: int
    """The row of the removal to undo."""
    now: datetime
    ttl: int | None
    """Seconds from now; None keeps its former expiry, which must be in the future."""
    blob: Blob
    """A copy of the bytes, with an upload intent unless it is inline: the former ones may be swept at any moment."""
    inline: bytes | None
    views: tuple[RestoredView, ...]
    by: By
    since: datetime
    """Removals before this moment cannot be undone."""

    @property
    @override
    def weight(self) -> int:
        return ROW_BYTES + len(self.inline or b"")


class ForgetRemoved(BatchChange[int], frozen=True, kw_only=True):
    """Gives up to `limit` artifacts removed up to a moment, and expired plans, out of reach of an undo.

    Returns how many.
    """

    before: datetime
    """Removals up to this moment are out of reach of an undo."""
    now: datetime


class LiveTotals(Struct, frozen=True):
    """Totals of live artifacts."""

    artifacts: int = 0
    bytes: int = 0
    """Bytes of content."""

    def __add__(self, other: "LiveTotals") -> "LiveTotals":
        """Returns the sum of both."""
        return LiveTotals(self.artifacts + other.artifacts, self.bytes + other.bytes)


class Retention(Commits, Protocol):
    """The catalogue for retention: plans, runs, removed artifacts, the schedule, the audit log."""

    async def candidates(
        self, namespace: str, /, criteria: Criteria, now: datetime, *, after: int, limit: int
    ) -> list[RetentionCandidate]:
        """Returns artifacts that meet a job's criteria now and are not held, in row order, after row `after`."""
        ...

    async def sample(self, namespace: str, /, number: int) -> PlanSample | None:
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

    async def items(self, job: RetentionJob, before: datetime, audit_life: timedelta | None) -> tuple[int, int]:
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
        outcome: RunOutcome | None = None,
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
