"""Administrators' decisions: versions of policies, and holds, each with its line in the audit log.

Versions are added and never changed; the latest one of a scope is in force. They are numbered in the order of commits:
a replica that has seen one has seen all before it, so the latest number tells whether there is anything new.
"""

from datetime import datetime
from typing import Any, Final

from msgspec.structs import asdict
from sqlalchemy import Connection, delete, func, insert, select

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.changes import audit, holds
from coatcheck.adapters.sql.changes.tombstone import tombstone_of
from coatcheck.adapters.sql.tables import artifacts, policies
from coatcheck.adapters.sql.tables import holds as hold_rows
from coatcheck.core import ids
from coatcheck.core.artifact import Gone
from coatcheck.core.policies.policy import EVERYWHERE, Part, PolicyScope, Rules, decode, encode
from coatcheck.core.retention.audit import AuditLine, By, Detail, Hold
from coatcheck.ports.decisions import PlaceHold, PolicyVersion, ReleaseHold, SetPolicy

_LOCK: Final = 0x706F6C69
""""poli" in ASCII: the key of the advisory lock by which versions of policies are ordered."""
_LAST = select(func.coalesce(func.max(policies.c.version), 0))


def apply_set(conn: Connection, change: SetPolicy) -> int | None:
    """Carries out SetPolicy."""
    if conn.dialect.name != "sqlite":
        # Until the commit, so that numbers become visible in their order.
        conn.execute(select(func.pg_advisory_xact_lock(_LOCK)))
    scope = change.scope
    before = next(iter(history(conn, scope, 1)), None)
    # Nothing to remove: neither a version nor a line in the audit log.
    if change.policy is None and (before is None or before.policy is None):
        return None
    version: int = conn.execute(_LAST).scalar_one() + 1
    values = {
        "version": version,
        "namespace": scope.namespace,
        "part": scope.part or "",
        "value": scope.value,
        "policy": None if change.policy is None else encode(change.policy),
        "at": change.now,
        "made_by": change.by.actor,
    }
    conn.execute(insert(policies), values)
    audit.append(conn, _line(change, version, before))
    return version


def _line(change: SetPolicy, version: int, before: PolicyVersion | None) -> AuditLine:
    scope = change.scope
    was = None if before is None or before.policy is None else encode(before.policy)
    details: dict[str, Detail] = {"scope": str(scope), "version": version, "was": was}
    if change.policy is not None:
        details["policy"] = encode(change.policy)
    return AuditLine(
        at=change.now,
        action="policy.removed" if change.policy is None else "policy.set",
        by=change.by,
        namespace=None if scope.namespace == EVERYWHERE else scope.namespace,
        details=details,
    )


def last_version(conn: Connection) -> int:
    """Returns the latest version of all."""
    return conn.execute(_LAST).scalar_one()


def current(conn: Connection) -> tuple[int, Rules]:
    """Returns the policies in force, and a version that they are at least as new as."""
    # The number first: a version that is committed between the queries makes the policies newer than it, never older.
    version = last_version(conn)
    # For each scope its latest version; without a policy in it, the scope has none.
    newest = select(func.max(policies.c.version)).group_by(policies.c.namespace, policies.c.part, policies.c.value)
    statement = select(policies).where(policies.c.version.in_(newest), policies.c.policy.is_not(None))
    versions = [_version(row) for row in conn.execute(statement)]
    return version, Rules({each.scope: each.policy for each in versions if each.policy is not None})


def history(conn: Connection, scope: PolicyScope, limit: int) -> list[PolicyVersion]:
    """Returns the versions of a scope, newest first."""
    key = {policies.c.namespace: scope.namespace, policies.c.part: scope.part or "", policies.c.value: scope.value}
    statement = select(policies).order_by(policies.c.version.desc()).limit(limit)
    return [_version(row) for row in conn.execute(rows.where_given(statement, key))]


def _version(row: Any) -> PolicyVersion:  # noqa: ANN401 - a row of `policies`
    part: Part | None = row.part or None
    return rows.struct_of(
        PolicyVersion,
        row,
        scope=PolicyScope(row.namespace, part, row.value),
        policy=None if row.policy is None else decode(row.policy),
        by=row.made_by,
    )


def apply_place(conn: Connection, change: PlaceHold) -> bool | Gone | None:
    """Carries out PlaceHold, after deletes that are in progress."""
    hold = change.hold
    holds.wait_for_deletes(conn)
    # Only a hold on one artifact needs it to exist: sessions and namespaces are held with what comes later. No lock:
    # nobody deletes now.
    if hold.number is not None:
        mine = (artifacts.c.namespace == hold.namespace, artifacts.c.number == hold.number)
        if conn.scalar(select(artifacts.c.seq).where(*mine)) is None:
            return tombstone_of(conn, hold.namespace, hold.number, hold.at)
    conn.execute(insert(hold_rows), asdict(hold))
    audit.append(conn, _hold_line(hold, "hold.placed", change.by, hold.at))
    return True


def apply_release(conn: Connection, change: ReleaseHold) -> Hold | None:
    """Carries out ReleaseHold."""
    row = conn.execute(select(hold_rows).where(hold_rows.c.id == change.id).with_for_update()).first()
    # The hold of another namespace is answered like one that does not exist.
    if row is None or change.namespace not in {None, row.namespace}:
        return None
    hold = rows.struct_of(Hold, row)
    conn.execute(delete(hold_rows).where(hold_rows.c.id == change.id))
    audit.append(conn, _hold_line(hold, "hold.released", change.by, change.now))
    return hold


def _hold_line(hold: Hold, action: str, by: By, at: datetime) -> AuditLine:
    details: dict[str, Detail] = {"hold": hold.id, "until": None if hold.until is None else hold.until.isoformat()}
    if hold.session is not None:
        details["session"] = hold.session
    if hold.number is not None:
        details["artifact"] = ids.render(hold.number)
    return AuditLine(at=at, action=action, by=by, namespace=hold.namespace, reason=hold.reason, details=details)
