"""What the service needs from the world. The docstrings are law: one contract suite holds every adapter to them.

A write is a *change*: a value that says what must become true, together with its fence. The catalogue decides how
many changes share one durable commit; a change that fails never fails its neighbours, and `apply` returns only
when its change is durable.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Protocol

from msgspec import UNSET, Struct, UnsetType

from coatcheck.core.artifact import Artifact, Blob, Caller, Facts, Gone, Kind, Measure, Placement, Said
from coatcheck.core.audit import SCHEDULE, By, Entry, Head
from coatcheck.core.errors import Code
from coatcheck.core.fulltext import Packed, Size
from coatcheck.core.holds import Held, Hold
from coatcheck.core.keys import KeyInfo, KeyRow, NamespaceInfo
from coatcheck.core.policy import Policy, Rules, Scope
from coatcheck.core.quota import Full, Room, Usage
from coatcheck.core.retention.changes import (
    BeginRun,
    ClaimRun,
    ClosePlan,
    EndRun,
    ForgetRemoved,
    KeepParts,
    KeptPlan,
    Live,
    MarkJob,
    NoteRound,
    OpenPlan,
    RemoveBatch,
    Removed,
    RestoreArtifact,
    SetJob,
)
from coatcheck.core.retention.jobs import Criteria, Job
from coatcheck.core.retention.plan import Candidate, PlanPart, Sample
from coatcheck.core.retention.runs import JobState, Outcome, Run
from coatcheck.core.session_usage import SessionUsage, Spent
from coatcheck.core.views import Extracted, View

# ------------------------------------------------------------------------------------------------ changes


class BeginUpload(Struct, frozen=True, kw_only=True):
    """Record the intent to write a blob, before its first byte is written.

    Answers `Full` where its reservation does not fit into `room`; then nothing is recorded.
    """

    namespace: str
    blob_id: str
    placement: Placement
    lease_until: datetime
    reserve: int = 0
    """Stored bytes to reserve. They are given back with the intent, however it ends."""
    room: Room | None = None


class ReserveMore(Struct, frozen=True, kw_only=True):
    """Raise the reservation of an open upload to so many bytes. Answers as RenewUpload does, or `Full`."""

    namespace: str
    blob_id: str
    reserve: int
    room: Room | None


class RenewUpload(Struct, frozen=True, kw_only=True):
    """Move the lease of an open upload. Answers whether it was still ours (false: reaped, stop writing)."""

    namespace: str
    blob_id: str
    lease_until: datetime


class AbandonUpload(Struct, frozen=True, kw_only=True):
    """Forget an intent whose file its writer has removed already. Absent is fine."""

    namespace: str
    blob_id: str


class IdempotencyKey(Struct, frozen=True, kw_only=True):
    """A caller's key for one request, and what that request was."""

    key: str
    fingerprint: bytes
    expires_at: datetime


class NewView(Struct, frozen=True, kw_only=True):
    """A derived view to be kept with its artifact."""

    view: View
    blob: Blob | None
    """Its bytes; None where the view is the payload itself. A blob that is not inline has an upload intent."""
    inline: bytes | None = None
    """The stored bytes themselves when the blob's placement is `inline`."""


class StoreArtifact(Struct, frozen=True, kw_only=True):
    """The one transaction of an ingest.

    In order: delete our own upload intent or answer `Fenced` (a blob without an upload is inline and needs none);
    settle the idempotency key; if a live artifact of this identity exists answer it, unchanged; otherwise find the
    identity's free number, point at a live blob of this namespace with the same digest and size or insert ours,
    insert the artifact, remove a tombstone of this identity.

    A key that is remembered for this very request answers the artifact that it stands for with the `created` of
    then, its tombstone, or None when it is forgotten; it never creates.

    Where a tombstone of this identity is younger than `unless_buried_since`, nothing is stored and the tombstone is
    answered: who comes late must not revive what was deleted meanwhile. Our intent and our blob go as if folded.

    Where it needs more than `room` has, it answers `Full`: nothing is changed and our intent stays, so that it can be
    made again when there is room. What is there already, and bytes that are shared, need none. In a namespace that is
    being deleted it raises CoatcheckError `namespace_deleting`.

    An expired artifact of this identity that is held is not replaced: it lives again as it was, for as long as this
    change says from now on, and is answered with `created=False`.

    A condemned blob is never folded into. Where our bytes are those of one, every artifact and view that points at it
    is pointed at a trusted blob (ours, unless there is another) and the condemned one dies; a live artifact of this
    identity is then answered with `created=False`.
    """

    namespace: str
    identity: bytes
    said: Said
    measure: Measure
    facts: Facts
    engine: int
    blob: Blob
    inline: bytes | None
    """The stored bytes themselves when the blob's placement is `inline`; otherwise None."""
    ttl: int | None
    idle_ttl: int | None
    pinned: bool
    now: datetime
    key: IdempotencyKey | None = None
    text_view: NewView | None = None
    """Kept in the same transaction, if this change creates the artifact; its blob is inline or absent. Where the
    artifact is there already, it only brings back condemned bytes that are the same as its own."""
    unless_buried_since: datetime | None = None
    """The moment from which a deletion outdoes this change; None: none does."""
    room: Room | None = None
    """The most that the namespace may hold; None: without a limit."""


class Stored(Struct, frozen=True):
    """What an ingest left behind."""

    artifact: Artifact
    created: bool
    """False: this very artifact was there already and is answered as it is."""
    blob_used: bool
    """False: our blob is not referenced. Its writer removes the bytes; a file is also recorded as a dead blob, so that
    the sweep finishes what a crash of the writer leaves."""
    replayed: bool = False
    """Whether it answers an idempotency key that had been answered before."""


class Fenced(Struct, frozen=True):
    """The upload's intent was gone: someone reaped it. Nothing was changed."""


class KeyReused(Struct, frozen=True):
    """The idempotency key belongs to another request. Nothing was changed but the upload's intent."""


class StoreView(Struct, frozen=True, kw_only=True):
    """Keep a derived view of a live artifact.

    Our upload intent goes first, or `Fenced`. Of several that are made at once the first is kept for ever: the view
    that is there is answered, and ours is dropped as a folded blob is. Answers None when the artifact is not live.

    Its ranges are citations, so that a view whose blob is condemned is replaced by the same bytes only: where ours are
    the same they take the place of those that were lost, and `blob_used` says so; otherwise it is answered as it is.
    """

    namespace: str
    number: int
    now: datetime
    new: NewView


class StoredView(Struct, frozen=True):
    """What StoreView left behind."""

    found: "FoundView"
    """The view that is kept; its inline bytes only where it is ours."""
    blob_used: bool
    """False: our blob is not referenced, as in Stored."""


class PatchArtifact(Struct, frozen=True, kw_only=True):
    """Change what may change of a live artifact. Answers it, or its tombstone, or None when unknown.

    A new `ttl` counts from creation. Pinning clears the expiry; unpinning restores it from `ttl` and `idle_ttl`,
    counted from now if it would already have passed. A new `idle_ttl` counts from now.
    """

    namespace: str
    number: int
    now: datetime
    revive: bool = False
    """Whether an artifact that has expired and is held may live again, when the change makes it last beyond now."""
    ttl: int | None | UnsetType = UNSET
    idle_ttl: int | None | UnsetType = UNSET
    pinned: bool | UnsetType = UNSET
    labels: tuple[str, ...] | UnsetType = UNSET


class DeleteArtifact(Struct, frozen=True, kw_only=True):
    """Replace an artifact by its tombstone, drop its views, and mark their blobs dead when nothing else points at them.

    Answers whether it was live, or its tombstone, or None when unknown; `Held` when a hold forbids it.
    """

    namespace: str
    number: int
    now: datetime
    tombstone_until: datetime
    by: By = By()


class DeleteSession(Struct, frozen=True, kw_only=True):
    """The same for up to `limit` artifacts of a session. Answers how many; repeat until it is less than `limit`.

    Artifacts that are held by themselves stay. Answers `Held` when a hold covers the session: then nothing is deleted.
    """

    namespace: str
    session: str
    now: datetime
    tombstone_until: datetime
    limit: int
    by: By = By()


class Touch(Struct, frozen=True, kw_only=True):
    """Note reads, so that idle expiry moves, and that a full namespace lets go of others first.

    Artifacts that are gone or pinned are left alone; without an idle TTL the expiry stays.
    """

    reads: tuple[tuple[str, int, datetime], ...]
    """Namespace, number, moment of the read."""


class DeleteNamespace(Struct, frozen=True, kw_only=True):
    """The same for up to `limit` artifacts of a namespace that is marked, live or expired. Answers how many.

    Artifacts that are held stay.
    """

    namespace: str
    now: datetime
    tombstone_until: datetime
    limit: int
    by: By = SCHEDULE


class MarkNamespace(Struct, frozen=True, kw_only=True):
    """Mark a namespace as being deleted: from then on nothing is stored in it. Or take the mark away.

    Answers `Held` when a hold covers the namespace itself; then it is not marked. Otherwise whether this changed it.
    """

    namespace: str
    now: datetime
    deleting: bool
    by: By = By()


class EvictArtifacts(Struct, frozen=True, kw_only=True):
    """Make room in a namespace: turn what was read longest ago into tombstones, expired artifacts first.

    Never what is pinned or held. It removes no more artifacts than are needed at this moment, and at most `limit`;
    where even all that may go would not be enough, it removes nothing. Answers `Evicted`.
    """

    namespace: str
    now: datetime
    room: Room
    bytes: int = 0
    """Stored bytes to have room for, beside what is there and reserved."""
    artifacts: int = 0
    """Artifacts to have room for."""
    tombstone_until: datetime
    limit: int
    by: By = SCHEDULE


class Evicted(Struct, frozen=True):
    """What an eviction did."""

    artifacts: int
    """0: not enough can go, or nothing has to."""
    enough: bool
    """Whether there is now as much room as was asked for."""


class SetPolicy(Struct, frozen=True, kw_only=True):
    """Make a new version of a scope's policy, or with None remove it. Answers the version.

    Answers None when a removal finds no policy.
    """

    scope: Scope
    policy: Policy | None
    now: datetime
    by: By = By()


class PlaceHold(Struct, frozen=True, kw_only=True):
    """Place a hold. When it is answered, no delete that has not been answered before removes what it covers.

    Answers True; for an artifact that is not there its tombstone, or None when it is unknown, and no hold is placed.
    An artifact that has expired and is not buried can be held.
    """

    hold: Hold
    by: By = By()


class ReleaseHold(Struct, frozen=True, kw_only=True):
    """Release a hold. Answers it, or None when there is none of this ID."""

    id: str
    namespace: str | None
    """Only in this namespace; None: in any."""
    now: datetime
    by: By = By()


class ExpireArtifacts(Struct, frozen=True, kw_only=True):
    """Turn up to `limit` artifacts that expired by `now` into tombstones. Answers how many. Held ones stay."""

    now: datetime
    tombstone_until: datetime
    limit: int
    tombstone_lives: Mapping[str, timedelta] = {}
    """How long the tombstones of some namespaces last, counted from `now`; of others they last until the above."""
    by: By = SCHEDULE


class ReapUploads(Struct, frozen=True, kw_only=True):
    """Turn up to `limit` uploads whose lease passed before `now` into dead blobs. Answers how many.

    From that moment the writer's commit is fenced; the sweep removes what it wrote.
    """

    now: datetime
    limit: int


class ForgetBlobs(Struct, frozen=True, kw_only=True):
    """Drop the rows of dead blobs (and their inline bytes). Their files have been removed already. Absent is fine."""

    blobs: tuple[tuple[str, str], ...]
    """Namespace, blob ID."""


class CondemnBlob(Struct, frozen=True, kw_only=True):
    """Mark a live blob whose bytes were found missing or damaged. What points at it stays; nothing new will.

    Answers whether this very change did it: false for a blob that is condemned already, dead or unknown.
    """

    namespace: str
    blob_id: str
    now: datetime


class PurgeRecords(Struct, frozen=True, kw_only=True):
    """Drop up to `limit` tombstones, as many idempotency keys and sessions' accounts whose time is over.

    Answers how many in all.
    """

    now: datetime
    limit: int


class TakeLease(Struct, frozen=True, kw_only=True):
    """Become or stay the one who does a piece of upkeep. Answers whether the holder has the lease now.

    It is given when it is free, over, or the holder's already. It saves work and protects nothing: what it guards
    must be harmless when two do it. Taking it for 0 seconds gives it back.
    """

    name: str
    holder: str
    seconds: float
    now: datetime
    """Ignored where the database has a clock of its own that all replicas share."""


class IndexDocuments(Struct, frozen=True, kw_only=True):
    """Put documents into the full-text index and take them off the list of those that wait for it.

    What has changed since it was read, or been replaced, stays on the list. Where none of them is on the list any more
    nothing is added: someone else was faster. Answers how many were taken off.
    """

    namespace: str
    read: tuple[tuple[int, int | None], ...]
    """The rows that were read, each with the fingerprint it had then; None: there was no artifact."""
    segment_id: int
    """Random, of 62 bits: no two segments ever have the same."""
    segment: Packed | None
    """None: none of them is there any more."""


class MergeSegments(Struct, frozen=True, kw_only=True):
    """Put one segment in the place of several. Answers whether all were still there; otherwise nothing is changed."""

    namespace: str
    old: tuple[int, ...]
    segment_id: int
    segment: Packed | None
    """None: nothing of them was left."""


class DropSegment(Struct, frozen=True, kw_only=True):
    """Take a damaged segment out of the full-text index and put every artifact that it may have held back on the list.

    Absent ones do no harm.
    """

    namespace: str
    segment_id: int


class Reindex(Struct, frozen=True, kw_only=True):
    """Put artifacts on the list of those that wait for the full-text index; by their rows. Absent ones do no harm."""

    namespace: str
    rows: tuple[int, ...]


# -------------------------------------------------------------------------------------------------- reads


class FoundView(Struct, frozen=True):
    """A kept view and, when inline, its stored bytes."""

    view: View
    blob: Blob | None
    """None: the view is the payload itself."""
    inline: bytes | None = None


class Found(Struct, frozen=True):
    """A live artifact and, when asked for and inline, its stored bytes."""

    artifact: Artifact
    inline: bytes | None = None
    text_view: FoundView | None = None
    """When asked for and kept."""


class KeyRecord(Struct, frozen=True):
    """What an idempotency key stands for."""

    fingerprint: bytes
    number: int
    created: bool
    """Whether that request created the artifact (its answer was 201)."""


class Filter(Struct, frozen=True, kw_only=True):
    """Which artifacts to list; all given conditions hold."""

    session: str | None = None
    kind: Kind | None = None
    tool_name: str | None = None
    url: str | None = None
    label: str | None = None
    session_prefix: str | None = None
    """With which the session's name begins; what is in no session does not meet it."""
    terms: tuple[tuple[int, ...], ...] | None = None
    """Keys of `core/fulltext`: a document must have one of each. What is not indexed yet is not found by them."""


class Page(Struct, frozen=True):
    """Part of a list, newest first. `before` continues it; None means that this was the last part.

    Where few of many artifacts meet the conditions, a part that is not the last may hold less than was asked for, even
    nothing: a search for them has its time, and stops where the next part goes on.
    """

    artifacts: list[Artifact]
    before: int | None
    damaged: tuple[int, ...] = ()
    """Segments of the full-text index that cannot be read: what they hold is missing."""


class DeadBlob(Struct, frozen=True):
    """A blob that nothing points at and that nothing ever will again."""

    namespace: str
    id: str
    placement: Placement
    dead_at: datetime


class InlineBytes(Protocol):
    """What the catalogue knows of blobs that are stored in it."""

    async def inline_bytes(self, namespace: str, blob_id: str) -> bytes | None:
        """The stored bytes of an inline blob; None when there is no such row."""
        ...


class Catalog(InlineBytes, Protocol):
    """Rows: what exists, for whom, until when. Every method names the namespace; none has an ambient caller.

    All raise CoatcheckError `storage_unavailable` when the database cannot be reached or is busy for too long, and
    `storage_full` when it cannot grow. After the second nothing of the change is visible. After the first it may be
    all the same, where the answer to a commit was lost: every change can be made again safely, and then may succeed.
    Questions raise `overloaded` when the database answers, but others keep all that there is to ask it with.
    """

    async def begin_upload(self, change: BeginUpload) -> Full | None:
        """Record the intent; see BeginUpload."""
        ...

    async def reserve_more(self, change: ReserveMore) -> bool | Full:
        """Raise a reservation; see ReserveMore."""
        ...

    async def renew_upload(self, change: RenewUpload) -> bool:
        """Move the lease; see RenewUpload."""
        ...

    async def abandon_upload(self, change: AbandonUpload) -> None:
        """Forget the intent; see AbandonUpload."""
        ...

    async def store_artifact(self, change: StoreArtifact) -> Stored | Gone | Fenced | KeyReused | Full | None:
        """Commit an ingest; see StoreArtifact."""
        ...

    async def condemn_blob(self, change: CondemnBlob) -> bool:
        """Trust a blob no more; see CondemnBlob."""
        ...

    async def same_bytes(self, namespace: str, sha256: bytes, size: int) -> Blob | None:
        """The blob that storing this content would point at instead of a new one."""
        ...

    async def store_view(self, change: StoreView) -> StoredView | Fenced | None:
        """Keep a derived view; see StoreView."""
        ...

    async def patch_artifact(self, change: PatchArtifact) -> Artifact | Gone | None:
        """Change what may change; see PatchArtifact."""
        ...

    async def delete_artifact(self, change: DeleteArtifact) -> bool | Gone | Held | None:
        """Leave a tombstone; see DeleteArtifact."""
        ...

    async def delete_session(self, change: DeleteSession) -> int | Held:
        """Leave tombstones for a batch of a session; see DeleteSession."""
        ...

    async def evict_artifacts(self, change: EvictArtifacts) -> Evicted:
        """Make room; see EvictArtifacts."""
        ...

    async def holds_within(self, namespace: str, session: str | None, now: datetime) -> Held | None:
        """The holds that cover something there is in a session, or in the whole namespace; None when there are none."""
        ...

    async def usage_of(self, namespace: str) -> Usage:
        """What a namespace holds."""
        ...

    async def touch(self, change: Touch) -> None:
        """Move idle expiry; see Touch."""
        ...

    async def find(
        self, namespace: str, number: int, now: datetime, *, with_bytes: bool = False, with_view: bool = False
    ) -> Found | Gone | None:
        """The artifact if it is live at `now`, else its tombstone, else None; one statement decides.

        `with_view` also answers its kept text view with that view's inline bytes.

        One that has expired but was not yet swept answers its tombstone too. None: this namespace has never heard
        of it, or has forgotten it.
        """
        ...

    async def find_key(self, namespace: str, key: str, now: datetime) -> KeyRecord | None:
        """The request an idempotency key stands for, while it is remembered."""
        ...

    async def list_artifacts(
        self, namespace: str, where: Filter, now: datetime, *, before: int | None, limit: int
    ) -> Page:
        """Live artifacts, newest first. `limit` is 1 to 200."""
        ...

    async def ready(self) -> None:
        """Return if the database answers, takes writes and has this release's schema; otherwise raise, saying which.

        After a write that storage refused, it raises that fault until a write succeeds.
        """
        ...


class Upkeep(Protocol):
    """The catalogue as the schedule sees it: across namespaces, in small batches, each its own transaction."""

    async def expire_artifacts(self, change: ExpireArtifacts) -> int:
        """Leave tombstones for a batch of expired artifacts; see ExpireArtifacts."""
        ...

    async def reap_uploads(self, change: ReapUploads) -> int:
        """Fence a batch of lapsed uploads; see ReapUploads."""
        ...

    async def forget_blobs(self, change: ForgetBlobs) -> None:
        """Drop dead blobs' rows; see ForgetBlobs."""
        ...

    async def purge_records(self, change: PurgeRecords) -> int:
        """Forget a batch of old records; see PurgeRecords."""
        ...

    async def empty_log(self) -> bool:
        """Have what was deleted leave the log that the catalogue keeps of its changes, where it keeps one in our files.

        False: somebody still reads from it, ask again later.
        """
        ...

    async def take_lease(self, change: TakeLease) -> bool:
        """Become or stay the holder; see TakeLease."""
        ...

    async def lease_holder(self, name: str) -> str | None:
        """Who took a lease last, whether or not it is over; None when nobody ever did."""
        ...

    async def dead_blobs(self, before: datetime, limit: int, after: DeadBlob | None = None) -> list[DeadBlob]:
        """Blobs that died before a moment, by moment and ID; `after` continues behind one that was answered."""
        ...

    async def known_blobs(self, names: list[tuple[str, str]]) -> set[tuple[str, str]]:
        """Of these (namespace, blob ID), the ones that a row knows: live, dead, or an open upload.

        An empty namespace asks for the ID in any: a store's names need not carry it.
        """
        ...

    def all_blobs(self) -> AsyncIterator[tuple[str, Blob]]:
        """Every live blob with its namespace, for checks; not inline bytes."""
        ...


class Decisions(Protocol):
    """The catalogue as administrators see it: policies, holds, usage."""

    async def set_policy(self, change: SetPolicy) -> int | None:
        """Make a version of a policy; see SetPolicy."""
        ...

    async def policy_version(self) -> int:
        """The last version of all; 0 when there never was a policy. Cheap: asked every few seconds."""
        ...

    async def policies(self) -> tuple[int, Rules]:
        """All policies that hold, and their last version."""
        ...

    async def policy_history(self, scope: Scope, limit: int) -> list["PolicyVersion"]:
        """The versions of a scope's policy, newest first."""
        ...

    async def place_hold(self, change: PlaceHold) -> bool | Gone | None:
        """Place a hold; see PlaceHold."""
        ...

    async def release_hold(self, change: ReleaseHold) -> Hold | None:
        """Release a hold; see ReleaseHold."""
        ...

    async def holds(self, namespace: str | None, *, after: str = "", limit: int = 200) -> list[Hold]:
        """Holds of a namespace or of all, by ID behind one; those whose time is over are among them."""
        ...

    async def usages(self, namespace: str | None, *, after: str = "", limit: int = 200) -> list[Usage]:
        """What namespaces hold, by name behind one."""
        ...

    async def mark_namespace(self, change: MarkNamespace) -> bool | Held:
        """Begin or end a namespace's deletion; see MarkNamespace."""
        ...

    async def delete_namespace(self, change: DeleteNamespace) -> int:
        """Leave tombstones for a batch of a namespace; see DeleteNamespace."""
        ...

    async def marked_namespaces(self) -> list[Usage]:
        """The namespaces that are being deleted."""
        ...


class PolicyVersion(Struct, frozen=True, kw_only=True):
    """A version of a scope's policy."""

    version: int
    scope: Scope
    policy: Policy | None
    """None: it was removed."""
    at: datetime
    by: str


class Unindexed(Struct, frozen=True):
    """An artifact that waits for the full-text index: live, or expired and not yet buried."""

    row: int
    """Its place in the order of arrival."""
    fingerprint: int | None
    found: Found | None
    """With its stored bytes and its text view, where these are in the catalogue. None: it is not there any more."""


class TextIndex(Protocol):
    """The full-text index of the catalogue: segments of documents, and who waits to become one.

    Whoever stores an artifact, changes its labels or keeps a view of it puts it on the list in the same transaction.
    """

    async def index_documents(self, change: IndexDocuments) -> int:
        """Add a segment; see IndexDocuments."""
        ...

    async def merge_segments(self, change: MergeSegments) -> bool:
        """Make one of several; see MergeSegments."""
        ...

    async def drop_segment(self, change: DropSegment) -> None:
        """Give up a segment; see DropSegment."""
        ...

    async def reindex(self, change: Reindex) -> None:
        """Put back on the list; see Reindex."""
        ...

    async def unindexed(self, namespace: str, limit: int, *, after: int = 0) -> list[Unindexed]:
        """The oldest that wait, behind a row."""
        ...

    async def newest_unindexed(self, namespace: str) -> int | None:
        """The row of the newest that waits; None when none does."""
        ...

    async def next_unindexed(self, after: str) -> str | None:
        """The next namespace where some wait, in the order of names; None: there is none behind this one."""
        ...

    async def segment_sizes(self, namespace: str) -> list[Size]:
        """The segments of a namespace, oldest first."""
        ...

    async def next_segment(self, after: int) -> tuple[str, Size] | None:
        """The next segment of all, by its ID, and its namespace."""
        ...

    async def read_segments(self, namespace: str, ids: list[int]) -> list[Packed] | None:
        """Segments whole; None when one of them is not there any more."""
        ...

    async def fingerprints(self, namespace: str, rows: list[int]) -> dict[int, int]:
        """What the artifacts in these rows are now; of those that are there."""
        ...

    async def unlisted(self, namespace: str, after: int) -> tuple[list[int], int | None]:
        """Rows behind one that are neither indexed as they are nor on the list, and where to go on; for checks."""
        ...

    async def next_namespace(self, after: str) -> str | None:
        """The next namespace that has artifacts, in the order of names; for checks."""
        ...


class StoredName(Struct, frozen=True):
    """A blob as the store sees it. `namespace` is empty where the store's names do not carry it."""

    namespace: str
    id: str
    size: int
    modified_at: datetime


class BlobWriter(Protocol):
    """One blob being written. Exactly one of `finish` and `abort` ends it."""

    async def write(self, data: bytes) -> None:
        """Append. Raises `storage_full` or `storage_unavailable`; after that only `abort` may follow."""
        ...

    async def finish(self) -> None:
        """Make every byte and the name durable. When this returns, a power loss loses nothing."""
        ...

    async def abort(self) -> None:
        """Remove what was written. Never raises for what is already gone. Safe after a failed `finish`."""
        ...


class BlobStore(Protocol):
    """Bytes under names that the server makes and uses once."""

    @property
    def placement(self) -> Placement:
        """What a Blob kept here has as its placement."""
        ...

    @property
    def others(self) -> "tuple[BlobStore, ...]":
        """Where blobs were put before, each with a placement of its own: to be read and removed, never written."""
        ...

    async def create(self, namespace: str, blob_id: str) -> BlobWriter:
        """Start a blob. A name is written once: FileExistsError if it is taken, here or by the writer's own calls."""
        ...

    async def read(self, namespace: str, blob_id: str, start: int, length: int, *, fresh: bool = False) -> bytes:
        """Exactly `length` stored bytes from `start`; with `fresh` past every cache that can be passed.

        Raises CoatcheckError `integrity` when the blob is missing or shorter than that.
        """
        ...

    async def size(self, namespace: str, blob_id: str) -> int | None:
        """Stored bytes of a blob; None when there is no such blob. Says nothing of what they are."""
        ...

    async def remove(self, namespace: str, blob_id: str) -> bool:
        """Remove a blob durably. False when it was not there, which is no error."""
        ...

    def names(self) -> AsyncIterator[StoredName]:
        """Everything in the store, in any order, also what no row knows."""
        ...


class Place(Protocol):
    """Where a blob store is, as something that belongs to one database: it bears a mark that says to which.

    The mark is no blob: `names` does not list it.
    """

    @property
    def where(self) -> str:
        """Which place it is, in words for an operator, without secrets."""
        ...

    @property
    def placement(self) -> Placement:
        """As of a BlobStore."""
        ...

    async def mark(self) -> str | None:
        """What the mark says; None where there is none. At most its first 256 bytes."""
        ...

    async def put_mark(self, text: str) -> str:
        """Set the mark durably unless there is one; answers what it says then. Of several at once one sets it."""
        ...

    def names(self) -> AsyncIterator[StoredName]:
        """As of a BlobStore."""
        ...


class Extractor(Protocol):
    """Makes text views, apart from this process and within limits of time and memory."""

    async def extract(self, kind: Kind, media_type: str | None, url: str | None, payload: bytes) -> Extracted | None:
        """The text view of a payload; None where the kind has none but the raw one, or nothing could be extracted.

        Answers within a few seconds whatever the payload is: what defeats the extractor is given to a simpler one, and
        what defeats that has no text view. Deterministic but for payloads near the limits.

        Raises:
            CoatcheckError: `overloaded` when it cannot be told now whether there is one; only for documents and for
                payloads of more than 2 MiB.
        """
        ...


class Clock(Protocol):
    """The time that decides."""

    def now(self) -> datetime:
        """The moment, aware, in UTC, to the microsecond."""
        ...


class Overdue(Struct, frozen=True, kw_only=True):
    """What upkeep still has to do, over all namespaces, at one moment. Counts stop at the limit that was asked with."""

    expired: int = 0
    """Artifacts that have expired and are not buried yet. What is held is not among them."""
    oldest: datetime | None = None
    """When the first of them expired; None when there is none."""
    dead: int = 0
    """Blobs that nothing points at and that are not swept yet."""
    dead_bytes: int = 0
    """Their stored bytes."""
    artifacts: int | None = None
    """Artifacts there are; None where nobody keeps count."""
    stored_bytes: int | None = None
    """Bytes that they are charged with; None where nobody keeps count."""


class Accounts(Protocol):
    """The catalogue as a meter sees it."""

    async def overdue(self, now: datetime, limit: int) -> Overdue:
        """Count what upkeep has to do, looking at no more than `limit` rows of each sort."""
        ...


class Meter(Protocol):
    """Counts what happens. Any thread may call it; it takes microseconds, never waits and never raises.

    Names that are counted by are few and fixed: kinds, codes, routes by their template. No caller chooses one.
    """

    def answered(self, route: str, method: str, status: int, seconds: float, received: int) -> None:
        """A request has been answered: by which route, with what, in how long, after how many bytes of its body."""
        ...

    def problem(self, code: Code) -> None:
        """A caller was told of an expected failure."""
        ...

    def limited(self, what: str) -> None:
        """A caller was refused for what it may do in a minute: `requests` or `bytes`."""
        ...

    def ingested(self, kind: Kind, outcome: str, size: int, tokens: int, shown: int | None) -> None:
        """A payload was taken in.

        Args:
            kind: what it is.
            outcome: `stored`, `repeated` (it was there already) or `unstored` (storage did not take it).
            size: its bytes.
            tokens: its tokens, exact or estimated.
            shown: tokens of the card that stands for it; None when it was answered inline.
        """
        ...

    def refused(self, store: str, code: Code) -> None:
        """A store did not take or give what was asked of it."""
        ...

    def committed(self, changes: int, waited: float, took: float) -> None:
        """Changes were committed together, the first of which had waited for so many seconds."""
        ...

    def ran(self, job: str, result: str, seconds: float) -> None:
        """A round of a job has ended: `done` or `failed`."""
        ...

    def tidied(self, what: str, rows: int) -> None:
        """Upkeep has removed rows of a sort."""
        ...

    def lagged(self, seconds: float) -> None:
        """The event loop came back so much later than it was asked to."""
        ...


class Stage(Protocol):
    """A part of what a request does, while it goes on."""

    def note(self, name: str, value: str | float) -> None:
        """Say something of it that is no text of a payload."""
        ...


class Tracer(Protocol):
    """Follows requests through their stages, for whoever collects that. Never waits and never raises of itself."""

    @property
    def on(self) -> bool:
        """Whether anybody collects; otherwise the rest does nothing."""
        ...

    def request(self, method: str, parent: str | None, state: str | None) -> AbstractContextManager[Stage]:
        """Around a request; `parent` and `state` are its `traceparent` and `tracestate` (W3C Trace Context)."""
        ...

    def stage(self, name: str) -> AbstractContextManager[Stage]:
        """Around a part of it; in the same task or one that it started."""
        ...


class MakeKey(Struct, frozen=True, kw_only=True):
    """Keep a new key, and its namespace where there is none of that name, with a line in the audit.

    Another key of the same ID is an error of whoever draws the bytes: nothing is changed, and it raises.
    """

    info: KeyInfo
    digest: bytes
    by: Caller


class RevokeKey(Struct, frozen=True, kw_only=True):
    """Refuse a key from now on; a repetition changes nothing. Answers the key as it is then, or None.

    None: there is none of that ID in the namespace; a `namespace` of None looks in all.
    """

    key_id: str
    namespace: str | None
    now: datetime
    by: Caller


class MakeNamespace(Struct, frozen=True, kw_only=True):
    """Have a namespace of this name. Answers it, and whether this change made it."""

    name: str
    now: datetime
    by: Caller


class SwitchNamespace(Struct, frozen=True, kw_only=True):
    """Refuse a namespace's keys from now on, or no more. Answers it as it is then, or None when there is none."""

    name: str
    disabled: bool
    now: datetime
    by: Caller


class Keys(Protocol):
    """Who may ask. What is changed here holds for every request that any replica begins to check afterwards."""

    async def make_key(self, change: MakeKey) -> None:
        """Keep a key; see MakeKey."""
        ...

    async def revoke_key(self, change: RevokeKey) -> KeyInfo | None:
        """Refuse a key; see RevokeKey."""
        ...

    async def make_namespace(self, change: MakeNamespace) -> tuple[NamespaceInfo, bool]:
        """Have a namespace; see MakeNamespace."""
        ...

    async def switch_namespace(self, change: SwitchNamespace) -> NamespaceInfo | None:
        """Disable or enable; see SwitchNamespace."""
        ...

    async def find_keys(self, ids: Collection[str]) -> dict[str, KeyRow]:
        """The keys of these IDs, as they are now; also those that are revoked or have expired."""
        ...

    async def any_key(self) -> bool:
        """Whether a key was ever made."""
        ...

    async def list_keys(self, namespace: str | None, *, before: str | None, limit: int) -> list[KeyInfo]:
        """Keys of a namespace, or of all, newest first, behind the one of an ID; where that is none of them, none."""
        ...

    async def list_namespaces(self, *, after: str, limit: int, only: str | None = None) -> list[NamespaceInfo]:
        """Namespaces in the order that the database gives their names, behind one; `only` the one of a name."""
        ...


# --------------------------------------------------------------------------------------------- session accounts


class AddSessionUsage(Struct, frozen=True, kw_only=True):
    """Add to the accounts of sessions, which begin with it where there are none.

    Making it again changes nothing, unless another process has added to the same session in between: then a change
    whose answer was lost counts twice. The accounts are for people to look at; nothing is decided by them.
    """

    batch: int
    """Random, of 62 bits: by which a change is known again."""
    at: datetime
    sessions: tuple[tuple[str, str, Spent], ...]
    """Namespace, session, what to add; each pair once."""


class SessionAccounts(Protocol):
    """What the sessions' tokens came to. An account goes with its session, or 90 days after it was written to last."""

    async def add_session_usage(self, change: AddSessionUsage) -> None:
        """Add to accounts; see AddSessionUsage."""
        ...

    async def session_usage(self, namespace: str, session: str) -> SessionUsage | None:
        """The account of a session; None when nothing was ever added to it."""
        ...


class Retention(Protocol):
    """The catalogue as retention sees it: plans, runs, what was removed, the schedule, the audit."""

    async def candidates(
        self, namespace: str, criteria: Criteria, now: datetime, *, after: int, limit: int
    ) -> list[Candidate]:
        """What meets a job's criteria at this moment and is not held, in the order of the rows, behind one of them."""
        ...

    async def samples(self, namespace: str, numbers: Sequence[int]) -> list[Sample]:
        """Those of these artifacts that are there, as a plan shows them; in any order."""
        ...

    async def first_expired(self, namespace: str, moment: datetime) -> datetime | None:
        """When the first artifact of a namespace that has expired by a moment did; None when none has."""
        ...

    async def held_back(self, namespace: str, criteria: Criteria, now: datetime) -> int:
        """How many artifacts meet the criteria and are held."""
        ...

    async def oldest_read(
        self, namespace: str, moment: datetime, *, after: tuple[datetime, int], limit: int
    ) -> list[tuple[datetime, int, int]]:
        """What may be evicted, least recently read first: moment of the last read, row, bytes of content."""
        ...

    async def live(self, namespace: str, *, after: int, limit: int) -> tuple[Live, int | None]:
        """What there is of a namespace behind a row, as far as `limit` rows; and where to go on, None at the end."""
        ...

    async def items(self, job: Job, before: datetime) -> tuple[int, int]:
        """What a job that removes no artifacts is about up to a moment: how many, and their stored bytes."""
        ...

    async def next_namespace(self, after: str) -> str | None:
        """The next namespace that has artifacts, in the order of names."""
        ...

    async def open_plan(self, change: OpenPlan) -> None:
        """Begin to keep a plan; see OpenPlan."""
        ...

    async def keep_parts(self, change: KeepParts) -> None:
        """Keep parts of it; see KeepParts."""
        ...

    async def close_plan(self, change: ClosePlan) -> None:
        """Have it found; see ClosePlan."""
        ...

    async def kept_plan(self, digest: str, now: datetime) -> KeptPlan | None:
        """The plan of this digest, while it can be applied."""
        ...

    async def plan_parts(self, plan_id: str, *, first: int, limit: int) -> list[PlanPart]:
        """Parts of a plan, from one on."""
        ...

    async def begin_run(self, change: BeginRun) -> Run:
        """Begin a run; see BeginRun."""
        ...

    async def claim_run(self, change: ClaimRun) -> Run | None:
        """Take up one that was left; see ClaimRun."""
        ...

    async def remove_batch(self, change: RemoveBatch) -> Run | None:
        """Carry out a part of one; see RemoveBatch."""
        ...

    async def end_run(self, change: EndRun) -> Run | None:
        """End one; see EndRun."""
        ...

    async def note_round(self, change: NoteRound) -> None:
        """Sum up a round of the schedule; see NoteRound."""
        ...

    async def run(self, run_id: str) -> Run | None:
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
    ) -> list[Run]:
        """Runs that meet all conditions, the latest first; `before` is start and ID of the one to go on behind."""
        ...

    async def set_job(self, change: SetJob) -> JobState:
        """Change a job of the schedule; see SetJob."""
        ...

    async def mark_job(self, change: MarkJob) -> None:
        """Write down how it ran; see MarkJob."""
        ...

    async def list_jobs(self) -> list[JobState]:
        """Jobs that were changed or have run, by name."""
        ...

    async def removed_artifact(self, namespace: str, number: int, since: datetime) -> Removed | None:
        """The last removal of an artifact after a moment; None when there is none."""
        ...

    async def removed_by_run(self, run_id: str, since: datetime, *, after: int, limit: int) -> list[Removed]:
        """What a run has removed after a moment, in the order of removal, behind one."""
        ...

    async def restore_artifact(self, change: RestoreArtifact) -> Stored | Fenced | None:
        """Bring an artifact back; see RestoreArtifact."""
        ...

    async def forget_removed(self, change: ForgetRemoved) -> int:
        """Give up what cannot be undone any more; see ForgetRemoved."""
        ...

    async def audit_lines(self, *, after: int, limit: int) -> list[Entry]:
        """Lines of the audit in their order, behind one."""
        ...

    async def find_audit_lines(
        self,
        *,
        before: int | None = None,
        limit: int,
        namespace: str | None = None,
        run_id: str | None = None,
        action: str | None = None,
    ) -> list[Entry]:
        """Lines that meet all conditions, the latest first. An action stands also for those that begin with it."""
        ...

    async def audit_head(self) -> Head | None:
        """Where the audit says that it ends; None when somebody has removed that."""
        ...
