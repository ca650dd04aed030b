"""Plans, runs, jobs, removed artifacts and the audit log: the changes and queries of retention."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import ClassVar, Protocol

from msgspec import Struct, UnsetType
from typing_extensions import override

from coatcheck.core.artifact import Artifact, Blob
from coatcheck.core.retention.audit import AuditLine, By
from coatcheck.core.retention.jobs import Criteria, JobScope, JobState, RetentionJob, RetentionRun, RunOutcome
from coatcheck.core.retention.plan import PART_ARTIFACTS, PlanPart, PlanSample, RetentionCandidate, RetentionPlan
from coatcheck.ports.artifacts import FoundView, IngestResult, UploadFenced
from coatcheck.ports.decisions import ROW_BYTES, BatchChange, CatalogChange, Commits, NamespaceChange


class KeepPlan(CatalogChange[None], frozen=True, kw_only=True):
    """Keeps a plan, or some parts of it. A large plan takes several changes, of which the last one has the totals.

    The plan can be found once the last change is committed.
    """

    plan_id: str
    scope: JobScope
    criteria: Criteria
    """The conditions for removal. An artifact must meet them not only now, but also when its part is carried out."""
    parts: tuple[PlanPart, ...] = ()
    """The parts of the plan that this change adds."""
    plan: RetentionPlan | None = None
    """The totals of the plan; None in every change but the last."""

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
    """Number of parts. A run that applies the plan carries out each part in one transaction."""


class BeginRun(CatalogChange[RetentionRun], frozen=True, kw_only=True):
    """Begins a run, or returns the run that already applies this plan."""

    run: RetentionRun
    plan_id: str
    worker: str
    """The process that carries out the run; another process takes over once the lease has ended."""
    lease_until: datetime
    """End of the lease of `worker`; each part of the plan renews the lease."""


class ClaimRun(CatalogChange[RetentionRun | None], frozen=True, kw_only=True):
    """Takes over the unfinished run whose lease ended longest ago. Returns the run; None if there is no such run."""

    worker: str
    """The process that takes over the run."""
    now: datetime
    lease_until: datetime
    """End of the new lease of `worker`."""


class RemoveBatch(CatalogChange["BatchResult | None"], frozen=True, kw_only=True):
    """Carries out the next part of a run.

    Removes the artifacts of that part that meet the plan's criteria now and are not held. The same transaction updates
    the run's counts and its position, so that each part is carried out only once even if several processes try. Returns
    None if there is no such run, or the run has ended.
    """

    deletes: ClassVar[bool] = True

    run_id: str
    worker: str
    now: datetime
    lease_until: datetime
    """End of the lease of `worker` after this part."""
    tombstone_until: datetime
    """When the tombstones are deleted, in namespaces that are not in `tombstone_lives`."""
    tombstone_lives: Mapping[str, timedelta] = {}
    """By namespace, how long its tombstones last, from `now`."""

    @property
    @override
    def weight(self) -> int:
        return (1 + PART_ARTIFACTS) * ROW_BYTES


class BatchResult(Struct, frozen=True):
    """The state of a run after one of its parts was carried out."""

    run: RetentionRun
    more: bool
    """Whether the run has further parts."""


class EndRun(CatalogChange[None], frozen=True, kw_only=True):
    """Records how a run ended. A run that has ended already is not changed."""

    run_id: str
    now: datetime
    outcome: RunOutcome
    detail: str = ""
    bytes: int = 0
    """Stored bytes of the removed items."""
    items: int = 0
    """Number of removed items other than artifacts, for jobs that remove no artifacts."""
    busy_seconds: float = 0.0
    """Seconds that the run worked, without its pauses."""


class NoteRound(CatalogChange[None], frozen=True, kw_only=True):
    """Adds the result of a scheduled round to the run of its job and hour, which `make_scheduled_round` made."""

    run: RetentionRun


class SetJob(CatalogChange[JobState], frozen=True, kw_only=True):
    """Pauses or resumes a job of the schedule, or changes its interval, and adds a line to the audit log."""

    name: str
    now: datetime
    by: By
    """The caller whom the audit log names."""
    paused: bool | None = None
    """Whether the job is paused from now on; None: unchanged."""
    interval: int | None = None
    """Seconds between two rounds; 0: as in the settings; None: unchanged."""


class MarkJob(CatalogChange[None], frozen=True, kw_only=True):
    """Records that a job of the schedule ran, when it ran, and whether it failed."""

    name: str
    now: datetime
    outcome: str
    """`done` or `failed`."""
    detail: str = ""


class RemovedArtifact(Struct, frozen=True, kw_only=True):
    """The removal of an artifact, which can be restored while its bytes exist."""

    seq: int
    """Number of this removal's row. An artifact can have several removals: it may be removed, posted again and removed
    again."""
    removed_at: datetime
    reason: str
    """The reason of the removal, as in the artifact's tombstone."""
    run_id: str | None
    """The run that removed the artifact; None: a caller or the schedule removed it."""
    artifact: Artifact | None
    """The artifact with its former blob; None if that blob no longer exists."""
    number: int
    """Number of the artifact."""
    namespace: str
    views: tuple[FoundView, ...] = ()


class RestoredView(Struct, frozen=True):
    """A view to restore, with a copy of its bytes."""

    name: str
    blob: Blob | None
    inline: bytes | None
    """The stored bytes, if the placement is `inline`."""


class RestoreArtifact(NamespaceChange[IngestResult | UploadFenced | None], frozen=True, kw_only=True):
    """Restores a removed artifact with its row, its views and its place in the index, and deletes its tombstone.

    The upload intents of the copied bytes are deleted first; if one of them is gone, `UploadFenced` is returned. If a
    live blob with the same content exists, the artifact points at that blob. Returns the artifact; None if the removal
    can no longer be undone. If the artifact has a row, which may have expired, it is returned with `created` false, and
    nothing is changed.
    """

    takes_room: ClassVar[bool] = True
    alone: ClassVar[bool] = True

    number: int
    seq: int
    """Number of the row of the removal to undo, as in RemovedArtifact."""
    now: datetime
    ttl: int | None | UnsetType
    """Seconds from now that the artifact is kept; None: forever, as far as its age goes. UNSET: its former expiry
    applies, which must be in the future."""
    blob: Blob
    """A copy of the former blob, because the sweep may remove the former blob at any moment. A copy that is not inline
    has an upload intent."""
    inline: bytes | None
    """The stored bytes of the copy, if its placement is `inline`; otherwise None."""
    views: tuple[RestoredView, ...]
    by: By
    since: datetime
    """Removals before this moment cannot be undone."""

    @property
    @override
    def weight(self) -> int:
        return ROW_BYTES + len(self.inline or b"")


class ForgetRemoved(BatchChange[int], frozen=True, kw_only=True):
    """Forgets up to `limit` removed artifacts, which then cannot be restored any more, and plans that have expired.

    Returns the number of forgotten rows.
    """

    before: datetime
    """Artifacts that were removed up to this moment are forgotten."""
    now: datetime


class LiveTotals(Struct, frozen=True):
    """Totals over some live artifacts."""

    artifacts: int = 0
    """Number of artifacts."""
    bytes: int = 0
    """Bytes of their content."""

    def __add__(self, other: "LiveTotals") -> "LiveTotals":
        """Returns the sum of two totals."""
        return LiveTotals(self.artifacts + other.artifacts, self.bytes + other.bytes)


class Retention(Commits, Protocol):
    """The catalogue for retention: plans, runs, removed artifacts, the schedule, the audit log."""

    async def candidates(
        self, namespace: str, /, criteria: Criteria, now: datetime, *, after: int, limit: int
    ) -> list[RetentionCandidate]:
        """Returns up to `limit` artifacts that meet a job's criteria now and are not held, in row order.

        The list starts after row `after`.
        """
        ...

    async def sample(self, namespace: str, /, number: int) -> PlanSample | None:
        """Returns an artifact as a plan shows it; None if it no longer exists."""
        ...

    async def first_expired(self, namespace: str, /, moment: datetime) -> datetime | None:
        """Returns the earliest expiry of a namespace's artifacts that expired by `moment`; None if none has expired."""
        ...

    async def count_held(self, namespace: str, /, criteria: Criteria, now: datetime) -> int:
        """Returns how many artifacts meet the criteria now but are held."""
        ...

    async def oldest_read(
        self, namespace: str, /, moment: datetime, *, after: tuple[datetime, int], limit: int
    ) -> list[tuple[datetime, int, int]]:
        """Returns the artifacts that may be evicted, least recently read first, starting after `after`.

        For each artifact it returns the moment of the last read, the number of the row, and the bytes of content.
        """
        ...

    async def live(self, namespace: str, /, now: datetime, *, after: int, limit: int) -> tuple[LiveTotals, int | None]:
        """Returns the totals of those of the next `limit` artifacts of a namespace that have not expired by `now`.

        The next artifacts are those after row `after`, in row order. It also returns the row after which the next call
        continues; None: there are no more artifacts.
        """
        ...

    async def items(self, job: RetentionJob, before: datetime, audit_life: timedelta | None) -> tuple[int, int]:
        """Returns how many items a job would process if it ran at `before`, and their stored bytes.

        The job must be one that removes no artifacts. For a purge, the number includes audit lines older than
        `audit_life`; None: no audit lines.
        """
        ...

    async def next_namespace(self, after: str) -> str | None:
        """Returns the first namespace with artifacts whose name comes after `after`; None if there is none."""
        ...

    async def find_plan(self, digest: str, now: datetime) -> KeptPlan | None:
        """Returns the plan with this digest; None if it is unknown or can no longer be applied."""
        ...

    async def part_left(self, plan_id: str, part: int, now: datetime) -> LiveTotals:
        """Returns the totals of the artifacts in one part of a plan that meet its criteria now and are not held."""
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

        `before` is the start and the ID of the last run of the previous page; None: the first page.
        """
        ...

    async def list_jobs(self) -> list[JobState]:
        """Returns the jobs that an administrator has changed or that have run, in order of name."""
        ...

    async def find_removal(self, namespace: str, /, number: int, since: datetime) -> RemovedArtifact | None:
        """Returns the last removal of an artifact after `since`; None if there is none."""
        ...

    async def list_removals(self, run_id: str, since: datetime, *, after: int, limit: int) -> list[RemovedArtifact]:
        """Returns the artifacts that a run removed after `since`, in order of removal, starting after row `after`."""
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
        """Returns audit lines that meet all conditions, latest first.

        `action` also matches longer names of actions that begin with it. `before` is the number of the last line of the
        previous page; None: the first page.
        """
        ...
