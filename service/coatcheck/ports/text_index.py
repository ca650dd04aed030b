"""The full-text index."""

from typing import Protocol

from msgspec import Struct

from coatcheck.core.fulltext import PackedSegment, SegmentSize
from coatcheck.ports.catalog import FoundArtifact


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
    segment: PackedSegment | None
    """None: none of them is there any more."""


class MergeSegments(Struct, frozen=True, kw_only=True):
    """Put one segment in the place of several. Answers whether all were still there; otherwise nothing is changed."""

    namespace: str
    old: tuple[int, ...]
    segment_id: int
    segment: PackedSegment | None
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


class Unindexed(Struct, frozen=True):
    """An artifact that waits for the full-text index: live, or expired and not yet buried."""

    row: int
    """Its place in the order of arrival."""
    fingerprint: int | None
    found: FoundArtifact | None
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

    async def segment_sizes(self, namespace: str) -> list[SegmentSize]:
        """The segments of a namespace, oldest first."""
        ...

    async def next_segment(self, after: int) -> tuple[str, SegmentSize] | None:
        """The next segment of all, by its ID, and its namespace."""
        ...

    async def read_segments(self, namespace: str, ids: list[int]) -> list[PackedSegment] | None:
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
