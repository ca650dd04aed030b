"""Finds or creates the blobs for the bytes of changes, and finds the artifacts of their identities.

Each function handles any number of changes at once. A namespace keeps equal bytes once, whether they are payloads or
views: if a healthy blob with the content exists, it is used, and a new blob replaces corrupt ones with equal content.
The caller has to point the artifact or view at the blob's row.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Connection,
    Text,
    bindparam,
    delete,
    func,
    insert,
    literal_column,
    null,
    select,
    type_coerce,
    union_all,
    update,
)

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.changes import usage
from coatcheck.adapters.sql.changes.tombstone import release
from coatcheck.adapters.sql.dialect import NAMESPACE, NOW, Many, RowNumber, UtcDateTime, among, bind_seqs, equal
from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.tables import artifacts, blobs, idempotency_keys, inline_bytes, tombstones, uploads, views
from coatcheck.core.artifact import Blob, Gone
from coatcheck.ports.artifacts import KeyRecord, StoreArtifact, StoreView

# Either the writer of an upload or its reaper deletes the intent, never both. Only who deletes it may use the bytes.
_TAKE_INTENTS = Prepared(
    delete(uploads)
    .where(uploads.c.namespace == NAMESPACE, among(uploads.c.blob_id, bindparam("ids", type_=Many(Text()))))
    .returning(uploads.c.blob_id, uploads.c.reserved)
)
# Takes a shared lock: any number of ingests may point at a blob at once, and nobody can mark the blob dead until they
# have committed.
_SAME_BYTES = Prepared(
    select(blobs.c.seq, *rows.BLOB_COLUMNS)
    .where(among(blobs.c.digest, bind_seqs("digests")), blobs.c.dead_at.is_(None), blobs.c.namespace == NAMESPACE)
    .order_by(blobs.c.seq)
    .with_for_update(read=True)
)
# Takes no lock, so the blob may be dead when the caller uses it.
_HEALTHY = Prepared(
    select(*rows.BLOB_COLUMNS).where(
        equal(blobs.c.digest, blobs.c.namespace, blobs.c.sha256, blobs.c.size),
        blobs.c.dead_at.is_(None),
        blobs.c.condemned_at.is_(None),
    )
)
# One statement for each of the two tables, because a payload and a view may share a blob.
_REPOINT = [
    update(table).where(among(table.c.blob_seq, bind_seqs("lost"))).values(blob_seq=bindparam("whole", type_=RowNumber))
    for table in (artifacts, views)
]
_NUMBERED = func.generate_series(literal_column("1"), bindparam("count", type_=BigInteger())).table_valued("n")
_NEXT_SEQS = {
    # SQLite has a single writer, so this finds the number that SQLite itself would choose next.
    "sqlite": Prepared(
        select(
            select(func.coalesce(func.max(blobs.c.seq), 0)).scalar_subquery(),
            select(func.coalesce(func.max(artifacts.c.seq), 0)).scalar_subquery(),
        )
    ),
    "postgresql": Prepared(
        select(func.nextval("blobs_seq_seq"), func.nextval("artifacts_seq_seq")).select_from(_NUMBERED)
    ),
}
_ADD_BLOB = Prepared(insert(blobs), columns=blobs.c.keys())
_ADD_INLINE = Prepared(insert(inline_bytes), columns=inline_bytes.c.keys())


class NewBytes(NamedTuple):
    """The bytes of a payload or view that a change stores."""

    namespace: str
    blob: Blob
    inline: bytes | None
    """The bytes themselves, if the catalogue stores them; None: the blob store has them."""
    now: datetime

    @property
    def content(self) -> tuple[bytes, int]:
        """The digest and the size in bytes, which together identify the content."""
        return self.blob.sha256, self.blob.size


class BlobReference(NamedTuple):
    """The blob that an artifact or view has to point at."""

    seq: int
    blob: Blob
    used: bool
    """Whether the change's own blob is used; false: an existing blob with the same content is used instead."""


def payload_of(change: StoreArtifact) -> NewBytes:
    """Returns the bytes of an ingest's payload."""
    return NewBytes(change.namespace, change.blob, change.inline, change.now)


def view_of(change: StoreArtifact | StoreView) -> NewBytes | None:
    """Returns the bytes of a change's view; None if the change has no view, or its view is the payload itself."""
    new = change.text_view if isinstance(change, StoreArtifact) else change.new
    if new is None or new.blob is None:
        return None
    return NewBytes(change.namespace, new.blob, new.inline, change.now)


def bytes_of(change: StoreArtifact) -> list[NewBytes]:
    """Returns the bytes of an ingest's payload and, if its view has bytes of its own, the bytes of the view."""
    view = view_of(change)
    return [payload_of(change)] if view is None else [payload_of(change), view]


def take_intents(conn: Connection, uploaded: Sequence[NewBytes]) -> set[str]:
    """Deletes the intents of uploads, and returns the IDs of the blobs that may be used.

    This is the fence: a blob passes it only if its intent was still there. Inline bytes need no intent, and always
    pass.
    """
    passed = {item.blob.id for item in uploaded if item.blob.placement == "inline"}
    ids = [item.blob.id for item in uploaded if item.blob.placement != "inline"]
    if ids:
        intents = _TAKE_INTENTS.rows(conn, {"namespace": uploaded[0].namespace, "ids": ids})
        # The reservations of the uploads end. Bytes that are stored are counted as stored bytes instead.
        usage.count(conn, uploaded[0].namespace, reserved=-sum(reserved for _, reserved in intents))
        passed.update(blob_id for blob_id, _ in intents)
    return passed


def resolve_blobs(
    conn: Connection, brought: Sequence[NewBytes], seqs: Iterator[int] | None = None
) -> list[BlobReference]:
    """Finds or creates a blob row for each of several payloads and views of one namespace; returns them in this order.

    If several of them have the same content, only the first one creates a row. Artifacts and views that point at a
    corrupt blob with the same content point at the healthy row from now on. An existing row is locked, so that nobody
    can mark it dead before the transaction ends.

    Args:
        conn: the transaction.
        brought: the bytes of the payloads and views.
        seqs: sequence numbers for new rows; None: this function draws them.
    """
    healthy: dict[tuple[bytes, int], tuple[int, Blob]] = {}
    corrupt: defaultdict[tuple[bytes, int], list[int]] = defaultdict(list)
    # The index has only 64 bits of the digest. Blobs with the same 64 bits but other content are ignored below, since
    # the dictionaries have the whole digest as key.
    digests = [rows.digest(item.blob.sha256) for item in brought]
    for seq, *columns in _SAME_BYTES.rows(conn, {"namespace": brought[0].namespace, "digests": digests}):
        blob = rows.blob(tuple(columns))
        if blob.condemned:
            corrupt[blob.sha256, blob.size].append(seq)
        else:
            healthy.setdefault((blob.sha256, blob.size), (seq, blob))
    # Rows get their numbers before they are inserted, so that artifacts and views can point at them in the same call.
    missing = {item.content for item in brought} - healthy.keys()
    numbers = seqs or iter([blob_seq for blob_seq, _ in next_seqs(conn, len(missing))] if missing else ())
    references: list[BlobReference] = []
    added: list[tuple[int, NewBytes]] = []
    for item in brought:
        used = item.content not in healthy
        if used:
            added.append((next(numbers), item))
            healthy[item.content] = added[-1][0], item.blob
        references.append(BlobReference(*healthy[item.content], used=used))
    _ADD_BLOB.many(conn, [blob_row(item) | {"seq": seq} for seq, item in added])
    inline = [(seq, item) for seq, item in added if item.blob.placement == "inline"]
    _ADD_INLINE.many(
        conn, [{"blob_seq": seq, "namespace": item.namespace, "stored": item.inline} for seq, item in inline]
    )
    if added:
        usage.count(conn, brought[0].namespace, bytes_=sum(item.blob.stored_size for _, item in added))
    # If stored content was lost and arrives again, every artifact and view with this content is repaired.
    for content in corrupt.keys() & {item.content for item in brought}:
        for repoint in _REPOINT:
            conn.execute(repoint, {"lost": corrupt[content], "whole": healthy[content][0]})
        release(conn, corrupt[content], brought[0].now)
    return references


def same_bytes(conn: Connection, namespace: str, sha256: bytes, size: int) -> Blob | None:
    """Returns a live, healthy blob of a namespace with this content; None if there is none."""
    values = {"namespace": namespace, "digest": rows.digest(sha256), "sha256": sha256, "size": size}
    return next(map(rows.blob, _HEALTHY.rows(conn, values)), None)


def find_corrupt(conn: Connection, brought: Sequence[NewBytes]) -> set[tuple[bytes, int]]:
    """Returns which of these contents, as digest and size, the namespace has in a corrupt blob. Locks these blobs."""
    if not brought:
        return set()
    digests = [rows.digest(item.blob.sha256) for item in brought]
    same = _SAME_BYTES.rows(conn, {"namespace": brought[0].namespace, "digests": digests})
    return {(blob.sha256, blob.size) for row in same if (blob := rows.blob(row[1:])).condemned}


def add_dead_blobs(conn: Connection, unused: Sequence[NewBytes]) -> None:
    """Adds dead blobs for files that nothing points at, so that the sweep deletes a file if its writer does not."""
    files = [item for item in unused if item.blob.placement != "inline"]
    if files:
        seqs = next_seqs(conn, len(files))
        # These blobs are dead from the beginning. The sweep deletes their files after the usual grace period.
        dead = [blob_row(item) | {"seq": seq, "dead_at": item.now} for item, (seq, _) in zip(files, seqs, strict=True)]
        _ADD_BLOB.many(conn, dead)


def next_seqs(conn: Connection, count: int) -> list[tuple[int, int]]:
    """Returns `count` pairs of sequence numbers for new rows, one of a blob and one of an artifact."""
    seq_rows = _NEXT_SEQS[conn.dialect.name].rows(conn, {"count": count})
    if conn.dialect.name != "sqlite":
        return [(row[0], row[1]) for row in seq_rows]
    blob_seq, artifact_seq = seq_rows[0]
    return [(blob_seq + i, artifact_seq + i) for i in range(1, count + 1)]


def blob_row(item: NewBytes) -> dict[str, Any]:
    """Returns the blob row for the bytes of a payload or view, without its sequence number."""
    blob = item.blob
    return {
        "id": blob.id,
        "namespace": item.namespace,
        "placement": blob.placement,
        "sha256": blob.sha256,
        "digest": rows.digest(blob.sha256),
        "size": blob.size,
        "stored_size": blob.stored_size,
        "frames": blob.index,
        "dead_at": None,
        "condemned_at": None,
    }


_KEY = Prepared(
    select(idempotency_keys.c.fingerprint, idempotency_keys.c.number, idempotency_keys.c.created).where(
        equal(idempotency_keys.c.namespace, idempotency_keys.c.key), idempotency_keys.c.expires_at > NOW
    )
)


def find_key(conn: Connection, namespace: str, key: str, now: datetime) -> KeyRecord | None:
    """Returns the record of an idempotency key; None if the key was not used, or has expired."""
    key_rows = _KEY.rows(conn, {"namespace": namespace, "key": key, "now": now})
    return KeyRecord(*key_rows[0]) if key_rows else None


Numberer = Callable[[bytes, int], int]
"""Is called with an identity and a count n from 0; returns the number of the identity's n-th candidate ID."""

PROBES = 4
"""Candidate numbers of an identity that are examined together. If another identity occupies its first number, an
identity gets a later number, under which it must be found even after the other identity is gone. More candidates are
needed only if four identities collide (a probability of about 10^-24 at 10^8 artifacts)."""

_NUMBERS = bind_seqs("numbers")
_A, _T = artifacts.c, tombstones.c
# A tombstone occupies its number like an artifact: an ID must not name another payload while reads of it answer that
# its artifact is gone.
_HOLDERS = Prepared(
    union_all(
        # The columns of the union have the types of this first part.
        select(
            *(_A.number, _A.identity, _A.seq, _A.expires_at, _A.blob_seq, _A.tool_name),
            *(null().label("reason"), type_coerce(null(), UtcDateTime).label("at"), _A.session),
        ).where(_A.namespace == NAMESPACE, among(_A.number, _NUMBERS)),
        select(
            *(_T.number, _T.identity, null(), null(), null(), _T.tool_name),
            *(_T.reason, _T.at, _T.session),
        ).where(_T.namespace == NAMESPACE, among(_T.number, _NUMBERS)),
    )
)


class ArtifactSlot(NamedTuple):
    """The slot of an identity: the number of its artifact ID, and the artifact or tombstone that has this number."""

    number: int
    seq: int | None = None
    """Row number of the identity's artifact, live or expired; None: there is no artifact."""
    expires_at: datetime | None = None
    """When the artifact expires; None: it never does, or there is no artifact."""
    blob_seq: int | None = None
    """Row number of the artifact's blob; None: there is no artifact."""
    tombstone: Gone | None = None
    """The identity's last removal: its tombstone, even one that has ended, or the artifact's expiry; None: neither."""

    def is_live(self, now: datetime) -> bool:
        """Returns whether the slot has an artifact that has not expired."""
        return self.seq is not None and (self.expires_at is None or self.expires_at > now)


def locate_identities(conn: Connection, changes: Sequence[StoreArtifact], number: Numberer) -> list[ArtifactSlot]:
    """Returns the slot of each change's identity, or a slot with the first free number if the identity has none.

    The changes must be of one namespace and of different identities. No two of them get the same free number.
    """
    located: dict[int, ArtifactSlot] = {}
    assigned: set[int] = set()
    first = 0
    while len(located) < len(changes):
        # There is almost always one pass. A second one is needed only if other identities have all of the first
        # candidate numbers of an identity.
        probes = {
            at: [number(change.identity, probe) for probe in range(first, first + PROBES)]
            for at, change in enumerate(changes)
            if at not in located
        }
        numbers = [candidate for candidates in probes.values() for candidate in candidates]
        holders: defaultdict[int, list[tuple[Any, ...]]] = defaultdict(list)
        for row in _HOLDERS.rows(conn, {"namespace": changes[0].namespace, "numbers": numbers}):
            holders[row[0]].append(row)
        for at, candidates in probes.items():
            identity, now = changes[at].identity, changes[at].now
            # Another identity may have one of these numbers, so the identities must be compared as well.
            own_rows = [row for candidate in candidates for row in holders.get(candidate, ()) if row[1] == identity]
            free = next((each for each in candidates if each not in holders and each not in assigned), None)
            if own_rows:
                located[at] = _slot_of(own_rows, now)
            elif free is not None:
                assigned.add(free)
                located[at] = ArtifactSlot(free)
        first += PROBES
    return [located[at] for at in range(len(changes))]


def _slot_of(own_rows: list[tuple[Any, ...]], now: datetime) -> ArtifactSlot:
    """Returns the slot of an identity from all rows of _HOLDERS that have this identity."""
    # An artifact comes before a tombstone: two replicas may have left a tombstone under a later number.
    at, _, seq, expires_at, blob_seq, *_ = min(own_rows, key=lambda row: row[2] is None)
    removals = [removal for row in own_rows if row[0] == at and (removal := _removal_of(row, now)) is not None]
    return ArtifactSlot(at, seq, expires_at, blob_seq, max(removals, key=lambda removal: removal.at, default=None))


def _removal_of(row: tuple[Any, ...], now: datetime) -> Gone | None:
    """Returns the removal that a row of _HOLDERS stands for, a tombstone or an expiry; None: the artifact is live."""
    number, _, seq, expires_at, _, tool_name, reason, at, session = row
    if seq is None:
        return rows.make_tombstone(number, reason, at, tool_name, session)
    if expires_at is None or expires_at > now:
        return None
    return rows.make_tombstone(number, "expired", expires_at, tool_name, session)
