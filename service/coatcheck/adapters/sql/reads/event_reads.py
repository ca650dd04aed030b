"""Lists the event log."""

from typing import Any

import msgspec
from sqlalchemy import Connection, select

from coatcheck.adapters.sql.tables import events
from coatcheck.core.event import Event


def list_events(
    conn: Connection, namespace: str, *, session: str | None, artifact: int | None, before: int | None, limit: int
) -> list[Event]:
    """Returns events of a session, of an artifact, or of both, latest first."""
    of = {"session": session, "artifact": artifact}
    conditions = [events.c[name] == value for name, value in of.items() if value is not None]
    if before is not None:
        conditions.append(events.c.number < before)
    statement = select(events).where(events.c.namespace == namespace, *conditions)
    return [_event(row) for row in conn.execute(statement.order_by(events.c.number.desc()).limit(limit))]


def _event(row: Any) -> Event:  # noqa: ANN401 - a row of `events`
    return Event(
        number=row.number,
        namespace=row.namespace,
        session=row.session,
        artifact=row.artifact,
        action=row.action,
        key_id=row.key_id,
        tokens=row.tokens,
        tokens_before=row.tokens_before,
        details=msgspec.json.decode(row.details),
    )
