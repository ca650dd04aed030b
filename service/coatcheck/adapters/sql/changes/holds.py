"""Holds: placed, released, and a condition of every statement that deletes.

The condition alone would lose a race on PostgreSQL: a statement that began before a hold was committed does not see it.
So a deleting transaction takes a shared lock before any other lock, and placing a hold takes it exclusively: the hold
waits until deletes that have begun are over, and later ones see it. Deletes never wait for each other, and they wait
for a hold only as long as its insert takes. SQLite has one writer and needs nothing.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Text,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    union_all,
)

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.changes import audit
from coatcheck.adapters.sql.dialect import UtcDateTime
from coatcheck.adapters.sql.faults import TransactionConflict
from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.tables import artifacts, holds, tombstones
from coatcheck.core import ids
from coatcheck.core.artifact import Gone
from coatcheck.core.retention.audit import MAX_NAMED_HOLDS, AuditLine, By, Detail, Hold, HoldConflict
from coatcheck.ports.decisions import PlaceHold, ReleaseHold

_NOW: Final = bindparam("now", type_=UtcDateTime)
_LOCK: Final = 0x636F6174
""""coat" in ASCII: the key of the advisory lock by which deletes and holds are ordered."""
# The server releases all three at the end of the transaction.
_SHARE = Prepared(select(func.pg_advisory_xact_lock_shared(_LOCK)))
_SHARE_NOW = Prepared(select(func.pg_try_advisory_xact_lock_shared(_LOCK)))
_ALONE = Prepared(select(func.pg_advisory_xact_lock(_LOCK)))
_STANDING_BY: Final = "coatcheck.standing_by"
"""The key of a connection's `info` that says whether its transaction has the shared lock."""
_LASTS = or_(holds.c.until.is_(None), holds.c.until > _NOW)
"""A hold without an end lasts until it is released."""


def is_not_held() -> ColumnElement[bool]:
    """Returns the condition that no hold covers an artifact's row at `:now`.

    Every statement that deletes artifacts needs it.
    """
    return and_(*(~exists().where(covers).correlate(artifacts) for covers in _covering()))


def _covering() -> list[ColumnElement[bool]]:
    """Returns three conditions with an index each: for one with alternatives, PostgreSQL would scan all holds."""
    here = (holds.c.namespace == artifacts.c.namespace) & _LASTS
    return [
        here & (holds.c.number == artifacts.c.number),
        here & holds.c.number.is_(None) & (holds.c.session == artifacts.c.session),
        here & holds.c.number.is_(None) & holds.c.session.is_(None),
    ]


def begin(conn: Connection) -> None:
    """Notes that a new transaction has begun, which has not waited for holds yet."""
    conn.info[_STANDING_BY] = False


def stand_by(conn: Connection) -> None:
    """Waits for holds that are being placed. A transaction that will delete must do this first."""
    if conn.dialect.name != "sqlite" and not conn.info.get(_STANDING_BY):
        _SHARE.rows(conn, {})
        conn.info[_STANDING_BY] = True


def stand_by_now(conn: Connection) -> None:
    """Makes holds wait for this transaction, which may have locks already, and so must not wait itself.

    Raises TransactionConflict if a hold is being placed.
    """
    if conn.dialect.name != "sqlite" and not conn.info.get(_STANDING_BY):
        # To wait here could deadlock: the hold waits for deletes that have begun, and one of these may wait for a row
        # that this transaction has locked.
        if not _SHARE_NOW.rows(conn, {})[0][0]:
            raise TransactionConflict
        conn.info[_STANDING_BY] = True


_COVER_THIS = [
    select(holds.c.id)
    .join_from(holds, artifacts, and_(covers))
    .where(artifacts.c.seq == bindparam("seq", type_=BigInteger()))
    for covers in _covering()
]
_OF_ONE = [Prepared(statement) for statement in _COVER_THIS]
_NAMESPACE = bindparam("namespace", type_=Text())
_SESSION = bindparam("session", type_=Text())
_WHOLE = select(holds.c.id).where(
    holds.c.namespace == _NAMESPACE, _LASTS, holds.c.number.is_(None), holds.c.session.is_(None)
)
_OF_SESSION = select(holds.c.id).where(
    holds.c.namespace == _NAMESPACE, _LASTS, holds.c.number.is_(None), holds.c.session == _SESSION
)
# Only holds on artifacts that exist. The next statement, likewise, finds only holds on sessions that have artifacts.
_BY_NUMBER = (
    select(holds.c.id)
    .join_from(holds, artifacts, (artifacts.c.namespace == holds.c.namespace) & (artifacts.c.number == holds.c.number))
    .where(holds.c.namespace == _NAMESPACE, _LASTS)
)
_SESSIONS = select(holds.c.id).where(
    holds.c.namespace == _NAMESPACE,
    _LASTS,
    holds.c.number.is_(None),
    exists().where(artifacts.c.namespace == holds.c.namespace, artifacts.c.session == holds.c.session),
)


def holds_of(conn: Connection, seq: int, now: datetime) -> HoldConflict | None:
    """Returns the holds that cover one artifact's row."""
    hold_ids = {row[0] for statement in _OF_ONE for row in statement.rows(conn, {"seq": seq, "now": now})}
    return _measure(hold_ids)


def holds_on(conn: Connection, namespace: str, session: str | None, now: datetime) -> HoldConflict | None:
    """Returns the holds that cover a whole session, or without one a whole namespace."""
    at = {"namespace": namespace, "now": now}
    hold_ids = set(conn.execute(_WHOLE, at).scalars())
    if session is not None:
        hold_ids |= set(conn.execute(_OF_SESSION, at | {"session": session}).scalars())
    return _measure(hold_ids)


def holds_within(conn: Connection, namespace: str, session: str | None, now: datetime) -> HoldConflict | None:
    """Returns the holds that cover anything in a session, or without one in a namespace."""
    at = {"namespace": namespace, "now": now}
    whole = holds_on(conn, namespace, session, now)
    hold_ids = set(whole.holds if whole is not None else ())
    # No more are read than can be named.
    if session is None:
        hold_ids |= set(conn.execute(_BY_NUMBER.limit(MAX_NAMED_HOLDS), at).scalars())
        hold_ids |= set(conn.execute(_SESSIONS.limit(MAX_NAMED_HOLDS), at).scalars())
    else:
        mine = _BY_NUMBER.where(artifacts.c.session == _SESSION).limit(MAX_NAMED_HOLDS)
        hold_ids |= set(conn.execute(mine, at | {"session": session}).scalars())
    return _measure(hold_ids)


def _measure(hold_ids: set[str]) -> HoldConflict | None:
    return HoldConflict(tuple(sorted(hold_ids)[:MAX_NAMED_HOLDS])) if hold_ids else None


_ARTIFACT = (
    # No lock: nobody deletes while we hold ours exclusively.
    select(artifacts.c.seq).where(
        artifacts.c.namespace == _NAMESPACE, artifacts.c.number == bindparam("number", type_=BigInteger())
    )
)
_TOMBSTONE = select(tombstones.c.reason, tombstones.c.at, tombstones.c.tool_name, tombstones.c.session).where(
    tombstones.c.namespace == _NAMESPACE,
    tombstones.c.number == bindparam("number", type_=BigInteger()),
    tombstones.c.until > _NOW,
)
# The limit is for each artifact and session: one with many holds must not hide the holds of the others.
_RANK = func.row_number().over(partition_by=(holds.c.number, holds.c.session), order_by=holds.c.id).label("rank")
_RANKED = union_all(  # three conditions with an index each, as in _covering
    *(
        select(*holds.c, _RANK).where(holds.c.namespace == _NAMESPACE, _LASTS, *covers)
        for covers in (
            [holds.c.number.in_(bindparam("numbers", type_=BigInteger(), expanding=True))],
            [holds.c.number.is_(None), holds.c.session.in_(bindparam("sessions", type_=Text(), expanding=True))],
            [holds.c.number.is_(None), holds.c.session.is_(None)],
        )
    )
).subquery()
_COVERING = (
    select(*(_RANKED.c[name] for name in Hold.__struct_fields__))
    .where(_RANKED.c.rank <= MAX_NAMED_HOLDS)
    .order_by(_RANKED.c.id)
)
_ADD = insert(holds)
_ONE = select(*holds.c).where(holds.c.id == bindparam("id")).with_for_update()
_REMOVE = delete(holds).where(holds.c.id == bindparam("id"))


def apply_place(conn: Connection, change: PlaceHold) -> bool | Gone | None:
    """Carries out PlaceHold, after deletes that are in progress."""
    hold = change.hold
    if conn.dialect.name != "sqlite":
        # Deletes that have begun end first; later ones wait until this hold can be seen.
        _ALONE.rows(conn, {})
    # Only a hold on one artifact needs it to exist: sessions and namespaces are held with what comes later.
    if hold.number is not None:
        at = {"namespace": hold.namespace, "number": hold.number}
        if conn.execute(_ARTIFACT, at).first() is None:
            buried = conn.execute(_TOMBSTONE, at | {"now": hold.at}).first()
            return None if buried is None else rows.make_tombstone(hold.number, *buried)
    conn.execute(_ADD, {name: getattr(hold, name) for name in hold.__struct_fields__})
    line = _line(hold, "hold.placed", change.by, hold.at)
    audit.append(conn, line)
    return True


def apply_release(conn: Connection, change: ReleaseHold) -> Hold | None:
    """Carries out ReleaseHold."""
    row = conn.execute(_ONE, {"id": change.id}).first()
    if row is None:
        return None
    hold = hold_of(row)
    # The hold of another namespace is answered like one that does not exist.
    if change.namespace is not None and hold.namespace != change.namespace:
        return None
    conn.execute(_REMOVE, {"id": change.id})
    audit.append(conn, _line(hold, "hold.released", change.by, change.now))
    return hold


def _line(hold: Hold, action: str, by: By, at: datetime) -> AuditLine:
    details: dict[str, Detail] = {"hold": hold.id, "until": None if hold.until is None else hold.until.isoformat()}
    if hold.session is not None:
        details["session"] = hold.session
    if hold.number is not None:
        details["artifact"] = ids.render(hold.number)
    return AuditLine(
        at=at,
        action=action,
        by=by,
        namespace=hold.namespace,
        reason=hold.reason,
        details=details,
    )


def hold_of(row: Any) -> Hold:  # noqa: ANN401 - a row of `holds`
    """Returns a hold from its row."""
    return Hold(**{name: getattr(row, name) for name in Hold.__struct_fields__})


def covering_holds(
    conn: Connection, namespace: str, numbers: Collection[int], sessions: Collection[str], now: datetime
) -> list[Hold]:
    """Returns the holds that cover artifacts, sessions or the namespace, by ID: at most MAX_NAMED_HOLDS for each."""
    at = {"namespace": namespace, "numbers": list(numbers), "sessions": list(sessions), "now": now}
    return [hold_of(row) for row in conn.execute(_COVERING, at)]


def list_holds(
    conn: Connection, namespace: str | None, *, after: str = "", limit: int = 200, only: str | None = None
) -> list[Hold]:
    """Returns holds by ID, starting after `after`; `only`: the one with this ID."""
    statement = select(*holds.c).where(holds.c.id > after).order_by(holds.c.id).limit(limit)
    if only is not None:
        statement = statement.where(holds.c.id == only)
    if namespace is not None:
        statement = statement.where(holds.c.namespace == namespace)
    return [hold_of(row) for row in conn.execute(statement)]
