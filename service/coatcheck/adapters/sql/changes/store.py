"""The one transaction of an ingest: fence, key, identity, blob, artifact.

What the caller must have done before: made the bytes durable. What it must do after: remove its bytes unless
`blob_used` says that they are referenced now.
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
    literal,
    null,
    select,
    union_all,
    update,
)

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.changes.bury import release, tombstone_of
from coatcheck.adapters.sql.prepared import Prepared
from coatcheck.adapters.sql.tables import artifacts, blobs, idempotency_keys, inline_bytes, tombstones, uploads
from coatcheck.adapters.sql.types import Many, RowNumber
from coatcheck.adapters.sql.words import among
from coatcheck.core import ids
from coatcheck.core.artifact import Artifact, Blob, Gone
from coatcheck.core.expiry import expiry
from coatcheck.ports import Fenced, IdempotencyKey, KeyRecord, KeyReused, StoreArtifact, Stored

Numberer = Callable[[bytes, int], int]
"""The number of an identity's n-th candidate ID."""

PROBES = 4
"""Candidates looked at together. Among them an identity is found again even after the one that held its first
number has gone; a chain of more needs four colliding identities (about 10^-24 at 10^8 artifacts)."""


def _without_seq(table: Table) -> list[str]:
    return [column.name for column in table.c if column.name != "seq"]


_NUMBERS = [bindparam(f"n{i}", type_=BigInteger()) for i in range(PROBES)]
_TAKE_INTENT = Prepared(
    delete(uploads).where(uploads.c.blob_id == bindparam("blob_id"), uploads.c.namespace == bindparam("namespace"))
)
_KEY = select(
    idempotency_keys.c.fingerprint,
    idempotency_keys.c.expires_at,
    idempotency_keys.c.number,
    idempotency_keys.c.created,
).where(idempotency_keys.c.namespace == bindparam("namespace"), idempotency_keys.c.key == bindparam("key"))
_REMOVE_KEY = delete(idempotency_keys).where(
    idempotency_keys.c.namespace == bindparam("namespace"), idempotency_keys.c.key == bindparam("key")
)
_ADD_KEY = insert(idempotency_keys)
_TAKEN = Prepared(
    union_all(
        select(
            artifacts.c.number,
            artifacts.c.identity,
            artifacts.c.seq,
            artifacts.c.expires_at,
            artifacts.c.blob_seq,
            literal(value=True).label("present"),
        ).where(artifacts.c.namespace == bindparam("namespace"), artifacts.c.number.in_(_NUMBERS)),
        select(
            tombstones.c.number,
            tombstones.c.identity,
            null(),
            null(),
            null(),
            literal(value=False),
        ).where(tombstones.c.namespace == bindparam("namespace"), tombstones.c.number.in_(_NUMBERS)),
    )
)
_BY_SEQ = Prepared(
    select(*rows.ARTIFACT_COLUMNS, *rows.BLOB_COLUMNS)
    .join_from(artifacts, blobs)
    .where(artifacts.c.seq == bindparam("seq"))
)
_BY_NUMBER = select(artifacts.c.seq, artifacts.c.expires_at, artifacts.c.tool_name).where(
    artifacts.c.namespace == bindparam("namespace"), artifacts.c.number == bindparam("number")
)
_REMOVE_ARTIFACT = Prepared(delete(artifacts).where(artifacts.c.seq == bindparam("seq")))
_REMOVE_TOMBSTONE = Prepared(
    delete(tombstones).where(
        tombstones.c.namespace == bindparam("namespace"), tombstones.c.number == bindparam("number")
    )
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
_REPOINT = (
    update(artifacts)
    .where(among(artifacts.c.blob_seq, bindparam("lost", type_=Many(BigInteger()))))
    .values(blob_seq=bindparam("whole", type_=RowNumber))
)
_ADD_BLOB = Prepared(insert(blobs).returning(blobs.c.seq), columns=_without_seq(blobs))
_ADD_INLINE = Prepared(insert(inline_bytes), columns=inline_bytes.c.keys())
_ADD_ARTIFACT = Prepared(insert(artifacts), columns=_without_seq(artifacts))


class _Place(NamedTuple):
    """Where an identity's artifact is or may be."""

    number: int
    seq: int | None
    """The row of this identity that is there already, live or expired."""
    expires_at: datetime | None
    blob_seq: int | None
    tombstone: bool


Answer = Stored | Gone | Fenced | KeyReused | None


def apply_store(conn: Connection, change: StoreArtifact, number: Numberer = ids.number) -> Answer:
    """Store an artifact, or answer the one that is there."""
    if change.blob.placement != "inline" and not _take_intent(conn, change):
        return Fenced()
    return apply_fenced_store(conn, change, number)


def apply_fenced_store(conn: Connection, change: StoreArtifact, number: Numberer) -> Answer:
    """The same behind the fence: the upload's intent has been taken in this transaction."""
    known = None if change.key is None else _known_key(conn, change, change.key)
    if known is not None and change.key is not None:
        same = known.fingerprint == change.key.fingerprint
        answer = _replay(conn, change, known) if same else KeyReused()
    else:
        place = _find_place(conn, change, number)
        if place.seq is not None and _is_live(place.expires_at, change):
            answer = _there(conn, change, place.seq, created=False)
        else:
            answer = _create(conn, change, place)
        if change.key is not None:
            _remember(conn, change, change.key, place.number, created=answer.created)
    if not (isinstance(answer, Stored) and answer.blob_used):
        _bury_ours(conn, change)
    return answer


def _is_live(expires_at: datetime | None, change: StoreArtifact) -> bool:
    return expires_at is None or expires_at > change.now


def _there(conn: Connection, change: StoreArtifact, seq: int, *, created: bool) -> Stored:
    """What is there already; when its bytes are lost, ours take their place."""
    artifact = rows.artifact(_BY_SEQ.rows(conn, {"seq": seq})[0])
    if not artifact.blob.condemned or artifact.blob.sha256 != change.blob.sha256:
        return Stored(artifact, created=created, blob_used=False)
    _, _, used = _settle_blob(conn, change)
    return Stored(rows.artifact(_BY_SEQ.rows(conn, {"seq": seq})[0]), created=created, blob_used=used)


def _replay(conn: Connection, change: StoreArtifact, known: KeyRecord) -> Stored | Gone | None:
    """The answer that this request had before. It never revives what went since."""
    row = conn.execute(_BY_NUMBER, {"namespace": change.namespace, "number": known.number}).first()
    if row is None:
        return tombstone_of(conn, change.namespace, known.number, change.now)
    if not _is_live(row.expires_at, change):
        return rows.gone(known.number, "expired", row.expires_at, row.tool_name)
    return _there(conn, change, row.seq, created=known.created)


def _bury_ours(conn: Connection, change: StoreArtifact) -> None:
    """Leave our unreferenced file to the sweep, in case its writer does not come to remove it."""
    if change.blob.placement != "inline":
        _add_blob(conn, change, dead_at=change.now)


def _take_intent(conn: Connection, change: StoreArtifact) -> bool:
    return _TAKE_INTENT.run(conn, {"blob_id": change.blob.id, "namespace": change.namespace}) == 1


def _known_key(conn: Connection, change: StoreArtifact, key: IdempotencyKey) -> KeyRecord | None:
    """What this key stands for already."""
    at = {"namespace": change.namespace, "key": key.key}
    row = conn.execute(_KEY, at).first()
    if row is None:
        return None
    if row.expires_at <= change.now:
        conn.execute(_REMOVE_KEY, at)
        return None
    return KeyRecord(row.fingerprint, row.number, row.created)


def _remember(conn: Connection, change: StoreArtifact, key: IdempotencyKey, number: int, *, created: bool) -> None:
    conn.execute(
        _ADD_KEY,
        {
            "namespace": change.namespace,
            "key": key.key,
            "fingerprint": key.fingerprint,
            "number": number,
            "created": created,
            "expires_at": key.expires_at,
        },
    )


def _find_place(conn: Connection, change: StoreArtifact, number: Numberer) -> _Place:
    first = 0
    free: int | None = None
    while free is None:
        candidates = [number(change.identity, probe) for probe in range(first, first + PROBES)]
        parameters: dict[str, Any] = {f"n{i}": candidate for i, candidate in enumerate(candidates)}
        taken = _TAKEN.rows(conn, {"namespace": change.namespace, **parameters})
        for at, identity, seq, expires_at, blob_seq, present in taken:
            if identity == change.identity:
                return _Place(at, seq, expires_at, blob_seq, tombstone=not present)
        occupied = {row[0] for row in taken}
        free = next((candidate for candidate in candidates if candidate not in occupied), None)
        first += PROBES
    return _Place(free, None, None, None, tombstone=False)


def _create(conn: Connection, change: StoreArtifact, place: _Place) -> Stored:
    if place.seq is not None:
        _REMOVE_ARTIFACT.run(conn, {"seq": place.seq})  # expired, and not swept yet
    if place.tombstone:
        _REMOVE_TOMBSTONE.run(conn, {"namespace": change.namespace, "number": place.number})
    blob_seq, blob, used = _settle_blob(conn, change)
    artifact = artifact_of(change, place.number, blob)
    _ADD_ARTIFACT.run(conn, artifact_row(change, artifact, place.number, blob_seq))
    if place.blob_seq is not None and place.blob_seq != blob_seq:
        release(conn, [place.blob_seq], change.now)
    return Stored(artifact, created=True, blob_used=used)


def _settle_blob(conn: Connection, change: StoreArtifact) -> tuple[int, Blob, bool]:
    """The row of the bytes to point at, and whether it is ours. Condemned blobs of the same content end here."""
    ours = change.blob
    found = _SAME_BYTES.rows(
        conn,
        {
            "digest": rows.digest(ours.sha256),
            "namespace": change.namespace,
            "sha256": ours.sha256,
            "size": ours.size,
        },
    )
    same = [(row[0], rows.blob(row[1:])) for row in found]
    settled = next(((seq, blob, False) for seq, blob in same if not blob.condemned), None)
    if settled is None:
        settled = (_add_blob(conn, change, dead_at=None), ours, True)
        if ours.placement == "inline":
            _ADD_INLINE.run(conn, {"blob_seq": settled[0], "namespace": change.namespace, "stored": change.inline})
    lost = [seq for seq, blob in same if blob.condemned]
    if lost:
        conn.execute(_REPOINT, {"lost": lost, "whole": settled[0]})
        release(conn, lost, change.now)
    return settled


def _add_blob(conn: Connection, change: StoreArtifact, *, dead_at: datetime | None) -> int:
    seq: int = _ADD_BLOB.rows(conn, blob_row(change) | {"dead_at": dead_at})[0][0]
    return seq


def blob_row(change: StoreArtifact) -> dict[str, Any]:
    """The row of a change's blob, without its place in the order of arrival."""
    ours = change.blob
    return {
        "id": ours.id,
        "namespace": change.namespace,
        "placement": ours.placement,
        "sha256": ours.sha256,
        "digest": rows.digest(ours.sha256),
        "size": ours.size,
        "stored_size": ours.stored_size,
        "frames": ours.index,
        "dead_at": None,
        "condemned_at": None,
    }


def artifact_of(change: StoreArtifact, number: int, blob: Blob) -> Artifact:
    """The artifact that a change makes."""
    return Artifact(
        namespace=change.namespace,
        id=ids.render(number),
        said=change.said,
        measure=change.measure,
        facts=change.facts,
        blob=blob,
        created_at=change.now,
        expires_at=expiry(change.now, change.now, ttl=change.ttl, idle_ttl=change.idle_ttl, pinned=change.pinned),
        ttl=change.ttl,
        idle_ttl=change.idle_ttl,
        pinned=change.pinned,
        engine=change.engine,
    )


def artifact_row(change: StoreArtifact, artifact: Artifact, number: int, blob_seq: int) -> dict[str, Any]:
    """Its row, without its place in the order of arrival."""
    said, facts = change.said, change.facts
    return {
        "namespace": change.namespace,
        "number": number,
        "identity": change.identity,
        "blob_seq": blob_seq,
        "session": said.session,
        "tool_name": said.tool_name,
        "kind": facts.kind.value,
        # A payload's own URL may hold what no text column takes.
        "url": (said.url or facts.url or "").replace("\0", "") or None,
        "created_at": change.now,
        "read_at": change.now,
        "expires_at": artifact.expires_at,
        "ttl": change.ttl,
        "idle_ttl": change.idle_ttl,
        "pinned": change.pinned,
        "engine": change.engine,
        "said": rows.encode_said(said),
        "labels": rows.encode_labels(said.labels),
        "measure": rows.encode(change.measure),
        "facts": rows.encode(facts),
    }
