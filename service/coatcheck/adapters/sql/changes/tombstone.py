"""Replaces artifacts by tombstones, and marks blobs dead if nothing points at them any more.

Rows are deleted before bytes. A dead blob stays dead; the sweep removes its bytes after a grace period for readers.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    ScalarSelect,
    and_,
    delete,
    exists,
    null,
    or_,
    select,
    union_all,
    update,
)

from coatcheck.adapters.sql.changes import audit, holds, session_usage, usage
from coatcheck.adapters.sql.dialect import LIMIT, NAMESPACE, NOW, among, bind_seqs, by_now, equal, upsert
from coatcheck.adapters.sql.faults import TransactionConflict
from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.rows import Reason, make_tombstone
from coatcheck.adapters.sql.tables import artifacts, blobs, tombstones, views
from coatcheck.core.artifact import Gone
from coatcheck.core.retention.audit import AuditLine, By, HoldConflict
from coatcheck.core.views.view import TEXT
from coatcheck.ports.artifacts import DeleteArtifact, DeleteSession
from coatcheck.ports.maintenance import ExpireArtifacts


def is_live() -> ColumnElement[bool]:
    """Returns the condition that an artifact is live at `:now`. At the exact moment of its expiry, it is not."""
    return or_(artifacts.c.expires_at.is_(None), artifacts.c.expires_at > NOW)


def is_used() -> ColumnElement[bool]:
    """Returns the condition that something points at a blob's row: a payload or a view."""
    return or_(*_pointers())


def is_unused() -> ColumnElement[bool]:
    """Returns the opposite of `is_used`, as NOT a AND NOT b: for NOT (a OR b), PostgreSQL would scan both tables."""
    return and_(*(~pointer for pointer in _pointers()))


def _pointers() -> list[ColumnElement[bool]]:
    return [exists().where(table.c.blob_seq == blobs.c.seq).correlate(blobs) for table in (artifacts, views)]


class ArtifactRow(NamedTuple):
    """The columns of an artifact that are needed to replace it by a tombstone."""

    seq: int
    namespace: str
    number: int
    identity: bytes
    """The artifact's identity. The tombstone keeps it, so that a late request for the same payload is recognised."""
    tool_name: str | None
    """The name of the tool. The tombstone keeps it, to say what was removed."""
    session: str | None
    expires_at: datetime | None
    """When the artifact expires; None: never."""
    blob_seq: int
    """Row number of the payload's blob, which may become dead when the artifact is removed."""
    size: int
    """Size of the payload in bytes, before compression."""


_SIZE = select(blobs.c.size).where(blobs.c.seq == artifacts.c.blob_seq).correlate(artifacts).scalar_subquery()
ARTIFACT_ROW: list[ColumnElement[Any]] = [
    _SIZE.label(name) if name == "size" else artifacts.c[name] for name in ArtifactRow._fields
]
"""The columns of ArtifactRow."""


def of_text_view(column: ColumnElement[Any]) -> ScalarSelect[Any]:
    """Returns a column of an artifact's text view, as a subquery; NULL if the artifact has no text view."""
    mine = (views.c.artifact_seq == artifacts.c.seq, views.c.name == TEXT)
    return select(column).where(*mine).correlate(artifacts).scalar_subquery()


_LOCK_ARTIFACTS = Prepared(
    # The blob of the text view is locked too, because the removal of an artifact may mark both blobs dead.
    select(artifacts.c.blob_seq, of_text_view(views.c.blob_seq))
    .where(artifacts.c.namespace == NAMESPACE, among(artifacts.c.number, bind_seqs("numbers")))
    .order_by(artifacts.c.seq)
    .with_for_update()
)
# Locks the row before the decision, so that nobody changes the artifact between the decision and the commit.
_ONE = select(*ARTIFACT_ROW).where(equal(artifacts.c.namespace, artifacts.c.number)).with_for_update()
# `by_now` compares with the database server's clock too, since a replica whose clock is ahead must not remove live
# artifacts. Rows that another replica is removing are skipped.
_EXPIRED = (
    select(*ARTIFACT_ROW)
    .where(artifacts.c.expires_at <= by_now(NOW), holds.is_not_held())
    .order_by(artifacts.c.expires_at)
    .limit(LIMIT)
    .with_for_update(skip_locked=True)
)
_AT = equal(tombstones.c.namespace, tombstones.c.number)
# Reads both tables in one statement, and so at one moment. Between two statements, a repeated post could replace the
# tombstone by an artifact.
_TOMBSTONE = union_all(
    select(tombstones.c.reason, tombstones.c.at, tombstones.c.tool_name, tombstones.c.session).where(
        _AT, tombstones.c.until > NOW
    ),
    select(null(), null(), null(), null()).where(equal(artifacts.c.namespace, artifacts.c.number)),
)
_SEQS = bind_seqs()
_REMOVE_VIEWS = Prepared(delete(views).where(among(views.c.artifact_seq, _SEQS)).returning(views.c.blob_seq))
# The DELETE repeats the condition on holds, because the result of an earlier check may be out of date.
_REMOVE = Prepared(
    delete(artifacts).where(among(artifacts.c.seq, _SEQS), holds.is_not_held()).returning(artifacts.c.namespace)
)
_LOCK_ROW = Prepared(select(artifacts.c.seq).where(equal(artifacts.c.seq)).with_for_update())
# Locks blobs in row order, so that two transactions that lock several blobs cannot deadlock.
_LOCK_BLOBS = select(blobs.c.seq).where(among(blobs.c.seq, _SEQS)).order_by(blobs.c.seq).with_for_update()
# Sets `dead_at` only once, and only if nothing points at the row. Returns the bytes that no longer count as used.
_RELEASE = (
    update(blobs)
    .where(among(blobs.c.seq, _SEQS), blobs.c.dead_at.is_(None), is_unused())
    .values(dead_at=NOW)
    .returning(blobs.c.namespace, blobs.c.stored_size)
)


_new = upsert(tombstones)
# A tombstone may exist beside the artifact that is removed now: one replica may store and delete the same artifact that
# another replica is about to store. The later removal then replaces the tombstone.
_ADD_TOMBSTONE = _new.on_conflict_do_update(
    index_elements=tombstones.primary_key,
    set_={column.name: _new.excluded[column.name] for column in tombstones.c if not column.primary_key},
)


def lock_ahead(conn: Connection, namespace: str, numbers: Collection[int]) -> None:
    """Locks the artifacts that a group will change, then their blobs, in the same order in all replicas.

    Otherwise one change would lock a blob before the next change locks its artifact, and two replicas could deadlock.
    """
    locked_rows = _LOCK_ARTIFACTS.rows(conn, {"namespace": namespace, "numbers": sorted(set(numbers))})
    blob_seqs = {seq for row in locked_rows for seq in row if seq is not None}
    if blob_seqs:
        conn.execute(_LOCK_BLOBS, {"seqs": sorted(blob_seqs)}).all()


def apply_delete(conn: Connection, change: DeleteArtifact) -> bool | Gone | HoldConflict | None:
    """Carries out DeleteArtifact."""
    rows = read_rows(conn, _ONE, namespace=change.namespace, number=change.number)
    if not rows:
        waits_held = holds.holds_on(conn, change.namespace, change.session, change.now) if change.is_waiting else None
        return waits_held or tombstone_of(conn, change.namespace, change.number, change.now)
    (row,) = rows
    if row.expires_at is not None and row.expires_at <= change.now:
        return make_tombstone(row.number, "expired", row.expires_at, row.tool_name, row.session)
    # This look-up only serves the answer, which names the holds; the condition of the DELETE decides.
    conflict = holds.holds_of(conn, row.seq, change.now)
    if conflict is not None:
        return conflict
    tombstone(conn, rows, Removal("deleted", change.now, change.tombstone_until, change.by))
    return True


def apply_delete_session(conn: Connection, change: DeleteSession) -> int | HoldConflict:
    """Removes a batch of live artifacts of a session; returns how many, or the holds that forbid the removal.

    Also deletes the session's account and events. Expired artifacts are left to the job that removes them with the
    reason `expired`.
    """
    # A hold on the session or its namespace keeps all artifacts; a hold on an artifact keeps only this artifact.
    conflict = holds.holds_on(conn, change.namespace, change.session, change.now)
    if conflict is not None:
        return conflict
    # Rows are locked in their order, as in all transactions: replicas that remove the same session meet at its first
    # row, and do not deadlock.
    mine = (artifacts.c.namespace == change.namespace, artifacts.c.session == change.session)
    statement = select(*ARTIFACT_ROW).where(*mine, is_live(), holds.is_not_held()).order_by(artifacts.c.seq)
    rows = read_rows(conn, statement.limit(change.limit).with_for_update(), now=change.now)
    session_usage.drop_sessions(conn, change.namespace, [change.session])
    return tombstone(conn, rows, Removal("session_deleted", change.now, change.tombstone_until, change.by))


def tombstone_expired(conn: Connection, change: ExpireArtifacts) -> list[ArtifactRow]:
    """Removes a batch of expired artifacts, longest overdue first; returns their rows."""
    rows = read_rows(conn, _EXPIRED, now=change.now, limit=change.limit)
    lives = change.tombstone_lives
    tombstone(conn, rows, Removal("expired", change.now, change.tombstone_until, change.by, lives))
    return rows


def tombstone_of(conn: Connection, namespace: str, number: int, now: datetime) -> Gone | None:
    """Returns the tombstone of a number for which no artifact was found; None if there is none or it has ended.

    Raises TransactionConflict if there is an artifact after all, because another replica has stored it since.
    """
    rows = conn.execute(_TOMBSTONE, {"namespace": namespace, "number": number, "now": now}).all()
    if any(row.reason is None for row in rows):
        raise TransactionConflict
    return make_tombstone(number, *rows[0]) if rows else None


def release(conn: Connection, seqs: Iterable[int], now: datetime) -> None:
    """Marks each of these blobs dead if nothing points at it."""
    blob_seqs = sorted(set(seqs))
    if conn.dialect.name != "sqlite":
        # The blobs are locked by a separate statement. A writer that is about to share one of them has locked it, so
        # this statement waits for the writer, and the next statement sees the writer's artifact.
        conn.execute(_LOCK_BLOBS, {"seqs": blob_seqs}).all()
    for namespace, size in conn.execute(_RELEASE, {"seqs": blob_seqs, "now": now}):
        usage.count(conn, namespace, bytes_=-size)


def lock_row(conn: Connection, seq: int) -> bool:
    """Locks an artifact's row for this transaction. Returns False if it was deleted meanwhile."""
    return bool(_LOCK_ROW.rows(conn, {"seq": seq}))


def remove(conn: Connection, seqs: Sequence[int], now: datetime) -> list[int]:
    """Deletes artifacts and their views; the transaction must have locked the artifacts' rows.

    Returns the row numbers of the views' blobs, which the caller must release. Raises TransactionConflict if a hold
    covers an artifact, because the caller did not check this or the hold is newer than the check, or is being placed.
    """
    holds.stand_by_now(conn)
    # Views are deleted first, because their foreign key forbids to delete their artifact before them.
    blob_seqs = [row[0] for row in _REMOVE_VIEWS.rows(conn, {"seqs": seqs}) if row[0] is not None]
    row_namespaces = [row[0] for row in _REMOVE.rows(conn, {"seqs": seqs, "now": now})]
    # A hold covers an artifact. The transaction starts again, and a check then sees the hold.
    if len(row_namespaces) != len(seqs):
        raise TransactionConflict
    for namespace in set(row_namespaces):
        usage.count(conn, namespace, artifacts=-row_namespaces.count(namespace))
    return blob_seqs


def read_rows(conn: Connection, statement: Executable, **values: Any) -> list[ArtifactRow]:  # noqa: ANN401 - parameters
    """Returns the rows of a statement that selects the columns in ARTIFACT_ROW."""
    return [ArtifactRow._make(row) for row in conn.execute(statement, values)]


class Removal(NamedTuple):
    """Why, when and by whom artifacts are removed, and how long their tombstones last."""

    reason: Reason
    now: datetime
    """When the artifacts are removed. The tombstone of an expired artifact has the moment of its expiry instead."""
    until: datetime
    """When the tombstones end."""
    by: By
    lives: Mapping[str, timedelta] = {}
    """By namespace, how long tombstones last after the removal, for namespaces in which `until` does not apply."""


def tombstone(conn: Connection, rows: Sequence[ArtifactRow], removal: Removal) -> int:
    """Replaces artifacts, whose rows this transaction has locked, by tombstones; returns how many.

    Copies the rows that an undo needs, and records in the audit log what was removed, by whom and why.
    """
    if not rows:
        return 0
    now, seqs = removal.now, [row.seq for row in rows]
    conn.execute(
        _ADD_TOMBSTONE,
        [
            {
                "namespace": row.namespace,
                "number": row.number,
                "identity": row.identity,
                "reason": removal.reason,
                # Since the artifact expired, every route has answered with this time. A late sweep must not change it.
                "at": row.expires_at if removal.reason == "expired" else now,
                "tool_name": row.tool_name,
                "session": row.session,
                "until": now + removal.lives[row.namespace] if row.namespace in removal.lives else removal.until,
            }
            for row in rows
        ],
    )
    # This comes before the rows are deleted, because the copies for an undo are made from them.
    audit.keep(conn, seqs, removal.reason, now, removal.by.run_id)
    session_usage.drop_events_of(conn, [(row.namespace, row.number) for row in rows])
    blob_seqs = remove(conn, seqs, now)
    # This comes after the rows that point at the blobs are deleted: before that, no blob counts as unused.
    release(conn, [*blob_seqs, *(row.blob_seq for row in rows)], now)
    for row in rows:
        note_removal(conn, row.namespace, removal, row.number, row.size)
    return len(rows)


def note_removal(conn: Connection, namespace: str, removal: Removal, number: int, size: int) -> None:
    """Records in the audit log that an artifact with `size` bytes of content was removed."""
    line = AuditLine(
        at=removal.now,
        action="artifact.removed",
        by=removal.by,
        namespace=namespace,
        reason=removal.reason,
        size=size,
        numbers=(number,),
    )
    audit.append(conn, line)
