"""Changes of artifacts and of their views, and what comes of them."""

from datetime import datetime
from typing import ClassVar, TypeAlias

from msgspec import UNSET, Struct, UnsetType
from typing_extensions import override

from coatcheck.core.artifact import Artifact, Blob, DeclaredMetadata, DetectedMetadata, Gone, Measure
from coatcheck.core.policies.quota import QuotaExceeded, QuotaLimits
from coatcheck.core.reads.view_inputs import ViewInputs
from coatcheck.core.retention.audit import By
from coatcheck.core.retention.holds import HoldConflict
from coatcheck.core.views.view import View
from coatcheck.ports.change import ROW_BYTES, ArtifactChange, CatalogChange, NamespaceChange

_SECTION_BYTES = 100


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

    @property
    def weight(self) -> int:
        """Bytes that it adds to the catalogue, roughly."""
        index = 0 if self.blob is None else len(self.blob.index)
        return len(self.inline or b"") + index + len(self.view.sections) * _SECTION_BYTES


class StoreArtifact(
    NamespaceChange["StoreAnswer"],
    frozen=True,
    kw_only=True,
):
    """The one transaction of an ingest.

    In order: delete our own upload intent or answer `UploadFenced` (a blob without an upload is inline and needs none);
    settle the idempotency key; if a live artifact of this identity exists answer it; otherwise find the identity's
    free number, point at a live blob of this namespace with the same digest and size or insert ours, insert the
    artifact, remove a tombstone of this identity.

    An artifact that is there takes what `said.following` gives of its own declaration. Where that is another one, its
    `facts` (all but `redacted` and `comparison`), `engine` and `survey` become those of this change; its text view
    stays if an extractor is told the same of it, and is replaced by `text_view`, or by nothing, otherwise. A replayed
    request changes nothing, and neither does one with `unless_buried_since`.

    A key that is remembered for this very request answers the artifact that it stands for with the `created` of
    then, its tombstone, or None when it is forgotten; it never creates.

    Where a tombstone of this identity is younger than `unless_buried_since`, nothing is stored and the tombstone is
    answered: who comes late must not revive what was deleted meanwhile. Our intent and our blob go as if folded.

    Where it needs more than `room` has, it answers `QuotaExceeded`: nothing is changed and our intent stays, so that it
    can be made again when there is room. What is there already, and bytes that are shared, need none. In a namespace
    that is being deleted it raises CoatcheckError `namespace_deleting`.

    An expired artifact of this identity that is held is not replaced: it lives again as it was, for as long as this
    change says from now on, and is answered with `created=False`.

    A condemned blob is never folded into. Where our bytes are those of one, every artifact and view that points at it
    is pointed at a trusted blob (ours, unless there is another) and the condemned one dies; a live artifact of this
    identity is then answered with `created=False`.
    """

    identity: bytes
    said: DeclaredMetadata
    measure: Measure
    facts: DetectedMetadata
    engine: int
    blob: Blob
    inline: bytes | None
    """The stored bytes themselves when the blob's placement is `inline`; otherwise None."""
    ttl: int | None
    idle_ttl: int | None
    pinned: bool
    now: datetime
    key: IdempotencyKey | None = None
    survey: bytes | None = None
    """What the engine keeps of its one look at all of the payload: opaque, at most 256 KiB. None: it made none."""
    text_view: NewView | None = None
    """Kept in the same transaction, if this change creates the artifact or declares it anew; its blob is inline or
    absent. Otherwise it only brings back condemned bytes that are the same as its own."""
    unless_buried_since: datetime | None = None
    """The moment from which a deletion outdoes this change; None: none does."""
    room: QuotaLimits | None = None
    """The most that the namespace may hold; None: without a limit."""

    @property
    @override
    def weight(self) -> int:
        stored = len(self.inline or b"") + len(self.blob.index) + len(self.survey or b"")
        return ROW_BYTES + stored + (0 if self.text_view is None else self.text_view.weight)


class IngestResult(Struct, frozen=True):
    """What an ingest left behind."""

    artifact: Artifact
    created: bool
    """False: this very artifact was there already."""
    blob_used: bool
    """False: our blob is not referenced. Its writer removes the bytes; a file is also recorded as a dead blob, so that
    the sweep finishes what a crash of the writer leaves."""
    replayed: bool = False
    """Whether it answers an idempotency key that had been answered before."""
    redeclared: bool = False
    """Whether the artifact was there already and has taken another declaration."""


class UploadFenced(Struct, frozen=True):
    """The upload's intent was gone, since someone reaped it, or what was made no longer fits. Nothing was changed."""


class KeyConflict(Struct, frozen=True):
    """The idempotency key belongs to another request. Nothing was changed but the upload's intent."""


StoreAnswer: TypeAlias = IngestResult | Gone | UploadFenced | KeyConflict | QuotaExceeded | None
"""What StoreArtifact answers; see there."""


class StoreView(ArtifactChange["StoredView | UploadFenced | None"], frozen=True, kw_only=True):
    """Keep a derived view of a live artifact.

    Our upload intent goes first, or `UploadFenced`. Of several that are made at once the first is kept for ever: the
    view that is there is answered, and ours is dropped as a folded blob is. Answers None when the artifact is not live.

    Its ranges are citations, so that a view whose blob is condemned is replaced by the same bytes only: where ours are
    the same they take the place of those that were lost, and `blob_used` says so; otherwise it is answered as it is.
    """

    now: datetime
    new: NewView
    inputs: ViewInputs | None = None
    """What an extractor was told: where the artifact has been declared otherwise since, nothing is changed, and
    `UploadFenced` is answered. None: the view is kept whatever the artifact is declared as."""

    @property
    @override
    def weight(self) -> int:
        return ROW_BYTES + self.new.weight


class StoredView(Struct, frozen=True):
    """What StoreView left behind."""

    found: "FoundView"
    """The view that is kept; its inline bytes only where it is ours."""
    blob_used: bool
    """False: our blob is not referenced, as in Stored."""


class PatchArtifact(ArtifactChange[Artifact | Gone | None], frozen=True, kw_only=True):
    """Change what may change of a live artifact. Answers it, or its tombstone, or None when unknown.

    A new `ttl` counts from creation. Pinning clears the expiry; unpinning restores it from `ttl` and `idle_ttl`,
    counted from now if it would already have passed. A new `idle_ttl` counts from now.
    """

    now: datetime
    revive: bool = False
    """Whether an artifact that has expired and is held may live again, when the change makes it last beyond now."""
    ttl: int | None | UnsetType = UNSET
    idle_ttl: int | None | UnsetType = UNSET
    pinned: bool | UnsetType = UNSET
    labels: tuple[str, ...] | UnsetType = UNSET


class DeleteArtifact(ArtifactChange[bool | Gone | HoldConflict | None], frozen=True, kw_only=True):
    """Replace an artifact by its tombstone, drop its views, and mark their blobs dead when nothing else points at them.

    Answers whether it was live, or its tombstone, or None when unknown; `HoldConflict` when a hold forbids it.
    """

    deletes: ClassVar[bool] = True

    now: datetime
    tombstone_until: datetime
    by: By = By()


class DeleteSession(NamespaceChange[int | HoldConflict], frozen=True, kw_only=True):
    """Deletes up to `limit` artifacts of a session. Returns how many; repeat until it is less than `limit`.

    Artifacts that are held by themselves stay. Answers `HoldConflict` when a hold covers the session: then nothing is
    deleted.
    """

    alone: ClassVar[bool] = True
    deletes: ClassVar[bool] = True

    session: str
    now: datetime
    tombstone_until: datetime
    limit: int
    by: By = By()

    @property
    @override
    def weight(self) -> int:
        return (1 + self.limit) * ROW_BYTES


class Touch(CatalogChange[None], frozen=True, kw_only=True):
    """Note reads, so that idle expiry moves, and that a full namespace lets go of others first.

    Artifacts that are gone or pinned are left alone; without an idle TTL the expiry stays.
    """

    reads: tuple[tuple[str, int, datetime], ...]
    """Namespace, number, moment of the read."""

    @property
    @override
    def weight(self) -> int:
        return (1 + len(self.reads)) * ROW_BYTES


class FoundView(Struct, frozen=True):
    """A kept view and, when inline, its stored bytes."""

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
