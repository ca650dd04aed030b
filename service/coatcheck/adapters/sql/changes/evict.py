"""Evicts from a full namespace, and empties a namespace, batch by batch.

An eviction first computes what would have to go, and removes nothing if that is not enough: no artifact is lost for a
payload that is refused anyway. Pinned and held artifacts are not considered.
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
"""Candidates that one statement looks at: an eviction usually needs a few, and locks none of the others. Chosen, not
measured."""
_ONE_AT_A_TIME: Final = 0x65766963
""""evic" in ASCII: with a hash of the namespace, the key of an advisory lock. Two namespaces with one hash only wait
for each other."""


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
        # How many artifacts, and how many views, point at each blob.
        for table in (artifacts, views):
            users = select(table.c.blob_seq, func.count()).where(among(table.c.blob_seq, bind_seqs()))
            for seq, count in conn.execute(users.group_by(table.c.blob_seq), {"seqs": new}):
                self._users[seq] = self._users.get(seq, 0) + count
        sizes = select(blobs.c.seq, blobs.c.stored_size).where(among(blobs.c.seq, bind_seqs()))
        self._sizes.update((seq, size) for seq, size in conn.execute(sizes, {"seqs": new}))

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
        conn.execute(select(func.pg_advisory_xact_lock(_ONE_AT_A_TIME, func.hashtext(change.namespace))))
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


def _remove_those(conn: Connection, change: EvictArtifacts, going: list[int]) -> int:
    # They were chosen without a lock: a row that may no longer go is missing here.
    still_going = (among(artifacts.c.seq, bind_seqs()), artifacts.c.pinned.is_(False), is_not_held())
    statement = select(*ARTIFACT_ROW).where(*still_going).order_by(artifacts.c.seq).with_for_update(of=artifacts)
    artifact_rows = read_rows(conn, statement, seqs=going, now=change.now)
    if len(artifact_rows) != len(going):
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
    here = artifacts.c.namespace == change.namespace
    # The walk begins at the earliest read; without one, the namespace has no artifacts.
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
    """Removes a batch of a marked namespace; nothing if it is no longer marked."""
    if read_usage(conn, change.namespace).deleting_at is None:
        return 0
    # Held artifacts stay, and the mark on their namespace with them.
    statement = select(*ARTIFACT_ROW).where(artifacts.c.namespace == change.namespace, is_not_held())
    batch = statement.order_by(artifacts.c.seq).limit(change.limit).with_for_update(of=artifacts)
    artifact_rows = read_rows(conn, batch, now=change.now)
    # The last batch: accounts, activity and events of the namespace go with it.
    if len(artifact_rows) < change.limit:
        session_usage.drop_all(conn, change.namespace)
    else:
        session_usage.drop_some(conn, change.namespace, change.limit)
    return _remove_all(conn, artifact_rows, "namespace_deleted", change)
