"""Lists of live artifacts whose documents contain all terms of a query, newest first.

The index only proposes. The statement that looks the artifacts up decides: they must exist, be live, be of this
namespace, meet all other conditions, and still be what was indexed. Segments are read newest first, until a page is
full or time is up; a page may contain less than requested without being the last, as in every list. What a damaged
segment contains is missing, and the segment is named.

Queries on the full-text index, except lists: its queue, its segments, their contents.
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
"""Attempts at one segment that is merged with others each time."""
SECONDS = 0.5
"""Seconds after which no further segment is examined."""
_LEAST_LOOK, _MOST_LOOK = 50, 1_000
"""Proposed rows that one statement looks up: few at first, as the first page mostly needs no more. Chosen, not
measured."""

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
"""More than any row's number: the largest value of a BIGINT."""
_REARRANGED = "The full-text index is being rearranged. Retry the same call in a moment."


class _Segment(NamedTuple):
    id: int
    bits: int
    last: int
    """The newest artifact's row in it."""


class _Merged(Exception):  # noqa: N818 - no error: it is looked at again
    """A segment was replaced while it was examined."""


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
    """Returns live artifacts that meet all conditions, terms and others."""
    look = _Look(conn, namespace, where, now, time.monotonic() + seconds)
    return look.page(_END if before is None else before, limit)


class _Look:
    """One pass over the index."""

    def __init__(self, conn: Connection, namespace: str, where: ArtifactFilter, now: datetime, end: float) -> None:
        self._conn = conn
        self._namespace = namespace
        self._where = where
        self._terms = where.terms or ()
        self._now = now
        self._end = end
        self._proposed: dict[int, set[int]] = {}
        """Rows to look up, with the state that was indexed."""
        self._damaged: list[int] = []
        """Segments that could not be read, which the page names."""

    def page(self, before: int, limit: int) -> ArtifactPage:
        began = before
        segments, tries = self._segments(before), 0
        page_rows: list[Row[Any]] = []
        while True:
            if segments:
                try:
                    self._propose(segments.pop(0), before)
                except _Merged:  # results so far stay; below them, the present index is used
                    tries += 1
                    if tries == _MAX_ATTEMPTS:
                        raise CoatcheckError(Code.OVERLOADED, _REARRANGED) from None
                    self._proposed.clear()
                    segments = self._segments(before)
                    continue
            tries = 0
            # Rows newer than anything that later segments can contain.
            frontier = segments[0].last + 1 if segments else 0
            before = self._look_up(before, frontier, limit + 1 - len(page_rows), page_rows)
            if len(page_rows) > limit:
                return self._page(page_rows[:limit], page_rows[limit - 1].seq)
            if not segments and not self._proposed:
                return self._page(page_rows, None)
            # Time ends a page only after some progress: the next request would otherwise begin at the same row.
            if time.monotonic() >= self._end and before < began:
                return self._page(page_rows, before)

    def _segments(self, before: int) -> list[_Segment]:
        return [_Segment._make(row) for row in self._query(_SEGMENTS, before=before)]

    def _page(self, page_rows: list[Row[Any]], before: int | None) -> ArtifactPage:
        return ArtifactPage([rows.artifact(row) for row in page_rows], before, tuple(self._damaged))

    def _propose(self, segment: _Segment, before: int) -> None:
        part_numbers = sorted({locate(key, segment.bits) for keys in self._terms for key in keys})
        parts: dict[int, bytes] = dict(self._query(_PARTS, segment_id=segment.id, parts=part_numbers))
        # A segment has all of its parts, until a merge deletes it.
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
        for seq, mark in zip(seqs[positions].tolist(), prints[positions].tolist(), strict=True):
            if seq < before:
                self._proposed.setdefault(seq, set()).add(mark)

    def _look_up(self, before: int, frontier: int, most: int, page_rows: list[Row[Any]]) -> int:
        """Looks up proposed rows, newest first, until `most` are found; returns before which row to continue."""
        size = max(_LEAST_LOOK, most)
        # Rows below the frontier wait, since a later segment may propose newer ones.
        ready = sorted((seq for seq in self._proposed if seq >= frontier), reverse=True)
        while ready and most > 0:
            some, ready = ready[:size], ready[size:]
            matching_rows = [row for row in self._rows(some) if self._is_true(row)]
            page_rows += matching_rows
            most -= len(matching_rows)
            for seq in some:
                del self._proposed[seq]
            before, size = some[-1], min(2 * size, _MOST_LOOK)
            if time.monotonic() >= self._end:
                break
        return before if ready else min(before, frontier)

    def _rows(self, seqs: list[int]) -> list[Row[Any]]:
        return listing.of_rows(self._conn, self._namespace, self._where, self._now, seqs, *STATE[-2:])

    def _is_true(self, row: Row[Any]) -> bool:
        mark = print_of(row.number, row.created_at, row.labels, row.declared_at, row.extractor)
        return mark in self._proposed[row.seq]

    def _query(self, question: Prepared, **values: Any) -> list[tuple[Any, ...]]:  # noqa: ANN401 - parameters
        return question.rows(self._conn, {"namespace": self._namespace, **values})


_VIEW_BLOBS = blobs.alias("view_blobs")
_VIEW_BYTES = inline_bytes.alias("view_bytes")
_STORED = len(STATE) + 1
"""Where the artifact's columns begin in a row of _UNINDEXED."""
_VIEW = _STORED + rows.WIDTH + 1
"""Where the view's columns begin, behind the payload's bytes."""
# Outer joins: an artifact that was removed since comes back empty, and can leave the queue.
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
"""Rows that one statement compares, so that none of them takes long. Chosen, not measured."""


def waiting(conn: Connection, namespace: str, limit: int, *, after: int = 0) -> list[Unindexed]:
    """Returns the oldest in the queue, after a row, with what is needed to read them."""
    unindexed_rows = _UNINDEXED.rows(conn, {"namespace": namespace, "after": after, "limit": limit})
    return [_unindexed_of_row(row) for row in unindexed_rows]


def _unindexed_of_row(row: tuple[Any, ...]) -> Unindexed:
    seq, *state = row[:_STORED]
    if state[0] is None:
        return Unindexed(seq, None, None)
    found_view = None if row[_VIEW] is None else rows.view_of_row(row[_VIEW:-1], row[-1])
    return Unindexed(seq, print_of(*state), FoundArtifact(rows.artifact(row[_STORED:]), row[_VIEW - 1], found_view))


def newest_waiting(conn: Connection, namespace: str) -> int | None:
    """Returns the newest row in the queue."""
    return conn.scalar(select(func.max(unindexed.c.artifact_seq)).where(unindexed.c.namespace == namespace))


def next_unindexed(conn: Connection, after: str) -> str | None:
    """Returns the next namespace with a queue."""
    return conn.scalar(select(func.min(unindexed.c.namespace)).where(unindexed.c.namespace > after))


def next_namespace(conn: Connection, after: str) -> str | None:
    """Returns the next namespace that has artifacts."""
    return conn.scalar(select(func.min(artifacts.c.namespace)).where(artifacts.c.namespace > after))


def sizes(conn: Connection, namespace: str) -> list[SegmentSize]:
    """Returns the segments of a namespace, oldest first."""
    statement = select(*_SIZE).where(text_segments.c.namespace == namespace).order_by(text_segments.c.last_seq)
    return [SegmentSize(*row) for row in conn.execute(statement)]


def next_segment(conn: Connection, after: int) -> tuple[str, SegmentSize] | None:
    """Returns the next segment of all, by its ID."""
    later = select(text_segments.c.namespace, *_SIZE).where(text_segments.c.id > after)
    row = conn.execute(later.order_by(text_segments.c.id).limit(1)).first()
    return None if row is None else (row[0], SegmentSize(*row[1:]))


def whole(conn: Connection, namespace: str, ids: list[int]) -> list[PackedSegment] | None:
    """Returns segments with all their parts; None if one does not exist."""
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
    """Returns the present fingerprints of the artifacts in these rows."""
    prints: dict[int, int] = {}
    for start in range(0, len(rows), _ROWS_PER_STATEMENT):
        parameters = {"namespace": namespace, "seqs": rows[start : start + _ROWS_PER_STATEMENT]}
        prints.update((row[0], print_of(*row[1:])) for row in STATES.rows(conn, parameters))
    return prints


def find_unlisted(conn: Connection, namespace: str, after: int) -> tuple[list[int], int | None]:
    """Returns rows of the next stretch that are neither indexed as they are nor queued, and the stretch's last row."""
    stretch = select(artifacts.c.seq, *STATE).where(artifacts.c.namespace == namespace, artifacts.c.seq > after)
    artifact_rows = conn.execute(stretch.order_by(artifacts.c.seq).limit(_ROWS_PER_STATEMENT))
    there = {row[0]: print_of(*row[1:]) for row in artifact_rows}
    if not there:
        return [], None
    first, last = min(there), max(there)
    s = text_segments.c
    overlapping = (s.namespace == namespace, s.first_seq <= last, s.last_seq >= first)
    for document_list in conn.scalars(select(s.listed).where(*overlapping)).all():
        seqs, prints = documents_of(document_list)
        mine = np.flatnonzero((seqs >= first) & (seqs <= last))
        for seq, mark in zip(seqs[mine].tolist(), prints[mine].tolist(), strict=True):
            if there.get(seq) == mark:
                del there[seq]
    # A queued artifact will be indexed anyway.
    queued = (unindexed.c.namespace == namespace, among(unindexed.c.artifact_seq, bind_seqs()))
    on_list = conn.scalars(select(unindexed.c.artifact_seq).where(*queued), {"seqs": sorted(there)})
    return sorted(there.keys() - set(on_list)), last
