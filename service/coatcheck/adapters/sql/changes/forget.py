"""Deletes rows that have ended: swept blobs, tombstones, idempotency keys, audit lines. Also marks blobs corrupt."""

import logging
from datetime import timedelta
from typing import Any

from sqlalchemy import Column, Connection, Executable, Table, Text, bindparam, delete, func, select, tuple_, update

from coatcheck.adapters.sql.changes import activity, audit, events, session_usage
from coatcheck.adapters.sql.changes.tombstone import NOW, is_unused, is_used
from coatcheck.adapters.sql.dialect import Many, among, by_now
from coatcheck.adapters.sql.tables import blobs, idempotency_keys, tombstones, writers
from coatcheck.ports.maintenance import ForgetBlobs, MarkBlobCorrupt, PurgeRecords

log = logging.getLogger(__name__)

_USED = is_used()
# `is_unused` is a second fence: if something points at a dead blob after all, its row stays and a warning is logged.
_FORGET = delete(blobs).where(
    blobs.c.id == bindparam("id"),
    blobs.c.namespace == bindparam("space"),
    blobs.c.dead_at.is_not(None),
    is_unused(),
)
_WRONGLY_USED = select(blobs.c.namespace, blobs.c.id).where(
    among(blobs.c.id, bindparam("ids", type_=Many(Text()))), blobs.c.dead_at.is_not(None), _USED
)
# Sets the moment once: later readers of the same damage change nothing.
_MARK_CORRUPT = (
    update(blobs)
    .where(
        blobs.c.id == bindparam("of"),
        blobs.c.namespace == bindparam("space"),
        blobs.c.dead_at.is_(None),
        blobs.c.condemned_at.is_(None),
    )
    .values(condemned_at=NOW)
)


def _drop_over(table: Table, until: Column[Any]) -> Executable:
    """Returns a statement that deletes ended rows, oldest first."""
    key = list(table.primary_key)
    over = (
        select(*key)
        .where(until <= by_now(NOW))
        .order_by(until)
        .limit(bindparam("limit"))
        .with_for_update(skip_locked=True)
    )
    # A common table expression that locks is evaluated once; PostgreSQL may evaluate a subquery again for each row.
    return delete(table).where(tuple_(*key).in_(select(over.cte("over_now")))).returning(table.c.number)


_DROP_TOMBSTONES = _drop_over(tombstones, tombstones.c.until)
_DROP_KEYS = _drop_over(idempotency_keys, idempotency_keys.c.expires_at)
_COMMIT_TOKEN_LIFE = timedelta(hours=1)
"""Commits are looked up only within seconds."""
# By the server's clock, which has written `at` as well.
_DROP_COMMIT_TOKENS = delete(writers).where(writers.c.at < func.clock_timestamp() - _COMMIT_TOKEN_LIFE)


def apply_forget(conn: Connection, change: ForgetBlobs) -> None:
    """Carries out ForgetBlobs; ignores live blobs and, with a warning, referenced ones."""
    if not change.blobs:
        return
    # In one order, so that two sweeps of the same blobs cannot deadlock.
    conn.execute(_FORGET, [{"id": blob_id, "space": namespace} for namespace, blob_id in sorted(change.blobs)])
    for namespace, blob_id in conn.execute(_WRONGLY_USED, {"ids": [blob_id for _, blob_id in change.blobs]}):
        log.warning(
            "blob %s of namespace %r is dead and swept, but something points at it: its row is kept. "
            "Run `coatcheck check`, and send the payload again.",
            blob_id,
            namespace,
        )


def apply_mark_corrupt(conn: Connection, change: MarkBlobCorrupt) -> bool:
    """Carries out MarkBlobCorrupt."""
    at = {"of": change.blob_id, "space": change.namespace, "now": change.now}
    return conn.execute(_MARK_CORRUPT, at).rowcount == 1


def apply_purge(conn: Connection, change: PurgeRecords) -> int:
    """Carries out PurgeRecords.

    Also deletes, uncounted, commit tokens that nobody looks up any more, and old hours of activity.
    """
    if conn.dialect.name != "sqlite":
        conn.execute(_DROP_COMMIT_TOKENS)
    limits = {"now": change.now, "limit": change.limit}
    dropped = sum(len(conn.execute(statement, limits).all()) for statement in (_DROP_TOMBSTONES, _DROP_KEYS))
    dropped += session_usage.drop_old(conn, change.now, change.limit)
    dropped += events.drop_old(conn, change.now, change.most_events, change.limit)
    activity.drop_old(conn, change.now)
    if change.audit_life is not None:
        dropped += audit.prune(conn, change.now, change.audit_life, change.limit)
    return dropped
