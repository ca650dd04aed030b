"""The full-text index."""

from typing import ClassVar, Protocol

from msgspec import Struct
from typing_extensions import override

from coatcheck.core.fulltext import PackedSegment, SegmentSize
from coatcheck.ports.catalog import FoundArtifact
from coatcheck.ports.change import ROW_BYTES, Commits, NamespaceChange


class IndexDocuments(NamespaceChange[int], frozen=True, kw_only=True):
    """Put documents into the full-text index and take them off the list of those that wait for it.

    What has changed since it was read, or been replaced, stays on the list. Where none of them is on the list any more
    nothing is added: someone else was faster. Answers how many were taken off.
    """

    alone: ClassVar[bool] = True

    read: tuple[tuple[int, int | None], ...]
    """The rows that were read, each with the fingerprint it had then; None: there was no artifact."""
    segment_id: int
    """Random, of 62 bits: no two segments ever have the same."""
    segment: PackedSegment | None
    """None: none of them is there any more."""

    @property
    @override
    def weight(self) -> int:
        return ROW_BYTES + _weight(self.segment)


class MergeSegments(NamespaceChange[bool], frozen=True, kw_only=True):
    """Put one segment in the place of several. Answers whether all were still there; otherwise nothing is changed."""

    alone: ClassVar[bool] = True

    old: tuple[int, ...]
    segment_id: int
    segment: PackedSegment | None
    """None: nothing of them was left."""

    @property
    @override
    def weight(self) -> int:
        return ROW_BYTES + _weight(self.segment)


class DropSegment(NamespaceChange[None], frozen=True, kw_only=True):
    """Take a damaged segment out of the full-text index and put every artifact that it may have held back on the list.

    Absent ones do no harm.
    """

    alone: ClassVar[bool] = True

    segment_id: int


class Reindex(NamespaceChange[None], frozen=True, kw_only=True):
    """Put artifacts on the list of those that wait for the full-text index; by their rows. Absent ones do no harm."""

    rows: tuple[int, ...]

    @property
    @override
    def weight(self) -> int:
        return (1 + len(self.rows)) * ROW_BYTES


class Unindexed(Struct, frozen=True):
    """An artifact that waits for the full-text index: live, or expired and not yet buried."""

    row: int
    """Its place in the order of arrival."""
    fingerprint: int | None
    found: FoundArtifact | None
    """With its stored bytes and its text view, where these are in the catalogue. None: it is not there any more."""


class TextIndex(Commits, Protocol):
    """The full-text index of the catalogue: segments of documents, and who waits to become one.

    Whoever stores an artifact, changes its labels or keeps a view of it puts it on the list in the same transaction.
    """

    async def unindexed(self, namespace: str, /, limit: int, *, after: int = 0) -> list[Unindexed]:
        """The oldest that wait, behind a row."""
        ...

    async def newest_unindexed(self, namespace: str, /) -> int | None:
        """The row of the newest that waits; None when none does."""
        ...

    async def next_unindexed(self, after: str) -> str | None:
        """The next namespace where some wait, in the order of names; None: there is none behind this one."""
        ...

    async def segment_sizes(self, namespace: str, /) -> list[SegmentSize]:
        """The segments of a namespace, oldest first."""
        ...

    async def next_segment(self, after: int) -> tuple[str, SegmentSize] | None:
        """The next segment of all, by its ID, and its namespace."""
        ...

    async def read_segments(self, namespace: str, /, ids: list[int]) -> list[PackedSegment] | None:
        """Segments whole; None when one of them is not there any more."""
        ...

    async def fingerprints(self, namespace: str, /, rows: list[int]) -> dict[int, int]:
        """What the artifacts in these rows are now; of those that are there."""
        ...

    async def unlisted(self, namespace: str, /, after: int) -> tuple[list[int], int | None]:
        """Rows behind one that are neither indexed as they are nor on the list, and where to go on; for checks."""
        ...

    async def next_namespace(self, after: str) -> str | None:
        """The next namespace that has artifacts, in the order of names; for checks."""
        ...


def _weight(segment: PackedSegment | None) -> int:
    return 0 if segment is None else len(segment.listed) + sum(map(len, segment.parts))
