"""The changes of artifacts and their views, and the answers that the catalogue gives to these changes."""

from datetime import datetime
from typing import ClassVar, TypeAlias

from msgspec import UNSET, Struct, UnsetType
from typing_extensions import override

from coatcheck.core.artifact import Artifact, Blob, DeclaredMetadata, DetectedMetadata, Gone, Measure, ReceiptRecord
from coatcheck.core.policies.quota import QuotaExceeded, QuotaLimits
from coatcheck.core.read_answer import ViewInputs
from coatcheck.core.retention.audit import By, HoldConflict
from coatcheck.core.views.view import View
from coatcheck.ports.decisions import ROW_BYTES, ArtifactChange, CatalogChange, NamespaceBatchChange, NamespaceChange

_SECTION_BYTES = 100
"""Approximate bytes of one section in a view's row: its name, title and two positions."""


class IdempotencyKey(Struct, frozen=True, kw_only=True):
    """A caller's idempotency key, and the request for which the key was used first."""

    key: str
    fingerprint: bytes
    """Digest of that request: a different request with the same key is refused."""
    expires_at: datetime
    """The moment from which the key may be used for another request."""


class NewView(Struct, frozen=True, kw_only=True):
    """A derived view to keep with its artifact."""

    view: View
    blob: Blob | None
    """The blob of the view's bytes; None if the view is the payload itself. A blob that is not inline has an intent."""
    inline: bytes | None = None
    """The stored bytes, if the blob's placement is `inline`; otherwise None."""

    @property
    def weight(self) -> int:
        """Approximate number of bytes that the view adds to the catalogue."""
        index = 0 if self.blob is None else len(self.blob.index)
        return len(self.inline or b"") + index + len(self.view.sections) * _SECTION_BYTES


class StoreArtifact(
    NamespaceChange["StoreAnswer"],
    frozen=True,
    kw_only=True,
    rename={"declared": "said"},
):
    """Stores the artifact of an ingest, in one transaction. "Our" intent and blob are those of this change.

    The steps, in order:

    1. Delete our own upload intent, or return `UploadFenced` if it is gone. An inline blob has no intent.
    2. Resolve the idempotency key.
    3. If a live artifact of this identity exists, return it.
    4. Otherwise find a free number for the identity. Point the artifact at a live blob of this namespace with the same
       digest and size, or at our blob, which is then inserted. Insert the artifact, and remove a tombstone of this
       identity.

    If the artifact exists, its declaration becomes what `declared.merged_over` returns for the stored declaration. If
    the two differ, the artifact's `facts` (except `redacted` and `comparison`), `engine` and `survey` become those of
    this change. Its text view stays if the extractor's inputs are the same; otherwise `text_view` replaces the view, or
    the view is removed. A replayed request, or a change with `unless_buried_since`, leaves the artifact as it is.

    If the idempotency key was used before for this same request, the change creates nothing. It returns the artifact
    of the first request with the original `created`, or the artifact's tombstone, or None if the tombstone is gone too.

    If a tombstone of this identity is younger than `unless_buried_since`, nothing is stored and the tombstone is
    returned: a late request must not revive an artifact that has been deleted since. Our intent and our blob are
    dropped as if the blob had been deduplicated.

    If the change needs more than `room` allows, it returns `QuotaExceeded`. Then nothing is changed and our intent
    stays, so that the change can be retried once there is room. Existing artifacts and shared bytes need no room. In a
    namespace that is being deleted, the change raises CoatcheckError `namespace_deleting`.

    An expired artifact of this identity that is held is not replaced. It becomes live again with its former contents,
    expires as this change says, counted from now, and is returned with `created=False`.

    A corrupt blob is never used for deduplication. If our bytes equal those of a corrupt blob, every artifact and view
    that points at the corrupt blob is pointed at a healthy one (ours, unless there is another), and the corrupt blob
    dies. A live artifact of this identity is then returned with `created=False`.
    """

    takes_room: ClassVar[bool] = True

    identity: bytes
    """Digest of namespace, session, tool call ID and payload: two payloads with the same identity are one artifact.

    The artifact's number is derived from it."""
    declared: DeclaredMetadata
    """The metadata that the caller declares."""
    measure: Measure
    facts: DetectedMetadata
    """The metadata that was detected in the payload."""
    engine: int
    """Number of the engine that detected `facts`; an engine with another number may detect them again."""
    blob: Blob
    inline: bytes | None
    """The stored bytes if the blob's placement is `inline`; otherwise None."""
    ttl: int | None
    """Seconds from `now` that the artifact is kept; None: no limit."""
    idle_ttl: int | None
    """Seconds that the artifact is kept after each read; None: reads do not matter."""
    pinned: bool
    """Whether the artifact never expires."""
    now: datetime
    key: IdempotencyKey | None = None
    survey: bytes | None = None
    """The engine's survey of the whole payload: opaque, at most 256 KiB; None: the payload has no survey."""
    text_view: NewView | None = None
    """The text view, whose blob is inline or absent. It is kept in the same transaction if this change creates the
    artifact or changes its declaration; otherwise it only serves to repair a corrupt blob with the same bytes."""
    receipt: ReceiptRecord | None = None
    """The record of the text that a model gets in the payload's place; None: there is no record. It is kept if this
    change creates the artifact under the first number of its identity."""
    unless_buried_since: datetime | None = None
    """A deletion at or after this moment prevails over this change; None: no deletion prevails."""
    room: QuotaLimits | None = None
    """The limits of the namespace; None: unlimited."""

    @property
    @override
    def weight(self) -> int:
        text = "" if self.receipt is None else self.receipt.text or ""
        stored_bytes = len(self.inline or b"") + len(self.blob.index) + len(self.survey or b"") + len(text)
        return ROW_BYTES + stored_bytes + (0 if self.text_view is None else self.text_view.weight)


class IngestResult(Struct, frozen=True):
    """The result of an ingest."""

    artifact: Artifact
    created: bool
    """Whether this ingest created the artifact; false: the artifact existed already."""
    blob_used: bool
    """Whether a row points at our blob. If not, the blob's writer removes the bytes; a file is also recorded as a dead
    blob, so that the sweep removes it if the writer crashes."""
    replayed: bool = False
    """Whether this is the repeated answer to a request with the same idempotency key."""
    redeclared: bool = False
    """Whether the artifact existed already, and this ingest changed its declaration."""


class UploadFenced(Struct, frozen=True):
    """Says that nothing was changed, because the upload's intent was reaped, or a new view no longer fits the artifact.

    A view no longer fits if the artifact has been declared differently since the view was made.
    """


class KeyConflict(Struct, frozen=True):
    """Says that the idempotency key belongs to another request. Only the upload's intent was deleted."""


StoreAnswer: TypeAlias = IngestResult | Gone | UploadFenced | KeyConflict | QuotaExceeded | None
"""The possible answers to StoreArtifact, which its docstring explains."""


class StoreView(ArtifactChange["StoredView | UploadFenced | None"], frozen=True, kw_only=True):
    """Keeps a derived view of a live artifact.

    Our upload intent is deleted first; if it is gone, `UploadFenced` is returned. If several processes make the view at
    once, the first one committed is kept permanently: a later change returns that view, and drops its own like a
    deduplicated blob. A view of an earlier version is replaced. Returns None if the artifact is not live.

    Citations refer to ranges of a view, so the bytes of a corrupt blob may only be replaced by the same bytes. If our
    bytes are the same, they replace the lost ones, and `blob_used` is true; otherwise the kept view is returned as it
    is.
    """

    takes_room: ClassVar[bool] = True

    now: datetime
    new: NewView
    inputs: ViewInputs | None = None
    """The extractor's inputs when the view was made. If the artifact's declaration now yields other inputs, nothing is
    changed and `UploadFenced` is returned. None: the view is kept, whatever the declaration is."""
    facts: DetectedMetadata | None = None
    """New detected metadata, for an artifact that was stored before the form of its text was determined; None: no
    change."""

    @property
    @override
    def weight(self) -> int:
        return ROW_BYTES + self.new.weight


class StoredView(Struct, frozen=True):
    """The result of StoreView."""

    view: "FoundView"
    """The view that is kept: ours or an earlier one. It has inline bytes only if it is ours."""
    blob_used: bool
    """Whether a row points at our blob; see IngestResult."""


class PatchArtifact(ArtifactChange[Artifact | Gone | None], frozen=True, kw_only=True):
    """Changes the mutable properties of a live artifact. Returns the artifact, its tombstone, or None if it is unknown.

    A new `ttl` counts from creation, a new `idle_ttl` from now. Pinning clears the expiry. Unpinning computes the
    expiry from `ttl` and `idle_ttl` again. If that moment has already passed, the idle TTL counts from now; if `ttl`
    has ended, too, it begins again, so that the artifact's age is added to it.
    """

    now: datetime
    revive: bool = False
    """Whether an expired artifact that is held becomes live again if the change moves its expiry beyond `now`."""
    ttl: int | None | UnsetType = UNSET
    """Seconds from creation; None: no limit. Here and in the fields below `max_ttl`, UNSET means unchanged."""
    max_ttl: int | None = None
    """Maximum of a new `ttl`, which is reduced to it, but not below the artifact's present TTL; None: no maximum."""
    idle_ttl: int | None | UnsetType = UNSET
    """Seconds from now, and from each read; None: reads do not matter."""
    pinned: bool | UnsetType = UNSET
    labels: tuple[str, ...] | UnsetType = UNSET


class DeleteArtifact(ArtifactChange[bool | Gone | HoldConflict | None], frozen=True, kw_only=True):
    """Replaces an artifact by its tombstone, drops its views, and marks blobs dead if nothing else points at them.

    Returns true if the artifact was live, its tombstone if it was gone already, None if it is unknown, and
    `HoldConflict` if a hold forbids the deletion.
    """

    deletes: ClassVar[bool] = True

    now: datetime
    tombstone_until: datetime
    """When the tombstone is deleted."""
    by: By = By()
    is_waiting: bool = False
    """Whether the payload waits to be stored. If the artifact is unknown, a hold on its future namespace or session
    then forbids the deletion."""
    session: str | None = None
    """The session of a payload that waits."""


class DeleteSession(NamespaceBatchChange[int | HoldConflict], frozen=True, kw_only=True):
    """Deletes up to `limit` artifacts of a session, and returns their number.

    Repeat the change until the number is less than `limit`. Artifacts with holds of their own stay. If a hold covers
    the session, nothing is deleted and `HoldConflict` is returned.
    """

    alone: ClassVar[bool] = True
    deletes: ClassVar[bool] = True

    session: str
    now: datetime
    tombstone_until: datetime
    """When the tombstones are deleted."""
    by: By = By()


class Touch(CatalogChange[None], frozen=True, kw_only=True):
    """Records reads. A read moves the idle expiry of its artifact, and recently read artifacts are evicted last.

    Artifacts that are gone or pinned are not changed. Without an idle TTL, the expiry stays.
    """

    reads: tuple[tuple[str, int, datetime], ...]
    """Namespace, number and moment of each read."""

    @property
    @override
    def weight(self) -> int:
        return (1 + len(self.reads)) * ROW_BYTES


class FoundView(Struct, frozen=True):
    """A kept view and, if inline, its stored bytes."""

    view: View
    blob: Blob | None
    """The blob of the view's bytes; None: the view is the payload itself."""
    inline: bytes | None = None


class KeyRecord(Struct, frozen=True):
    """The request that an idempotency key stands for, and its result."""

    fingerprint: bytes
    """Digest of the request, as in IdempotencyKey."""
    number: int
    """Number of the artifact that the request stored or found."""
    created: bool
    """Whether the request created the artifact (its answer was 201)."""
