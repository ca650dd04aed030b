"""Finds holds, and ensures that no statement deletes an artifact that a hold covers.

Every statement that deletes artifacts has the condition `is_not_held`. On PostgreSQL this condition is not enough,
because a statement that began before a hold was committed does not see the hold. Therefore a transaction that deletes
takes a shared lock before any other lock, and a transaction that places a hold takes the same lock exclusively. The
hold then waits until the deletions that have begun are over, and later deletions see it. Deletions never wait for each
other, and they wait for a hold only as long as its insert takes. SQLite has only one writer and needs no lock.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from sqlalchemy import ColumnElement, Connection, and_, exists, func, or_, select, union_all

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.dialect import NOW, equal
from coatcheck.adapters.sql.faults import TransactionConflict
from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.tables import artifacts, holds
from coatcheck.core.retention.audit import MAX_NAMED_HOLDS, Hold, HoldConflict

_LOCK: Final = 0x636F6174
""""coat" in ASCII: the key of the advisory lock that deletions share and that holds take exclusively."""
# The server releases the lock at the end of the transaction.
_SHARE = Prepared(select(func.pg_advisory_xact_lock_shared(_LOCK)))
_SHARE_NOW = Prepared(select(func.pg_try_advisory_xact_lock_shared(_LOCK)))
_STANDING_BY: Final = "coatcheck.standing_by"
"""The key in a connection's `info` that says whether the open transaction has the shared lock."""
_LASTS = or_(holds.c.until.is_(None), holds.c.until > NOW)
"""The condition that a hold has not ended. A hold without an end lasts until it is released."""


def is_not_held() -> ColumnElement[bool]:
    """Returns the condition that no hold covers an artifact's row at the time `:now`.

    Every statement that deletes artifacts must have this condition.
    """
    return and_(*(~exists().where(covers).correlate(artifacts) for covers in _covering()))


def _covering() -> list[ColumnElement[bool]]:
    """Returns the three conditions under which a hold covers an artifact: by its number, session or namespace.

    Each uses an index. With a single condition that has alternatives, PostgreSQL would scan all holds.
    """
    here = (holds.c.namespace == artifacts.c.namespace) & _LASTS
    return [
        here & (holds.c.number == artifacts.c.number),
        here & holds.c.number.is_(None) & (holds.c.session == artifacts.c.session),
        here & holds.c.number.is_(None) & holds.c.session.is_(None),
    ]


def begin(conn: Connection) -> None:
    """Records that a new transaction has begun, which does not have the shared lock yet."""
    conn.info[_STANDING_BY] = False


def stand_by(conn: Connection) -> None:
    """Takes the shared lock, which waits for holds that are being placed. A deleting transaction must do this first."""
    if conn.dialect.name != "sqlite" and not conn.info.get(_STANDING_BY):
        _SHARE.rows(conn, {})
        conn.info[_STANDING_BY] = True


def wait_for_deletes(conn: Connection) -> None:
    """Takes the exclusive lock: waits for deletions that have begun, and makes later ones wait for this transaction."""
    if conn.dialect.name != "sqlite":
        conn.execute(select(func.pg_advisory_xact_lock(_LOCK)))


def stand_by_now(conn: Connection) -> None:
    """Takes the shared lock without waiting, in a transaction that may have other locks already.

    Raises TransactionConflict if a hold is being placed.
    """
    if conn.dialect.name != "sqlite" and not conn.info.get(_STANDING_BY):
        # Waiting here could cause a deadlock: the hold waits for deletions that have begun, and one of these may wait
        # for a row that this transaction has locked.
        if not _SHARE_NOW.rows(conn, {})[0][0]:
            raise TransactionConflict
        conn.info[_STANDING_BY] = True


_OF_ONE = [
    Prepared(select(holds.c.id).join_from(holds, artifacts, covers).where(equal(artifacts.c.seq)))
    for covers in _covering()
]


def holds_of(conn: Connection, seq: int, now: datetime) -> HoldConflict | None:
    """Returns the holds that cover the artifact with this row number; None if no hold does."""
    return _conflict({row[0] for statement in _OF_ONE for row in statement.rows(conn, {"seq": seq, "now": now})})


def holds_on(conn: Connection, namespace: str, session: str | None, now: datetime) -> HoldConflict | None:
    """Returns the holds that cover a whole session; None if there are none.

    If `session` is None, returns the holds that cover the whole namespace.
    """
    of_session = or_(holds.c.session.is_(None), holds.c.session == session)
    return _conflict(_find_ids(conn, namespace, now, holds.c.number.is_(None), of_session, limit=None))


def holds_within(conn: Connection, namespace: str, session: str | None, now: datetime) -> HoldConflict | None:
    """Returns the holds that cover a session or any artifact in it; None if there are none.

    If `session` is None, returns the holds that cover the namespace, or any session or artifact in it.
    """
    whole = holds_on(conn, namespace, session, now)
    hold_ids = set(whole.holds if whole is not None else ())
    # Only holds on artifacts and sessions that exist count. Only as many are read as the answer can name.
    here = artifacts.c.namespace == holds.c.namespace
    on_artifact = here & (artifacts.c.number == holds.c.number)
    if session is None:
        on_session = holds.c.number.is_(None) & exists().where(here, artifacts.c.session == holds.c.session)
        hold_ids |= _find_ids(conn, namespace, now, on_session, limit=MAX_NAMED_HOLDS)
    else:
        on_artifact &= artifacts.c.session == session
    return _conflict(hold_ids | _find_ids(conn, namespace, now, exists().where(on_artifact), limit=MAX_NAMED_HOLDS))


def _find_ids(
    conn: Connection, namespace: str, now: datetime, *conditions: ColumnElement[bool], limit: int | None
) -> set[str]:
    """Returns the IDs of up to `limit` holds of a namespace that have not ended and meet the conditions."""
    statement = select(holds.c.id).where(holds.c.namespace == namespace, _LASTS, *conditions).limit(limit)
    return set(conn.scalars(statement, {"now": now}))


def _conflict(hold_ids: set[str]) -> HoldConflict | None:
    return HoldConflict(tuple(sorted(hold_ids)[:MAX_NAMED_HOLDS])) if hold_ids else None


def covering_holds(
    conn: Connection, namespace: str, sessions: Mapping[int, str | None], now: datetime
) -> dict[int, list[Hold]]:
    """Returns by number the holds that cover each artifact, in the order of their IDs, at most MAX_NAMED_HOLDS each.

    `sessions` has the numbers, each with the session of an artifact that has no row; otherwise the row has its session.
    """
    stored = select(artifacts.c.number, artifacts.c.session).where(
        artifacts.c.namespace == namespace, artifacts.c.number.in_(sessions)
    )
    sessions = {**sessions, **{row.number: row.session for row in conn.execute(stored)}}
    # The limit applies to each artifact and session separately, so that many holds on one do not hide those on others.
    rank = func.row_number().over(partition_by=(holds.c.number, holds.c.session), order_by=holds.c.id).label("rank")
    whole = holds.c.number.is_(None)
    ranked = union_all(  # three statements, each of which uses an index, as in `_covering`
        *(
            select(*holds.c, rank).where(holds.c.namespace == namespace, _LASTS, covers)
            for covers in (
                holds.c.number.in_(sessions),
                whole & holds.c.session.in_(set(sessions.values()) - {None}),
                whole & holds.c.session.is_(None),
            )
        )
    ).subquery()
    statement = select(ranked).where(ranked.c.rank <= MAX_NAMED_HOLDS).order_by(ranked.c.id)
    candidates = [rows.struct_of(Hold, row) for row in conn.execute(statement, {"now": now})]
    return {
        number: [hold for hold in candidates if hold.number in {number, None} and hold.session in {session, None}][
            :MAX_NAMED_HOLDS
        ]
        for number, session in sessions.items()
    }


def list_holds(
    conn: Connection, namespace: str | None, *, after: str = "", limit: int = 200, only: str | None = None
) -> list[Hold]:
    """Returns up to `limit` holds with IDs after `after`, in the order of their IDs.

    `namespace`: only holds of this namespace; None: all. `only`: only the hold with this ID; None: all.
    """
    statement = select(holds).where(holds.c.id > after).order_by(holds.c.id).limit(limit)
    filtered = rows.where_given(statement, {holds.c.id: only, holds.c.namespace: namespace})
    return [rows.struct_of(Hold, row) for row in conn.execute(filtered)]
