"""Sessions' token accounts: many are added to in one transaction, and deleted with their session or by age."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Executable, bindparam, case, delete, func, select, tuple_

from coatcheck.adapters.sql.changes import activity, events
from coatcheck.adapters.sql.dialect import DIALECTS, UtcDateTime, insert_into
from coatcheck.adapters.sql.tables import session_usage
from coatcheck.core.event import GAUGES, SessionUsage, UsageDelta
from coatcheck.ports.keys import AddSessionUsage

_LIFE: Final = timedelta(days=90)
"""How long the account of a session without activity is kept. Chosen, not measured."""
_SUMS: Final = (
    "artifacts",
    "raw_tokens",
    "given_tokens",
    "reads",
    "read_tokens",
    "compactions",
    "unsent_tokens",
)
_T = session_usage.c


def _add(dialect: str) -> Executable:
    statement = insert_into(session_usage, dialect).values(
        {column.name: bindparam(column.name, type_=column.type) for column in session_usage.c}
    )
    new = statement.excluded
    return statement.on_conflict_do_update(
        index_elements=session_usage.primary_key,
        set_={
            **{name: _T[name] + new[name] for name in _SUMS},
            # All gauges are replaced together, and only if a context was measured.
            **{name: case((new.persisted_tokens.is_(None), _T[name]), else_=new[name]) for name in GAUGES},
            "at": new.at,
            "batch": new.batch,
        },
        # A change that is carried out again, after the answer to its commit was lost, adds nothing.
        where=_T.batch != new.batch,
    )


_ADD = {dialect: _add(dialect) for dialect in DIALECTS}


def account_columns() -> list[ColumnElement[Any]]:
    """Returns the columns that `account_of` reads, in its order."""
    return [*(_T[name] for name in (*_SUMS, *GAUGES)), _T.since, _T.at]


_ACCOUNT = select(*account_columns()).where(_T.namespace == bindparam("namespace"), _T.session == bindparam("session"))
_DROP = delete(session_usage).where(_T.namespace == bindparam("namespace"), _T.session == bindparam("session"))
_DROP_ALL = delete(session_usage).where(_T.namespace == bindparam("namespace"))
# Accounts that another replica is adding to wait for the next batch.
_SOME = (
    select(_T.session)
    .where(_T.namespace == bindparam("namespace"))
    .order_by(_T.session)
    .limit(bindparam("limit"))
    .with_for_update(skip_locked=True)
)
_DROP_SOME = delete(session_usage).where(
    _T.namespace == bindparam("namespace"), _T.session.in_(select(_SOME.cte("some")))
)
_BEFORE: dict[str, ColumnElement[Any]] = {
    "sqlite": bindparam("before", type_=UtcDateTime),
    # A wrong clock of a replica must not delete new accounts.
    "postgresql": func.clock_timestamp() - _LIFE,
}


def _drop_old(dialect: str) -> Executable:
    old = (
        select(_T.namespace, _T.session)
        .where(_T.at <= _BEFORE[dialect])
        .order_by(_T.at)
        .limit(bindparam("limit"))
        .with_for_update(skip_locked=True)
    )
    those = tuple_(_T.namespace, _T.session).in_(select(old.cte("over_now")))
    return delete(session_usage).where(those).returning(_T.session)


_DROP_OLD = {dialect: _drop_old(dialect) for dialect in _BEFORE}


def apply_add(conn: Connection, change: AddSessionUsage) -> None:
    """Adds to accounts, in the order of their keys, which prevents deadlocks between replicas."""
    rows = [
        {
            "namespace": namespace,
            "session": session,
            **{name: getattr(spent, name) for name in (*_SUMS, *GAUGES)},
            "since": change.at,
            "at": change.at,
            "batch": change.batch,
        }
        for namespace, session, spent in sorted(change.sessions, key=_key)
    ]
    if rows:
        conn.execute(_ADD[conn.dialect.name], rows)
    activity.add(conn, change)
    events.add(conn, change.events)


def _key(of: tuple[str, str, UsageDelta]) -> tuple[str, str]:
    return of[0], of[1]


def account(conn: Connection, namespace: str, session: str) -> SessionUsage | None:
    """Returns the account of a session."""
    row = conn.execute(_ACCOUNT, {"namespace": namespace, "session": session}).first()
    return None if row is None else account_of(row)


def account_of(row: Sequence[Any]) -> SessionUsage:
    """Returns an account from its columns."""
    spent = UsageDelta(**{name: row[at] for at, name in enumerate((*_SUMS, *GAUGES))})
    return SessionUsage(spent=spent, since=row[-2], at=row[-1])


def drop(conn: Connection, namespace: str, session: str) -> None:
    """Deletes the account of a session that is deleted, and its events."""
    conn.execute(_DROP, {"namespace": namespace, "session": session})
    events.drop_session(conn, namespace, session)


def drop_some(conn: Connection, namespace: str, limit: int) -> None:
    """Deletes up to `limit` accounts of a namespace that is being deleted."""
    conn.execute(_DROP_SOME, {"namespace": namespace, "limit": limit})


def drop_all(conn: Connection, namespace: str) -> None:
    """Deletes the remaining ones."""
    conn.execute(_DROP_ALL, {"namespace": namespace})


def drop_old(conn: Connection, now: datetime, limit: int) -> int:
    """Deletes accounts that were not written to for 90 days; returns how many."""
    dialect = conn.dialect.name
    values: dict[str, object] = {"limit": limit}
    if dialect == "sqlite":
        values["before"] = now - _LIFE
    return len(conn.execute(_DROP_OLD[dialect], values).all())
