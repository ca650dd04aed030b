"""The bytes of a change: their upload intent, and the row under which they are kept.

A namespace keeps equal bytes once, whether they are payloads or views: an existing healthy blob is used, and corrupt
blobs with the same content are replaced. Pointing artifacts at the row is up to the caller.

Where an identity's artifact is, was, or may be: the number that its artifact ID is derived from.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Connection,
    Table,
    bindparam,
    delete,
    insert,
    null,
    select,
    type_coerce,
    union_all,
    update,
)

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.changes import usage
from coatcheck.adapters.sql.changes.tombstone import release
from coatcheck.adapters.sql.dialect import Many, RowNumber, UtcDateTime, among
from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.tables import artifacts, blobs, inline_bytes, tombstones, uploads, views
from coatcheck.core.artifact import Blob, Gone
from coatcheck.ports.artifacts import StoreArtifact, StoreView


def without_seq(table: Table) -> list[str]:
    """Returns the columns that get values if the database numbers the rows."""
    return [column.name for column in table.c if column.name != "seq"]


_TAKE_INTENT = Prepared(
    delete(uploads)
    .where(uploads.c.blob_id == bindparam("blob_id"), uploads.c.namespace == bindparam("namespace"))
    .returning(uploads.c.reserved)
)
_SAME_BYTES = Prepared(
    select(blobs.c.seq, *rows.BLOB_COLUMNS)
    .where(
        blobs.c.digest == bindparam("digest"),
        blobs.c.dead_at.is_(None),
        blobs.c.namespace == bindparam("namespace"),
        blobs.c.sha256 == bindparam("sha256"),
        blobs.c.size == bindparam("size"),
    )
    .order_by(blobs.c.seq)
    .with_for_update(read=True)
)
_REPOINT = [
    update(table)
    .where(among(table.c.blob_seq, bindparam("lost", type_=Many(BigInteger()))))
    .values(blob_seq=bindparam("whole", type_=RowNumber))
    for table in (artifacts, views)
]
_ADD_BLOB = Prepared(insert(blobs).returning(blobs.c.seq), columns=without_seq(blobs))
_ADD_INLINE = Prepared(insert(inline_bytes), columns=inline_bytes.c.keys())


class NewBytes(NamedTuple):
    """The bytes of a change."""

    namespace: str
    blob: Blob
    inline: bytes | None
    now: datetime


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


def take_intent(conn: Connection, ours: NewBytes) -> bool:
    """Uses up the intent of our upload: the fence. Returns true for inline bytes, which need none."""
    if ours.blob.placement == "inline":
        return True
    intents = _TAKE_INTENT.rows(conn, {"blob_id": ours.blob.id, "namespace": ours.namespace})
    if intents:
        usage.count(conn, ours.namespace, reserved=-intents[0][0])
    return bool(intents)


def resolve_blob(conn: Connection, ours: NewBytes) -> BlobReference:
    """Finds or creates the row of our bytes. What points at corrupt bytes with this content points at it from now on.

    A row that is found is locked, so that it cannot die before the transaction ends.
    """
    same = _same_bytes(conn, ours)
    reference = next((BlobReference(seq, blob, used=False) for seq, blob in same if not blob.condemned), None)
    if reference is None:
        reference = BlobReference(_add_blob(conn, ours, dead_at=None), ours.blob, used=True)
        usage.count(conn, ours.namespace, bytes_=ours.blob.stored_size)
        if ours.blob.placement == "inline":
            _ADD_INLINE.run(conn, {"blob_seq": reference.seq, "namespace": ours.namespace, "stored": ours.inline})
    corrupt_seqs = [seq for seq, blob in same if blob.condemned]
    if corrupt_seqs:
        for repoint in _REPOINT:
            conn.execute(repoint, {"lost": corrupt_seqs, "whole": reference.seq})
        release(conn, corrupt_seqs, ours.now)
    return reference


def repair(conn: Connection, ours: NewBytes) -> None:
    """Replaces corrupt bytes with our bytes of the same content; if there are none, keeps nothing."""
    if any(blob.condemned for _, blob in _same_bytes(conn, ours)):
        resolve_blob(conn, ours)


def add_dead_blob(conn: Connection, ours: NewBytes) -> None:
    """Leaves our unreferenced file to the sweep, in case its writer does not remove it."""
    if ours.blob.placement != "inline":
        _add_blob(conn, ours, dead_at=ours.now)


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


def _same_bytes(conn: Connection, ours: NewBytes) -> list[tuple[int, Blob]]:
    parameters = {
        "digest": rows.digest(ours.blob.sha256),
        "namespace": ours.namespace,
        "sha256": ours.blob.sha256,
        "size": ours.blob.size,
    }
    return [(row[0], rows.blob(row[1:])) for row in _SAME_BYTES.rows(conn, parameters)]


def _add_blob(conn: Connection, ours: NewBytes, *, dead_at: datetime | None) -> int:
    seq: int = _ADD_BLOB.rows(conn, blob_row(ours) | {"dead_at": dead_at})[0][0]
    return seq


Numberer = Callable[[bytes, int], int]
"""Returns the number of an identity's n-th candidate ID."""

PROBES = 4
"""Candidates examined together. Among them an identity is found even after the artifact with its first number is gone;
a longer chain needs four colliding identities (about 10^-24 at 10^8 artifacts)."""

_NUMBERS = [bindparam(f"n{i}", type_=BigInteger()) for i in range(PROBES)]
_TAKEN = Prepared(
    union_all(
        select(
            artifacts.c.number,
            artifacts.c.identity,
            artifacts.c.seq,
            artifacts.c.expires_at,
            artifacts.c.blob_seq,
            artifacts.c.tool_name,
            null().label("reason"),
            type_coerce(null(), UtcDateTime).label("at"),  # the union takes its types from here
            artifacts.c.session,
        ).where(artifacts.c.namespace == bindparam("namespace"), artifacts.c.number.in_(_NUMBERS)),
        select(
            tombstones.c.number,
            tombstones.c.identity,
            null(),
            null(),
            null(),
            tombstones.c.tool_name,
            tombstones.c.reason,
            tombstones.c.at,
            tombstones.c.session,
        ).where(tombstones.c.namespace == bindparam("namespace"), tombstones.c.number.in_(_NUMBERS)),
    )
)


class ArtifactSlot(NamedTuple):
    """The place of an identity's artifact."""

    number: int
    seq: int | None
    """The existing row of this identity, live or expired."""
    expires_at: datetime | None
    blob_seq: int | None
    buried: Gone | None
    """How it was last removed: its tombstone, even if that has ended, or its expiry."""


def find_slot(conn: Connection, change: StoreArtifact, number: Numberer) -> ArtifactSlot:
    """Returns where this identity is, or its first free number."""
    first = 0
    free: int | None = None
    while free is None:
        candidates = [number(change.identity, probe) for probe in range(first, first + PROBES)]
        parameters: dict[str, Any] = {f"n{i}": candidate for i, candidate in enumerate(candidates)}
        holder_rows = _TAKEN.rows(conn, {"namespace": change.namespace, **parameters})
        # Prefer an artifact: two replicas may have left a tombstone after it.
        mine = sorted((row for row in holder_rows if row[1] == change.identity), key=_is_tombstone)
        if mine:
            at, _, seq, expires_at, blob_seq, *_ = mine[0]
            burials = [
                tombstone for row in mine if row[0] == at and (tombstone := _burial(row, change.now)) is not None
            ]
            return ArtifactSlot(at, seq, expires_at, blob_seq, max(burials, key=_moment, default=None))
        occupied = {row[0] for row in holder_rows}
        free = next((candidate for candidate in candidates if candidate not in occupied), None)
        first += PROBES
    return ArtifactSlot(free, None, None, None, None)


def _is_tombstone(row: tuple[Any, ...]) -> bool:
    return row[2] is None


def _burial(row: tuple[Any, ...], now: datetime) -> Gone | None:
    """Returns how the row of _TAKEN was removed; None: it is live."""
    number, _, seq, expires_at, _, tool_name, reason, at, session = row
    if seq is None:
        return rows.make_tombstone(number, reason, at, tool_name, session)
    return (
        rows.make_tombstone(number, "expired", expires_at, tool_name, session)
        if expires_at and expires_at <= now
        else None
    )


def _moment(tombstone: Gone) -> datetime:
    return tombstone.at
