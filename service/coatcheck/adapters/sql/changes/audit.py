"""The audit's lines: handed over while a transaction is under way, sealed and written at its very end.

There is one chain for the whole store, and its head is one row: whoever has locked it keeps every other replica from
committing a line. So it is locked last, behind every other lock of the transaction, and nobody waits in a circle.
Lines are never changed and never removed. What is rolled back was never written.
"""

import logging
from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import Connection, bindparam, func, insert, select, update

from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.tables import audit, audit_head
from coatcheck.core.audit import AuditLine, Head, SealedAuditLine, head_of, merged, seal

log = logging.getLogger(__name__)

_WAITING: Final = "coatcheck.audit"
_HEAD_ID: Final = 1
_HEAD = Prepared(
    select(audit_head.c.seq, audit_head.c.digest).where(audit_head.c.id == bindparam("id")).with_for_update()
)
_MOVE = update(audit_head).where(audit_head.c.id == _HEAD_ID)
_LAST = select(func.coalesce(func.max(audit.c.seq), 0))
_COLUMNS = [column.name for column in audit.c]
_ADD = Prepared(insert(audit), columns=_COLUMNS)


def append(conn: Connection, line: AuditLine) -> None:
    """Have a line written when the transaction that is under way ends, and only if it commits."""
    _lines(conn).append(line)


def begin(conn: Connection) -> None:
    """Forget lines of a transaction that was taken back."""
    _lines(conn).clear()


def flush(conn: Connection, enter: Callable[[Connection, str | None], None]) -> None:
    """Seal and write the lines that were handed over, those of one hand, reason and run as one. The last thing to do.

    Args:
        conn: in the transaction.
        enter: shows row-level security who asks; the chain is everybody's.
    """
    waiting = _lines(conn)
    if not waiting:
        return
    lines = merged(waiting)
    waiting.clear()
    enter(conn, None)
    head = _take_head(conn)
    entries: list[SealedAuditLine] = []
    for line in lines:
        entries.append(seal(head, line))
        head = head_of(entries[-1])
    _ADD.many(conn, [_row(entry) for entry in entries])
    conn.execute(_MOVE, {"seq": head.seq, "digest": head.digest})


def _take_head(conn: Connection) -> Head:
    found = _HEAD.rows(conn, {"id": _HEAD_ID})
    if found:
        return Head(*found[0])
    # Somebody has removed it. The chain must go on all the same: it begins again behind the last line, and what is
    # missing between the two shows when the chain is verified.
    last: int = conn.execute(_LAST).scalar_one()
    log.error("the head of the audit was removed; run `coatcheck audit verify`. The audit goes on at line %d", last + 1)
    head = Head(last)
    conn.execute(insert(audit_head), {"id": _HEAD_ID, "seq": head.seq, "digest": head.digest})
    return head


def _row(entry: SealedAuditLine) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in _COLUMNS}


def _lines(conn: Connection) -> list[AuditLine]:
    lines: list[AuditLine] = conn.info.setdefault(_WAITING, [])
    return lines
