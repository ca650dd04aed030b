"""Changes of plans, runs, jobs and removed artifacts, and what retention is answered."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import ClassVar

from msgspec import Struct
from typing_extensions import override

from coatcheck.core.artifact import Artifact, Blob
from coatcheck.core.retention.audit import By
from coatcheck.core.retention.jobs import Criteria, JobScope
from coatcheck.core.retention.plan import PART, PlanPart, RetentionPlan
from coatcheck.core.retention.runs import JobState, Outcome, RetentionRun
from coatcheck.core.views.view import View
from coatcheck.ports.artifacts import IngestResult, UploadFenced
from coatcheck.ports.change import ROW_BYTES, CatalogChange, NamespaceChange


class KeepPlan(CatalogChange[None], frozen=True, kw_only=True):
    """Keep a plan, part by part. Nobody finds it before the change that says what it comes to, the last one."""

    plan_id: str
    scope: JobScope
    criteria: Criteria
    parts: tuple[PlanPart, ...] = ()
    plan: RetentionPlan | None = None

    @property
    @override
    def weight(self) -> int:
        return (1 + 4 * len(self.parts)) * ROW_BYTES


class KeptPlan(Struct, frozen=True, kw_only=True):
    """A plan that was kept."""

    id: str
    plan: RetentionPlan
    criteria: Criteria
    parts: int


class BeginRun(CatalogChange[RetentionRun], frozen=True, kw_only=True):
    """Begin a run, or answer the one that applies the same plan already."""

    run: RetentionRun
    plan_id: str
    worker: str
    lease_until: datetime


class ClaimRun(CatalogChange[RetentionRun | None], frozen=True, kw_only=True):
    """Take up the run that was left longest ago, whose lease has passed. Answers it, or None when there is none."""

    worker: str
    now: datetime
    lease_until: datetime


class RemoveBatch(CatalogChange["BatchResult | None"], frozen=True, kw_only=True):
    """Carry out a run's next part: remove those of its artifacts that meet the plan's criteria now and are not held.

    The run's counts and its place move in the same transaction, so that each part is carried out once, whoever tries.
    Answers None when there is no such run, or it has ended.
    """

    deletes: ClassVar[bool] = True

    run_id: str
    worker: str
    now: datetime
    lease_until: datetime
    tombstone_until: datetime
    tombstone_lives: Mapping[str, timedelta] = {}

    @property
    @override
    def weight(self) -> int:
        return (1 + PART) * ROW_BYTES


class BatchResult(Struct, frozen=True):
    """A run after one of its parts."""

    run: RetentionRun
    more: bool
    """Whether parts are left."""


class EndRun(CatalogChange[None], frozen=True, kw_only=True):
    """Write down how a run ended. One that has ended stays as it is."""

    run_id: str
    now: datetime
    outcome: Outcome
    detail: str = ""
    bytes: int = 0
    items: int = 0
    busy_seconds: float = 0.0


class NoteRound(CatalogChange[None], frozen=True, kw_only=True):
    """Add what a round of the schedule did, see `scheduled_round`, to the run of its job and hour."""

    run: RetentionRun


class SetJob(CatalogChange[JobState], frozen=True, kw_only=True):
    """Pause or resume a job of the schedule, or change its interval; with a line in the audit."""

    name: str
    now: datetime
    by: By
    paused: bool | None = None
    """None: as it was."""
    interval: int | None = None
    """Seconds; None: as it was, 0: as the settings say."""


class MarkJob(CatalogChange[None], frozen=True, kw_only=True):
    """Write down when a job of the schedule ran last, and how it went."""

    name: str
    now: datetime
    outcome: str
    detail: str = ""


class RemovedArtifact(Struct, frozen=True, kw_only=True):
    """An artifact that was removed and can be brought back while its bytes are there."""

    seq: int
    removed_at: datetime
    reason: str
    run_id: str | None
    artifact: Artifact | None
    """As it was, with the blob that it had; None where that is not there any more."""
    number: int
    namespace: str
    views: tuple["RemovedView", ...] = ()


class RemovedView(Struct, frozen=True):
    """A view that it had; a blob of None means that the view is the payload itself."""

    view: View
    blob: Blob | None


class RestoredView(Struct, frozen=True):
    """A view to be brought back, with a copy of its bytes."""

    name: str
    blob: Blob | None
    inline: bytes | None


class RestoreArtifact(NamespaceChange[IngestResult | UploadFenced | None], frozen=True, kw_only=True):
    """Bring back an artifact that was removed: its row, its views, its place in the index; the tombstone goes.

    The copies' upload intents go first, or `UploadFenced`. Where live bytes of the same content are there, these are
    pointed at. Answers the artifact; None when there is nothing to bring back any more; `Stored` would say that it is
    there: then it is answered, with `created` false, and nothing is changed.
    """

    alone: ClassVar[bool] = True

    number: int
    seq: int
    now: datetime
    ttl: int | None
    """Seconds from now; None keeps the expiry that it had, which must not have passed."""
    blob: Blob
    inline: bytes | None
    views: tuple[RestoredView, ...]
    by: By
    since: datetime
    """What was removed before cannot be brought back."""

    @property
    @override
    def weight(self) -> int:
        return ROW_BYTES + len(self.inline or b"")


class ForgetRemoved(CatalogChange[int], frozen=True, kw_only=True):
    """Give up up to `limit` of what was removed up to a moment, and plans that are over. Answers how many."""

    before: datetime
    now: datetime
    limit: int

    @property
    @override
    def weight(self) -> int:
        return (1 + self.limit) * ROW_BYTES


class LiveTotals(Struct, frozen=True):
    """What there is."""

    artifacts: int = 0
    bytes: int = 0
    """Of content."""

    def __add__(self, other: "LiveTotals") -> "LiveTotals":
        """Both together."""
        return LiveTotals(self.artifacts + other.artifacts, self.bytes + other.bytes)
