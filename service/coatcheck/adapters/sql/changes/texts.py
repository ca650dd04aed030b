"""Changes of the full-text index: its queue, added segments, merged segments.

A segment is added in the transaction that removes its rows from the queue; what changed since it was read stays queued,
so a crash or a race costs work, but never a document. Nothing here knows about words.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Connection, Text, bindparam, delete, func, insert, select
from sqlalchemy.dialects import postgresql

from coatcheck.adapters.sql.dialect import among
from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.tables import artifacts, text_parts, text_segments, unindexed, views
from coatcheck.adapters.sql.types import Many
from coatcheck.core.fulltext import PackedSegment, fingerprint
from coatcheck.core.views.view import TEXT
from coatcheck.ports.text_index import DropSegment, IndexDocuments, MergeSegments, Reindex

_NAMESPACE = bindparam("namespace", type_=Text())
_SEQS = bindparam("seqs", type_=Many(BigInteger()))
_IDS = bindparam("ids", type_=Many(BigInteger()))
_COLUMNS = ["namespace", "artifact_seq"]
_LISTED = func.json_each(_SEQS).table_valued("value")
# A single statement for the whole group, at a fifth of the cost of one each.
_WAIT = {
    "sqlite": Prepared(
        insert(unindexed).prefix_with("OR IGNORE").from_select(_COLUMNS, select(_NAMESPACE, _LISTED.c.value))
    ),
    "postgresql": Prepared(
        postgresql.insert(unindexed)
        .from_select(_COLUMNS, select(_NAMESPACE, func.unnest(_SEQS)))
        .on_conflict_do_nothing()
    ),
}
_OF_VIEW = (
    select(views.c.extractor)
    .where(views.c.artifact_seq == artifacts.c.seq, views.c.name == TEXT)
    .correlate(artifacts)
    .scalar_subquery()
)
STATE = (
    artifacts.c.number,
    artifacts.c.created_at,
    artifacts.c.labels,
    artifacts.c.declared_at,
    _OF_VIEW.label("extractor"),
)
"""What a fingerprint consists of."""
_ROWS = (artifacts.c.namespace == _NAMESPACE) & among(artifacts.c.seq, _SEQS)
STATES = Prepared(select(artifacts.c.seq, *STATE).where(_ROWS))
_HOLD = Prepared(select(artifacts.c.seq).where(_ROWS).order_by(artifacts.c.seq).with_for_update(read=True))
_DONE = Prepared(
    delete(unindexed)
    .where(unindexed.c.namespace == _NAMESPACE, among(unindexed.c.artifact_seq, _SEQS))
    .returning(unindexed.c.artifact_seq)
)
_ADD_SEGMENT = Prepared(insert(text_segments), columns=text_segments.c.keys())
_ADD_PART = Prepared(insert(text_parts), columns=text_parts.c.keys())
_HERE = (text_segments.c.namespace == _NAMESPACE) & among(text_segments.c.id, _IDS)
_LOCK = Prepared(select(text_segments.c.id).where(_HERE).order_by(text_segments.c.id).with_for_update())
_DROP_SEGMENTS = Prepared(delete(text_segments).where(_HERE))
_BOUNDS = (
    select(text_segments.c.first_seq, text_segments.c.last_seq)
    .where(text_segments.c.namespace == _NAMESPACE, text_segments.c.id == bindparam("id", type_=BigInteger()))
    .with_for_update()
)
_BETWEEN = select(artifacts.c.seq).where(
    artifacts.c.namespace == _NAMESPACE,
    artifacts.c.seq >= bindparam("first", type_=BigInteger()),
    artifacts.c.seq <= bindparam("last", type_=BigInteger()),
)
_AT_ONCE = 5_000


def wait_for_index(conn: Connection, namespace: str, seqs: Sequence[int]) -> None:
    """Queues artifacts, in the transaction that created or changed them."""
    _WAIT[conn.dialect.name].run(conn, {"namespace": namespace, "seqs": list(seqs)})


def print_of(
    number: int, created_at: datetime, labels: str | None, declared_at: datetime | None, extractor: str | None
) -> int:
    """Returns the fingerprint of STATE."""
    return fingerprint(number, created_at, labels, extractor, declared_at)


def apply_index(conn: Connection, change: IndexDocuments) -> int:
    """Adds a segment and removes its rows from the queue."""
    was = dict(change.documents)
    parameters = {"namespace": change.namespace, "seqs": sorted(was)}
    if conn.dialect.name != "sqlite":
        # In a statement of its own: a transaction that changes one of them, or keeps a view of it, is waited for and
        # then seen.
        _HOLD.rows(conn, parameters)
    now: dict[int, int] = {row[0]: print_of(*row[1:]) for row in STATES.rows(conn, parameters)}
    same = [seq for seq, mark in was.items() if now.get(seq) == mark]
    indexed_seqs = {row[0] for row in _DONE.rows(conn, {"namespace": change.namespace, "seqs": sorted(same)})}
    if change.segment is not None and any(was[seq] is not None for seq in indexed_seqs):
        _add(conn, change.namespace, change.segment_id, change.segment)
    return len(indexed_seqs)


def apply_merge(conn: Connection, change: MergeSegments) -> bool:
    """Replaces several segments by one."""
    parameters = {"namespace": change.namespace, "ids": sorted(change.old)}
    if len(_LOCK.rows(conn, parameters)) != len(change.old):
        return False
    _DROP_SEGMENTS.run(conn, parameters)
    if change.segment is not None:
        _add(conn, change.namespace, change.segment_id, change.segment)
    return True


def apply_drop(conn: Connection, change: DropSegment) -> None:
    """Deletes a segment. Its documents are no longer known, so all rows in its range are queued again."""
    parameters = {"namespace": change.namespace, "id": change.segment_id}
    bounds = conn.execute(_BOUNDS, parameters).first()
    if bounds is None:
        return
    _DROP_SEGMENTS.run(conn, {"namespace": change.namespace, "ids": [change.segment_id]})
    between = {"namespace": change.namespace, "first": bounds.first_seq, "last": bounds.last_seq}
    seqs = conn.execute(_BETWEEN, between).scalars().all()
    for start in range(0, len(seqs), _AT_ONCE):
        wait_for_index(conn, change.namespace, seqs[start : start + _AT_ONCE])


def apply_reindex(conn: Connection, change: Reindex) -> None:
    """Queues artifacts again."""
    wait_for_index(conn, change.namespace, change.rows)


def _add(conn: Connection, namespace: str, segment_id: int, segment: PackedSegment) -> None:
    row: dict[str, Any] = {
        "id": segment_id,
        "namespace": namespace,
        "bits": segment.bits,
        "first_seq": segment.first,
        "last_seq": segment.last,
        "documents": segment.documents,
        "postings": segment.postings,
        "listed": segment.packed_documents,
    }
    _ADD_SEGMENT.run(conn, row)
    parts = [
        {"segment_id": segment_id, "part": at, "namespace": namespace, "postings": part}
        for at, part in enumerate(segment.parts)
    ]
    _ADD_PART.many(conn, parts)
