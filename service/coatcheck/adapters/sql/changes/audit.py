"""Writes the audit log's lines of a transaction, and copies the rows of removed artifacts, which an undo needs.

Lines are gathered during the transaction and written at its end, so that a transaction that is rolled back writes none.
Lines are never changed, only pruned by age. The copied rows of removed artifacts, their views and surveys are kept only
until the sweep may delete the bytes.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Text, bindparam, insert, select

from coatcheck.adapters.sql.dialect import NOW, among, bind_seqs
from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.tables import artifacts, audit_log, removed, removed_surveys, removed_views, surveys, views
from coatcheck.core.retention.audit import AuditLine, merge_lines, pack_numbers

_WAITING: Final = "coatcheck.audit"
"""The key in a connection's `info` under which a transaction gathers its lines."""
_ADD = Prepared(insert(audit_log), columns=[column.name for column in audit_log.c if not column.primary_key])


def append(conn: Connection, line: AuditLine) -> None:
    """Adds a line, which is written at the end of the current transaction."""
    _lines(conn).append(line)


def begin(conn: Connection) -> None:
    """Begins a transaction: discards lines that a former transaction has left because it was rolled back."""
    _lines(conn).clear()


def flush(conn: Connection, enter: Callable[[Connection, str | None], None]) -> None:
    """Writes the gathered lines. Lines with the same actor, reason and run are merged. Call this last.

    Args:
        conn: the open transaction.
        enter: sets the namespace of row-level security; None: all namespaces, since the lines may be of several.
    """
    waiting = _lines(conn)
    if not waiting:
        return
    lines = merge_lines(waiting)
    waiting.clear()
    enter(conn, None)
    _ADD.many(conn, [_row(line) for line in lines])


def _row(line: AuditLine) -> dict[str, Any]:
    return {
        **msgspec.structs.asdict(line),
        **msgspec.structs.asdict(line.by),
        "artifacts": len(line.numbers),
        "numbers": pack_numbers(line.numbers),
        "details": msgspec.json.encode(line.details, order="sorted").decode(),
    }


def _lines(conn: Connection) -> list[AuditLine]:
    lines: list[AuditLine] = conn.info.setdefault(_WAITING, [])
    return lines


_SEQS = bind_seqs()
COPIED = [column.name for column in artifacts.c if not column.primary_key]
"""Names of the columns of an artifact's row that are copied."""
# This is a single statement, so that the rows need not be transferred to this process.
_KEEP = Prepared(
    insert(removed)
    .from_select(
        ["removed_at", "reason", "run_id", "artifact_seq", *COPIED],
        select(
            NOW,
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
"""Names of the columns of a view's row that are copied."""
_VIEWS = Prepared(
    select(views.c.artifact_seq, *(views.c[name] for name in OF_VIEW)).where(among(views.c.artifact_seq, _SEQS))
)
_KEEP_VIEW = Prepared(insert(removed_views), columns=["removed_seq", *OF_VIEW])
# Restricted to removals in this transaction, because another removed artifact may have had the same row number before.
_KEEP_SURVEYS = Prepared(
    insert(removed_surveys).from_select(
        ["removed_seq", "namespace", "data"],
        select(removed.c.seq, surveys.c.namespace, surveys.c.data)
        .join_from(removed, surveys, surveys.c.artifact_seq == removed.c.artifact_seq)
        .where(among(removed.c.seq, _SEQS)),
    )
)


def keep(conn: Connection, seqs: Sequence[int], reason: str, now: datetime, run_id: str | None) -> None:
    """Copies the rows of artifacts that are about to be removed, and the rows of their views and surveys.

    The caller must have locked the artifacts' rows.
    """
    if not seqs:
        return
    records = _KEEP.rows(conn, {"now": now, "why": reason, "run": run_id, "seqs": list(seqs)})
    # The copy of a view needs the row number of its artifact's copy. Therefore views are read here and written again,
    # whereas the statement for surveys finds the number by a join.
    removed_seqs = {artifact_seq: seq for seq, artifact_seq in records}
    view_rows = _VIEWS.rows(conn, {"seqs": list(seqs)})
    _KEEP_VIEW.many(
        conn, [{"removed_seq": removed_seqs[row[0]]} | dict(zip(OF_VIEW, row[1:], strict=True)) for row in view_rows]
    )
    _KEEP_SURVEYS.run(conn, {"seqs": list(removed_seqs.values())})
