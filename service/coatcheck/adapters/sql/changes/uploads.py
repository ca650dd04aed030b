"""Uploads in progress: their intents, the room that they reserve, and leases.

Whether a namespace has room is checked before anything of a change is done. Usually this only compares the namespace's
sums with the most that the change could add; only if that does not fit, it computes what the change really needs:
existing artifacts and shared bytes need nothing. A lease on a piece of upkeep saves work among replicas; nothing relies
on it for safety.
"""

from datetime import timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    Interval,
    bindparam,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.changes import dedupe, usage
from coatcheck.adapters.sql.changes.dedupe import Numberer, locate_identity
from coatcheck.adapters.sql.changes.tombstone import NOW
from coatcheck.adapters.sql.dialect import UtcDateTime, by_now, insert_into
from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.tables import blobs, idempotency_keys, leases, uploads
from coatcheck.core.policies.quota import QuotaExceeded
from coatcheck.ports.artifacts import StoreArtifact
from coatcheck.ports.blobs import AbandonUpload, BeginUpload, RenewUpload, ReserveMore
from coatcheck.ports.maintenance import ReapUploads, TakeLease

# The lock makes two reservations for one upload follow each other.
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
    brought = dedupe.bytes_of(change)
    # The cheap check first: whether there is room even if nothing is shared.
    most = sum(ours.blob.stored_size for ours in brought)
    if usage.claim(conn, namespace, room, bytes_=most, artifacts=1) is None:
        return None
    # A repeated request adds nothing, and neither does an artifact that is there already.
    if change.key is not None and _knows(conn, change):
        return None
    place = locate_identity(conn, change, number)
    if place.is_live(change.now):
        return None
    # Shared bytes need no room, and what this upload has reserved is counted already.
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
    # The intent is gone, so the upload was reaped or abandoned.
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


_ADD = insert(uploads)
_ONE = (uploads.c.blob_id == bindparam("id")) & (uploads.c.namespace == bindparam("space"))
_RENEW = update(uploads).where(_ONE).values(lease_until=bindparam("until", type_=uploads.c.lease_until.type))
_REMOVE = delete(uploads).where(_ONE).returning(uploads.c.reserved)
_REMOVE_MANY = delete(uploads).where(_ONE)
# By the server's clock too: a replica whose clock is ahead must not end the uploads of others.
_LATE = (
    select(uploads.c.blob_id, uploads.c.namespace, uploads.c.placement, uploads.c.reserved)
    .where(uploads.c.lease_until < by_now(NOW))
    .order_by(uploads.c.lease_until)
    .limit(bindparam("limit"))
    .with_for_update(skip_locked=True)
)
_ADD_BLOB = insert(blobs)


def apply_begin(conn: Connection, change: BeginUpload) -> QuotaExceeded | None:
    """Carries out BeginUpload."""
    full = reserve(conn, change)
    if full is not None:
        return full
    conn.execute(
        _ADD,
        {
            "blob_id": change.blob_id,
            "namespace": change.namespace,
            "placement": change.placement,
            "lease_until": change.lease_until,
            "reserved": change.reserve,
        },
    )
    return None


def apply_renew(conn: Connection, change: RenewUpload) -> bool:
    """Carries out RenewUpload."""
    moved = conn.execute(_RENEW, {"id": change.blob_id, "space": change.namespace, "until": change.lease_until})
    return moved.rowcount == 1


def apply_abandon(conn: Connection, change: AbandonUpload) -> None:
    """Carries out AbandonUpload."""
    for reserved in conn.execute(_REMOVE, {"id": change.blob_id, "space": change.namespace}).scalars():
        usage.count(conn, change.namespace, reserved=-reserved)


def apply_reap(conn: Connection, change: ReapUploads) -> int:
    """Turns late intents into dead blobs. What their writers left is unknown: no digest, no size, no index."""
    late = conn.execute(_LATE, {"now": change.now, "limit": change.limit}).all()
    if not late:
        return 0
    # The fence: a writer that comes later finds no intent, and stores nothing.
    conn.execute(_REMOVE_MANY, [{"id": blob_id, "space": namespace} for blob_id, namespace, _, _ in late])
    # What they had reserved is free again.
    for _, namespace, _, reserved in late:
        usage.count(conn, namespace, reserved=-reserved)
    conn.execute(
        _ADD_BLOB,
        [
            {
                "id": blob_id,
                "namespace": namespace,
                "placement": placement,
                "sha256": b"",
                "digest": 0,
                "size": 0,
                "stored_size": 0,
                "frames": b"",
                "dead_at": change.now,
            }
            for blob_id, namespace, placement, _ in late
        ],
    )
    return len(late)


_NOW: dict[str, ColumnElement[Any]] = {
    "sqlite": bindparam("now", type_=UtcDateTime),
    # One clock for all replicas.
    "postgresql": func.clock_timestamp(type_=UtcDateTime),
}
_UNTIL: dict[str, ColumnElement[Any]] = {
    "sqlite": bindparam("until", type_=UtcDateTime),
    "postgresql": func.clock_timestamp() + bindparam("time", type_=Interval),
}


def _take(dialect: str) -> Executable:
    statement = insert_into(leases, dialect).values(
        name=bindparam("name"), holder=bindparam("holder"), until=_UNTIL[dialect]
    )
    new_row = statement.excluded
    return statement.on_conflict_do_update(
        index_elements=[leases.c.name],
        set_={"holder": new_row.holder, "until": new_row.until},
        # Its holder may renew a lease at any time, others only after its end; otherwise no row changes.
        where=or_(leases.c.holder == new_row.holder, leases.c.until <= _NOW[dialect]),
    )


_TAKE = {dialect: _take(dialect) for dialect in _NOW}


_HOLDER = select(leases.c.holder).where(leases.c.name == bindparam("name"))


def holder(conn: Connection, name: str) -> str | None:
    """Returns the last holder of a lease, even if it has ended."""
    current_holder: str | None = conn.execute(_HOLDER, {"name": name}).scalar_one_or_none()
    return current_holder


def apply_take(conn: Connection, change: TakeLease) -> bool:
    """Carries out TakeLease."""
    time = timedelta(seconds=change.seconds)
    values = {"name": change.name, "holder": change.holder}
    if conn.dialect.name == "sqlite":
        values |= {"now": change.now, "until": change.now + time}
    else:
        values |= {"time": time}
    row_count: int = conn.execute(_TAKE[conn.dialect.name], values).rowcount
    return row_count == 1
