"""Deletes rows that are no longer needed: of swept blobs, tombstones, idempotency keys, lines of the audit log.

Also marks blobs corrupt.
"""

import logging
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Column, Connection, Executable, Text, bindparam, delete, func, select, tuple_, update

from coatcheck.adapters.sql.changes import session_usage
from coatcheck.adapters.sql.changes.tombstone import is_unused, is_used
from coatcheck.adapters.sql.dialect import LIMIT, OLD
from coatcheck.adapters.sql.tables import (
    activity,
    audit_log,
    blobs,
    idempotency_keys,
    plans,
    removed,
    runs,
    tombstones,
    writers,
)
from coatcheck.adapters.sql.tables import session_usage as accounts
from coatcheck.core.retention.jobs import RunOutcome
from coatcheck.ports.maintenance import ForgetBlobs, MarkBlobCorrupt, PurgeRecords
from coatcheck.ports.retention import ForgetRemoved

log = logging.getLogger(__name__)

# `is_unused` is an additional check: if something points at a dead blob nevertheless, the blob's row stays, and a
# warning is logged.
_FORGET = delete(blobs).where(
    blobs.c.id == bindparam("id", type_=Text()),
    blobs.c.namespace == bindparam("space", type_=Text()),
    blobs.c.dead_at.is_not(None),
    is_unused(),
)


def _drop_old(moment: Column[Any], *, inclusive: bool = True) -> Executable:
    """Returns a statement that deletes up to `:limit` rows whose time is up to `:before`, oldest first.

    Without `inclusive`, the time must be before `:before`.
    """
    key = list(moment.table.primary_key)
    old = moment <= OLD if inclusive else moment < OLD
    over = select(*key).where(old).order_by(moment).limit(LIMIT).with_for_update(skip_locked=True)
    # The rows are selected in a common table expression, because it locks rows and PostgreSQL therefore evaluates it
    # only once; a subquery could be evaluated again for each row. SQLite's driver does not count the rows of a
    # statement that begins with a common table expression, so the statement returns the deleted rows.
    return delete(moment.table).where(tuple_(*key).in_(select(over.cte("over_now")))).returning(key[0])


_DROP_REMOVED = _drop_old(removed.c.removed_at)
_DROP_ENDED = (_drop_old(tombstones.c.until), _drop_old(idempotency_keys.c.expires_at))
_DROP_ACCOUNTS = _drop_old(accounts.c.at)
_DROP_LINES = _drop_old(audit_log.c.at, inclusive=False)
_COMMIT_TOKEN_LIFE = timedelta(hours=1)
"""Time after which commit tokens are deleted. A token is looked up only within seconds."""
_PLANS_PER_STATEMENT = 10
"""Ended plans that one statement deletes, together with all parts of each. Chosen, not measured."""


def apply_forget(conn: Connection, change: ForgetBlobs) -> None:
    """Carries out ForgetBlobs. Rows of live blobs stay. Rows of dead blobs in use stay too, and a warning is logged."""
    if not change.blobs:
        return
    # Rows are deleted in a fixed order, so that two sweeps of the same blobs cannot deadlock.
    conn.execute(_FORGET, [{"id": blob_id, "space": namespace} for namespace, blob_id in sorted(change.blobs)])
    wrongly_used = select(blobs.c.namespace, blobs.c.id).where(
        blobs.c.id.in_([blob_id for _, blob_id in change.blobs]), blobs.c.dead_at.is_not(None), is_used()
    )
    for namespace, blob_id in conn.execute(wrongly_used):
        log.warning(
            "blob %s of namespace %r is dead and swept, but something points at it: its row is kept. "
            "Run `coatcheck check`, and send the payload again.",
            blob_id,
            namespace,
        )


def apply_mark_corrupt(conn: Connection, change: MarkBlobCorrupt) -> bool:
    """Carries out MarkBlobCorrupt."""
    # The time is set only once: if another read finds the same damage later, nothing is changed.
    healthy = (blobs.c.dead_at.is_(None), blobs.c.condemned_at.is_(None))
    mine = (blobs.c.id == change.blob_id, blobs.c.namespace == change.namespace)
    return conn.execute(update(blobs).where(*mine, *healthy).values(condemned_at=change.now)).rowcount == 1


def apply_purge(conn: Connection, change: PurgeRecords) -> int:
    """Carries out PurgeRecords; returns how many rows were deleted.

    Also deletes old commit tokens and old hours of activity, which are not counted.
    """
    now, limit = change.now, change.limit
    if conn.dialect.name != "sqlite":
        # Ages are computed by the server's clock, because the same clock has set `at`.
        conn.execute(delete(writers).where(writers.c.at < func.clock_timestamp() - _COMMIT_TOKEN_LIFE))
    dropped = sum(_drop(conn, statement, now, now, limit) for statement in _DROP_ENDED)
    dropped += _drop(conn, _DROP_ACCOUNTS, now, now - session_usage.HOURS_LIFE, limit)
    dropped += session_usage.drop_old_events(conn, now, change.most_events, limit)
    conn.execute(delete(activity).where(activity.c.hour < now - session_usage.HOURS_LIFE))
    if change.audit_life is not None:
        dropped += _drop(conn, _DROP_LINES, now, now - change.audit_life, limit)
    return dropped


def apply_forget_removed(conn: Connection, change: ForgetRemoved) -> int:
    """Carries out ForgetRemoved; plans that a run is applying are not deleted."""
    in_use = select(runs.c.id).where(runs.c.plan_id == plans.c.id, runs.c.outcome == RunOutcome.RUNNING.value)
    ended = select(plans.c.id).where(plans.c.until <= change.now, ~in_use.correlate(plans).exists())
    conn.execute(delete(plans).where(plans.c.id.in_(ended.limit(_PLANS_PER_STATEMENT))))
    return _drop(conn, _DROP_REMOVED, change.now, change.before, change.limit)


def _drop(conn: Connection, statement: Executable, now: datetime, before: datetime, limit: int) -> int:
    return len(conn.execute(statement, {"now": now, "before": before, "limit": limit}).all())
