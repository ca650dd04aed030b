"""Queries for the administrator's overview. An inner limit bounds each, whatever other namespaces hold.

The backlog of upkeep, counted over all namespaces while reading a limited number of rows.
"""

from datetime import datetime
from typing import Final

from sqlalchemy import BigInteger, Connection, Text, bindparam, func, select

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.changes.activity import SUMS
from coatcheck.adapters.sql.changes.holds import is_not_held
from coatcheck.adapters.sql.changes.session_usage import account_columns, account_of
from coatcheck.adapters.sql.dialect import UtcDateTime
from coatcheck.adapters.sql.tables import activity, artifacts, blobs, session_usage, usage
from coatcheck.core.artifact import Artifact
from coatcheck.core.event import UsageDelta
from coatcheck.ports.catalog import ActivityHour, SessionSummary
from coatcheck.ports.telemetry import Overdue

_MAX_EXAMINED_ROWS: Final = 5_000
"""Latest sessions, and artifacts that expire soon, of all namespaces, among which those of one are sought: no index is
by namespace and time. Chosen, not measured; the overview may lack rows of a quiet namespace beside a busy one."""
_NAMESPACE = bindparam("namespace", type_=Text())
_HOURS = (
    select(activity.c.hour, *(activity.c[name] for name in SUMS))
    .where(activity.c.namespace == _NAMESPACE, activity.c.hour >= bindparam("since", type_=UtcDateTime))
    .order_by(activity.c.hour)
)
_LATEST = (
    select(session_usage.c.namespace, session_usage.c.session, session_usage.c.at)
    .order_by(session_usage.c.at.desc())
    .limit(_MAX_EXAMINED_ROWS)
    .subquery()
)
_SESSIONS = (
    select(session_usage.c.session, *account_columns())
    .join_from(
        _LATEST,
        session_usage,
        (session_usage.c.namespace == _LATEST.c.namespace) & (session_usage.c.session == _LATEST.c.session),
    )
    .where(_LATEST.c.namespace == _NAMESPACE)
    .order_by(_LATEST.c.at.desc())
    .limit(bindparam("limit"))
)
_SOON = (
    select(artifacts.c.seq, artifacts.c.namespace, artifacts.c.expires_at)
    .where(artifacts.c.expires_at > bindparam("now", type_=UtcDateTime))
    .order_by(artifacts.c.expires_at)
    .limit(_MAX_EXAMINED_ROWS)
    .subquery()
)
_EXPIRING = (
    select(*rows.ARTIFACT_COLUMNS, *rows.BLOB_COLUMNS)
    .join_from(_SOON, artifacts, artifacts.c.seq == _SOON.c.seq)
    .join(blobs, blobs.c.seq == artifacts.c.blob_seq)
    .where(_SOON.c.namespace == _NAMESPACE)
    .order_by(_SOON.c.expires_at)
    .limit(bindparam("limit"))
)


def hours(conn: Connection, namespace: str, since: datetime) -> list[ActivityHour]:
    """Returns the hours of a namespace since a moment."""
    hour_rows = conn.execute(_HOURS, {"namespace": namespace, "since": since}).all()
    return [ActivityHour(row.hour, UsageDelta(**{name: getattr(row, name) for name in SUMS})) for row in hour_rows]


def recent_sessions(conn: Connection, namespace: str, *, limit: int) -> list[SessionSummary]:
    """Returns the sessions that were written to last."""
    session_rows = conn.execute(_SESSIONS, {"namespace": namespace, "limit": limit}).all()
    return [SessionSummary(row[0], account_of(row[1:])) for row in session_rows]


def next_expiring(conn: Connection, namespace: str, now: datetime, *, limit: int) -> list[Artifact]:
    """Returns what expires next."""
    artifact_rows = conn.execute(_EXPIRING, {"namespace": namespace, "now": now, "limit": limit}).all()
    return [rows.artifact(row) for row in artifact_rows]


_MOST: Final = bindparam("most", type_=BigInteger())
# The limit is inside, so that a large backlog costs no more to count than a small one.
_OLDEST = (
    select(artifacts.c.seq)
    .where(artifacts.c.expires_at <= bindparam("now", type_=UtcDateTime))
    .order_by(artifacts.c.expires_at)
    .limit(_MOST)
)
_EXPIRED = select(func.count(), func.min(artifacts.c.expires_at)).where(
    artifacts.c.seq.in_(_OLDEST.correlate(None)), is_not_held()
)
_BURIED = select(blobs.c.stored_size).where(blobs.c.dead_at.is_not(None)).limit(_MOST).subquery()
_DEAD = select(func.count(), func.sum(_BURIED.c.stored_size)).select_from(_BURIED)
# Sums that every transaction keeps up to date, instead of scans.
_USED = select(func.sum(usage.c.artifacts), func.sum(usage.c.bytes))


def overdue(conn: Connection, now: datetime, limit: int) -> Overdue:
    """Answers Accounts.overdue. If `limit` held artifacts come first, expired ones after them are not seen."""
    expired, oldest = conn.execute(_EXPIRED, {"now": now, "most": limit}).one()
    dead, dead_bytes = conn.execute(_DEAD, {"most": limit}).one()
    count, size = conn.execute(_USED).one()
    return Overdue(
        expired=expired,
        oldest=oldest,
        dead=dead,
        dead_bytes=int(dead_bytes or 0),
        artifacts=int(count or 0),
        stored_bytes=int(size or 0),
    )
