"""Changes of artifacts and their views, and their answers."""

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
"""About as much as a section takes in a view's row: its name, title and two positions."""


class IdempotencyKey(Struct, frozen=True, kw_only=True):
    """A caller's idempotency key, and the request that it stands for."""

    key: str
    fingerprint: bytes
    """Digest of the request: another request with this key is refused."""
    expires_at: datetime
    """When the key may be used for another request."""


class NewView(Struct, frozen=True, kw_only=True):
    """A derived view to keep with its artifact."""

    view: View
    blob: Blob | None
    """Its bytes; None if the view is the payload itself. A blob that is not inline has an upload intent."""
    inline: bytes | None = None
    """The stored bytes, if the blob's placement is `inline`."""

    @property
    def weight(self) -> int:
        """Approximate number of bytes that it adds to the catalogue."""
        index = 0 if self.blob is None else len(self.blob.index)
        return len(self.inline or b"") + index + len(self.view.sections) * _SECTION_BYTES


class StoreArtifact(
    NamespaceChange["StoreAnswer"],
    frozen=True,
    kw_only=True,
    rename={"declared": "said"},
):
    """The one transaction of an ingest.

    In order: delete our own upload intent or return `UploadFenced` (a blob without an upload is inline and needs none);
    resolve the idempotency key; if a live artifact of this identity exists, return it; otherwise find the identity's
    free number, point at a live blob of this namespace with the same digest and size or insert ours, insert the
    artifact, and remove a tombstone of this identity.

    An existing artifact takes on what `declared.merged_over` yields for its own declaration. If that differs, its
    `facts` (except `redacted` and `comparison`), `engine` and `survey` become those of this change; its text view
    stays if the extractor's inputs are the same, and is otherwise replaced by `text_view`, or removed. A replayed
    request changes nothing, and neither does one with `unless_buried_since`.

    A key that is remembered for this same request returns the artifact that it stands for with the original `created`,
    its tombstone, or None if it is forgotten; it never creates.

    If a tombstone of this identity is younger than `unless_buried_since`, nothing is stored and the tombstone is
    returned: a late request must not revive what has been deleted since. Our intent and our blob are dropped as if
    deduplicated.

    If it needs more than `room` allows, it returns `QuotaExceeded`: nothing is changed and our intent stays, so it can
    be retried once there is room. Existing artifacts and shared bytes need none. In a namespace that is being deleted
    it raises CoatcheckError `namespace_deleting`.

    An expired artifact of this identity that is held is not replaced: it becomes live again as it was, for the duration
    in this change from now on, and is returned with `created=False`.

    A corrupt blob is never used for deduplication. If our bytes equal those of one, every artifact and view that points
    at it is pointed at a healthy blob (ours, unless there is another), and the corrupt one dies; a live artifact of
    this identity is then returned with `created=False`.
    """

    takes_room: ClassVar[bool] = True

    identity: bytes
    """Digest of what makes two payloads the same artifact; its number is derived from it."""
    declared: DeclaredMetadata
    """What the caller says about the payload."""
    measure: Measure
    facts: DetectedMetadata
    """What was detected in the payload."""
    engine: int
    """Number of the engine that detected `facts`: another may detect them anew."""
    blob: Blob
    inline: bytes | None
    """The stored bytes if the blob's placement is `inline`; otherwise None."""
    ttl: int | None
    """Seconds from `now` that it is kept; None: no limit."""
    idle_ttl: int | None
    """Seconds that it is kept after each read; None: reads do not matter."""
    pinned: bool
    """Whether it never expires."""
    now: datetime
    key: IdempotencyKey | None = None
    survey: bytes | None = None
    """The engine's survey of the whole payload: opaque, at most 256 KiB. None: there is none."""
    text_view: NewView | None = None
    """Kept in the same transaction if this change creates the artifact or declares it anew; its blob is inline or
    absent. Otherwise it is only used to restore corrupt bytes that equal its own."""
    receipt: ReceiptRecord | None = None
    """What a model gets in its place; kept if this change creates the artifact, under the first number of its identity.
    None: nothing."""
    unless_buried_since: datetime | None = None
    """A deletion at or after this moment prevails over this change; None: none does."""
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
    """False: this artifact existed already."""
    blob_used: bool
    """False: our blob is not referenced. Its writer removes the bytes; a file is also recorded as a dead blob, so that
    the sweep removes it if the writer crashes."""
    replayed: bool = False
    """Whether it answers an idempotency key that had been answered before."""
    redeclared: bool = False
    """Whether the artifact existed and has taken on another declaration."""


class UploadFenced(Struct, frozen=True):
    """The upload's intent was gone because it was reaped, or what was made no longer fits. Nothing was changed."""


class KeyConflict(Struct, frozen=True):
    """The idempotency key belongs to another request. Nothing was changed except the upload's intent."""


StoreAnswer: TypeAlias = IngestResult | Gone | UploadFenced | KeyConflict | QuotaExceeded | None
"""The answers of StoreArtifact, described there."""


class StoreView(ArtifactChange["StoredView | UploadFenced | None"], frozen=True, kw_only=True):
    """Keeps a derived view of a live artifact.

    Our upload intent is deleted first, or `UploadFenced` is returned. If several are made at once, the first is kept
    permanently: the existing view is returned, and ours is dropped like a deduplicated blob. A view of an earlier
    version is replaced. Returns None if the artifact is not live.

    A view's ranges are citations, so a view with a corrupt blob is replaced only by the same bytes: if ours are the
    same, they replace the lost ones, and `blob_used` is true; otherwise the view is returned as it is.
    """

    takes_room: ClassVar[bool] = True

    now: datetime
    new: NewView
    inputs: ViewInputs | None = None
    """The extractor's inputs: if the artifact has since been declared differently, nothing is changed and
    `UploadFenced` is returned. None: the view is kept whatever the declaration."""
    facts: DetectedMetadata | None = None
    """What replaces the artifact's detected metadata, which did not tell the form of its text."""

    @property
    @override
    def weight(self) -> int:
        return ROW_BYTES + self.new.weight


class StoredView(Struct, frozen=True):
    """The result of StoreView."""

    view: "FoundView"
    """The kept view, with inline bytes only if it is ours."""
    blob_used: bool
    """False: our blob is not referenced, as in IngestResult."""


class PatchArtifact(ArtifactChange[Artifact | Gone | None], frozen=True, kw_only=True):
    """Changes the mutable properties of a live artifact. Returns it, or its tombstone, or None if unknown.

    A new `ttl` counts from creation. Pinning clears the expiry; unpinning restores it from `ttl` and `idle_ttl`,
    counted from now if it would already have passed. A new `idle_ttl` counts from now.
    """

    now: datetime
    revive: bool = False
    """Whether an expired artifact that is held may become live again, if the change moves its expiry beyond now."""
    ttl: int | None | UnsetType = UNSET
    """Seconds from creation; None: no limit. UNSET, here and below: unchanged."""
    idle_ttl: int | None | UnsetType = UNSET
    """Seconds from now, and from each read; None: reads do not matter."""
    pinned: bool | UnsetType = UNSET
    labels: tuple[str, ...] | UnsetType = UNSET


class DeleteArtifact(ArtifactChange[bool | Gone | HoldConflict | None], frozen=True, kw_only=True):
    """Replaces an artifact by its tombstone, drops its views, and marks blobs dead that nothing else points at.

    Returns whether it was live, or its tombstone, or None if unknown; `HoldConflict` if a hold forbids it.
    """

    deletes: ClassVar[bool] = True

    now: datetime
    tombstone_until: datetime
    """When the tombstone is deleted."""
    by: By = By()


class DeleteSession(NamespaceBatchChange[int | HoldConflict], frozen=True, kw_only=True):
    """Deletes up to `limit` artifacts of a session. Returns how many; repeat until it is less than `limit`.

    Artifacts with holds of their own stay. Returns `HoldConflict` if a hold covers the session; then nothing is
    deleted.
    """

    alone: ClassVar[bool] = True
    deletes: ClassVar[bool] = True

    session: str
    now: datetime
    tombstone_until: datetime
    """When the tombstones are deleted."""
    by: By = By()


class Touch(CatalogChange[None], frozen=True, kw_only=True):
    """Records reads: they move idle expiry, and recently read artifacts are evicted last.

    Artifacts that are gone or pinned are not changed; without an idle TTL the expiry stays.
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
    """None: the view is the payload itself."""
    inline: bytes | None = None


class KeyRecord(Struct, frozen=True):
    """What an idempotency key stands for."""

    fingerprint: bytes
    number: int
    created: bool
    """Whether that request created the artifact (its answer was 201)."""
