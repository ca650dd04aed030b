"""The port of the full-text index: its changes and its queries."""

from typing import ClassVar, Protocol

from msgspec import Struct
from typing_extensions import override

from coatcheck.core.fulltext import PackedSegment, SegmentSize
from coatcheck.ports.catalog import FoundArtifact
from coatcheck.ports.decisions import ROW_BYTES, Commits, NamespaceChange


class IndexDocuments(NamespaceChange[int], frozen=True, kw_only=True):
    """Adds documents to the full-text index, and removes their artifacts from its queue.

    An artifact that has changed or was replaced since it was read stays in the queue. If none of the artifacts is in
    the queue any more, another process was faster, and nothing is added. Returns the number of artifacts that were
    removed from the queue.
    """

    takes_room: ClassVar[bool] = True
    alone: ClassVar[bool] = True

    documents: tuple[tuple[int, int | None], ...]
    """The rows that were read, each with the fingerprint that the artifact had then; None: there was no artifact."""
    segment_id: int
    """ID of the new segment: 62 random bits, so that no two segments ever have the same ID."""
    segment: PackedSegment | None
    """The new segment with the documents; None: none of the artifacts exists any more."""

    @property
    @override
    def weight(self) -> int:
        return ROW_BYTES + _weight(self.segment)


class MergeSegments(NamespaceChange[bool], frozen=True, kw_only=True):
    """Replaces several segments by one. If one of them no longer exists, nothing is changed and false is returned."""

    takes_room: ClassVar[bool] = True
    alone: ClassVar[bool] = True

    old: tuple[int, ...]
    """IDs of the segments that are replaced."""
    segment_id: int
    """ID of the new segment, as in IndexDocuments."""
    segment: PackedSegment | None
    """The new segment; None: the old segments have no documents that still exist."""

    @property
    @override
    def weight(self) -> int:
        return ROW_BYTES + _weight(self.segment)


class DropSegment(NamespaceChange[None], frozen=True, kw_only=True):
    """Removes a damaged segment from the full-text index, and queues every artifact that it may have contained.

    A missing segment is no error.
    """

    alone: ClassVar[bool] = True

    segment_id: int


class Reindex(NamespaceChange[None], frozen=True, kw_only=True):
    """Queues artifacts for the full-text index, by their rows. A row without an artifact is no error."""

    rows: tuple[int, ...]

    @property
    @override
    def weight(self) -> int:
        return (1 + len(self.rows)) * ROW_BYTES


class Unindexed(Struct, frozen=True):
    """A row in the queue of the full-text index. Its artifact is live, expired without a tombstone yet, or gone."""

    row: int
    """Number of the artifact's row. Rows are numbered in the order of arrival."""
    fingerprint: int | None
    """The artifact's present fingerprint; None: the artifact no longer exists."""
    entry: FoundArtifact | None
    """The artifact, with its stored bytes and its text view if they are in the catalogue; None: it no longer exists."""


class TextIndex(Commits, Protocol):
    """The full-text index of the catalogue: segments of documents, and a queue of artifacts to index.

    A change that stores an artifact, changes its labels or keeps a view of it also queues the artifact, in the same
    transaction.
    """

    async def list_unindexed(self, namespace: str, /, limit: int, *, after: int = 0) -> list[Unindexed]:
        """Returns the oldest artifacts in a namespace's queue, starting after the row `after`."""
        ...

    async def newest_unindexed(self, namespace: str, /) -> int | None:
        """Returns the newest row in a namespace's queue; None if the queue is empty."""
        ...

    async def next_unindexed(self, after: str) -> str | None:
        """Returns the first namespace with queued artifacts whose name comes after `after`; None if there is none."""
        ...

    async def segment_sizes(self, namespace: str, /) -> list[SegmentSize]:
        """Returns the IDs and sizes of a namespace's segments, oldest first."""
        ...

    async def next_segment(self, after: int) -> tuple[str, SegmentSize] | None:
        """Returns the segment of any namespace with the next ID after `after`, and its namespace; None: no more."""
        ...

    async def read_segments(self, namespace: str, /, ids: list[int]) -> list[PackedSegment] | None:
        """Returns the contents of the segments with these IDs; None if one of them no longer exists."""
        ...

    async def fingerprints(self, namespace: str, /, rows: list[int]) -> dict[int, int]:
        """Returns the present fingerprints of the artifacts in these rows, by row. Missing rows are left out."""
        ...

    async def find_unlisted(self, namespace: str, /, after: int) -> tuple[list[int], int | None]:
        """Returns rows after the row `after` whose present artifacts are neither indexed nor queued; for checks.

        It also returns the row after which the next call continues; None: there are no more rows.
        """
        ...

    async def next_namespace(self, after: str) -> str | None:
        """Returns the first namespace with artifacts whose name comes after `after`, for checks; None: no more."""
        ...


def _weight(segment: PackedSegment | None) -> int:
    return 0 if segment is None else len(segment.packed_documents) + sum(map(len, segment.parts))
