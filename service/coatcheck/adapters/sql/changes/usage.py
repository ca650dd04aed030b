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

from sqlalchemy import BigInteger, ColumnElement, Connection, Text, bindparam, func, select, update

from coatcheck.adapters.sql.dialect import DIALECTS, insert_into
from coatcheck.adapters.sql.faults import TransactionConflict
from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.tables import artifacts, blobs, uploads, usage
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.policies.quota import QuotaExceeded, QuotaLimits, Usage

_SUMS: Final = "coatcheck.usage"
"""The key of a connection's `info` under which a transaction gathers its sums."""
_ANY: Final = 2**62
"""More than there can be."""
_NAMESPACE = bindparam("namespace", type_=Text())
_SEEN = Prepared(
    select(usage.c.bytes, usage.c.artifacts, usage.c.reserved, usage.c.deleting_at).where(
        usage.c.namespace == _NAMESPACE
    )
)
_ADDED = [usage.c.bytes, usage.c.artifacts, usage.c.reserved]


def _big(name: str) -> Any:  # noqa: ANN401 - a parameter of no particular type
    return bindparam(name, type_=BigInteger())


def _add(dialect: str) -> Prepared:
    values = {column.name: _big(column.name) for column in _ADDED}
    statement = insert_into(usage, dialect).values(namespace=_NAMESPACE, **values)
    # The limits once more, against the row as it is now: another replica may have stored something since the check.
    fits = (usage.c.bytes + usage.c.reserved <= _big("most_bytes")) & (usage.c.artifacts <= _big("most_artifacts"))
    # No row comes back if the condition is not met.
    return Prepared(
        statement.on_conflict_do_update(
            index_elements=[usage.c.namespace],
            set_={column.name: column + statement.excluded[column.name] for column in _ADDED},
            where=fits,
        ).returning(usage.c.deleting_at)
    )


_ADD = {dialect: _add(dialect) for dialect in DIALECTS}


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
    add = _ADD[conn.dialect.name]
    for namespace in namespaces:
        sums = waiting[namespace]
        values = {"bytes": sums.bytes, "artifacts": sums.artifacts, "reserved": sums.reserved}
        usage_rows = add.rows(conn, {"namespace": namespace, **values, **_most(sums)})
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
    if not usage_rows:
        return Usage(namespace=namespace)
    bytes_, artifacts_, reserved, deleting_at = usage_rows[0]
    return Usage(namespace=namespace, bytes=bytes_, artifacts=artifacts_, reserved=reserved, deleting_at=deleting_at)


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


def _sum_columns(namespace: ColumnElement[Any]) -> list[ColumnElement[Any]]:
    """Returns the sums over a namespace's rows: bytes, artifacts, reservations."""
    live = select(func.coalesce(func.sum(blobs.c.stored_size), 0)).where(
        blobs.c.namespace == namespace, blobs.c.dead_at.is_(None)
    )
    there = select(func.count()).select_from(artifacts).where(artifacts.c.namespace == namespace)
    open_ = select(func.coalesce(func.sum(uploads.c.reserved), 0)).where(uploads.c.namespace == namespace)
    return [select_.scalar_subquery() for select_ in (live, there, open_)]


# Every namespace that any of the tables has: a missing row of sums counts as zeros.
_SPACES = (
    select(blobs.c.namespace)
    .union(select(artifacts.c.namespace), select(uploads.c.namespace), select(usage.c.namespace))
    .subquery()
)
_BYTES = (
    select(blobs.c.namespace, func.sum(blobs.c.stored_size).label("n"))
    .where(blobs.c.dead_at.is_(None))
    .group_by(blobs.c.namespace)
    .subquery()
)
_THERE = select(artifacts.c.namespace, func.count().label("n")).group_by(artifacts.c.namespace).subquery()
_OPEN = select(uploads.c.namespace, func.sum(uploads.c.reserved).label("n")).group_by(uploads.c.namespace).subquery()
# A single statement: it sees one moment, and so no sum that is about to be written.
_RECOUNT = (
    select(
        _SPACES.c.namespace,
        *(func.coalesce(column, 0) for column in (usage.c.bytes, usage.c.artifacts, usage.c.reserved)),
        *(func.coalesce(table.c.n, 0) for table in (_BYTES, _THERE, _OPEN)),
    )
    .select_from(_SPACES)
    .outerjoin(usage, usage.c.namespace == _SPACES.c.namespace)
    .outerjoin(_BYTES, _BYTES.c.namespace == _SPACES.c.namespace)
    .outerjoin(_THERE, _THERE.c.namespace == _SPACES.c.namespace)
    .outerjoin(_OPEN, _OPEN.c.namespace == _SPACES.c.namespace)
    .order_by(_SPACES.c.namespace)
)
_CORRECT = update(usage).values(
    bytes=_sum_columns(usage.c.namespace)[0],
    artifacts=_sum_columns(usage.c.namespace)[1],
    reserved=_sum_columns(usage.c.namespace)[2],
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
    zero = {"bytes": 0, "artifacts": 0, "reserved": 0}
    absent = [{"namespace": drift.true.namespace, **zero} for drift in find_drifts(conn)]
    if absent:
        conn.execute(insert_into(usage, conn.dialect.name).on_conflict_do_nothing(), absent)
    conn.execute(_CORRECT)
