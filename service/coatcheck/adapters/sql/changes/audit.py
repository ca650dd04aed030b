"""What a transaction leaves behind: lines of the audit log, and what an undo of its removals needs.

Lines are gathered during the transaction and written at its very end; one that is rolled back writes none. They are
never changed, only pruned by age. The former rows, views and surveys of removed artifacts are kept only until the sweep
may remove the bytes.
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
"""The key of a connection's `info` under which a transaction gathers its lines."""
_ADD = Prepared(insert(audit_log), columns=[column.name for column in audit_log.c if not column.primary_key])


def append(conn: Connection, line: AuditLine) -> None:
    """Adds a line to write at the end of the current transaction, if it commits."""
    _lines(conn).append(line)


def begin(conn: Connection) -> None:
    """Discards the lines of a transaction that was undone."""
    _lines(conn).clear()


def flush(conn: Connection, enter: Callable[[Connection, str | None], None]) -> None:
    """Writes the gathered lines, merging those with the same actor, reason and run. Call this last.

    Args:
        conn: in the transaction.
        enter: sets the namespace for row-level security; the lines may belong to several.
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
"""Columns of an artifact's row that are kept."""
# A single statement, so that no rows leave the database.
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


def keep(conn: Connection, seqs: Sequence[int], reason: str, now: datetime, run_id: str | None) -> None:
    """Keeps artifacts that are about to be removed, with their views and surveys. The caller has locked their rows."""
    if not seqs:
        return
    records = _KEEP.rows(conn, {"now": now, "why": reason, "run": run_id, "seqs": list(seqs)})
    # Each view needs the number of its removed artifact's row, so views pass through here; a survey's statement joins
    # it.
    removed_seqs = {artifact_seq: seq for seq, artifact_seq in records}
    view_rows = _VIEWS.rows(conn, {"seqs": list(seqs)})
    _KEEP_VIEW.many(
        conn, [{"removed_seq": removed_seqs[row[0]]} | dict(zip(OF_VIEW, row[1:], strict=True)) for row in view_rows]
    )
    _KEEP_SURVEYS.run(conn, {"seqs": list(removed_seqs.values())})
