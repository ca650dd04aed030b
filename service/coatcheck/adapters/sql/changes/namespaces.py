"""The mark of a namespace that is being deleted: nothing can be stored in it while it has the mark.

It is set if no hold covers the namespace itself, and removed when the namespace is empty.
"""

from sqlalchemy import Connection, Text, bindparam, select, update

from coatcheck.adapters.sql.changes import audit
from coatcheck.adapters.sql.changes.holds import holds_on, stand_by_now
from coatcheck.adapters.sql.dialect import insert_into
from coatcheck.adapters.sql.tables import usage
from coatcheck.adapters.sql.types import UtcDateTime
from coatcheck.core.retention.audit import AuditLine
from coatcheck.core.retention.holds import HoldConflict
from coatcheck.ports.decisions import MarkNamespace

_NAMESPACE_NAME = bindparam("space", type_=Text())
_ZERO = {"bytes": 0, "artifacts": 0, "reserved": 0}
_STATE = select(usage.c.deleting_at).where(usage.c.namespace == _NAMESPACE_NAME).with_for_update()
_MARK = (
    update(usage).where(usage.c.namespace == _NAMESPACE_NAME).values(deleting_at=bindparam("mark", type_=UtcDateTime))
)


def apply_mark(conn: Connection, change: MarkNamespace) -> bool | HoldConflict:
    """Carries out MarkNamespace."""
    stand_by_now(conn)
    if change.deleting:
        conflict = holds_on(conn, change.namespace, None, change.now)
        if conflict is not None:
            return conflict
        conn.execute(
            insert_into(usage, conn.dialect.name).on_conflict_do_nothing(), {"namespace": change.namespace, **_ZERO}
        )
    before = conn.execute(_STATE, {"space": change.namespace}).scalar()
    if (before is not None) == change.deleting:
        return False
    conn.execute(_MARK, {"space": change.namespace, "mark": change.now if change.deleting else None})
    line = AuditLine(
        at=change.now,
        action="namespace.deletion_begun" if change.deleting else "namespace.deletion_ended",
        by=change.by,
        namespace=change.namespace,
    )
    audit.append(conn, line)
    return True
