"""Versions of policies. They are added and never changed; the latest one of a scope is in force.

Versions are numbered in the order of commits: a replica that has seen one has seen all before it, so the latest number
tells whether there is anything new.
"""

from typing import Any, Final

from sqlalchemy import Connection, Text, bindparam, func, insert, select

from coatcheck.adapters.sql.changes import audit
from coatcheck.adapters.sql.tables import policies
from coatcheck.core.policies.policy import EVERYWHERE, Part, PolicyScope, Rules, decode, encode
from coatcheck.core.retention.audit import AuditLine, Detail
from coatcheck.ports.decisions import PolicyVersion, SetPolicy

_LOCK: Final = 0x706F6C69
""""poli" in ASCII: the key of the advisory lock by which versions of policies are ordered."""
_LAST = select(func.coalesce(func.max(policies.c.version), 0))
_SCOPE = (
    (policies.c.namespace == bindparam("space", type_=Text()))
    & (policies.c.part == bindparam("in_part", type_=Text()))
    & (policies.c.value == bindparam("of_value", type_=Text()))
)
_VERSIONS = select(*policies.c).where(_SCOPE).order_by(policies.c.version.desc()).limit(bindparam("most"))
# For each scope its latest version; without a policy in it, the scope has none.
_NEWEST = select(func.max(policies.c.version)).group_by(policies.c.namespace, policies.c.part, policies.c.value)
_CURRENT = select(*policies.c).where(policies.c.version.in_(_NEWEST), policies.c.policy.is_not(None))
_ADD_VERSION = insert(policies)


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
    conn.execute(
        _ADD_VERSION,
        {
            "version": version,
            "namespace": scope.namespace,
            "part": scope.part or "",
            "value": scope.value,
            "policy": None if change.policy is None else encode(change.policy),
            "at": change.now,
            "made_by": change.by.actor,
        },
    )
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
    version: int = conn.execute(_LAST).scalar_one()
    return version


def current(conn: Connection) -> tuple[int, Rules]:
    """Returns the policies in force, and a version that they are at least as new as."""
    # The number first: a version that is committed between the queries makes the policies newer than it, never older.
    version = last_version(conn)
    versions = [_version(row) for row in conn.execute(_CURRENT)]
    return version, Rules({each.scope: each.policy for each in versions if each.policy is not None})


def history(conn: Connection, scope: PolicyScope, limit: int) -> list[PolicyVersion]:
    """Returns the versions of a scope, newest first."""
    parameters = {"space": scope.namespace, "in_part": scope.part or "", "of_value": scope.value, "most": limit}
    return [_version(row) for row in conn.execute(_VERSIONS, parameters)]


def _version(row: Any) -> PolicyVersion:  # noqa: ANN401 - a row of `policies`
    part: Part | None = row.part or None
    return PolicyVersion(
        version=row.version,
        scope=PolicyScope(row.namespace, part, row.value),
        policy=None if row.policy is None else decode(row.policy),
        at=row.at,
        by=row.made_by,
    )
