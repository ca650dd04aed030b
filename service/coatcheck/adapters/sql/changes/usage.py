"""What each namespace holds: summed during a transaction, written once per namespace at its end.

Every statement that adds or removes a blob or an artifact is counted here, in the same transaction; so the sums equal
those of the rows, whatever is undone or retried. The row of a namespace is locked last, after everything but the audit
log's head, and only for the commit: replicas that store in one namespace wait for each other no longer than that.

Limits are checked before anything is changed, without a lock. The statement that writes the sum has the condition that
nobody has taken the room meanwhile; if it fails, the transaction starts again.
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
"""The key of a connection's `info` under which a transaction gathers its sums."""
_ANY: Final = 2**62
"""More than there can be."""
_SEEN = Prepared(select(*usage.c).where(usage.c.namespace == NAMESPACE))
_ADDED = ("bytes", "artifacts", "reserved")
_most_bytes, _most_artifacts = (bindparam(name, type_=BigInteger()) for name in ("most_bytes", "most_artifacts"))
_new = upsert(usage).values({name: bindparam(name, type_=usage.c[name].type) for name in ("namespace", *_ADDED)})
# No row comes back if the limits are not met by the row as it is now: another replica may have stored something since
# the check.
_ADD = Prepared(
    _new.on_conflict_do_update(
        index_elements=[usage.c.namespace],
        set_={name: usage.c[name] + _new.excluded[name] for name in _ADDED},
        where=(usage.c.bytes + usage.c.reserved <= _most_bytes) & (usage.c.artifacts <= _most_artifacts),
    ).returning(usage.c.deleting_at)
)


@dataclass
class _Sum:
    """What a transaction adds to one namespace."""

    bytes: int = 0
    """Stored bytes; negative if the transaction frees more than it adds."""
    artifacts: int = 0
    reserved: int = 0
    """Bytes of open uploads."""
    stores: bool = False
    """Whether it adds an artifact."""
    row_usage: Usage | None = None
    """What the row contained when a limit was checked."""
    claimed_bytes: int = 0
    """The most that the admitted changes may add."""
    claimed_artifacts: int = 0
    """The same, in artifacts."""
    room: QuotaLimits = field(default_factory=QuotaLimits)
    """The limits that the last claim was checked against."""


class NamespaceClosing(Exception):  # noqa: N818 - not an error of storage: the one change that it is for answers it
    """A change would store something in a namespace that is being deleted."""


def count(conn: Connection, namespace: str, *, bytes_: int = 0, artifacts: int = 0, reserved: int = 0) -> None:
    """Counts what the current transaction adds to a namespace, or removes from it."""
    sums = _sums(conn).setdefault(namespace, _Sum())
    sums.bytes += bytes_
    sums.artifacts += artifacts
    sums.reserved += reserved
    sums.stores = sums.stores or artifacts > 0


def begin(conn: Connection) -> None:
    """Discards the sums of a transaction that was undone."""
    _sums(conn).clear()


def flush(conn: Connection, enter: Callable[[Connection, str | None], None]) -> None:
    """Writes the sums. Call it after all other changes, before the audit log's lines.

    Raises TransactionConflict if another replica has taken the room that a limit left; NamespaceClosing.
    """
    waiting = {namespace: sums for namespace, sums in _sums(conn).items() if _changes(sums)}
    _sums(conn).clear()
    if not waiting:
        return
    namespaces = sorted(waiting)
    # The namespaces of a group come one after the other, but their rows are locked only now.
    enter(conn, namespaces[0] if len(namespaces) == 1 else None)
    for namespace in namespaces:
        sums = waiting[namespace]
        values = {"bytes": sums.bytes, "artifacts": sums.artifacts, "reserved": sums.reserved}
        usage_rows = _ADD.rows(conn, {"namespace": namespace, **values, **_most(sums)})
        if not usage_rows:
            raise TransactionConflict
        # The statement that read the mark has locked the row: the mark cannot be set between this check and the commit.
        if sums.stores and usage_rows[0][0] is not None:
            raise NamespaceClosing(namespace)


def _changes(sums: _Sum) -> bool:
    # A checked limit is checked again at the end, even if the sums come to nothing.
    return bool(sums.bytes or sums.artifacts or sums.reserved or sums.stores or sums.row_usage is not None)


def _most(sums: _Sum) -> dict[str, int]:
    """Returns the maximum values of the row for which the checked limits still hold."""
    if sums.row_usage is None:
        return {"most_bytes": _ANY, "most_artifacts": _ANY}
    row_usage, room = sums.row_usage, sums.room
    # What the row may have before this transaction's sums are added.
    left_bytes = _ANY if room.max_bytes is None else room.max_bytes - sums.claimed_bytes
    left_artifacts = _ANY if room.max_artifacts is None else room.max_artifacts - sums.claimed_artifacts
    return {
        # A lowered limit may be below what there is already: a change that adds nothing must still pass.
        "most_bytes": max(row_usage.bytes + row_usage.reserved, left_bytes),
        "most_artifacts": max(row_usage.artifacts, left_artifacts),
    }


def claim(
    conn: Connection, namespace: str, room: QuotaLimits, *, bytes_: int, artifacts: int = 0
) -> QuotaExceeded | None:
    """Claims room for a change before anything of it is done; returns the refusal if there is not enough."""
    sums = _sums(conn).setdefault(namespace, _Sum())
    if sums.row_usage is None:
        sums.row_usage = read_usage(conn, namespace)
    sums.room = room
    now = Usage(
        namespace=namespace,
        # What the transaction has freed counts; what it has added was claimed, which is at least as much.
        bytes=sums.row_usage.bytes + min(sums.bytes, 0) + sums.claimed_bytes,
        artifacts=sums.row_usage.artifacts + min(sums.artifacts, 0) + sums.claimed_artifacts,
        reserved=sums.row_usage.reserved + min(sums.reserved, 0),
        deleting_at=sums.row_usage.deleting_at,
    )
    full = QuotaExceeded(usage=now, room=room, bytes=bytes_, artifacts=artifacts)
    # A change that needs no bytes is not refused for bytes, nor one that needs no artifact for artifacts.
    if (bytes_ and full.over_bytes) or (artifacts and full.over_artifacts):
        return full
    sums.claimed_bytes += bytes_
    sums.claimed_artifacts += artifacts
    return None


def read_usage(conn: Connection, namespace: str) -> Usage:
    """Returns the present row of a namespace."""
    usage_rows = _SEEN.rows(conn, {"namespace": namespace})
    return Usage(**dict(zip(usage.c.keys(), usage_rows[0], strict=True))) if usage_rows else Usage(namespace=namespace)


def usages(conn: Connection, namespace: str | None, *, after: str = "", limit: int = 200) -> list[Usage]:
    """Returns what namespaces hold, by name, starting after `after`; only one of them if it is given."""
    statement = select(*usage.c).where(usage.c.namespace > after).order_by(usage.c.namespace).limit(limit)
    if namespace is not None:
        statement = statement.where(usage.c.namespace == namespace)
    return [Usage(**row) for row in conn.execute(statement).mappings()]


def list_marked_namespaces(conn: Connection) -> list[Usage]:
    """Returns the namespaces that are being deleted, by name."""
    statement = select(*usage.c).where(usage.c.deleting_at.is_not(None)).order_by(usage.c.namespace)
    return [Usage(**row) for row in conn.execute(statement).mappings()]


def closing(namespace: str) -> CoatcheckError:
    """Returns the refusal to store in a namespace that is being deleted."""
    return CoatcheckError(
        Code.NAMESPACE_DELETING,
        f"The namespace {namespace} is being deleted and accepts no payloads. Use another one.",
    )


def _sums(conn: Connection) -> dict[str, _Sum]:
    sums: dict[str, _Sum] = conn.info.setdefault(_SUMS, {})
    return sums


# ---------------------------------------------------------------------------------------------- the truth


# Every namespace that any of the tables has: a missing row of sums counts as zeros.
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
# A single statement: it sees one moment, and so no sum that is about to be written.
_RECOUNT = (
    select(_SPACES.c.namespace, *(func.coalesce(number, 0) for number in _numbers))
    .select_from(_counted)
    .order_by(_SPACES.c.namespace)
)


@dataclass(frozen=True)
class Drift:
    """A namespace whose sums differ from those of its rows."""

    counters: Usage
    """What the row in `usage` has."""
    true: Usage
    """What the counted rows come to."""


def find_drifts(conn: Connection) -> list[Drift]:
    """Counts every row, and returns where the sums differ. For checks: it reads whole tables."""
    drifts: list[Drift] = []
    for namespace, *numbers in conn.execute(_RECOUNT):
        counters = Usage(namespace=namespace, bytes=numbers[0], artifacts=numbers[1], reserved=numbers[2])
        # PostgreSQL sums up BIGINT as NUMERIC, which arrives as a Decimal.
        true = Usage(namespace=namespace, bytes=int(numbers[3]), artifacts=numbers[4], reserved=int(numbers[5]))
        if counters != true:
            drifts.append(Drift(counters, true))
    return drifts


def correct(conn: Connection) -> None:
    """Corrects the sums. Only while nobody stores."""
    set_true = upsert(usage).on_conflict_do_update(
        index_elements=[usage.c.namespace], set_={name: _new.excluded[name] for name in _ADDED}
    )
    for drift in find_drifts(conn):
        conn.execute(set_true, {name: getattr(drift.true, name) for name in ("namespace", *_ADDED)})
