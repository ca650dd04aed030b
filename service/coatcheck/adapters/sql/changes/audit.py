"""The audit log's lines: gathered during a transaction, written at its very end, pruned by age.

A transaction that is rolled back writes none. Lines are never changed.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from sqlalchemy import BigInteger, Connection, bindparam, delete, insert, select

from coatcheck.adapters.sql.dialect import by_now
from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.tables import audit_log
from coatcheck.adapters.sql.types import UtcDateTime
from coatcheck.core.retention.audit import AuditLine, merge_lines, pack_numbers

_WAITING: Final = "coatcheck.audit"
_ADD = Prepared(insert(audit_log), columns=[column.name for column in audit_log.c if not column.primary_key])
_NOW, _BEFORE = bindparam("now", type_=UtcDateTime), bindparam("before", type_=UtcDateTime)
IS_OLD = audit_log.c.at < by_now(_NOW) - (_NOW - _BEFORE)
"""Whether a line is older than from `:before` to `:now`, counted back from no later than the database's own clock."""
_OLD = (
    select(audit_log.c.seq)
    .where(IS_OLD)
    .order_by(audit_log.c.at)
    .limit(bindparam("limit", type_=BigInteger()))
    .with_for_update(skip_locked=True)
)
# A common table expression that locks is evaluated once; PostgreSQL may evaluate a subquery again for each row.
_PRUNE = delete(audit_log).where(audit_log.c.seq.in_(select(_OLD.cte("old")))).returning(audit_log.c.seq)


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


def prune(conn: Connection, now: datetime, life: timedelta, limit: int) -> int:
    """Deletes up to `limit` lines that are older than `life`, oldest first; returns how many."""
    return len(conn.execute(_PRUNE, {"now": now, "before": now - life, "limit": limit}).all())


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
