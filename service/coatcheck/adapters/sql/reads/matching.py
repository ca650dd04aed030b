"""Queries on the full-text index: lists of matching artifacts, the queue, the segments and their contents.

`list_matching` returns live artifacts whose documents contain all terms of a query, newest first. The index only
proposes row numbers. The statement that reads the artifacts decides: an artifact must exist, be live, be of this
namespace, meet all other conditions, and be unchanged since it was indexed. Segments are read newest first, until a
page is full or time is up. As in every list, a page may contain less than requested without being the last one. The
documents of a damaged segment are missing from the page, which names the segment.
"""

import time
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import BigInteger, Connection, Integer, Row, and_, bindparam, func, select

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.changes.views import STATE, STATES, print_of
from coatcheck.adapters.sql.dialect import LIMIT, NAMESPACE, Many, among, bind_seqs, equal
from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.reads import listing
from coatcheck.adapters.sql.tables import artifacts, blobs, inline_bytes, text_parts, text_segments, unindexed, views
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.fulltext import PackedSegment, SegmentSize, documents_of, locate, matches
from coatcheck.core.views.view import TEXT
from coatcheck.ports.catalog import ArtifactFilter, ArtifactPage, FoundArtifact
from coatcheck.ports.text_index import Unindexed

_MAX_ATTEMPTS = 5
"""Attempts to read a segment, if merges replace the segments each time before it is read."""
SECONDS = 0.5
"""Seconds after which a list reads no further segment."""
_MIN_ROWS, _MAX_ROWS = 50, 1_000
"""Minimum and maximum of the proposed rows that one statement reads: few at first, since the first page mostly needs no
more, then twice as many with each statement. Chosen, not measured."""

_SEGMENTS = Prepared(
    select(text_segments.c.id, text_segments.c.bits, text_segments.c.last_seq)
    .where(text_segments.c.namespace == NAMESPACE, text_segments.c.first_seq < bindparam("before", type_=BigInteger()))
    .order_by(text_segments.c.last_seq.desc())
)
_PARTS = Prepared(
    select(text_parts.c.part, text_parts.c.postings).where(
        equal(text_parts.c.segment_id, text_parts.c.namespace),
        among(text_parts.c.part, bindparam("parts", type_=Many(Integer()))),
    )
)
_LISTED = Prepared(select(text_segments.c.listed).where(equal(text_segments.c.id, text_segments.c.namespace)))
_END = (1 << 63) - 1
"""A number that no row reaches: the largest value of a BIGINT."""
_REARRANGED = "The full-text index is being rearranged. Retry the same call in a moment."


class _Segment(NamedTuple):
    id: int
    bits: int
    last: int
    """Row number of the newest artifact in the segment."""


class _Merged(Exception):  # noqa: N818 - no error: the caller reads the segments again
    """A merge replaced a segment while it was being read."""


def list_matching(
    conn: Connection,
    namespace: str,
    where: ArtifactFilter,
    now: datetime,
    *,
    before: int | None,
    limit: int,
    seconds: float = SECONDS,
) -> ArtifactPage:
    """Returns a page of live artifacts that contain all terms of `where` and meet its other conditions.

    Args:
        conn: a transaction.
        namespace: the namespace of the artifacts.
        where: the terms and the other conditions.
        now: the time at which the artifacts must be live.
        before: the row number before which the page begins; None: it begins with the newest artifact.
        limit: the maximum number of artifacts.
        seconds: the time after which no further segment is read.

    Raises:
        CoatcheckError: `overloaded` if merges replaced the segments several times before they could be read.
    """
    index_pass = _IndexPass(conn, namespace, where, now, time.monotonic() + seconds)
    return index_pass.page(_END if before is None else before, limit)


class _IndexPass:
    """One pass over the segments of the index, for one page."""

    def __init__(self, conn: Connection, namespace: str, where: ArtifactFilter, now: datetime, end: float) -> None:
        self._conn = conn
        self._namespace = namespace
        self._where = where
        self._terms = where.terms or ()
        self._now = now
        self._end = end
        self._proposed: dict[int, set[int]] = {}
        """Row numbers still to be read, each with the fingerprints that segments have of the artifact."""
        self._damaged: list[int] = []
        """IDs of the segments that could not be read, which the page names."""

    def page(self, before: int, limit: int) -> ArtifactPage:
        began = before
        segments, tries = self._segments(before), 0
        page_rows: list[Row[Any]] = []
        while True:
            if segments:
                try:
                    self._propose(segments.pop(0), before)
                except _Merged:  # keep the results so far, and continue below them with the present segments
                    tries += 1
                    if tries == _MAX_ATTEMPTS:
                        raise CoatcheckError(Code.OVERLOADED, _REARRANGED) from None
                    self._proposed.clear()
                    segments = self._segments(before)
                    continue
            tries = 0
            # The remaining segments only contain rows below this number.
            frontier = segments[0].last + 1 if segments else 0
            before = self._read_proposed(before, frontier, limit + 1 - len(page_rows), page_rows)
            if len(page_rows) > limit:
                return self._page(page_rows[:limit], page_rows[limit - 1].seq)
            if not segments and not self._proposed:
                return self._page(page_rows, None)
            # The time limit ends a page only after some progress: otherwise the next request would begin at the same
            # row.
            if time.monotonic() >= self._end and before < began:
                return self._page(page_rows, before)

    def _segments(self, before: int) -> list[_Segment]:
        return [_Segment._make(row) for row in self._query(_SEGMENTS, before=before)]

    def _page(self, page_rows: list[Row[Any]], before: int | None) -> ArtifactPage:
        return ArtifactPage([rows.artifact(row) for row in page_rows], before, tuple(self._damaged))

    def _propose(self, segment: _Segment, before: int) -> None:
        part_numbers = sorted({locate(key, segment.bits) for keys in self._terms for key in keys})
        parts: dict[int, bytes] = dict(self._query(_PARTS, segment_id=segment.id, parts=part_numbers))
        # A segment always has all of its parts. If some are missing, a merge has deleted the segment.
        if len(parts) != len(part_numbers):
            raise _Merged
        try:
            positions = matches(self._terms, segment.bits, parts)
            if not len(positions):
                return
            list_rows = self._query(_LISTED, id=segment.id)
            if not list_rows:
                raise _Merged
            seqs, prints = documents_of(list_rows[0][0])
        except CoatcheckError as error:
            if error.code is not Code.INTEGRITY:
                raise
            self._damaged.append(segment.id)
            return
        for seq, document_print in zip(seqs[positions].tolist(), prints[positions].tolist(), strict=True):
            if seq < before:
                self._proposed.setdefault(seq, set()).add(document_print)

    def _read_proposed(self, before: int, frontier: int, count: int, page_rows: list[Row[Any]]) -> int:
        """Reads proposed rows, newest first, until `count` artifacts match; returns before which row to continue.

        Rows below `frontier` are not read yet. Matching rows are added to `page_rows`.
        """
        size = max(_MIN_ROWS, count)
        # Rows below the frontier wait, since a segment that is not read yet may propose newer rows.
        ready = sorted((seq for seq in self._proposed if seq >= frontier), reverse=True)
        while ready and count > 0:
            batch, ready = ready[:size], ready[size:]
            matching_rows = [row for row in self._rows(batch) if self._is_unchanged(row)]
            page_rows += matching_rows
            count -= len(matching_rows)
            for seq in batch:
                del self._proposed[seq]
            before, size = batch[-1], min(2 * size, _MAX_ROWS)
            if time.monotonic() >= self._end:
                break
        return before if ready else min(before, frontier)

    def _rows(self, seqs: list[int]) -> list[Row[Any]]:
        return listing.of_rows(self._conn, self._namespace, self._where, self._now, seqs, *STATE[-2:])

    def _is_unchanged(self, row: Row[Any]) -> bool:
        document_print = print_of(row.number, row.created_at, row.labels, row.declared_at, row.extractor)
        return document_print in self._proposed[row.seq]

    def _query(self, statement: Prepared, **values: Any) -> list[tuple[Any, ...]]:  # noqa: ANN401 - parameters
        return statement.rows(self._conn, {"namespace": self._namespace, **values})


_VIEW_BLOBS = blobs.alias("view_blobs")
_VIEW_BYTES = inline_bytes.alias("view_bytes")
_STORED = len(STATE) + 1
"""Index at which the artifact's columns begin in a row of _UNINDEXED."""
_VIEW = _STORED + rows.WIDTH + 1
"""Index at which the view's columns begin in a row of _UNINDEXED. The payload's bytes are in the column before."""
# The joins are outer joins: the columns of a removed artifact are then NULL, so that it can leave the queue.
_UNINDEXED = Prepared(
    select(
        unindexed.c.artifact_seq,
        *STATE,
        *rows.ARTIFACT_COLUMNS,
        inline_bytes.c.stored,
        *rows.view_columns(views, _VIEW_BLOBS),
        _VIEW_BYTES.c.stored,
    )
    .select_from(
        unindexed.outerjoin(
            artifacts,
            and_(artifacts.c.seq == unindexed.c.artifact_seq, artifacts.c.namespace == unindexed.c.namespace),
        )
        .outerjoin(blobs, blobs.c.seq == artifacts.c.blob_seq)
        .outerjoin(inline_bytes, inline_bytes.c.blob_seq == artifacts.c.blob_seq)
        .outerjoin(views, and_(views.c.artifact_seq == artifacts.c.seq, views.c.name == TEXT))
        .outerjoin(_VIEW_BLOBS, _VIEW_BLOBS.c.seq == views.c.blob_seq)
        .outerjoin(_VIEW_BYTES, _VIEW_BYTES.c.blob_seq == views.c.blob_seq)
    )
    .where(unindexed.c.namespace == NAMESPACE, unindexed.c.artifact_seq > bindparam("after", type_=BigInteger()))
    .order_by(unindexed.c.artifact_seq)
    .limit(LIMIT)
)
_SIZE = (text_segments.c.id, text_segments.c.documents, text_segments.c.postings)
_ROWS_PER_STATEMENT = 5_000
"""Maximum rows that one statement compares, so that no statement takes long. Chosen, not measured."""


def waiting(conn: Connection, namespace: str, limit: int, *, after: int = 0) -> list[Unindexed]:
    """Returns up to `limit` queued artifacts with row numbers above `after`, oldest first, ready to be read.

    Each entry has the artifact's fingerprint, and its payload and view as the catalogue knows them.
    """
    unindexed_rows = _UNINDEXED.rows(conn, {"namespace": namespace, "after": after, "limit": limit})
    return [_unindexed_of_row(row) for row in unindexed_rows]


def _unindexed_of_row(row: tuple[Any, ...]) -> Unindexed:
    seq, *state = row[:_STORED]
    if state[0] is None:
        return Unindexed(seq, None, None)
    found_view = None if row[_VIEW] is None else rows.view_of_row(row[_VIEW:-1], row[-1])
    return Unindexed(seq, print_of(*state), FoundArtifact(rows.artifact(row[_STORED:]), row[_VIEW - 1], found_view))


def newest_waiting(conn: Connection, namespace: str) -> int | None:
    """Returns the row number of the newest artifact in a namespace's queue; None if the queue is empty."""
    return conn.scalar(select(func.max(unindexed.c.artifact_seq)).where(unindexed.c.namespace == namespace))


def next_unindexed(conn: Connection, after: str) -> str | None:
    """Returns the next namespace after a name that has queued artifacts; None if there is none."""
    return conn.scalar(select(func.min(unindexed.c.namespace)).where(unindexed.c.namespace > after))


def next_namespace(conn: Connection, after: str) -> str | None:
    """Returns the next namespace after a name that has artifacts; None if there is none."""
    return conn.scalar(select(func.min(artifacts.c.namespace)).where(artifacts.c.namespace > after))


def sizes(conn: Connection, namespace: str) -> list[SegmentSize]:
    """Returns the IDs and sizes of a namespace's segments, in the order of their newest artifacts."""
    statement = select(*_SIZE).where(text_segments.c.namespace == namespace).order_by(text_segments.c.last_seq)
    return [SegmentSize(*row) for row in conn.execute(statement)]


def next_segment(conn: Connection, after: int) -> tuple[str, SegmentSize] | None:
    """Returns the namespace and the size of the segment with the next ID, in any namespace; None if there is none."""
    later = select(text_segments.c.namespace, *_SIZE).where(text_segments.c.id > after)
    row = conn.execute(later.order_by(text_segments.c.id).limit(1)).first()
    return None if row is None else (row[0], SegmentSize(*row[1:]))


def whole(conn: Connection, namespace: str, ids: list[int]) -> list[PackedSegment] | None:
    """Returns segments with all their parts; None if one of the segments does not exist."""
    head = text_segments.c
    columns = (head.bits, head.first_seq, head.last_seq, head.documents, head.postings, head.listed)
    segments: list[PackedSegment] = []
    for each in ids:
        statement = select(text_parts.c.postings, *columns).join_from(text_segments, text_parts)
        mine = statement.where(head.namespace == namespace, head.id == each).order_by(text_parts.c.part)
        parts = conn.execute(mine).all()
        if not parts:
            return None
        segments.append(PackedSegment(*parts[0][1:], parts=tuple(part[0] for part in parts)))
    return segments


def fingerprints(conn: Connection, namespace: str, rows: list[int]) -> dict[int, int]:
    """Returns the present fingerprints of the artifacts with these row numbers; removed artifacts are left out."""
    prints: dict[int, int] = {}
    for start in range(0, len(rows), _ROWS_PER_STATEMENT):
        parameters = {"namespace": namespace, "seqs": rows[start : start + _ROWS_PER_STATEMENT]}
        prints.update((row[0], print_of(*row[1:])) for row in STATES.rows(conn, parameters))
    return prints


def find_unlisted(conn: Connection, namespace: str, after: int) -> tuple[list[int], int | None]:
    """Examines up to _ROWS_PER_STATEMENT artifacts of a namespace, in row order, after a row number.

    Returns the row numbers of those that are neither queued nor indexed in their present state, and the last row number
    examined; None if there are no more artifacts.
    """
    stretch = select(artifacts.c.seq, *STATE).where(artifacts.c.namespace == namespace, artifacts.c.seq > after)
    artifact_rows = conn.execute(stretch.order_by(artifacts.c.seq).limit(_ROWS_PER_STATEMENT))
    missing = {row[0]: print_of(*row[1:]) for row in artifact_rows}
    if not missing:
        return [], None
    first, last = min(missing), max(missing)
    columns = text_segments.c
    overlapping = (columns.namespace == namespace, columns.first_seq <= last, columns.last_seq >= first)
    for document_list in conn.scalars(select(columns.listed).where(*overlapping)).all():
        seqs, prints = documents_of(document_list)
        mine = np.flatnonzero((seqs >= first) & (seqs <= last))
        for seq, document_print in zip(seqs[mine].tolist(), prints[mine].tolist(), strict=True):
            if missing.get(seq) == document_print:
                del missing[seq]
    # Artifacts in the queue will be indexed anyway.
    queued = (unindexed.c.namespace == namespace, among(unindexed.c.artifact_seq, bind_seqs()))
    on_list = conn.scalars(select(unindexed.c.artifact_seq).where(*queued), {"seqs": sorted(missing)})
    return sorted(missing.keys() - set(on_list)), last
