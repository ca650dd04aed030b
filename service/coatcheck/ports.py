"""What the service needs from the world. The docstrings are law: one contract suite holds every adapter to them.

A write is a *change*: a value that says what must become true, together with its fence. The catalogue decides how
many changes share one durable commit; a change that fails never fails its neighbours, and `apply` returns only
when its change is durable.
"""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Protocol

from msgspec import UNSET, Struct, UnsetType

from coatcheck.core.artifact import Artifact, Blob, Facts, Gone, Kind, Measure, Placement, Said
from coatcheck.core.fulltext import Packed, Size
from coatcheck.core.views import Extracted, View

# ------------------------------------------------------------------------------------------------ changes


class BeginUpload(Struct, frozen=True, kw_only=True):
    """Record the intent to write a blob, before its first byte is written. Nothing to answer."""

    namespace: str
    blob_id: str
    placement: Placement
    lease_until: datetime


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


class Stored(Struct, frozen=True):
    """What an ingest left behind."""

    artifact: Artifact
    created: bool
    """False: this very artifact was there already and is answered as it is."""
    blob_used: bool
    """False: our blob is not referenced. Its writer removes the bytes; a file is also recorded as a dead blob, so that
    the sweep finishes what a crash of the writer leaves."""


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
    ttl: int | None | UnsetType = UNSET
    idle_ttl: int | None | UnsetType = UNSET
    pinned: bool | UnsetType = UNSET
    labels: tuple[str, ...] | UnsetType = UNSET


class DeleteArtifact(Struct, frozen=True, kw_only=True):
    """Replace an artifact by its tombstone, drop its views, and mark their blobs dead when nothing else points at them.

    Answers whether it was live, or its tombstone, or None when unknown.
    """

    namespace: str
    number: int
    now: datetime
    tombstone_until: datetime


class DeleteSession(Struct, frozen=True, kw_only=True):
    """The same for up to `limit` artifacts of a session. Answers how many; repeat until it is less than `limit`."""

    namespace: str
    session: str
    now: datetime
    tombstone_until: datetime
    limit: int


class Touch(Struct, frozen=True, kw_only=True):
    """Note reads, so that idle expiry moves. Artifacts that are gone, pinned or have no idle TTL are left alone."""

    reads: tuple[tuple[str, int, datetime], ...]
    """Namespace, number, moment of the read."""


class ExpireArtifacts(Struct, frozen=True, kw_only=True):
    """Turn up to `limit` artifacts that expired by `now` into tombstones. Answers how many."""

    now: datetime
    tombstone_until: datetime
    limit: int


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
    """Drop up to `limit` tombstones and as many idempotency keys whose time is over. Answers how many in all."""

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

    async def begin_upload(self, change: BeginUpload) -> None:
        """Record the intent; see BeginUpload."""
        ...

    async def renew_upload(self, change: RenewUpload) -> bool:
        """Move the lease; see RenewUpload."""
        ...

    async def abandon_upload(self, change: AbandonUpload) -> None:
        """Forget the intent; see AbandonUpload."""
        ...

    async def store_artifact(self, change: StoreArtifact) -> Stored | Gone | Fenced | KeyReused | None:
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

    async def delete_artifact(self, change: DeleteArtifact) -> bool | Gone | None:
        """Leave a tombstone; see DeleteArtifact."""
        ...

    async def delete_session(self, change: DeleteSession) -> int:
        """Leave tombstones for a batch of a session; see DeleteSession."""
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
