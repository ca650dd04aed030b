"""The one transaction of an ingest: fence, key, identity, blob, artifact.

What the caller must have done before: made the bytes durable. What it must do after: remove its bytes unless
`blob_used` says that they are referenced now.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, Connection, Table, bindparam, delete, insert, literal, null, select, union_all

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.changes.bury import release
from coatcheck.adapters.sql.prepared import Prepared
from coatcheck.adapters.sql.tables import artifacts, blobs, idempotency_keys, inline_bytes, tombstones, uploads
from coatcheck.core import ids
from coatcheck.core.artifact import Artifact, Blob
from coatcheck.core.expiry import expiry
from coatcheck.ports import Fenced, IdempotencyKey, KeyReused, StoreArtifact, Stored

Numberer = Callable[[bytes, int], int]
"""The number of an identity's n-th candidate ID."""

_PROBES = 4
"""Candidates looked at together. Among them an identity is found again even after the one that held its first
number has gone; a chain of more needs four colliding identities (about 10^-24 at 10^8 artifacts)."""


def _without_seq(table: Table) -> list[str]:
    return [column.name for column in table.c if column.name != "seq"]


_NUMBERS = [bindparam(f"n{i}", type_=BigInteger()) for i in range(_PROBES)]
_TAKE_INTENT = Prepared(
    delete(uploads).where(uploads.c.blob_id == bindparam("blob_id"), uploads.c.namespace == bindparam("namespace"))
)
_KEY = select(idempotency_keys.c.fingerprint, idempotency_keys.c.expires_at).where(
    idempotency_keys.c.namespace == bindparam("namespace"), idempotency_keys.c.key == bindparam("key")
)
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
    .limit(1)
    .with_for_update(read=True)
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


def apply_store(conn: Connection, change: StoreArtifact, number: Numberer = ids.number) -> Stored | Fenced | KeyReused:
    """Store an artifact, or answer the one that is there."""
    if change.blob.placement != "inline" and not _take_intent(conn, change):
        return Fenced()
    remembered = False
    if change.key is not None:
        found = _settle_key(conn, change, change.key)
        if found is None:
            _bury_ours(conn, change)
            return KeyReused()
        remembered = found
    place = _find_place(conn, change, number)
    if place.seq is not None and (place.expires_at is None or place.expires_at > change.now):
        answer = Stored(rows.artifact(_BY_SEQ.rows(conn, {"seq": place.seq})[0]), created=False, blob_used=False)
    else:
        answer = _create(conn, change, place)
    if not answer.blob_used:
        _bury_ours(conn, change)
    if change.key is not None and not remembered:
        _remember(conn, change, change.key, place.number, created=answer.created)
    return answer


def _bury_ours(conn: Connection, change: StoreArtifact) -> None:
    """Leave our unreferenced file to the sweep, in case its writer does not come to remove it."""
    if change.blob.placement != "inline":
        _add_blob(conn, change, dead_at=change.now)


def _take_intent(conn: Connection, change: StoreArtifact) -> bool:
    return _TAKE_INTENT.run(conn, {"blob_id": change.blob.id, "namespace": change.namespace}) == 1


def _settle_key(conn: Connection, change: StoreArtifact, key: IdempotencyKey) -> bool | None:
    """Whether this request's key is remembered already; None when it is another request's."""
    at = {"namespace": change.namespace, "key": key.key}
    row = conn.execute(_KEY, at).first()
    if row is None:
        return False
    if row.expires_at <= change.now:
        conn.execute(_REMOVE_KEY, at)
        return False
    return True if row.fingerprint == key.fingerprint else None


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
        candidates = [number(change.identity, probe) for probe in range(first, first + _PROBES)]
        parameters: dict[str, Any] = {f"n{i}": candidate for i, candidate in enumerate(candidates)}
        taken = _TAKEN.rows(conn, {"namespace": change.namespace, **parameters})
        for at, identity, seq, expires_at, blob_seq, present in taken:
            if identity == change.identity:
                return _Place(at, seq, expires_at, blob_seq, tombstone=not present)
        occupied = {row[0] for row in taken}
        free = next((candidate for candidate in candidates if candidate not in occupied), None)
        first += _PROBES
    return _Place(free, None, None, None, tombstone=False)


def _create(conn: Connection, change: StoreArtifact, place: _Place) -> Stored:
    if place.seq is not None:
        _REMOVE_ARTIFACT.run(conn, {"seq": place.seq})  # expired, and not swept yet
    if place.tombstone:
        _REMOVE_TOMBSTONE.run(conn, {"namespace": change.namespace, "number": place.number})
    blob_seq, blob, used = _settle_blob(conn, change)
    artifact = _artifact(change, place.number, blob)
    _ADD_ARTIFACT.run(conn, _artifact_row(change, artifact, place.number, blob_seq))
    if place.blob_seq is not None and place.blob_seq != blob_seq:
        release(conn, [place.blob_seq], change.now)
    return Stored(artifact, created=True, blob_used=used)


def _settle_blob(conn: Connection, change: StoreArtifact) -> tuple[int, Blob, bool]:
    """The row of the bytes to point at, and whether it is ours."""
    ours = change.blob
    same = _SAME_BYTES.rows(
        conn,
        {
            "digest": rows.digest(ours.sha256),
            "namespace": change.namespace,
            "sha256": ours.sha256,
            "size": ours.size,
        },
    )
    if same:
        return same[0][0], rows.blob(same[0][1:]), False
    blob_seq = _add_blob(conn, change, dead_at=None)
    if ours.placement == "inline":
        _ADD_INLINE.run(conn, {"blob_seq": blob_seq, "stored": change.inline})
    return blob_seq, ours, True


def _add_blob(conn: Connection, change: StoreArtifact, *, dead_at: datetime | None) -> int:
    ours = change.blob
    added = _ADD_BLOB.rows(
        conn,
        {
            "id": ours.id,
            "namespace": change.namespace,
            "placement": ours.placement,
            "sha256": ours.sha256,
            "digest": rows.digest(ours.sha256),
            "size": ours.size,
            "stored_size": ours.stored_size,
            "frames": ours.index,
            "dead_at": dead_at,
        },
    )
    seq: int = added[0][0]
    return seq


def _artifact(change: StoreArtifact, number: int, blob: Blob) -> Artifact:
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


def _artifact_row(change: StoreArtifact, artifact: Artifact, number: int, blob_seq: int) -> dict[str, Any]:
    said, facts = change.said, change.facts
    return {
        "namespace": change.namespace,
        "number": number,
        "identity": change.identity,
        "blob_seq": blob_seq,
        "session": said.session,
        "tool_name": said.tool_name,
        "kind": facts.kind.value,
        "url": said.url or facts.url,
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
