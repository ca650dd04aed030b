"""Leases on pieces of upkeep, among all replicas. A lease saves work; nothing relies on it for safety."""

from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Executable, Interval, bindparam, func, or_, select

from coatcheck.adapters.sql.dialect import insert_into
from coatcheck.adapters.sql.tables import leases
from coatcheck.adapters.sql.types import UtcDateTime
from coatcheck.ports.maintenance import TakeLease

_NOW: dict[str, ColumnElement[Any]] = {
    "sqlite": bindparam("now", type_=UtcDateTime),
    # One clock for all replicas.
    "postgresql": func.clock_timestamp(type_=UtcDateTime),
}
_UNTIL: dict[str, ColumnElement[Any]] = {
    "sqlite": bindparam("until", type_=UtcDateTime),
    "postgresql": func.clock_timestamp() + bindparam("time", type_=Interval),
}


def _take(dialect: str) -> Executable:
    statement = insert_into(leases, dialect).values(
        name=bindparam("name"), holder=bindparam("holder"), until=_UNTIL[dialect]
    )
    given = statement.excluded
    return statement.on_conflict_do_update(
        index_elements=[leases.c.name],
        set_={"holder": given.holder, "until": given.until},
        where=or_(leases.c.holder == given.holder, leases.c.until <= _NOW[dialect]),
    )


_TAKE = {dialect: _take(dialect) for dialect in _NOW}


_HOLDER = select(leases.c.holder).where(leases.c.name == bindparam("name"))


def holder(conn: Connection, name: str) -> str | None:
    """Returns the last holder of a lease, even if it has ended."""
    found: str | None = conn.execute(_HOLDER, {"name": name}).scalar_one_or_none()
    return found


def apply_take(conn: Connection, change: TakeLease) -> bool:
    """Carries out TakeLease."""
    time = timedelta(seconds=change.seconds)
    values = {"name": change.name, "holder": change.holder}
    if conn.dialect.name == "sqlite":
        values |= {"now": change.now, "until": change.now + time}
    else:
        values |= {"time": time}
    taken: int = conn.execute(_TAKE[conn.dialect.name], values).rowcount
    return taken == 1
