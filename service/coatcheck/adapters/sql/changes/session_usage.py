"""Stores the token accounts of sessions, the activity per hour, and the event log.

One transaction adds amounts to many accounts. An account is deleted with its session, or when it is too old. The hours
are stored for each namespace and for all namespaces together, and are deleted when they are too old. Events are only
added. They are deleted with their artifact or session, when they are too old, or when there are too many.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, Connection, Executable, Table, case, delete, select

from coatcheck.adapters.sql.dialect import NAMESPACE, among, bind_seqs, upsert
from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.tables import SUMS, activity, events, session_usage
from coatcheck.core.event import GAUGES, Event, SessionUsage, UsageDelta, first_number
from coatcheck.core.keys import EVERYWHERE
from coatcheck.ports.keys import AddSessionUsage

HOURS_LIFE: Final = timedelta(days=90)
"""Time for which hours of activity, and accounts of sessions without activity, are kept. Chosen, not measured."""
_EVENT_LIFE: Final = timedelta(days=30)
"""Time for which events are kept, unless so many are added that the oldest are deleted earlier. Chosen, not
measured."""
_ENCODE = msgspec.json.Encoder(order="deterministic").encode
_ACCOUNT = session_usage.c
ACCOUNT_COLUMNS: Final[list[ColumnElement[Any]]] = [
    *(_ACCOUNT[name] for name in (*SUMS, *GAUGES)),
    _ACCOUNT.since,
    _ACCOUNT.at,
]
"""The columns of an account in the order in which `account_of` reads them."""


def _add(table: Table, gauges: Sequence[str] = (), *replaced: str) -> Executable:
    """Returns a statement that adds amounts to the sums in a row, and replaces its gauges and other columns."""
    statement = upsert(table)
    new = statement.excluded
    return statement.on_conflict_do_update(
        index_elements=table.primary_key,
        set_={
            **{name: table.c[name] + new[name] for name in SUMS},
            # All gauges are replaced together, and only if a context was measured.
            **{name: case((new.persisted_tokens.is_(None), table.c[name]), else_=new[name]) for name in gauges},
            **{name: new[name] for name in (*replaced, "batch")},
        },
        # If a change is carried out again, because the answer to its commit was lost, it adds nothing.
        where=table.c.batch != new.batch,
    )


_ADD_ACCOUNT = _add(session_usage, GAUGES, "at")
_ADD_HOUR = _add(activity)
# An event with the same number exists only if the change was carried out before; then both events are the same.
_ADD_EVENT = upsert(events).on_conflict_do_nothing(index_elements=events.primary_key)
_DROP_EVENTS = Prepared(
    delete(events).where(events.c.namespace == NAMESPACE, among(events.c.artifact, bind_seqs("numbers")))
)


def apply_add(conn: Connection, change: AddSessionUsage) -> None:
    """Carries out AddSessionUsage: adds amounts to accounts and hours, and adds events.

    Rows are changed in the order of their keys, which prevents deadlocks between replicas.
    """
    accounts = [
        {
            "namespace": namespace,
            "session": session,
            **msgspec.structs.asdict(spent),
            "since": change.at,
            "at": change.at,
            "batch": change.batch,
        }
        for namespace, session, spent in sorted(change.sessions, key=itemgetter(0, 1))
    ]
    if accounts:
        conn.execute(_ADD_ACCOUNT, accounts)
    total = UsageDelta()
    for _, spent in change.activity:
        total.add(spent)
    hour = change.at.replace(minute=0, second=0, microsecond=0)
    hours = [
        {"namespace": namespace, "hour": hour, "batch": change.batch, **{name: getattr(spent, name) for name in SUMS}}
        for namespace, spent in sorted([(EVERYWHERE, total), *change.activity], key=itemgetter(0))
    ]
    if change.activity:
        conn.execute(_ADD_HOUR, hours)
    if change.events:
        conn.execute(_ADD_EVENT, [_event_row(event) for event in change.events])


def _event_row(event: Event) -> dict[str, Any]:
    return msgspec.structs.asdict(event) | {"details": _ENCODE(event.details).decode()}


def account(conn: Connection, namespace: str, session: str) -> SessionUsage | None:
    """Returns the account of a session; None if it has none."""
    mine = (_ACCOUNT.namespace == namespace, _ACCOUNT.session == session)
    row = conn.execute(select(*ACCOUNT_COLUMNS).where(*mine)).first()
    return None if row is None else account_of(row)


def account_of(row: Sequence[Any]) -> SessionUsage:
    """Returns an account from the values of ACCOUNT_COLUMNS."""
    *spent, since, at = row
    return SessionUsage(spent=UsageDelta(**dict(zip((*SUMS, *GAUGES), spent, strict=True))), since=since, at=at)


def drop_sessions(conn: Connection, namespace: str, sessions: Collection[str]) -> None:
    """Deletes the accounts and the events of sessions that are being deleted."""
    # Accounts are locked in the order in which `apply_add` locks them.
    locked = select(_ACCOUNT.session).where(_ACCOUNT.namespace == namespace, _ACCOUNT.session.in_(sessions))
    conn.execute(locked.order_by(_ACCOUNT.session).with_for_update()).all()
    for table in (session_usage, events):
        conn.execute(delete(table).where(table.c.namespace == namespace, table.c.session.in_(sessions)))


def drop_some(conn: Connection, namespace: str, limit: int) -> None:
    """Deletes up to `limit` accounts of a namespace that is being deleted."""
    # Accounts that another replica has locked, because it adds amounts to them, are left to the next batch.
    some = (
        select(_ACCOUNT.session)
        .where(_ACCOUNT.namespace == namespace)
        .order_by(_ACCOUNT.session)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    conn.execute(
        delete(session_usage).where(_ACCOUNT.namespace == namespace, _ACCOUNT.session.in_(select(some.cte("some"))))
    )


def drop_all(conn: Connection, namespace: str) -> None:
    """Deletes the remaining accounts, hours and events of a namespace that is being deleted."""
    for table in (session_usage, activity, events):
        conn.execute(delete(table).where(table.c.namespace == namespace))


def drop_events_of(conn: Connection, artifacts: Iterable[tuple[str, int]]) -> None:
    """Deletes the events of artifacts that are being removed."""
    numbers: dict[str, list[int]] = {}
    for namespace, number in artifacts:
        numbers.setdefault(namespace, []).append(number)
    for namespace, those in sorted(numbers.items()):
        _DROP_EVENTS.run(conn, {"namespace": namespace, "numbers": sorted(those)})


def drop_old_events(conn: Connection, now: datetime, most: int, limit: int) -> int:
    """Deletes up to `limit` events that are over 30 days old or not among the latest `most`; returns how many."""
    number = events.c.number
    # The number of the latest event beyond the `most` latest ones; None if there are no more than `most`.
    beyond = conn.scalar(select(number).order_by(number.desc()).offset(most).limit(1))
    # The numbers of events increase with time, so both limits become one limit on the number.
    until = max(first_number(now - _EVENT_LIFE), beyond or 0)
    old = select(number).where(number <= until).order_by(number).limit(limit)
    return conn.execute(delete(events).where(number.in_(old))).rowcount
