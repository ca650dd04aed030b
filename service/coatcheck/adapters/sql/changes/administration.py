"""Creates, revokes and disables keys and namespaces, and marks namespaces that are being deleted.

Each change writes its line in the audit log in the same transaction. No row is ever removed, and a revoked key stays
revoked. While a namespace is marked, nothing can be stored in it. The mark is refused while a hold covers the namespace
itself, and removed when the namespace is empty.
"""

from typing import Any

from msgspec.structs import asdict, replace
from sqlalchemy import Connection, Select, select, update

from coatcheck.adapters.sql.changes import audit
from coatcheck.adapters.sql.changes.holds import holds_on, stand_by_now
from coatcheck.adapters.sql.dialect import upsert
from coatcheck.adapters.sql.rows import key_of, namespace_of, scopes_column
from coatcheck.adapters.sql.tables import keys, namespaces, usage
from coatcheck.core.artifact import Caller
from coatcheck.core.keys import EVERYWHERE, KeyInfo, NamespaceInfo
from coatcheck.core.retention.audit import AuditLine, By, Detail, HoldConflict
from coatcheck.ports.decisions import MarkNamespace
from coatcheck.ports.keys import MakeKey, MakeNamespace, RevokeKey, SwitchNamespace

_ADD_KEY = upsert(keys).on_conflict_do_nothing()
_ADD_NAMESPACE = upsert(namespaces).on_conflict_do_nothing()


def apply_make_key(conn: Connection, change: MakeKey) -> None:
    """Carries out MakeKey."""
    info = change.info
    # The first key of a namespace creates it.
    if info.namespace != EVERYWHERE:
        apply_make_namespace(conn, MakeNamespace(name=info.namespace, now=info.created_at, by=change.by))
    values = asdict(info) | {"scopes": scopes_column(info.scopes), "digest": change.digest, "revoked_at": None}
    if not conn.execute(_ADD_KEY, values).rowcount:
        # The key exists. If it has this change's digest, an earlier attempt at this change has created it, and only the
        # answer to the commit was lost: two keys never have equal digests.
        if conn.scalar(select(keys.c.digest).where(keys.c.id == info.id)) != change.digest:
            raise RuntimeError("a key's ID was drawn twice")
        return
    _log_key(conn, "key.created", info, change.by)


def apply_revoke_key(conn: Connection, change: RevokeKey) -> KeyInfo | None:
    """Carries out RevokeKey."""
    row = conn.execute(select(keys).where(keys.c.id == change.key_id).with_for_update()).first()
    # A key of another namespace is treated like one that does not exist.
    if row is None or change.namespace not in {None, row.namespace}:
        return None
    info = key_of(row)
    # Only the first revocation counts, and only the first one gets a line in the audit log.
    if info.revoked_at is None:
        conn.execute(update(keys).where(keys.c.id == change.key_id).values(revoked_at=change.now))
        info = replace(info, revoked_at=change.now)
        _log_key(conn, "key.revoked", info, change.by)
    return info


def apply_make_namespace(conn: Connection, change: MakeNamespace) -> tuple[NamespaceInfo, bool]:
    """Carries out MakeNamespace."""
    values = {"namespace": change.name, "created_at": change.now, "disabled_at": None}
    if not conn.execute(_ADD_NAMESPACE, values).rowcount:
        return namespace_of(conn.execute(_select_namespace(change.name)).one()), False
    _log_namespace(conn, "namespace.created", change)
    return NamespaceInfo(name=change.name, created_at=change.now, disabled_at=None), True


def apply_switch_namespace(conn: Connection, change: SwitchNamespace) -> NamespaceInfo | None:
    """Carries out SwitchNamespace."""
    row = conn.execute(_select_namespace(change.name)).first()
    if row is None:
        return None
    if (row.disabled_at is not None) is change.disabled:
        return namespace_of(row)
    at = change.now if change.disabled else None
    conn.execute(update(namespaces).where(namespaces.c.namespace == change.name).values(disabled_at=at))
    _log_namespace(conn, "namespace.disabled" if change.disabled else "namespace.enabled", change)
    return NamespaceInfo(name=change.name, created_at=row.created_at, disabled_at=at)


def _select_namespace(name: str) -> Select[Any]:
    return select(namespaces).where(namespaces.c.namespace == name).with_for_update()


def _log_key(conn: Connection, action: str, info: KeyInfo, by: Caller) -> None:
    details: dict[str, Detail] = {"key": info.id, "name": info.name, "scopes": scopes_column(info.scopes)}
    if info.session_prefix is not None:
        details["session_prefix"] = info.session_prefix
    at = info.revoked_at or info.created_at
    namespace = None if info.namespace == EVERYWHERE else info.namespace
    audit.append(conn, AuditLine(at=at, action=action, by=By.of(by), namespace=namespace, details=details))


def _log_namespace(conn: Connection, action: str, change: MakeNamespace | SwitchNamespace) -> None:
    audit.append(conn, AuditLine(at=change.now, action=action, by=By.of(change.by), namespace=change.name))


def apply_mark(conn: Connection, change: MarkNamespace) -> bool | HoldConflict:
    """Carries out MarkNamespace."""
    # From here on, no hold can be placed between the check below and the commit.
    stand_by_now(conn)
    if change.deleting:
        conflict = holds_on(conn, change.namespace, None, change.now)
        if conflict is not None:
            return conflict
        # The mark is a column of the usage row, which a namespace has only from its first artifact on.
        zero = {"namespace": change.namespace, "bytes": 0, "artifacts": 0, "reserved": 0}
        conn.execute(upsert(usage).on_conflict_do_nothing(), zero)
    mine = usage.c.namespace == change.namespace
    before = conn.scalar(select(usage.c.deleting_at).where(mine).with_for_update())
    if (before is not None) == change.deleting:
        return False
    conn.execute(update(usage).where(mine).values(deleting_at=change.now if change.deleting else None))
    line = AuditLine(
        at=change.now,
        action="namespace.deletion_begun" if change.deleting else "namespace.deletion_ended",
        by=change.by,
        namespace=change.namespace,
    )
    audit.append(conn, line)
    return True
