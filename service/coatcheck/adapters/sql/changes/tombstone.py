"""Replaces artifacts by tombstones, and marks the blobs dead that nothing points at any more.

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
    """Returns the condition that an artifact's row is live at `:now`. At the exact moment of expiry it no longer is."""
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
    """The tombstone keeps it, so that a late request for the same payload is recognised."""
    tool_name: str | None
    """The tombstone keeps it, to say what is gone."""
    session: str | None
    expires_at: datetime | None
    """None: never."""
    blob_seq: int
    """The blob with its bytes, which may become dead with it."""
    size: int
    """Bytes of content."""


_SIZE = select(blobs.c.size).where(blobs.c.seq == artifacts.c.blob_seq).correlate(artifacts).scalar_subquery()
ARTIFACT_ROW: list[ColumnElement[Any]] = [
    _SIZE.label(name) if name == "size" else artifacts.c[name] for name in ArtifactRow._fields
]
"""The columns of ArtifactRow."""


def of_text_view(column: ColumnElement[Any]) -> ScalarSelect[Any]:
    """Returns a column of the artifact's text view, NULL if it has none."""
    mine = (views.c.artifact_seq == artifacts.c.seq, views.c.name == TEXT)
    return select(column).where(*mine).correlate(artifacts).scalar_subquery()


_LOCK_ARTIFACTS = Prepared(
    # The blob of the text view dies together with the payload's.
    select(artifacts.c.blob_seq, of_text_view(views.c.blob_seq))
    .where(artifacts.c.namespace == NAMESPACE, among(artifacts.c.number, bind_seqs("numbers")))
    .order_by(artifacts.c.seq)
    .with_for_update()
)
# The lock precedes the decision: nobody changes the artifact between this answer and the commit.
_ONE = select(*ARTIFACT_ROW).where(equal(artifacts.c.namespace, artifacts.c.number)).with_for_update()
# `by_now`: a replica whose clock is ahead must not remove what is live. Rows that another replica is removing are
# skipped.
_EXPIRED = (
    select(*ARTIFACT_ROW)
    .where(artifacts.c.expires_at <= by_now(NOW), holds.is_not_held())
    .order_by(artifacts.c.expires_at)
    .limit(LIMIT)
    .with_for_update(skip_locked=True)
)
_AT = equal(tombstones.c.namespace, tombstones.c.number)
# In one statement, and so of one moment: between two, posting it again could replace the tombstone by an artifact.
_TOMBSTONE = union_all(
    select(tombstones.c.reason, tombstones.c.at, tombstones.c.tool_name, tombstones.c.session).where(
        _AT, tombstones.c.until > NOW
    ),
    select(null(), null(), null(), null()).where(equal(artifacts.c.namespace, artifacts.c.number)),
)
_SEQS = bind_seqs()
_REMOVE_VIEWS = Prepared(delete(views).where(among(views.c.artifact_seq, _SEQS)).returning(views.c.blob_seq))
# The DELETE repeats the condition on holds: a check before it may be out of date.
_REMOVE = Prepared(
    delete(artifacts).where(among(artifacts.c.seq, _SEQS), holds.is_not_held()).returning(artifacts.c.namespace)
)
_LOCK_ROW = Prepared(select(artifacts.c.seq).where(equal(artifacts.c.seq)).with_for_update())
# In row order, so that two transactions that lock several blobs cannot deadlock.
_LOCK_BLOBS = select(blobs.c.seq).where(among(blobs.c.seq, _SEQS)).order_by(blobs.c.seq).with_for_update()
# Sets `dead_at` once only, and only while nothing points at the row; returns what no longer counts as used.
_RELEASE = (
    update(blobs)
    .where(among(blobs.c.seq, _SEQS), blobs.c.dead_at.is_(None), is_unused())
    .values(dead_at=NOW)
    .returning(blobs.c.namespace, blobs.c.stored_size)
)


_new = upsert(tombstones)
# Two replicas can leave a tombstone for a live artifact, unseen (one stores and deletes what the other is about to
# store): the artifact's own state prevails.
_ADD_TOMBSTONE = _new.on_conflict_do_update(
    index_elements=tombstones.primary_key,
    set_={column.name: _new.excluded[column.name] for column in tombstones.c if not column.primary_key},
)


def lock_ahead(conn: Connection, namespace: str, numbers: Collection[int]) -> None:
    """Locks the artifacts that a group will change, then their blobs, in the same order in all replicas.

    One by one, each change would lock a blob before the next one's artifact, and two replicas could deadlock.
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
    """Removes live artifacts of a session; expired ones are left to their own sweep, which records that reason."""
    # A hold on the session or its namespace keeps everything; one on an artifact keeps only that.
    conflict = holds.holds_on(conn, change.namespace, change.session, change.now)
    if conflict is not None:
        return conflict
    # In row order, as all lock them: replicas that remove the same session meet at its first row.
    mine = (artifacts.c.namespace == change.namespace, artifacts.c.session == change.session)
    statement = select(*ARTIFACT_ROW).where(*mine, is_live(), holds.is_not_held()).order_by(artifacts.c.seq)
    rows = read_rows(conn, statement.limit(change.limit).with_for_update(), now=change.now)
    session_usage.drop_session(conn, change.namespace, change.session)
    return tombstone(conn, rows, Removal("session_deleted", change.now, change.tombstone_until, change.by))


def tombstone_expired(conn: Connection, change: ExpireArtifacts) -> list[ArtifactRow]:
    """Removes what has expired, longest overdue first."""
    rows = read_rows(conn, _EXPIRED, now=change.now, limit=change.limit)
    lives = change.tombstone_lives
    tombstone(conn, rows, Removal("expired", change.now, change.tombstone_until, change.by, lives))
    return rows


def tombstone_of(conn: Connection, namespace: str, number: int, now: datetime) -> Gone | None:
    """Returns the tombstone at a number where no artifact was found, while it lasts.

    Raises TransactionConflict if there is an artifact after all, because another replica has stored it since.
    """
    rows = conn.execute(_TOMBSTONE, {"namespace": namespace, "number": number, "now": now}).all()
    if any(row.reason is None for row in rows):
        raise TransactionConflict
    return make_tombstone(number, *rows[0]) if rows else None


def release(conn: Connection, seqs: Iterable[int], now: datetime) -> None:
    """Marks unreferenced blobs dead."""
    blob_seqs = sorted(set(seqs))
    if conn.dialect.name != "sqlite":
        # In a statement of its own: a writer that is about to share one of these blobs has locked it, and must be
        # waited for, so that the next statement sees its artifact.
        conn.execute(_LOCK_BLOBS, {"seqs": blob_seqs}).all()
    for namespace, size in conn.execute(_RELEASE, {"seqs": blob_seqs, "now": now}):
        usage.count(conn, namespace, bytes_=-size)


def lock_row(conn: Connection, seq: int) -> bool:
    """Locks an artifact's row for this transaction. Returns False if it was deleted meanwhile."""
    return bool(_LOCK_ROW.rows(conn, {"seq": seq}))


def remove(conn: Connection, seqs: Sequence[int], now: datetime) -> list[int]:
    """Deletes artifacts whose rows we have locked, with their views; returns the views' blobs, to be released.

    Raises TransactionConflict if a hold covers one of them, which the caller did not check, or which came after that.
    """
    holds.stand_by_now(conn)
    # Views first: their foreign key keeps the artifact from being deleted before them.
    blob_seqs = [row[0] for row in _REMOVE_VIEWS.rows(conn, {"seqs": seqs}) if row[0] is not None]
    row_namespaces = [row[0] for row in _REMOVE.rows(conn, {"seqs": seqs, "now": now})]
    # A new hold covers one of them: the transaction begins again, and then sees it.
    if len(row_namespaces) != len(seqs):
        raise TransactionConflict
    for namespace in set(row_namespaces):
        usage.count(conn, namespace, artifacts=-row_namespaces.count(namespace))
    return blob_seqs


def read_rows(conn: Connection, statement: Executable, **values: Any) -> list[ArtifactRow]:  # noqa: ANN401 - parameters
    """Returns the rows of a statement that selects the columns ARTIFACT_ROW."""
    return [ArtifactRow._make(row) for row in conn.execute(statement, values)]


class Removal(NamedTuple):
    """Why, when and by whom artifacts are removed, and how long their tombstones last."""

    reason: Reason
    now: datetime
    """When it happens. The tombstone of an expired artifact has the moment of expiry instead."""
    until: datetime
    """When the tombstones end."""
    by: By
    lives: Mapping[str, timedelta] = {}
    """How long the tombstones of certain namespaces last instead."""


def tombstone(conn: Connection, rows: Sequence[ArtifactRow], removal: Removal) -> int:
    """Replaces artifacts, whose rows this transaction has locked, by tombstones; returns how many.

    Copies what an undo needs, and records in the audit log what was removed, by whom and why.
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
                # A late sweep must not change the answer that every route has given since it expired.
                "at": row.expires_at if removal.reason == "expired" else now,
                "tool_name": row.tool_name,
                "session": row.session,
                "until": now + removal.lives[row.namespace] if row.namespace in removal.lives else removal.until,
            }
            for row in rows
        ],
    )
    # Before the rows are deleted, because the copies for an undo are made from them.
    audit.keep(conn, seqs, removal.reason, now, removal.by.run_id)
    session_usage.drop_events_of(conn, [(row.namespace, row.number) for row in rows])
    blob_seqs = remove(conn, seqs, now)
    # After the rows that point at the blobs are deleted: before that, no blob counts as unused.
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
