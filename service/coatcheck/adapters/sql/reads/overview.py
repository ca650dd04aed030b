"""Queries for the administrator's overview, and for the backlog of maintenance.

Most of these queries have an inner limit, which bounds the rows that they read, however many rows there are.
"""

from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, func, select

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.changes.holds import is_not_held
from coatcheck.adapters.sql.changes.session_usage import ACCOUNT_COLUMNS, account_of
from coatcheck.adapters.sql.tables import SUMS, activity, artifacts, blobs, session_usage, usage
from coatcheck.core.artifact import Artifact
from coatcheck.core.event import UsageDelta
from coatcheck.ports.catalog import ActivityHour, SessionSummary
from coatcheck.ports.telemetry import Overdue

_MAX_EXAMINED_ROWS: Final = 5_000
"""Maximum rows that are read to find the latest sessions of a namespace, or its artifacts that expire next. As no index
is by namespace and time, these are rows of all namespaces. If other namespaces are much busier, the overview of a
namespace may lack some of its rows. Chosen, not measured."""


def hours(conn: Connection, namespace: str, since: datetime) -> list[ActivityHour]:
    """Returns the activity of a namespace in each hour since a moment, oldest first."""
    mine = (activity.c.namespace == namespace, activity.c.hour >= since)
    hour_rows = conn.execute(select(activity).where(*mine).order_by(activity.c.hour))
    return [ActivityHour(row.hour, UsageDelta(**{name: getattr(row, name) for name in SUMS})) for row in hour_rows]


def recent_sessions(conn: Connection, namespace: str, *, limit: int) -> list[SessionSummary]:
    """Returns up to `limit` sessions of a namespace, beginning with the latest activity."""
    latest = select(session_usage).order_by(session_usage.c.at.desc()).limit(_MAX_EXAMINED_ROWS).subquery()
    columns: list[Any] = [latest.c.session, *(latest.c[column.name] for column in ACCOUNT_COLUMNS)]
    statement = select(*columns).where(latest.c.namespace == namespace).order_by(latest.c.at.desc()).limit(limit)
    return [SessionSummary(row[0], account_of(row[1:])) for row in conn.execute(statement)]


def next_expiring(conn: Connection, namespace: str, now: datetime, *, limit: int) -> list[Artifact]:
    """Returns up to `limit` artifacts of a namespace that expire next, in the order of their expiry."""
    moment = artifacts.c.expires_at
    nearest = select(artifacts.c.seq, artifacts.c.namespace, moment).where(moment > now).order_by(moment)
    soon = nearest.limit(_MAX_EXAMINED_ROWS).subquery()
    statement = rows.ARTIFACTS.join(soon, artifacts.c.seq == soon.c.seq).where(soon.c.namespace == namespace)
    return [rows.artifact(row) for row in conn.execute(statement.order_by(soon.c.expires_at).limit(limit))]


def overdue(conn: Connection, now: datetime, limit: int) -> Overdue:
    """Counts the backlog over all namespaces. See Accounts.overdue.

    Only the `limit` artifacts that expired first are examined. If all of these are held, no other expired artifact is
    counted.
    """
    moment = artifacts.c.expires_at
    # The limits are in subqueries, so that counting a large backlog costs no more than counting a small one.
    oldest = select(artifacts.c.seq).where(moment <= now).order_by(moment).limit(limit)
    counted = select(func.count(), func.min(moment)).where(artifacts.c.seq.in_(oldest.correlate(None)), is_not_held())
    expired, first = conn.execute(counted, {"now": now}).one()
    buried = select(blobs.c.stored_size).where(blobs.c.dead_at.is_not(None)).limit(limit).subquery()
    dead, dead_bytes = conn.execute(select(func.count(), func.sum(buried.c.stored_size)).select_from(buried)).one()
    # The totals are read from `usage`, which every transaction keeps up to date, instead of by scans of large tables.
    count, size = conn.execute(select(func.sum(usage.c.artifacts), func.sum(usage.c.bytes))).one()
    return Overdue(
        expired=expired,
        oldest=first,
        dead=dead,
        dead_bytes=int(dead_bytes or 0),
        artifacts=int(count or 0),
        stored_bytes=int(size or 0),
    )
