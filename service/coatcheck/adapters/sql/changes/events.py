"""The event log: rows are only added, and deleted with their subject, by age, or by number."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from sqlalchemy import BigInteger, Connection, Executable, bindparam, delete, select

from coatcheck.adapters.sql.dialect import DIALECTS, Many, among, insert_into
from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.tables import events
from coatcheck.core.event import Event, first_number

_LIFE: Final = timedelta(days=30)
"""How long events are kept, if there are not too many before. Chosen, not measured."""
_T = events.c
_ENCODE = msgspec.json.Encoder(order="deterministic").encode


def _add(dialect: str) -> Executable:
    statement = insert_into(events, dialect).values(
        {column.name: bindparam(column.name, type_=column.type) for column in events.c}
    )
    # An event with the same number is the same event, from a change that is carried out again.
    return statement.on_conflict_do_nothing(index_elements=events.primary_key)


_ADD = {dialect: _add(dialect) for dialect in DIALECTS}
_DROP_OF = Prepared(
    delete(events).where(
        _T.namespace == bindparam("namespace"), among(_T.artifact, bindparam("artifacts", type_=Many(BigInteger())))
    )
)
_DROP_SESSION = delete(events).where(_T.namespace == bindparam("namespace"), _T.session == bindparam("session"))
_DROP_ALL = delete(events).where(_T.namespace == bindparam("namespace"))
# The latest event that is one too many; no row if there are fewer.
_BEYOND = select(_T.number).order_by(_T.number.desc()).offset(bindparam("most")).limit(1)
_DROP_OLD = (
    delete(events)
    .where(
        _T.number.in_(
            select(_T.number).where(_T.number <= bindparam("until")).order_by(_T.number).limit(bindparam("limit"))
        )
    )
    .returning(_T.number)
)


def add(conn: Connection, logged: Sequence[Event]) -> None:
    """Logs events; one that is already logged is not changed."""
    if logged:
        conn.execute(_ADD[conn.dialect.name], [_row(event) for event in logged])


def _row(event: Event) -> dict[str, Any]:
    return {
        "number": event.number,
        "namespace": event.namespace,
        "session": event.session,
        "artifact": event.artifact,
        "action": event.action,
        "key_id": event.key_id,
        "tokens": event.tokens,
        "tokens_before": event.tokens_before,
        "details": _ENCODE(event.details).decode(),
    }


def drop_of(conn: Connection, artifacts: Iterable[tuple[str, int]]) -> None:
    """Deletes the events of artifacts that are removed."""
    numbers: dict[str, list[int]] = {}
    for namespace, number in artifacts:
        numbers.setdefault(namespace, []).append(number)
    for namespace, those in sorted(numbers.items()):
        _DROP_OF.run(conn, {"namespace": namespace, "artifacts": sorted(those)})


def drop_session(conn: Connection, namespace: str, session: str) -> None:
    """Deletes the events of a session that is deleted."""
    conn.execute(_DROP_SESSION, {"namespace": namespace, "session": session})


def drop_all(conn: Connection, namespace: str) -> None:
    """Deletes the remaining events of a namespace that is deleted."""
    conn.execute(_DROP_ALL, {"namespace": namespace})


def drop_old(conn: Connection, now: datetime, most: int, limit: int) -> int:
    """Deletes up to `limit` events that are 30 days old or not among the latest `most`; returns how many."""
    beyond = conn.execute(_BEYOND, {"most": most}).scalar()
    # Numbers increase with time, so that age and number are one bound.
    until = max(first_number(now - _LIFE), 0 if beyond is None else beyond)
    return len(conn.execute(_DROP_OLD, {"until": until, "limit": limit}).all())
