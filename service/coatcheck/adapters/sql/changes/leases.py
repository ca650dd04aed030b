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
    new_row = statement.excluded
    return statement.on_conflict_do_update(
        index_elements=[leases.c.name],
        set_={"holder": new_row.holder, "until": new_row.until},
        where=or_(leases.c.holder == new_row.holder, leases.c.until <= _NOW[dialect]),
    )


_TAKE = {dialect: _take(dialect) for dialect in _NOW}


_HOLDER = select(leases.c.holder).where(leases.c.name == bindparam("name"))


def holder(conn: Connection, name: str) -> str | None:
    """Returns the last holder of a lease, even if it has ended."""
    current_holder: str | None = conn.execute(_HOLDER, {"name": name}).scalar_one_or_none()
    return current_holder


def apply_take(conn: Connection, change: TakeLease) -> bool:
    """Carries out TakeLease."""
    time = timedelta(seconds=change.seconds)
    values = {"name": change.name, "holder": change.holder}
    if conn.dialect.name == "sqlite":
        values |= {"now": change.now, "until": change.now + time}
    else:
        values |= {"time": time}
    row_count: int = conn.execute(_TAKE[conn.dialect.name], values).rowcount
    return row_count == 1
