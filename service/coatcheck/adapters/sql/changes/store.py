"""The one transaction of an ingest: fence, key, identity, blob, artifact.

What the caller must have done before: made the bytes durable. What it must do after: remove its bytes unless
`blob_used` says that they are referenced now.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    Table,
    bindparam,
    delete,
    insert,
    select,
    update,
)

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.changes.bury import release, tombstone_of
from coatcheck.adapters.sql.changes.place import Numberer, Place, find_place
from coatcheck.adapters.sql.changes.unsettled import Unsettled
from coatcheck.adapters.sql.prepared import Prepared
from coatcheck.adapters.sql.tables import artifacts, blobs, idempotency_keys, inline_bytes, tombstones, uploads
from coatcheck.adapters.sql.types import Many, RowNumber
from coatcheck.adapters.sql.words import among
from coatcheck.core import ids
from coatcheck.core.artifact import Artifact, Blob, Gone
from coatcheck.core.expiry import expiry
from coatcheck.ports import Fenced, IdempotencyKey, KeyRecord, KeyReused, StoreArtifact, Stored

_LOOKS = 8
"""For a place that other replicas keep changing. Each look waits for one of them; then it is time to begin again."""


def _without_seq(table: Table) -> list[str]:
    return [column.name for column in table.c if column.name != "seq"]


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
_BY_SEQ = Prepared(
    select(*rows.ARTIFACT_COLUMNS, *rows.BLOB_COLUMNS)
    .join_from(artifacts, blobs)
    .where(artifacts.c.seq == bindparam("seq"))
)
_BY_NUMBER = select(artifacts.c.seq, artifacts.c.expires_at, artifacts.c.tool_name).where(
    artifacts.c.namespace == bindparam("namespace"), artifacts.c.number == bindparam("number")
)
_HOLD = Prepared(select(artifacts.c.seq).where(artifacts.c.seq == bindparam("seq")).with_for_update())
_BURIED = (
    select(tombstones.c.at)
    .where(
        tombstones.c.namespace == bindparam("namespace"),
        tombstones.c.number == bindparam("number"),
        tombstones.c.identity == bindparam("identity"),
    )
    .with_for_update()
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
        place, answer = _place_and_store(conn, change, number)
        if change.key is not None and isinstance(answer, Stored):
            _remember(conn, change, change.key, place.number, created=answer.created)
    if not (isinstance(answer, Stored) and answer.blob_used):
        _bury_ours(conn, change)
    return answer


def _place_and_store(conn: Connection, change: StoreArtifact, number: Numberer) -> tuple[Place, Stored | Gone]:
    """Store it, or answer what is there. Looks again when another replica has changed the place since it was found."""
    for _ in range(_LOOKS):
        place = find_place(conn, change, number)
        if place.seq is not None and _is_live(place.expires_at, change):
            answer = _there(conn, change, place.seq, created=False)
        else:
            answer = _outdone(change, place) or _create(conn, change, place)
        if answer is not None:
            return place, answer
    raise Unsettled


def _is_live(expires_at: datetime | None, change: StoreArtifact) -> bool:
    return expires_at is None or expires_at > change.now


def _there(conn: Connection, change: StoreArtifact, seq: int, *, created: bool) -> Stored | None:
    """What is there already; when its bytes are lost, ours take their place. None: it was deleted meanwhile."""
    found = _BY_SEQ.rows(conn, {"seq": seq})
    if not found:
        return None
    artifact = rows.artifact(found[0])
    if not artifact.blob.condemned or artifact.blob.sha256 != change.blob.sha256:
        return Stored(artifact, created=created, blob_used=False)
    if not _HOLD.rows(conn, {"seq": seq}):
        return None
    _, _, used = _settle_blob(conn, change)
    return Stored(rows.artifact(_BY_SEQ.rows(conn, {"seq": seq})[0]), created=created, blob_used=used)


def _outdone(change: StoreArtifact, place: Place) -> Gone | None:
    """The tombstone of who was deleted, or expired, after the moment from which that outdoes this change."""
    since = change.unless_buried_since
    return place.buried if since is not None and place.buried is not None and place.buried.at > since else None


def _replay(conn: Connection, change: StoreArtifact, known: KeyRecord) -> Stored | Gone | None:
    """The answer that this request had before. It never revives what went since."""
    row = conn.execute(_BY_NUMBER, {"namespace": change.namespace, "number": known.number}).first()
    if row is None:
        return tombstone_of(conn, change.namespace, known.number, change.now)
    if not _is_live(row.expires_at, change):
        return rows.gone(known.number, "expired", row.expires_at, row.tool_name)
    answer = _there(conn, change, row.seq, created=known.created)
    if answer is None:
        raise Unsettled
    return answer


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


def _create(conn: Connection, change: StoreArtifact, place: Place) -> Stored | None:
    """Store it at this place. None: another replica was there first, and nothing is changed."""
    # Who removes what is in the way has the place for itself until its transaction ends.
    if place.seq is not None and not _REMOVE_ARTIFACT.run(conn, {"seq": place.seq}):
        return None
    if place.buried is not None:
        _expect_unburied(conn, change, place.number)
        removed = _REMOVE_TOMBSTONE.run(conn, {"namespace": change.namespace, "number": place.number})
        if place.seq is None and not removed:
            return None
    blob_seq, blob, used = _settle_blob(conn, change)
    artifact = artifact_of(change, place.number, blob)
    _ADD_ARTIFACT.run(conn, artifact_row(change, artifact, place.number, blob_seq))
    if place.blob_seq is not None and place.blob_seq != blob_seq:
        release(conn, [place.blob_seq], change.now)
    _expect_unburied(conn, change, place.number)
    return Stored(artifact, created=True, blob_used=used)


def _expect_unburied(conn: Connection, change: StoreArtifact, number: int) -> None:
    """Begin again when another replica stored and deleted the same after we had looked and before we inserted ours."""
    if change.unless_buried_since is None:
        return
    wanted = {"namespace": change.namespace, "number": number, "identity": change.identity}
    at = conn.execute(_BURIED, wanted).scalar()
    if at is not None and at > change.unless_buried_since:
        raise Unsettled


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
