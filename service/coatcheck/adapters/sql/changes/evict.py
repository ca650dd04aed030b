"""Evicts from a full namespace, and empties a namespace, batch by batch.

An eviction first computes what would have to go, and removes nothing if that is not enough: no artifact is lost for a
payload that is refused anyway. Pinned and held artifacts are not considered.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, ColumnElement, Connection, Text, and_, bindparam, func, or_, select

from coatcheck.adapters.sql.changes import activity, events, session_usage
from coatcheck.adapters.sql.changes.holds import is_not_held
from coatcheck.adapters.sql.changes.tombstone import (
    ARTIFACT_ROW,
    NOW,
    ArtifactRow,
    Removal,
    is_live,
    read_rows,
    tombstone,
)
from coatcheck.adapters.sql.changes.usage import read_usage
from coatcheck.adapters.sql.dialect import Many, UtcDateTime, among
from coatcheck.adapters.sql.faults import TransactionConflict
from coatcheck.adapters.sql.rows import Reason
from coatcheck.adapters.sql.tables import artifacts, blobs, usage, views
from coatcheck.core.policies.quota import QuotaExceeded
from coatcheck.core.views.view import TEXT
from coatcheck.ports.decisions import DeleteNamespace
from coatcheck.ports.maintenance import EvictArtifacts, EvictionResult

_CANDIDATES_PER_PAGE = 200
"""Candidates that one statement looks at: an eviction usually needs a few, and locks none of the others. Chosen, not
measured."""
_NAMESPACE = bindparam("namespace", type_=Text())
_MAY_GO: ColumnElement[bool] = and_(artifacts.c.namespace == _NAMESPACE, artifacts.c.pinned.is_(False), is_not_held())
_VIEW_BLOB = (
    select(views.c.blob_seq)
    .where(views.c.artifact_seq == artifacts.c.seq, views.c.name == TEXT)
    .correlate(artifacts)
    .scalar_subquery()
)
_CANDIDATE = (artifacts.c.seq, artifacts.c.read_at, artifacts.c.blob_seq, _VIEW_BLOB.label("view_blob"))
_BEHIND = or_(
    artifacts.c.read_at > bindparam("after_at", type_=UtcDateTime),
    and_(
        artifacts.c.read_at == bindparam("after_at", type_=UtcDateTime),
        artifacts.c.seq > bindparam("after", type_=BigInteger()),
    ),
)
_EXPIRED = (
    select(*_CANDIDATE)
    .where(_MAY_GO, artifacts.c.expires_at <= NOW, artifacts.c.seq > bindparam("after", type_=BigInteger()))
    .order_by(artifacts.c.seq)
    .limit(_CANDIDATES_PER_PAGE)
)
# `_BEHIND` implies the plain bound beside it, which tells the planner where to begin in the index.
_OLDEST = (
    select(*_CANDIDATE)
    .where(_MAY_GO, is_live(), artifacts.c.read_at >= bindparam("after_at", type_=UtcDateTime), _BEHIND)
    .order_by(artifacts.c.read_at, artifacts.c.seq)
    .limit(_CANDIDATES_PER_PAGE)
)
_SEQS = bindparam("seqs", type_=Many(BigInteger()))
# How many artifacts, and how many views, point at each blob.
_USERS = [
    select(table.c.blob_seq, func.count()).where(among(table.c.blob_seq, _SEQS)).group_by(table.c.blob_seq)
    for table in (artifacts, views)
]
_SIZES = select(blobs.c.seq, blobs.c.stored_size).where(among(blobs.c.seq, _SEQS))
# They were chosen without a lock: a row that may no longer go is missing here.
_TAKE = (
    select(*ARTIFACT_ROW)
    .where(among(artifacts.c.seq, _SEQS), artifacts.c.pinned.is_(False), is_not_held())
    .order_by(artifacts.c.seq)
    .with_for_update(of=artifacts)
)
_ONE_AT_A_TIME = select(func.pg_advisory_xact_lock(0x65766963, func.hashtext(_NAMESPACE)))
""""evic" in ASCII, and a hash of the namespace. Two namespaces with one hash only wait for each other."""
_FIRST_READ = select(func.min(artifacts.c.read_at)).where(artifacts.c.namespace == _NAMESPACE)
_MARKED = select(usage.c.deleting_at).where(usage.c.namespace == _NAMESPACE)
# Held artifacts stay, and the mark on their namespace with them.
_ALL = (
    select(*ARTIFACT_ROW)
    .where(artifacts.c.namespace == _NAMESPACE, is_not_held())
    .order_by(artifacts.c.seq)
    .limit(bindparam("limit"))
    .with_for_update(of=artifacts)
)


class _Candidate(NamedTuple):
    """An artifact that may be evicted, and the blobs that it keeps alive."""

    seq: int
    read_at: datetime
    """The last read, from which the next page continues."""
    blobs: tuple[int, ...]
    """Rows of its payload's bytes, and of its text view's if that has its own."""


class _Freed:
    """Sums up the blobs that would die with some artifacts: a shared one dies with the last that points at it."""

    def __init__(self) -> None:
        self._users: dict[int, int] = {}
        """For each blob, how many pointers would be left."""
        self._sizes: dict[int, int] = {}
        """For each blob, its stored bytes."""
        self.bytes = 0
        """Stored bytes that would be freed."""

    def learn(self, conn: Connection, page: list[_Candidate]) -> None:
        """Looks up how many rows use these artifacts' blobs, and their sizes."""
        new = sorted({seq for each in page for seq in each.blobs} - self._sizes.keys())
        if not new:
            return
        for statement in _USERS:
            for seq, count in conn.execute(statement, {"seqs": new}):
                self._users[seq] = self._users.get(seq, 0) + count
        self._sizes.update((seq, size) for seq, size in conn.execute(_SIZES, {"seqs": new}))

    def add(self, candidate: _Candidate) -> None:
        """Adds an artifact to those that are evicted."""
        for seq in candidate.blobs:
            self._users[seq] -= 1
            if not self._users[seq]:
                self.bytes += self._sizes[seq]


def apply_evict(conn: Connection, change: EvictArtifacts) -> EvictionResult:
    """Carries out EvictArtifacts."""
    if conn.dialect.name != "sqlite":
        # Of two replicas, the second checks after the first has made room, and finds it.
        conn.execute(_ONE_AT_A_TIME, {"namespace": change.namespace})
    there = read_usage(conn, change.namespace)
    full = QuotaExceeded(usage=there, room=change.room, bytes=change.bytes, artifacts=change.artifacts)
    if full.hopeless:
        return EvictionResult(0, enough=False)
    # All that would have to go is chosen first, so that nothing is removed if it is not enough.
    victims: list[_Candidate] = []
    freed = _Freed()
    enough = not (full.over_bytes or full.over_artifacts)
    for candidate in _candidates(conn, change, freed):
        if enough:
            break
        victims.append(candidate)
        freed.add(candidate)
        enough = freed.bytes >= full.over_bytes and len(victims) >= full.over_artifacts
    if not enough or not victims:
        return EvictionResult(0, enough)
    # One batch for each transaction; the answer says whether the caller must come back.
    now_going = victims[: change.limit]
    removed_count = _remove_those(conn, change, [candidate.seq for candidate in now_going])
    return EvictionResult(removed_count, len(now_going) == len(victims))


def _remove_those(conn: Connection, change: EvictArtifacts, seqs: list[int]) -> int:
    artifact_rows = read_rows(conn, _TAKE, {"seqs": seqs, "now": change.now})
    if len(artifact_rows) != len(seqs):
        raise TransactionConflict  # one was pinned, or removed, since it was chosen
    return _remove_all(conn, artifact_rows, "evicted", change)


def _remove_all(
    conn: Connection, rows: list[ArtifactRow], reason: Reason, change: EvictArtifacts | DeleteNamespace
) -> int:
    """Removes artifacts; those that have expired, with that reason."""
    expired = [row for row in rows if row.expires_at is not None and row.expires_at <= change.now]
    others = [row for row in rows if row not in expired]
    tombstone(conn, expired, Removal("expired", change.now, change.tombstone_until, change.by))
    tombstone(conn, others, Removal(reason, change.now, change.tombstone_until, change.by))
    return len(rows)


def _candidates(conn: Connection, change: EvictArtifacts, freed: _Freed) -> Iterator[_Candidate]:
    """Yields what may be evicted: expired artifacts, then the others, least recently read first."""
    # The walk begins at the earliest read; without one, the namespace has no artifacts.
    first = conn.execute(_FIRST_READ, {"namespace": change.namespace}).scalar()
    if first is None:
        return
    for statement in (_EXPIRED, _OLDEST):
        at: dict[str, Any] = {"namespace": change.namespace, "now": change.now, "after": 0, "after_at": first}
        while page := [_candidate(row) for row in conn.execute(statement, at)]:
            freed.learn(conn, page)
            yield from page
            at |= {"after": page[-1].seq, "after_at": page[-1].read_at}


def _candidate(row: Any) -> _Candidate:  # noqa: ANN401 - a row of _CANDIDATE
    return _Candidate(row.seq, row.read_at, tuple(seq for seq in (row.blob_seq, row.view_blob) if seq is not None))


def apply_delete_namespace(conn: Connection, change: DeleteNamespace) -> int:
    """Removes a batch of a marked namespace; nothing if it is no longer marked."""
    at = {"namespace": change.namespace, "now": change.now}
    if conn.execute(_MARKED, at).scalar() is None:
        return 0
    artifact_rows = read_rows(conn, _ALL, at | {"limit": change.limit})
    # The last batch: accounts, activity and events of the namespace go with it.
    if len(artifact_rows) < change.limit:
        session_usage.drop_all(conn, change.namespace)
        activity.drop_all(conn, change.namespace)
        events.drop_all(conn, change.namespace)
    else:
        session_usage.drop_some(conn, change.namespace, change.limit)
    return _remove_all(conn, artifact_rows, "namespace_deleted", change)
