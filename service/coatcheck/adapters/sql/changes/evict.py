"""Evicts artifacts from a full namespace, and removes all artifacts of a namespace that is deleted, in batches.

An eviction first chooses the artifacts that would have to be removed. If even their removal would not make enough room,
nothing is removed, so that no artifact is lost for a payload that is refused anyway. Pinned and held artifacts are
never evicted.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Final, NamedTuple

from sqlalchemy import BigInteger, Connection, bindparam, func, select, tuple_

from coatcheck.adapters.sql.changes import session_usage
from coatcheck.adapters.sql.changes.holds import is_not_held
from coatcheck.adapters.sql.changes.tombstone import (
    ARTIFACT_ROW,
    ArtifactRow,
    Removal,
    is_live,
    of_text_view,
    read_rows,
    tombstone,
)
from coatcheck.adapters.sql.changes.usage import read_usage
from coatcheck.adapters.sql.dialect import NOW, UtcDateTime, among, bind_seqs
from coatcheck.adapters.sql.faults import TransactionConflict
from coatcheck.adapters.sql.rows import Reason
from coatcheck.adapters.sql.tables import artifacts, blobs, views
from coatcheck.core.policies.quota import QuotaExceeded
from coatcheck.ports.decisions import DeleteNamespace
from coatcheck.ports.maintenance import EvictArtifacts, EvictionResult

_CANDIDATES_PER_PAGE = 200
"""Candidates that one statement reads, without locking them. An eviction usually needs only a few. Chosen, not
measured."""
_ONE_AT_A_TIME: Final = 0x65766963
""""evic" in ASCII: with a hash of the namespace, the key of an advisory lock. If two namespaces have the same hash,
their evictions wait for each other, which does no harm."""


class _Candidate(NamedTuple):
    """An artifact that may be evicted, and the blobs that it keeps alive."""

    seq: int
    read_at: datetime
    """The time of the last read, after which the next page begins."""
    blobs: tuple[int, ...]
    """Row numbers of the payload's blob, and of the text view's blob if the view has its own."""


class _Freed:
    """Sums up the bytes that the removal of artifacts would free.

    A blob that several artifacts share is freed only when the last of them is removed.
    """

    def __init__(self) -> None:
        self._users: dict[int, int] = {}
        """For each blob, how many artifacts and views would still point at it after the removals counted so far."""
        self._sizes: dict[int, int] = {}
        """For each blob, its stored bytes."""
        self.bytes = 0
        """Stored bytes that would be freed."""

    def learn(self, conn: Connection, page: list[_Candidate]) -> None:
        """Reads the sizes of these artifacts' blobs, and how many artifacts and views point at each blob."""
        new = sorted({seq for each in page for seq in each.blobs} - self._sizes.keys())
        if not new:
            return
        # How many artifacts, and how many views, point at each blob.
        for table in (artifacts, views):
            users = select(table.c.blob_seq, func.count()).where(among(table.c.blob_seq, bind_seqs()))
            for seq, count in conn.execute(users.group_by(table.c.blob_seq), {"seqs": new}):
                self._users[seq] = self._users.get(seq, 0) + count
        sizes = select(blobs.c.seq, blobs.c.stored_size).where(among(blobs.c.seq, bind_seqs()))
        self._sizes.update((seq, size) for seq, size in conn.execute(sizes, {"seqs": new}))

    def add(self, candidate: _Candidate) -> None:
        """Counts an artifact as removed."""
        for seq in candidate.blobs:
            self._users[seq] -= 1
            if not self._users[seq]:
                self.bytes += self._sizes[seq]


def apply_evict(conn: Connection, change: EvictArtifacts) -> EvictionResult:
    """Carries out EvictArtifacts."""
    if conn.dialect.name != "sqlite":
        # If two replicas evict from the same namespace, the second one waits here, and then finds the room that the
        # first one has made.
        conn.execute(select(func.pg_advisory_xact_lock(_ONE_AT_A_TIME, func.hashtext(change.namespace))))
    there = read_usage(conn, change.namespace)
    full = QuotaExceeded(usage=there, room=change.room, bytes=change.bytes, artifacts=change.artifacts)
    if full.hopeless:
        return EvictionResult(0, enough=False)
    # All artifacts to remove are chosen first, so that nothing is removed if their removal is not enough.
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
    # Each transaction removes one batch. The answer says whether the caller must call again for the next batch.
    now_going = victims[: change.limit]
    removed_count = _remove_those(conn, change, [candidate.seq for candidate in now_going])
    return EvictionResult(removed_count, len(now_going) == len(victims))


def _remove_those(conn: Connection, change: EvictArtifacts, going: list[int]) -> int:
    # The artifacts were chosen without a lock. If one of them may not be removed any more, its row is missing here.
    still_going = (among(artifacts.c.seq, bind_seqs()), artifacts.c.pinned.is_(False), is_not_held())
    statement = select(*ARTIFACT_ROW).where(*still_going).order_by(artifacts.c.seq).with_for_update(of=artifacts)
    artifact_rows = read_rows(conn, statement, seqs=going, now=change.now)
    if len(artifact_rows) != len(going):
        raise TransactionConflict  # an artifact was pinned, held or removed since it was chosen
    return _remove_all(conn, artifact_rows, "evicted", change)


def _remove_all(
    conn: Connection, rows: list[ArtifactRow], reason: Reason, change: EvictArtifacts | DeleteNamespace
) -> int:
    """Removes artifacts for a reason; for artifacts that have expired, the reason is `expired`. Returns how many."""
    expired = [row for row in rows if row.expires_at is not None and row.expires_at <= change.now]
    others = [row for row in rows if row not in expired]
    tombstone(conn, expired, Removal("expired", change.now, change.tombstone_until, change.by))
    tombstone(conn, others, Removal(reason, change.now, change.tombstone_until, change.by))
    return len(rows)


def _candidates(conn: Connection, change: EvictArtifacts, freed: _Freed) -> Iterator[_Candidate]:
    """Yields the artifacts that may be evicted: first the expired ones, then the others, least recently read first."""
    here = artifacts.c.namespace == change.namespace
    # The search begins at the earliest read. If there is none, the namespace has no artifacts.
    read_at = conn.scalar(select(func.min(artifacts.c.read_at)).where(here))
    if read_at is None:
        return
    columns = (artifacts.c.seq, artifacts.c.read_at, artifacts.c.blob_seq, of_text_view(views.c.blob_seq))
    may_go = select(*columns).where(here, artifacts.c.pinned.is_(False), is_not_held()).limit(_CANDIDATES_PER_PAGE)
    after = bindparam("after", type_=BigInteger())
    after_at = bindparam("after_at", type_=UtcDateTime)
    expired = may_go.where(artifacts.c.expires_at <= NOW, artifacts.c.seq > after).order_by(artifacts.c.seq)
    behind = tuple_(artifacts.c.read_at, artifacts.c.seq) > tuple_(after_at, after)
    oldest = may_go.where(is_live(), behind).order_by(artifacts.c.read_at, artifacts.c.seq)
    for statement in (expired, oldest):
        at = {"now": change.now, "after": 0, "after_at": read_at}
        while rows := conn.execute(statement, at).all():
            page = [
                _Candidate(seq, moment, tuple(blob for blob in row_blobs if blob is not None))
                for seq, moment, *row_blobs in rows
            ]
            freed.learn(conn, page)
            yield from page
            at |= {"after": page[-1].seq, "after_at": page[-1].read_at}


def apply_delete_namespace(conn: Connection, change: DeleteNamespace) -> int:
    """Removes a batch of artifacts of a namespace that is being deleted; returns how many.

    Removes nothing if the namespace is no longer marked as being deleted.
    """
    if read_usage(conn, change.namespace).deleting_at is None:
        return 0
    # Held artifacts stay, and while there are any, the namespace stays marked.
    statement = select(*ARTIFACT_ROW).where(artifacts.c.namespace == change.namespace, is_not_held())
    batch = statement.order_by(artifacts.c.seq).limit(change.limit).with_for_update(of=artifacts)
    artifact_rows = read_rows(conn, batch, now=change.now)
    # The last batch also removes the namespace's accounts, hours of activity and events.
    if len(artifact_rows) < change.limit:
        session_usage.drop_all(conn, change.namespace)
    else:
        session_usage.drop_some(conn, change.namespace, change.limit)
    return _remove_all(conn, artifact_rows, "namespace_deleted", change)
