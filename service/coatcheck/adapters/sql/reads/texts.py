"""Queries on the full-text index, except lists: its queue, its segments, their contents."""

from typing import Any

import numpy as np
from sqlalchemy import BigInteger, Connection, Text, and_, bindparam, func, select

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.changes.texts import STATE, STATES, print_of
from coatcheck.adapters.sql.dialect import among
from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.tables import artifacts, blobs, inline_bytes, text_parts, text_segments, unindexed, views
from coatcheck.adapters.sql.types import Many
from coatcheck.core.fulltext import PackedSegment, SegmentSize, documents_of
from coatcheck.core.views.view import TEXT
from coatcheck.ports.catalog import FoundArtifact
from coatcheck.ports.text_index import Unindexed

_NAMESPACE = bindparam("namespace", type_=Text())
_AFTER = bindparam("after", type_=BigInteger())
_VIEW_BLOBS = blobs.alias("view_blobs")
_VIEW_BYTES = inline_bytes.alias("view_bytes")
_STORED = len(STATE) + 1
_VIEW = _STORED + rows.WIDTH + 1
_UNINDEXED = Prepared(
    select(
        unindexed.c.artifact_seq,
        *STATE,
        *rows.ARTIFACT_COLUMNS,
        *rows.BLOB_COLUMNS,
        inline_bytes.c.stored,
        *rows.VIEW_COLUMNS,
        *rows.blob_columns(_VIEW_BLOBS),
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
    .where(unindexed.c.namespace == _NAMESPACE, unindexed.c.artifact_seq > _AFTER)
    .order_by(unindexed.c.artifact_seq)
    .limit(bindparam("most"))
)
_NEWEST = select(func.max(unindexed.c.artifact_seq)).where(unindexed.c.namespace == _NAMESPACE)
_NEXT_UNINDEXED = select(func.min(unindexed.c.namespace)).where(unindexed.c.namespace > bindparam("after"))
_NEXT_NAMESPACE = select(func.min(artifacts.c.namespace)).where(artifacts.c.namespace > bindparam("after"))
_SIZE = (text_segments.c.id, text_segments.c.documents, text_segments.c.postings)
_SIZES = select(*_SIZE).where(text_segments.c.namespace == _NAMESPACE).order_by(text_segments.c.last_seq)
_NEXT_SEGMENT = (
    select(text_segments.c.namespace, *_SIZE).where(text_segments.c.id > _AFTER).order_by(text_segments.c.id).limit(1)
)
_WHOLE = (
    select(
        text_segments.c.bits,
        text_segments.c.first_seq,
        text_segments.c.last_seq,
        text_segments.c.documents,
        text_segments.c.postings,
        text_segments.c.listed,
        text_parts.c.postings.label("stored"),
    )
    .join_from(text_segments, text_parts, text_parts.c.segment_id == text_segments.c.id)
    .where(text_segments.c.namespace == _NAMESPACE, text_segments.c.id == bindparam("id"))
    .order_by(text_parts.c.part)
)
_LISTED_WORDS = select(text_segments.c.listed).where(
    text_segments.c.namespace == _NAMESPACE,
    text_segments.c.first_seq <= bindparam("last"),
    text_segments.c.last_seq >= bindparam("first"),
)
_STRETCH = 5_000
_ROWS = (
    select(artifacts.c.seq, *STATE)
    .where(artifacts.c.namespace == _NAMESPACE, artifacts.c.seq > _AFTER)
    .order_by(artifacts.c.seq)
    .limit(_STRETCH)
)
_WAITING = select(unindexed.c.artifact_seq).where(
    unindexed.c.namespace == _NAMESPACE, among(unindexed.c.artifact_seq, bindparam("seqs", type_=Many(BigInteger())))
)


def waiting(conn: Connection, namespace: str, limit: int, *, after: int = 0) -> list[Unindexed]:
    """Returns the oldest in the queue, after a row, with what is needed to read them."""
    unindexed_rows = _UNINDEXED.rows(conn, {"namespace": namespace, "after": after, "most": limit})
    return [_unindexed_of_row(row) for row in unindexed_rows]


def _unindexed_of_row(row: tuple[Any, ...]) -> Unindexed:
    seq, *state = row[:_STORED]
    if state[0] is None:
        return Unindexed(seq, None, None)
    found_view = None if row[_VIEW] is None else rows.view_of_row(row[_VIEW:-1], row[-1])
    return Unindexed(seq, print_of(*state), FoundArtifact(rows.artifact(row[_STORED:]), row[_VIEW - 1], found_view))


def newest_waiting(conn: Connection, namespace: str) -> int | None:
    """Returns the newest row in the queue."""
    seq: int | None = conn.execute(_NEWEST, {"namespace": namespace}).scalar()
    return seq


def next_unindexed(conn: Connection, after: str) -> str | None:
    """Returns the next namespace with a queue."""
    namespace: str | None = conn.execute(_NEXT_UNINDEXED, {"after": after}).scalar()
    return namespace


def next_namespace(conn: Connection, after: str) -> str | None:
    """Returns the next namespace that has artifacts."""
    namespace: str | None = conn.execute(_NEXT_NAMESPACE, {"after": after}).scalar()
    return namespace


def sizes(conn: Connection, namespace: str) -> list[SegmentSize]:
    """Returns the segments of a namespace, oldest first."""
    return [SegmentSize(*row) for row in conn.execute(_SIZES, {"namespace": namespace})]


def next_segment(conn: Connection, after: int) -> tuple[str, SegmentSize] | None:
    """Returns the next segment of all, by its ID."""
    row = conn.execute(_NEXT_SEGMENT, {"after": after}).first()
    return None if row is None else (row[0], SegmentSize(*row[1:]))


def whole(conn: Connection, namespace: str, ids: list[int]) -> list[PackedSegment] | None:
    """Returns segments with all their parts; None if one does not exist."""
    segments: list[PackedSegment] = []
    for each in ids:
        parts = conn.execute(_WHOLE, {"namespace": namespace, "id": each}).all()
        if not parts:
            return None
        head = parts[0]
        segments.append(
            PackedSegment(
                bits=head.bits,
                first=head.first_seq,
                last=head.last_seq,
                documents=head.documents,
                postings=head.postings,
                packed_documents=head.listed,
                parts=tuple(part.stored for part in parts),
            )
        )
    return segments


def fingerprints(conn: Connection, namespace: str, rows: list[int]) -> dict[int, int]:
    """Returns the present fingerprints of the artifacts in these rows."""
    prints: dict[int, int] = {}
    for start in range(0, len(rows), _STRETCH):
        parameters = {"namespace": namespace, "seqs": rows[start : start + _STRETCH]}
        prints.update((row[0], print_of(*row[1:])) for row in STATES.rows(conn, parameters))
    return prints


def find_unlisted(conn: Connection, namespace: str, after: int) -> tuple[list[int], int | None]:
    """Returns rows of the next stretch that are neither indexed as they are nor queued, and the stretch's last row."""
    there = {row[0]: print_of(*row[1:]) for row in conn.execute(_ROWS, {"namespace": namespace, "after": after})}
    if not there:
        return [], None
    first, last = min(there), max(there)
    for (document_list,) in conn.execute(_LISTED_WORDS, {"namespace": namespace, "first": first, "last": last}).all():
        seqs, prints = documents_of(document_list)
        mine = np.flatnonzero((seqs >= first) & (seqs <= last))
        for seq, mark in zip(seqs[mine].tolist(), prints[mine].tolist(), strict=True):
            if there.get(seq) == mark:
                del there[seq]
    on_list = conn.execute(_WAITING, {"namespace": namespace, "seqs": sorted(there)}).scalars()
    return sorted(there.keys() - set(on_list)), last
