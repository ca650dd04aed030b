"""The audit's lines and its head, as they are stored. It judges nothing: `core/audit` verifies."""

from typing import Any, Final

from sqlalchemy import Connection, or_, select

from coatcheck.adapters.sql.tables import audit, audit_head
from coatcheck.core.audit import Head, SealedAuditLine

_ENTRY: Final[list[Any]] = [audit.c[name] for name in SealedAuditLine.__struct_fields__]


def audit_lines(conn: Connection, after: int, limit: int) -> list[SealedAuditLine]:
    """Lines in their order, behind one."""
    statement: Any = select(*_ENTRY).where(audit.c.seq > after).order_by(audit.c.seq).limit(limit)
    return [SealedAuditLine(**row) for row in conn.execute(statement).mappings()]


def find_lines(
    conn: Connection,
    before: int | None,
    limit: int,
    namespace: str | None,
    run_id: str | None,
    action: str | None,
) -> list[SealedAuditLine]:
    """Lines that meet all conditions, the latest first."""
    statement: Any = select(*_ENTRY).order_by(audit.c.seq.desc()).limit(limit)
    if before is not None:
        statement = statement.where(audit.c.seq < before)
    if namespace is not None:
        statement = statement.where(audit.c.namespace == namespace)
    if run_id is not None:
        statement = statement.where(audit.c.run_id == run_id)
    if action is not None:
        statement = statement.where(or_(audit.c.action == action, audit.c.action.startswith(f"{action}.")))
    return [SealedAuditLine(**row) for row in conn.execute(statement).mappings()]


def head(conn: Connection) -> Head | None:
    """Where the chain says that it ends."""
    row = conn.execute(select(audit_head.c.seq, audit_head.c.digest)).first()
    return None if row is None else Head(row.seq, row.digest)
