"""What an undo needs of the artifacts that a transaction removes: their former rows, views and surveys.

It is kept only until the sweep may remove the bytes.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Connection, Text, bindparam, delete, insert, select

from coatcheck.adapters.sql.dialect import among, by_now
from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.tables import artifacts, removed, removed_surveys, removed_views, surveys, views
from coatcheck.adapters.sql.types import Many, UtcDateTime

_SEQS = bindparam("seqs", type_=Many(BigInteger()))
COPIED = [column.name for column in artifacts.c if not column.primary_key]
"""Columns of an artifact's row that are kept."""
# A single statement, so that no rows leave the database.
_KEEP = Prepared(
    insert(removed)
    .from_select(
        ["removed_at", "reason", "run_id", "artifact_seq", *COPIED],
        select(
            bindparam("now", type_=UtcDateTime),
            bindparam("why", type_=Text()),
            bindparam("run", type_=Text()),
            artifacts.c.seq,
            *(artifacts.c[name] for name in COPIED),
        )
        .where(among(artifacts.c.seq, _SEQS))
        .order_by(artifacts.c.seq),
    )
    .returning(removed.c.seq, removed.c.artifact_seq)
)
OF_VIEW = [column.name for column in views.c if column.name != "artifact_seq"]
"""Columns of a view's row that are kept."""
_VIEWS = Prepared(
    select(views.c.artifact_seq, *(views.c[name] for name in OF_VIEW)).where(among(views.c.artifact_seq, _SEQS))
)
_KEEP_VIEW = Prepared(insert(removed_views), columns=["removed_seq", *OF_VIEW])
# Only for removals in this transaction: another artifact may have had the same row before.
_KEEP_SURVEYS = Prepared(
    insert(removed_surveys).from_select(
        ["removed_seq", "namespace", "data"],
        select(removed.c.seq, surveys.c.namespace, surveys.c.data)
        .join_from(removed, surveys, surveys.c.artifact_seq == removed.c.artifact_seq)
        .where(among(removed.c.seq, _SEQS)),
    )
)
_OVER = (
    select(removed.c.seq)
    .where(removed.c.removed_at <= by_now(bindparam("now", type_=UtcDateTime)))
    .order_by(removed.c.removed_at)
    .limit(bindparam("limit"))
    .with_for_update(skip_locked=True)
)
_FORGET = delete(removed).where(removed.c.seq.in_(select(_OVER.cte("over_now")))).returning(removed.c.seq)


def keep(conn: Connection, seqs: Sequence[int], reason: str, now: datetime, run_id: str | None) -> None:
    """Keeps artifacts that are about to be removed, with their views and surveys. The caller has locked their rows."""
    if not seqs:
        return
    records = _KEEP.rows(conn, {"now": now, "why": reason, "run": run_id, "seqs": list(seqs)})
    removed_seqs = {artifact_seq: seq for seq, artifact_seq in records}
    view_rows = _VIEWS.rows(conn, {"seqs": list(seqs)})
    _KEEP_VIEW.many(
        conn, [{"removed_seq": removed_seqs[row[0]]} | dict(zip(OF_VIEW, row[1:], strict=True)) for row in view_rows]
    )
    _KEEP_SURVEYS.run(conn, {"seqs": list(removed_seqs.values())})


def forget(conn: Connection, before: datetime, limit: int) -> int:
    """Deletes what was removed up to a moment; returns how many. After that it cannot be undone."""
    values: dict[str, Any] = {"now": before, "limit": limit}
    return len(conn.execute(_FORGET, values).all())
