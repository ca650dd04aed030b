"""The full-text index."""

from typing import ClassVar, Protocol

from msgspec import Struct
from typing_extensions import override

from coatcheck.core.fulltext import PackedSegment, SegmentSize
from coatcheck.ports.catalog import FoundArtifact
from coatcheck.ports.decisions import ROW_BYTES, Commits, NamespaceChange


class IndexDocuments(NamespaceChange[int], frozen=True, kw_only=True):
    """Adds documents to the full-text index and removes them from its queue.

    Those that have changed since they were read, or were replaced, stay in the queue. If none of them is queued any
    more, nothing is added: another process was faster. Returns how many were removed from the queue.
    """

    takes_room: ClassVar[bool] = True
    alone: ClassVar[bool] = True

    documents: tuple[tuple[int, int | None], ...]
    """The rows that were read, each with its fingerprint then; None: there was no artifact."""
    segment_id: int
    """62 random bits: no two segments ever have the same."""
    segment: PackedSegment | None
    """None: none of the documents exists any more."""

    @property
    @override
    def weight(self) -> int:
        return ROW_BYTES + _weight(self.segment)


class MergeSegments(NamespaceChange[bool], frozen=True, kw_only=True):
    """Replaces several segments by one. Returns whether all were still there; otherwise nothing is changed."""

    takes_room: ClassVar[bool] = True
    alone: ClassVar[bool] = True

    old: tuple[int, ...]
    """The segments that it replaces."""
    segment_id: int
    segment: PackedSegment | None
    """None: nothing of them was left."""

    @property
    @override
    def weight(self) -> int:
        return ROW_BYTES + _weight(self.segment)


class DropSegment(NamespaceChange[None], frozen=True, kw_only=True):
    """Removes a damaged segment from the full-text index and queues every artifact that it may have contained.

    Missing ones are no error.
    """

    alone: ClassVar[bool] = True

    segment_id: int


class Reindex(NamespaceChange[None], frozen=True, kw_only=True):
    """Queues artifacts for the full-text index, by their rows. Missing ones are no error."""

    rows: tuple[int, ...]

    @property
    @override
    def weight(self) -> int:
        return (1 + len(self.rows)) * ROW_BYTES


class Unindexed(Struct, frozen=True):
    """An artifact that waits for the full-text index: live, or expired without a tombstone yet."""

    row: int
    """Its place in the order of arrival."""
    fingerprint: int | None
    entry: FoundArtifact | None
    """With its stored bytes and its text view, if they are in the catalogue. None: it no longer exists."""


class TextIndex(Commits, Protocol):
    """The full-text index of the catalogue: segments of documents, and a queue of artifacts to index.

    Storing an artifact, changing its labels or keeping a view of it queues it in the same transaction.
    """

    async def list_unindexed(self, namespace: str, /, limit: int, *, after: int = 0) -> list[Unindexed]:
        """Returns the oldest in the queue, starting after a row."""
        ...

    async def newest_unindexed(self, namespace: str, /) -> int | None:
        """Returns the newest row in the queue; None if it is empty."""
        ...

    async def next_unindexed(self, after: str) -> str | None:
        """Returns the next namespace with a queue, in order of names; None if there is none after this one."""
        ...

    async def segment_sizes(self, namespace: str, /) -> list[SegmentSize]:
        """Returns the segments of a namespace, oldest first."""
        ...

    async def next_segment(self, after: int) -> tuple[str, SegmentSize] | None:
        """Returns the next segment of all by ID, and its namespace."""
        ...

    async def read_segments(self, namespace: str, /, ids: list[int]) -> list[PackedSegment] | None:
        """Returns segments in full; None if one of them no longer exists."""
        ...

    async def fingerprints(self, namespace: str, /, rows: list[int]) -> dict[int, int]:
        """Returns the present fingerprints of the artifacts in these rows, as far as they exist."""
        ...

    async def find_unlisted(self, namespace: str, /, after: int) -> tuple[list[int], int | None]:
        """Returns rows after one that are neither indexed as they are nor queued, and where to continue; for checks."""
        ...

    async def next_namespace(self, after: str) -> str | None:
        """Returns the next namespace that has artifacts, in order of names; for checks."""
        ...


def _weight(segment: PackedSegment | None) -> int:
    return 0 if segment is None else len(segment.packed_documents) + sum(map(len, segment.parts))
