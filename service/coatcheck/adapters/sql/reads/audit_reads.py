"""The audit log's lines, as they are stored."""

from typing import Any

import msgspec
from sqlalchemy import Connection, or_, select

from coatcheck.adapters.sql.tables import audit_log
from coatcheck.core.retention.audit import AuditLine, By, unpack_numbers


def find_lines(
    conn: Connection,
    *,
    before: int | None = None,
    limit: int,
    namespace: str | None = None,
    run_id: str | None = None,
    action: str | None = None,
) -> list[AuditLine]:
    """Returns lines that meet all conditions, latest first."""
    statement: Any = select(audit_log).order_by(audit_log.c.seq.desc()).limit(limit)
    if before is not None:
        statement = statement.where(audit_log.c.seq < before)
    if namespace is not None:
        statement = statement.where(audit_log.c.namespace == namespace)
    if run_id is not None:
        statement = statement.where(audit_log.c.run_id == run_id)
    if action is not None:
        statement = statement.where(or_(audit_log.c.action == action, audit_log.c.action.startswith(f"{action}.")))
    return [_line(row) for row in conn.execute(statement)]


def _line(row: Any) -> AuditLine:  # noqa: ANN401 - a row of `audit_log`
    return AuditLine(
        seq=row.seq,
        at=row.at,
        action=row.action,
        by=By(row.actor, row.key_id, row.run_id),
        namespace=row.namespace,
        reason=row.reason,
        size=row.size,
        numbers=unpack_numbers(row.numbers),
        details=msgspec.json.decode(row.details),
    )
