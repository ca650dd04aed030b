"""Where the bytes of changes are kept, and where their artifacts are: for any number of changes at once.

A namespace keeps equal bytes once, whether they are payloads or views: an existing healthy blob is used, and corrupt
blobs with the same content are replaced. Pointing artifacts at the row is up to the caller.
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

# Of a writer and a reaper of one upload, only one deletes the row.
_TAKE_INTENTS = Prepared(
    delete(uploads)
    .where(uploads.c.namespace == NAMESPACE, among(uploads.c.blob_id, bindparam("ids", type_=Many(Text()))))
    .returning(uploads.c.blob_id, uploads.c.reserved)
)
# A shared lock: any number of ingests may point at a blob at once, and nobody marks it dead until they have committed.
_SAME_BYTES = Prepared(
    select(blobs.c.seq, *rows.BLOB_COLUMNS)
    .where(among(blobs.c.digest, bind_seqs("digests")), blobs.c.dead_at.is_(None), blobs.c.namespace == NAMESPACE)
    .order_by(blobs.c.seq)
    .with_for_update(read=True)
)
# Without a lock.
_HEALTHY = Prepared(
    select(*rows.BLOB_COLUMNS).where(
        equal(blobs.c.digest, blobs.c.namespace, blobs.c.sha256, blobs.c.size),
        blobs.c.dead_at.is_(None),
        blobs.c.condemned_at.is_(None),
    )
)
# Both tables, because a payload and a view may share bytes.
_REPOINT = [
    update(table).where(among(table.c.blob_seq, bind_seqs("lost"))).values(blob_seq=bindparam("whole", type_=RowNumber))
    for table in (artifacts, views)
]
_NUMBERED = func.generate_series(literal_column("1"), bindparam("count", type_=BigInteger())).table_valued("n")
_NEXT_SEQS = {
    # The only writer: the next number is what SQLite itself would choose.
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
    """The bytes of a change."""

    namespace: str
    blob: Blob
    inline: bytes | None
    """The bytes themselves if they are kept in the catalogue; None: a store of blobs has them."""
    now: datetime

    @property
    def content(self) -> tuple[bytes, int]:
        """What identifies them: digest and size."""
        return self.blob.sha256, self.blob.size


class BlobReference(NamedTuple):
    """The blob to point at."""

    seq: int
    blob: Blob
    used: bool
    """Whether it is ours."""


def payload_of(change: StoreArtifact) -> NewBytes:
    """Returns an ingest's payload."""
    return NewBytes(change.namespace, change.blob, change.inline, change.now)


def view_of(change: StoreArtifact | StoreView) -> NewBytes | None:
    """Returns a change's view; None if it has none, or one that is the payload itself."""
    new = change.text_view if isinstance(change, StoreArtifact) else change.new
    if new is None or new.blob is None:
        return None
    return NewBytes(change.namespace, new.blob, new.inline, change.now)


def bytes_of(change: StoreArtifact) -> list[NewBytes]:
    """Returns all bytes of an ingest: its payload's, and its view's if that has its own."""
    view = view_of(change)
    return [payload_of(change)] if view is None else [payload_of(change), view]


def take_intents(conn: Connection, uploaded: Sequence[NewBytes]) -> set[str]:
    """Uses up the intents of uploads: the fence. Returns the IDs of blobs that have passed; inline bytes need none."""
    passed = {ours.blob.id for ours in uploaded if ours.blob.placement == "inline"}
    ids = [ours.blob.id for ours in uploaded if ours.blob.placement != "inline"]
    if ids:
        intents = _TAKE_INTENTS.rows(conn, {"namespace": uploaded[0].namespace, "ids": ids})
        # What was reserved is counted as stored bytes from now on, or not at all.
        usage.count(conn, uploaded[0].namespace, reserved=-sum(reserved for _, reserved in intents))
        passed.update(blob_id for blob_id, _ in intents)
    return passed


def resolve_blobs(
    conn: Connection, brought: Sequence[NewBytes], seqs: Iterator[int] | None = None
) -> list[BlobReference]:
    """Finds or creates the row of each of these bytes, all of one namespace; of equal ones, the first creates it.

    What points at corrupt bytes with this content points at the new row from now on. A row that is found is locked, so
    that it cannot die before the transaction ends.

    Args:
        conn: the transaction.
        brought: the bytes.
        seqs: numbers for new rows; None: they are drawn here.
    """
    healthy: dict[tuple[bytes, int], tuple[int, Blob]] = {}
    corrupt: defaultdict[tuple[bytes, int], list[int]] = defaultdict(list)
    # The index is on 64 bits of the digest; what else has these bits differs in content and is overlooked below.
    digests = [rows.digest(ours.blob.sha256) for ours in brought]
    for seq, *columns in _SAME_BYTES.rows(conn, {"namespace": brought[0].namespace, "digests": digests}):
        blob = rows.blob(tuple(columns))
        if blob.condemned:
            corrupt[blob.sha256, blob.size].append(seq)
        else:
            healthy.setdefault((blob.sha256, blob.size), (seq, blob))
    # Rows are numbered before they are inserted, so that artifacts and views can point at them in the same call.
    missing = {ours.content for ours in brought} - healthy.keys()
    numbers = seqs or iter([blob_seq for blob_seq, _ in next_seqs(conn, len(missing))] if missing else ())
    references: list[BlobReference] = []
    added: list[tuple[int, NewBytes]] = []
    for ours in brought:
        used = ours.content not in healthy
        if used:
            added.append((next(numbers), ours))
            healthy[ours.content] = added[-1][0], ours.blob
        references.append(BlobReference(*healthy[ours.content], used=used))
    _ADD_BLOB.many(conn, [blob_row(ours) | {"seq": seq} for seq, ours in added])
    inline = [(seq, ours) for seq, ours in added if ours.blob.placement == "inline"]
    _ADD_INLINE.many(
        conn, [{"blob_seq": seq, "namespace": ours.namespace, "stored": ours.inline} for seq, ours in inline]
    )
    if added:
        usage.count(conn, brought[0].namespace, bytes_=sum(ours.blob.stored_size for _, ours in added))
    # Whoever posts bytes that were lost repairs every artifact and view that shares them, not only its own.
    for content in corrupt.keys() & {ours.content for ours in brought}:
        for repoint in _REPOINT:
            conn.execute(repoint, {"lost": corrupt[content], "whole": healthy[content][0]})
        release(conn, corrupt[content], brought[0].now)
    return references


def same_bytes(conn: Connection, namespace: str, sha256: bytes, size: int) -> Blob | None:
    """Returns a live, healthy blob with this content."""
    values = {"namespace": namespace, "digest": rows.digest(sha256), "sha256": sha256, "size": size}
    return next(map(rows.blob, _HEALTHY.rows(conn, values)), None)


def find_corrupt(conn: Connection, brought: Sequence[NewBytes]) -> set[tuple[bytes, int]]:
    """Returns the contents, digest and size, of those bytes that are kept but corrupt."""
    if not brought:
        return set()
    digests = [rows.digest(ours.blob.sha256) for ours in brought]
    same = _SAME_BYTES.rows(conn, {"namespace": brought[0].namespace, "digests": digests})
    return {(blob.sha256, blob.size) for row in same if (blob := rows.blob(row[1:])).condemned}


def add_dead_blobs(conn: Connection, unused: Sequence[NewBytes]) -> None:
    """Leaves unreferenced files to the sweep, in case their writers do not remove them."""
    files = [ours for ours in unused if ours.blob.placement != "inline"]
    if files:
        seqs = next_seqs(conn, len(files))
        # Dead from the beginning: the sweep removes the file after the same grace period as any other.
        dead = [blob_row(ours) | {"seq": seq, "dead_at": ours.now} for ours, (seq, _) in zip(files, seqs, strict=True)]
        _ADD_BLOB.many(conn, dead)


def next_seqs(conn: Connection, count: int) -> list[tuple[int, int]]:
    """Returns numbers for new rows, `count` pairs of one for a blob and one for an artifact."""
    seq_rows = _NEXT_SEQS[conn.dialect.name].rows(conn, {"count": count})
    if conn.dialect.name != "sqlite":
        return [(row[0], row[1]) for row in seq_rows]
    blob_seq, artifact_seq = seq_rows[0]
    return [(blob_seq + i, artifact_seq + i) for i in range(1, count + 1)]


def blob_row(ours: NewBytes) -> dict[str, Any]:
    """Returns the row of our bytes, without its sequence number."""
    blob = ours.blob
    return {
        "id": blob.id,
        "namespace": ours.namespace,
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
    """Returns what an idempotency key stands for, until it ends."""
    key_rows = _KEY.rows(conn, {"namespace": namespace, "key": key, "now": now})
    return KeyRecord(*key_rows[0]) if key_rows else None


Numberer = Callable[[bytes, int], int]
"""Returns the number of an identity's n-th candidate ID."""

PROBES = 4
"""Candidates examined together. Among them an identity is found even after the artifact with its first number is gone;
a longer chain needs four colliding identities (about 10^-24 at 10^8 artifacts)."""

_NUMBERS = bind_seqs("numbers")
_A, _T = artifacts.c, tombstones.c
# A tombstone holds its number too: an ID must not name another payload while reads say that its artifact is gone.
_HOLDERS = Prepared(
    union_all(
        # The union takes its types from here.
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
    """The place of an identity's artifact: the number that its artifact ID is derived from, and what is there."""

    number: int
    seq: int | None = None
    """The existing row of this identity, live or expired."""
    expires_at: datetime | None = None
    """None: never, or there is no row."""
    blob_seq: int | None = None
    """The row of its payload's bytes; None: there is no artifact."""
    tombstone: Gone | None = None
    """How it was last removed: its tombstone, even if that has ended, or its expiry."""

    def is_live(self, now: datetime) -> bool:
        """Returns whether an artifact is here that has not expired."""
        return self.seq is not None and (self.expires_at is None or self.expires_at > now)


def locate_identities(conn: Connection, changes: Sequence[StoreArtifact], number: Numberer) -> list[ArtifactSlot]:
    """Returns where the identities of changes are, or their first free numbers.

    The changes are of one namespace, no two of one identity; no two of them get the same free number.
    """
    located: dict[int, ArtifactSlot] = {}
    assigned: set[int] = set()
    first = 0
    while len(located) < len(changes):
        # Almost always one pass: a second one only if others hold all of an identity's first candidates.
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
            # Another identity may have one of these numbers, so the number alone proves nothing.
            mine = [row for candidate in candidates for row in holders.get(candidate, ()) if row[1] == identity]
            free = next((each for each in candidates if each not in holders and each not in assigned), None)
            if mine:
                located[at] = _slot_of(mine, now)
            elif free is not None:
                assigned.add(free)
                located[at] = ArtifactSlot(free)
        first += PROBES
    return [located[at] for at in range(len(changes))]


def _slot_of(mine: list[tuple[Any, ...]], now: datetime) -> ArtifactSlot:
    """Returns the slot of an identity with these rows of _HOLDERS."""
    # Prefer an artifact: two replicas may have left a tombstone after it.
    at, _, seq, expires_at, blob_seq, *_ = min(mine, key=lambda row: row[2] is None)
    removals = [removal for row in mine if row[0] == at and (removal := _removal_of(row, now)) is not None]
    return ArtifactSlot(at, seq, expires_at, blob_seq, max(removals, key=lambda removal: removal.at, default=None))


def _removal_of(row: tuple[Any, ...], now: datetime) -> Gone | None:
    """Returns how the row of _HOLDERS was removed; None: it is live."""
    number, _, seq, expires_at, _, tool_name, reason, at, session = row
    if seq is None:
        return rows.make_tombstone(number, reason, at, tool_name, session)
    if expires_at is None or expires_at > now:
        return None
    return rows.make_tombstone(number, "expired", expires_at, tool_name, session)
