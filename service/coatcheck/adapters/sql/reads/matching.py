"""Lists of live artifacts whose documents contain all terms of a query, newest first.

The index only proposes. The statement that looks the artifacts up decides: they must exist, be live, be of this
namespace, meet all other conditions, and still be what was indexed. Segments are read newest first, until a page is
full or time is up; a page may contain less than requested without being the last, as in every list. What a damaged
segment contains is missing, and the segment is named.
"""

import time
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, Connection, Integer, Row, Text, bindparam, select

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.changes.texts import STATE, print_of
from coatcheck.adapters.sql.dialect import among
from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.reads import listing
from coatcheck.adapters.sql.tables import text_parts, text_segments
from coatcheck.adapters.sql.types import Many
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.fulltext import documents_of, locate, matches
from coatcheck.ports.catalog import ArtifactFilter, ArtifactPage

_TRIES = 5
"""Attempts at one segment that is merged with others each time."""
SECONDS = 0.5
"""Seconds after which no further segment is examined."""
_LEAST_LOOK, _MOST_LOOK = 50, 1_000
"""Proposed rows that one statement looks up."""

_SEGMENTS = Prepared(
    select(text_segments.c.id, text_segments.c.bits, text_segments.c.last_seq)
    .where(
        text_segments.c.namespace == bindparam("namespace", type_=Text()),
        text_segments.c.first_seq < bindparam("before", type_=BigInteger()),
    )
    .order_by(text_segments.c.last_seq.desc())
)
_PARTS = Prepared(
    select(text_parts.c.part, text_parts.c.postings).where(
        text_parts.c.segment_id == bindparam("id", type_=BigInteger()),
        among(text_parts.c.part, bindparam("parts", type_=Many(Integer()))),
        text_parts.c.namespace == bindparam("namespace", type_=Text()),
    )
)
_LISTED = Prepared(
    select(text_segments.c.listed).where(
        text_segments.c.id == bindparam("id", type_=BigInteger()),
        text_segments.c.namespace == bindparam("namespace", type_=Text()),
    )
)
_END = (1 << 63) - 1
_REARRANGED = "The full-text index is being rearranged. Retry the same call in a moment."


class _Segment(NamedTuple):
    id: int
    bits: int
    last: int


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
                    if tries == _TRIES:
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
            if time.monotonic() >= self._end and before < began:
                return self._page(page_rows, before)

    def _segments(self, before: int) -> list[_Segment]:
        return [_Segment._make(row) for row in self._query(_SEGMENTS, before=before)]

    def _page(self, page_rows: list[Row[Any]], before: int | None) -> ArtifactPage:
        return ArtifactPage([rows.artifact(row) for row in page_rows], before, tuple(self._damaged))

    def _propose(self, segment: _Segment, before: int) -> None:
        part_numbers = sorted({locate(key, segment.bits) for keys in self._terms for key in keys})
        parts: dict[int, bytes] = dict(self._query(_PARTS, id=segment.id, parts=part_numbers))
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
