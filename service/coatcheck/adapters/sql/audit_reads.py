"""The audit log's lines, as they are stored."""

from typing import Any, Final

import msgspec
from sqlalchemy import Connection, or_, select

from coatcheck.adapters.sql.tables import audit_log
from coatcheck.core.audit import AuditLine, unpack_numbers

_LINE: Final[list[Any]] = [audit_log.c[name] for name in AuditLine.__struct_fields__]


def find_lines(
    conn: Connection,
    before: int | None,
    limit: int,
    namespace: str | None,
    run_id: str | None,
    action: str | None,
) -> list[AuditLine]:
    """Lines that meet all conditions, the latest first."""
    statement: Any = select(*_LINE).order_by(audit_log.c.seq.desc()).limit(limit)
    if before is not None:
        statement = statement.where(audit_log.c.seq < before)
    if namespace is not None:
        statement = statement.where(audit_log.c.namespace == namespace)
    if run_id is not None:
        statement = statement.where(audit_log.c.run_id == run_id)
    if action is not None:
        statement = statement.where(or_(audit_log.c.action == action, audit_log.c.action.startswith(f"{action}.")))
    return [_line(row) for row in conn.execute(statement).mappings()]


def _line(row: Any) -> AuditLine:  # noqa: ANN401 - a row of `audit_log`
    packed, details = row["numbers"], row["details"]
    return AuditLine(**{**row, "numbers": unpack_numbers(packed), "details": msgspec.json.decode(details)})
