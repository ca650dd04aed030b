"""Activity per hour, by namespace and in total: added to with the sessions' accounts, deleted by age."""

from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import Connection, Executable, bindparam, delete

from coatcheck.adapters.sql.dialect import DIALECTS, UtcDateTime, insert_into
from coatcheck.adapters.sql.tables import activity
from coatcheck.core.event import UsageDelta
from coatcheck.core.keys import EVERYWHERE
from coatcheck.ports.keys import AddSessionUsage

SUMS: Final = ("artifacts", "raw_tokens", "given_tokens", "reads", "read_tokens", "compactions", "unsent_tokens")
"""Columns that are added up; what each of them counts is at `UsageDelta`."""
_LIFE: Final = timedelta(days=90)
"""How long the hours of the overview are kept: as long as a session's account. Chosen, not measured."""
_T = activity.c


def _add(dialect: str) -> Executable:
    statement = insert_into(activity, dialect).values(
        {column.name: bindparam(column.name, type_=column.type) for column in activity.c}
    )
    new = statement.excluded
    return statement.on_conflict_do_update(
        index_elements=activity.primary_key,
        set_={**{name: _T[name] + new[name] for name in SUMS}, "batch": new.batch},
        # A change that is carried out again, after the answer to its commit was lost, adds nothing.
        where=_T.batch != new.batch,
    )


_ADD = {dialect: _add(dialect) for dialect in DIALECTS}
_DROP_OLD = delete(activity).where(_T.hour < bindparam("before", type_=UtcDateTime))
_DROP_ALL = delete(activity).where(_T.namespace == bindparam("namespace"))


def add(conn: Connection, change: AddSessionUsage) -> None:
    """Adds to the hour of a change, in the order of the rows' keys; and to the hour of all namespaces."""
    total = UsageDelta()
    for _, spent in change.activity:
        total.add(spent)
    hour = change.at.replace(minute=0, second=0, microsecond=0)
    rows = [
        {"namespace": namespace, "hour": hour, "batch": change.batch, **{name: getattr(spent, name) for name in SUMS}}
        for namespace, spent in sorted([(EVERYWHERE, total), *change.activity], key=_key)
    ]
    if change.activity:
        conn.execute(_ADD[conn.dialect.name], rows)


def _key(of: tuple[str, UsageDelta]) -> str:
    return of[0]


def drop_old(conn: Connection, now: datetime) -> None:
    """Deletes old hours. There is one row per hour and namespace."""
    conn.execute(_DROP_OLD, {"before": now - _LIFE})


def drop_all(conn: Connection, namespace: str) -> None:
    """Deletes the hours of a namespace that is deleted."""
    conn.execute(_DROP_ALL, {"namespace": namespace})
