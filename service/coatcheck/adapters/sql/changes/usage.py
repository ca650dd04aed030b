"""Counts the bytes and artifacts of each namespace: summed up during a transaction, written at its end.

Each addition or removal of a blob or an artifact is counted here in the same transaction. Therefore the counts agree
with the rows, even if transactions are rolled back or tried again. The row of a namespace in `usage` is locked after
all other rows except the audit log's, and only until the commit: replicas that store in the same namespace wait for
each other no longer than that.

Limits are checked before anything is changed, without a lock. The statement that writes the counts checks again that no
other replica has used up the room meanwhile; otherwise the transaction starts again.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import BigInteger, ColumnElement, Connection, FromClause, Subquery, Table, bindparam, func, select

from coatcheck.adapters.sql.dialect import NAMESPACE, upsert
from coatcheck.adapters.sql.faults import TransactionConflict
from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.tables import artifacts, blobs, uploads, usage
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.policies.quota import QuotaExceeded, QuotaLimits, Usage

_SUMS: Final = "coatcheck.usage"
"""The key in a connection's `info` under which a transaction gathers its sums."""
_ANY: Final = 2**62
"""A limit that is never reached, for columns without a limit."""
_SEEN = Prepared(select(*usage.c).where(usage.c.namespace == NAMESPACE))
_ADDED = ("bytes", "artifacts", "reserved")
_most_bytes, _most_artifacts = (bindparam(name, type_=BigInteger()) for name in ("most_bytes", "most_artifacts"))
_new = upsert(usage).values({name: bindparam(name, type_=usage.c[name].type) for name in ("namespace", *_ADDED)})
# Returns no row if the row exceeds the limits now, because another replica has stored something since the check.
_ADD = Prepared(
    _new.on_conflict_do_update(
        index_elements=[usage.c.namespace],
        set_={name: usage.c[name] + _new.excluded[name] for name in _ADDED},
        where=(usage.c.bytes + usage.c.reserved <= _most_bytes) & (usage.c.artifacts <= _most_artifacts),
    ).returning(usage.c.deleting_at)
)


@dataclass
class _Sum:
    """The amounts that a transaction adds to one namespace."""

    bytes: int = 0
    """Stored bytes; negative if the transaction frees more than it adds."""
    artifacts: int = 0
    """Number of artifacts; negative if the transaction removes more than it adds."""
    reserved: int = 0
    """Bytes reserved by open uploads; negative if more reservations end than begin."""
    stores: bool = False
    """Whether the transaction adds an artifact."""
    row_usage: Usage | None = None
    """The namespace's row as it was when a limit was first checked; None: no limit was checked."""
    claimed_bytes: int = 0
    """Maximum bytes that may be added by the changes for which room was claimed."""
    claimed_artifacts: int = 0
    """Maximum artifacts that may be added by the changes for which room was claimed."""
    room: QuotaLimits = field(default_factory=QuotaLimits)
    """The limits against which the last claim was checked."""


class NamespaceClosing(Exception):  # noqa: N818 - no error of storage: `commit` turns it into the caller's error
    """A change would store an artifact in a namespace that is being deleted."""


def count(conn: Connection, namespace: str, *, bytes_: int = 0, artifacts: int = 0, reserved: int = 0) -> None:
    """Counts amounts that the current transaction adds to a namespace; negative amounts are removed from it."""
    sums = _sums(conn).setdefault(namespace, _Sum())
    sums.bytes += bytes_
    sums.artifacts += artifacts
    sums.reserved += reserved
    sums.stores = sums.stores or artifacts > 0


def begin(conn: Connection) -> None:
    """Begins a transaction: discards sums that a former transaction has left because it was rolled back."""
    _sums(conn).clear()


def flush(conn: Connection, enter: Callable[[Connection, str | None], None]) -> None:
    """Writes the sums of the transaction. Call it after all other changes, and before writing the audit log's lines.

    Raises TransactionConflict if another replica has used up the room that was claimed, and NamespaceClosing if the
    transaction adds an artifact to a namespace that is being deleted.
    """
    # If a limit was checked, it must be checked again at the end, even if all sums are zero.
    waiting = {
        namespace: sums
        for namespace, sums in _sums(conn).items()
        if sums.bytes or sums.artifacts or sums.reserved or sums.stores or sums.row_usage is not None
    }
    _sums(conn).clear()
    if not waiting:
        return
    namespaces = sorted(waiting)
    # The changes of a group are carried out namespace by namespace, but the rows of all namespaces are locked only now.
    enter(conn, namespaces[0] if len(namespaces) == 1 else None)
    for namespace in namespaces:
        sums = waiting[namespace]
        values = {"bytes": sums.bytes, "artifacts": sums.artifacts, "reserved": sums.reserved}
        usage_rows = _ADD.rows(conn, {"namespace": namespace, **values, **_most(sums)})
        if not usage_rows:
            raise TransactionConflict
        # The statement has locked the row. Therefore nobody can mark the namespace as being deleted between this check
        # and the commit.
        if sums.stores and usage_rows[0][0] is not None:
            raise NamespaceClosing(namespace)


def _most(sums: _Sum) -> dict[str, int]:
    """Returns the maximum values that the row may have before the sums are added, so that the limits are respected."""
    if sums.row_usage is None:
        return {"most_bytes": _ANY, "most_artifacts": _ANY}
    row_usage, room = sums.row_usage, sums.room
    # The room that the limits leave to the row, without the amounts that this transaction has claimed. Bytes that
    # were reserved in the row, and are not any more, are room for the bytes that are claimed in their place.
    left_bytes = _ANY if room.max_bytes is None else room.max_bytes - sums.claimed_bytes - min(sums.reserved, 0)
    left_artifacts = _ANY if room.max_artifacts is None else room.max_artifacts - sums.claimed_artifacts
    return {
        # An administrator may have lowered a limit below the present values. A change that adds nothing must pass
        # nevertheless.
        "most_bytes": max(row_usage.bytes + row_usage.reserved, left_bytes),
        "most_artifacts": max(row_usage.artifacts, left_artifacts),
    }


def claim(
    conn: Connection, namespace: str, room: QuotaLimits, *, bytes_: int, artifacts: int = 0
) -> QuotaExceeded | None:
    """Claims room for a change before the change is carried out; returns the refusal if the room does not suffice.

    None: the room is claimed.
    """
    sums = _sums(conn).setdefault(namespace, _Sum())
    if sums.row_usage is None:
        sums.row_usage = read_usage(conn, namespace)
    sums.room = room
    now = Usage(
        namespace=namespace,
        # Amounts that the transaction has freed are subtracted. Amounts that it has added are not counted here, because
        # its claims include them.
        bytes=sums.row_usage.bytes + min(sums.bytes, 0) + sums.claimed_bytes,
        artifacts=sums.row_usage.artifacts + min(sums.artifacts, 0) + sums.claimed_artifacts,
        reserved=sums.row_usage.reserved + min(sums.reserved, 0),
        deleting_at=sums.row_usage.deleting_at,
    )
    full = QuotaExceeded(usage=now, room=room, bytes=bytes_, artifacts=artifacts)
    # A change that adds no bytes is not refused for the limit of bytes; the same holds for artifacts.
    if (bytes_ and full.over_bytes) or (artifacts and full.over_artifacts):
        return full
    sums.claimed_bytes += bytes_
    sums.claimed_artifacts += artifacts
    return None


def reduce_claims(conn: Connection, namespace: str) -> None:
    """Replaces what was claimed in a namespace by what was added, once all changes with claims are carried out."""
    sums = _sums(conn).get(namespace)
    if sums is not None:
        sums.claimed_bytes, sums.claimed_artifacts = max(0, sums.bytes), max(0, sums.artifacts)


def read_usage(conn: Connection, namespace: str) -> Usage:
    """Returns the usage of a namespace as its row is now; all zeros if there is no row."""
    usage_rows = _SEEN.rows(conn, {"namespace": namespace})
    return Usage(**dict(zip(usage.c.keys(), usage_rows[0], strict=True))) if usage_rows else Usage(namespace=namespace)


def usages(conn: Connection, namespace: str | None, *, after: str = "", limit: int = 200) -> list[Usage]:
    """Returns the usage of up to `limit` namespaces whose names follow `after`, in the order of the names.

    `namespace`: only this namespace; None: all.
    """
    statement = select(*usage.c).where(usage.c.namespace > after).order_by(usage.c.namespace).limit(limit)
    if namespace is not None:
        statement = statement.where(usage.c.namespace == namespace)
    return [Usage(**row) for row in conn.execute(statement).mappings()]


def list_marked_namespaces(conn: Connection) -> list[Usage]:
    """Returns the usage of the namespaces that are being deleted, in the order of their names."""
    statement = select(*usage.c).where(usage.c.deleting_at.is_not(None)).order_by(usage.c.namespace)
    return [Usage(**row) for row in conn.execute(statement).mappings()]


def closing(namespace: str) -> CoatcheckError:
    """Returns the error for a change that would store an artifact in a namespace that is being deleted."""
    return CoatcheckError(
        Code.NAMESPACE_DELETING,
        f"The namespace {namespace} is being deleted and accepts no payloads. Use another one.",
    )


def _sums(conn: Connection) -> dict[str, _Sum]:
    sums: dict[str, _Sum] = conn.info.setdefault(_SUMS, {})
    return sums


# ---------------------------------------------------------------------------------------------- counts of the rows


# All namespaces that occur in any of the tables: a namespace without a row in `usage` counts as zeros.
_SPACES = (
    select(blobs.c.namespace)
    .union(select(artifacts.c.namespace), select(uploads.c.namespace), select(usage.c.namespace))
    .subquery()
)


def _by_namespace(table: Table, value: ColumnElement[Any], *conditions: ColumnElement[bool]) -> Subquery:
    return select(table.c.namespace, value.label("n")).where(*conditions).group_by(table.c.namespace).subquery()


_SUMS_OF_ROWS = (
    _by_namespace(blobs, func.sum(blobs.c.stored_size), blobs.c.dead_at.is_(None)),
    _by_namespace(artifacts, func.count()),
    _by_namespace(uploads, func.sum(uploads.c.reserved)),
)
_counted: FromClause = _SPACES
for _table in (usage, *_SUMS_OF_ROWS):
    _counted = _counted.outerjoin(_table, _table.c.namespace == _SPACES.c.namespace)
_numbers = [*(usage.c[name] for name in _ADDED), *(table.c.n for table in _SUMS_OF_ROWS)]
# This is a single statement, so that it sees one state of the data: either both the rows and the sums of a transaction
# or neither.
_RECOUNT = (
    select(_SPACES.c.namespace, *(func.coalesce(number, 0) for number in _numbers))
    .select_from(_counted)
    .order_by(_SPACES.c.namespace)
)


@dataclass(frozen=True)
class Drift:
    """A namespace whose counts in `usage` differ from the sums over its rows."""

    counters: Usage
    """The counts in `usage`."""
    true: Usage
    """The sums over the rows of blobs, artifacts and uploads."""


def find_drifts(conn: Connection) -> list[Drift]:
    """Returns the namespaces whose counts are wrong. Only for checks, since it reads whole tables."""
    drifts: list[Drift] = []
    for namespace, *numbers in conn.execute(_RECOUNT):
        counters = Usage(namespace=namespace, bytes=numbers[0], artifacts=numbers[1], reserved=numbers[2])
        # PostgreSQL returns a sum of BIGINT as NUMERIC, which the driver converts to a Decimal.
        true = Usage(namespace=namespace, bytes=int(numbers[3]), artifacts=numbers[4], reserved=int(numbers[5]))
        if counters != true:
            drifts.append(Drift(counters, true))
    return drifts


def correct(conn: Connection) -> None:
    """Corrects the counts of all namespaces. Only allowed while no process stores or deletes."""
    set_true = upsert(usage).on_conflict_do_update(
        index_elements=[usage.c.namespace], set_={name: _new.excluded[name] for name in _ADDED}
    )
    for drift in find_drifts(conn):
        conn.execute(set_true, {name: getattr(drift.true, name) for name in ("namespace", *_ADDED)})
