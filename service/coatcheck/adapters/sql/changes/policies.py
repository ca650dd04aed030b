"""Stores decisions of administrators: versions of policies, and holds. Each adds a line to the audit log.

Versions are added and never changed; the latest version of each scope is in force. Versions are numbered in the order
of their commits. A replica that has seen a version has therefore seen all earlier ones, and the latest number tells it
whether there are new versions.
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
""""poli" in ASCII: the key of the advisory lock under which versions of policies are numbered and committed."""
_LAST = select(func.coalesce(func.max(policies.c.version), 0))


def apply_set(conn: Connection, change: SetPolicy) -> int | None:
    """Carries out SetPolicy."""
    if conn.dialect.name != "sqlite":
        # The lock lasts until the commit, so that versions become visible in the order of their numbers.
        conn.execute(select(func.pg_advisory_xact_lock(_LOCK)))
    scope = change.scope
    before = next(iter(history(conn, scope, 1)), None)
    # There is no policy to remove, so neither a version nor a line in the audit log is added.
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
    """Returns the number of the latest version over all scopes; 0 if there is none."""
    return conn.execute(_LAST).scalar_one()


def current(conn: Connection) -> tuple[int, Rules]:
    """Returns the number of a version, and the policies in force, which include all versions up to that number."""
    # The number is read first. If a version is committed between the two queries, the policies are newer than the
    # number, never older.
    version = last_version(conn)
    # The latest version of each scope. A version without a policy records that the scope's policy was removed.
    newest = select(func.max(policies.c.version)).group_by(policies.c.namespace, policies.c.part, policies.c.value)
    statement = select(policies).where(policies.c.version.in_(newest), policies.c.policy.is_not(None))
    versions = [_version(row) for row in conn.execute(statement)]
    return version, Rules({each.scope: each.policy for each in versions if each.policy is not None})


def history(conn: Connection, scope: PolicyScope, limit: int) -> list[PolicyVersion]:
    """Returns up to `limit` versions of a scope's policy, newest first."""
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
    """Carries out PlaceHold, after waiting for deletions that are in progress."""
    hold = change.hold
    holds.wait_for_deletes(conn)
    # A hold on an artifact requires that the artifact exists. A hold on a session or namespace does not, since it also
    # covers artifacts that come later. The artifact needs no lock, because nobody can delete it now.
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
    # If the hold is in another namespace, the answer is the same as if it did not exist.
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
