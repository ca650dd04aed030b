"""Creates, revokes and disables keys and namespaces, and marks namespaces that are being deleted.

Each change writes its line in the audit log in the same transaction. No row is ever removed, and a revoked key stays
revoked. While a namespace is marked, nothing can be stored in it. The mark is refused while a hold covers the namespace
itself, and removed when the namespace is empty.
"""

from sqlalchemy import Connection, Text, bindparam, select, update

from coatcheck.adapters.sql.changes import audit
from coatcheck.adapters.sql.changes.audit import append
from coatcheck.adapters.sql.changes.holds import holds_on, stand_by_now
from coatcheck.adapters.sql.dialect import DIALECTS, UtcDateTime, insert_into
from coatcheck.adapters.sql.rows import KEY_COLUMNS, info_of, namespace_of, scopes_column
from coatcheck.adapters.sql.tables import keys, namespaces, usage
from coatcheck.core.artifact import Caller
from coatcheck.core.keys import EVERYWHERE, KeyInfo, NamespaceInfo
from coatcheck.core.retention.audit import AuditLine, By, Detail, HoldConflict
from coatcheck.ports.decisions import MarkNamespace
from coatcheck.ports.keys import MakeKey, MakeNamespace, RevokeKey, SwitchNamespace

_KEY = select(*KEY_COLUMNS).where(keys.c.id == bindparam("key_id")).with_for_update()
_REVOKE = update(keys).where(keys.c.id == bindparam("key_id"), keys.c.revoked_at.is_(None))
_NAMESPACE = select(namespaces).where(namespaces.c.namespace == bindparam("name")).with_for_update()
_ADD_KEY = {dialect: insert_into(keys, dialect).on_conflict_do_nothing() for dialect in DIALECTS}
_ADD_NAMESPACE = {dialect: insert_into(namespaces, dialect).on_conflict_do_nothing() for dialect in DIALECTS}


def apply_make_key(conn: Connection, change: MakeKey) -> None:
    """Carries out MakeKey."""
    info = change.info
    # The first key of a namespace creates it.
    if info.namespace != EVERYWHERE:
        apply_make_namespace(conn, MakeNamespace(name=info.namespace, now=info.created_at, by=change.by))
    result = conn.execute(
        _ADD_KEY[conn.dialect.name],
        {
            "id": info.id,
            "namespace": info.namespace,
            "name": info.name,
            "scopes": scopes_column(info.scopes),
            "session_prefix": info.session_prefix,
            "digest": change.digest,
            "created_at": info.created_at,
            "expires_at": info.expires_at,
            "revoked_at": None,
            "requests_per_minute": info.requests_per_minute,
            "bytes_per_minute": info.bytes_per_minute,
        },
    )
    if not result.rowcount:
        # If the answer to its commit was lost, this same change has created the key: then the digests are equal,
        # which those of two keys never are.
        if conn.execute(select(keys.c.digest).where(keys.c.id == info.id)).scalar_one() != change.digest:
            raise RuntimeError("a key's ID was drawn twice")
        return
    _log_key(conn, "key.created", info, change.by)


def apply_revoke_key(conn: Connection, change: RevokeKey) -> KeyInfo | None:
    """Carries out RevokeKey."""
    row = conn.execute(_KEY, {"key_id": change.key_id}).first()
    # A key of another namespace is treated like one that does not exist.
    if row is None or change.namespace not in {None, row.namespace}:
        return None
    # The first revocation is the one that counts, and the only one in the audit log.
    if row.revoked_at is not None:
        return info_of(row)
    conn.execute(_REVOKE.values(revoked_at=change.now), {"key_id": change.key_id})
    revoked_row = conn.execute(_KEY, {"key_id": change.key_id}).one()
    info = info_of(revoked_row)
    _log_key(conn, "key.revoked", info, change.by)
    return info


def apply_make_namespace(conn: Connection, change: MakeNamespace) -> tuple[NamespaceInfo, bool]:
    """Carries out MakeNamespace."""
    values = {"namespace": change.name, "created_at": change.now, "disabled_at": None}
    if not conn.execute(_ADD_NAMESPACE[conn.dialect.name], values).rowcount:
        return namespace_of(conn.execute(_NAMESPACE, {"name": change.name}).one()), False
    _log_namespace(conn, "namespace.created", change)
    return NamespaceInfo(name=change.name, created_at=change.now, disabled_at=None), True


def apply_switch_namespace(conn: Connection, change: SwitchNamespace) -> NamespaceInfo | None:
    """Carries out SwitchNamespace."""
    row = conn.execute(_NAMESPACE, {"name": change.name}).first()
    if row is None:
        return None
    if (row.disabled_at is not None) is change.disabled:
        return namespace_of(row)
    at = change.now if change.disabled else None
    conn.execute(update(namespaces).where(namespaces.c.namespace == change.name).values(disabled_at=at))
    _log_namespace(conn, "namespace.disabled" if change.disabled else "namespace.enabled", change)
    return NamespaceInfo(name=change.name, created_at=row.created_at, disabled_at=at)


def _log_key(conn: Connection, action: str, info: KeyInfo, by: Caller) -> None:
    details: dict[str, Detail] = {"key": info.id, "name": info.name, "scopes": scopes_column(info.scopes)}
    if info.session_prefix is not None:
        details["session_prefix"] = info.session_prefix
    at = info.revoked_at or info.created_at
    namespace = None if info.namespace == EVERYWHERE else info.namespace
    append(conn, AuditLine(at=at, action=action, by=By.of(by), namespace=namespace, details=details))


def _log_namespace(conn: Connection, action: str, change: MakeNamespace | SwitchNamespace) -> None:
    append(conn, AuditLine(at=change.now, action=action, by=By.of(change.by), namespace=change.name))


_NAMESPACE_NAME = bindparam("space", type_=Text())
_ZERO = {"bytes": 0, "artifacts": 0, "reserved": 0}
_STATE = select(usage.c.deleting_at).where(usage.c.namespace == _NAMESPACE_NAME).with_for_update()
_MARK = (
    update(usage).where(usage.c.namespace == _NAMESPACE_NAME).values(deleting_at=bindparam("mark", type_=UtcDateTime))
)


def apply_mark(conn: Connection, change: MarkNamespace) -> bool | HoldConflict:
    """Carries out MarkNamespace."""
    # From here on no hold can come between the check and the commit.
    stand_by_now(conn)
    if change.deleting:
        conflict = holds_on(conn, change.namespace, None, change.now)
        if conflict is not None:
            return conflict
        # The mark is a column of the namespace's usage row, which does not exist before its first artifact.
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
