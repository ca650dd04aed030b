"""Checks whether a namespace has room for a change, before anything of the change is done.

Usually it only compares the namespace's sums with the most that the change could add. Only if that does not fit does it
compute what the change really needs: existing artifacts need nothing, and neither do shared bytes.
"""

from typing import Any

from sqlalchemy import Connection, bindparam, exists, select, update

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.changes import dedupe, usage
from coatcheck.adapters.sql.changes.artifact_slot import Numberer, find_slot
from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.tables import blobs, idempotency_keys, uploads
from coatcheck.core.policies.quota import QuotaExceeded
from coatcheck.ports.artifacts import StoreArtifact
from coatcheck.ports.uploads import BeginUpload, ReserveMore

_RESERVED = (
    select(uploads.c.reserved)
    .where(uploads.c.blob_id == bindparam("id"), uploads.c.namespace == bindparam("space"))
    .with_for_update()
)
_RAISE = (
    update(uploads)
    .where(uploads.c.blob_id == bindparam("id"), uploads.c.namespace == bindparam("space"))
    .values(reserved=bindparam("size"))
)
_KEY = select(
    exists().where(
        idempotency_keys.c.namespace == bindparam("space"),
        idempotency_keys.c.key == bindparam("key"),
        idempotency_keys.c.expires_at > bindparam("now", type_=idempotency_keys.c.expires_at.type),
    )
)
_SHARED = Prepared(
    select(blobs.c.seq).where(
        blobs.c.digest == bindparam("digest"),
        blobs.c.dead_at.is_(None),
        blobs.c.condemned_at.is_(None),
        blobs.c.namespace == bindparam("namespace"),
        blobs.c.sha256 == bindparam("sha256"),
        blobs.c.size == bindparam("size"),
    )
)


def no_room(conn: Connection, change: StoreArtifact, number: Numberer) -> QuotaExceeded | None:
    """Returns the refusal of an ingest for which there is no room; otherwise None, after claiming its room."""
    room, namespace = change.room, change.namespace
    if room is None:
        return None
    view = dedupe.view_of(change)
    brought = [dedupe.payload_of(change), *(() if view is None else (view,))]
    most = sum(ours.blob.stored_size for ours in brought)
    if usage.claim(conn, namespace, room, bytes_=most, artifacts=1) is None:
        return None
    if change.key is not None and _knows(conn, change):
        return None
    place = find_slot(conn, change, number)
    if place.seq is not None and (place.expires_at is None or place.expires_at > change.now):
        return None
    needed = sum(ours.blob.stored_size for ours in brought if not _is_there(conn, ours)) - _read_reservation(
        conn, change
    )
    return usage.claim(conn, namespace, room, bytes_=max(0, needed), artifacts=0 if place.seq is not None else 1)


def _knows(conn: Connection, change: StoreArtifact) -> bool:
    key = "" if change.key is None else change.key.key
    return bool(conn.execute(_KEY, {"space": change.namespace, "key": key, "now": change.now}).scalar_one())


def _is_there(conn: Connection, ours: dedupe.NewBytes) -> bool:
    blob = ours.blob
    parameters: dict[str, Any] = {
        "digest": rows.digest(blob.sha256),
        "namespace": ours.namespace,
        "sha256": blob.sha256,
        "size": blob.size,
    }
    return bool(_SHARED.rows(conn, parameters))


def _read_reservation(conn: Connection, change: StoreArtifact) -> int:
    """Returns what our own upload has reserved."""
    reserved_bytes: int | None = conn.execute(_RESERVED, {"id": change.blob.id, "space": change.namespace}).scalar()
    return reserved_bytes or 0


def reserve(conn: Connection, change: BeginUpload) -> QuotaExceeded | None:
    """Reserves room for a new upload."""
    if change.room is not None:
        full = usage.claim(conn, change.namespace, change.room, bytes_=change.reserve)
        if full is not None:
            return full
    usage.count(conn, change.namespace, reserved=change.reserve)
    return None


def apply_reserve_more(conn: Connection, change: ReserveMore) -> bool | QuotaExceeded:
    """Carries out ReserveMore."""
    at = {"id": change.blob_id, "space": change.namespace}
    reserved: int | None = conn.execute(_RESERVED, at).scalar()
    if reserved is None:
        return False
    more = change.reserve - reserved
    if more > 0 and change.room is not None:
        full = usage.claim(conn, change.namespace, change.room, bytes_=more)
        if full is not None:
            return full
    conn.execute(_RAISE, at | {"size": change.reserve})
    usage.count(conn, change.namespace, reserved=more)
    return True
