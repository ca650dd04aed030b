"""Uploads in progress, with their intents and the room that they reserve; also leases.

Before a change stores anything, the namespace must have room for it. Usually it suffices to compare the namespace's
counts with the maximum that the change could add. Only if that does not fit, the exact need is computed: existing
artifacts and shared bytes need no room. A lease on maintenance prevents several replicas from doing the same work; no
data is at risk if two replicas believe that they have the lease.
"""

from datetime import timedelta

from sqlalchemy import ColumnElement, Connection, bindparam, delete, insert, or_, select, update

from coatcheck.adapters.sql.changes import dedupe, usage
from coatcheck.adapters.sql.changes.dedupe import Numberer
from coatcheck.adapters.sql.dialect import NOW, UtcDateTime, by_now, database_time, upsert
from coatcheck.adapters.sql.tables import blobs, leases, uploads
from coatcheck.core.policies.quota import QuotaExceeded
from coatcheck.ports.artifacts import StoreArtifact
from coatcheck.ports.blobs import AbandonUpload, BeginUpload, RenewUpload, ReserveMore
from coatcheck.ports.maintenance import ReapUploads, TakeLease


def no_room(conn: Connection, change: StoreArtifact, number: Numberer) -> QuotaExceeded | None:
    """Claims room for an ingest; returns the refusal if the namespace has not enough room. None: the room suffices."""
    room, namespace = change.room, change.namespace
    if room is None:
        return None
    brought = dedupe.bytes_of(change)
    # First the cheap check: whether there is room even if no bytes are shared.
    most = sum(item.blob.stored_size for item in brought)
    if usage.claim(conn, namespace, room, bytes_=most, artifacts=1) is None:
        return None
    # A repeated request needs no room, and neither does an artifact that exists already.
    if change.key is not None and dedupe.find_key(conn, namespace, change.key.key, change.now) is not None:
        return None
    place = dedupe.locate_identities(conn, [change], number)[0]
    if place.is_live(change.now):
        return None
    # Shared bytes need no room, and the bytes that this upload has reserved are counted already.
    new = [item.blob for item in brought if dedupe.same_bytes(conn, namespace, *item.content) is None]
    needed = sum(blob.stored_size for blob in new) - (_read_reservation(conn, namespace, change.blob.id) or 0)
    return usage.claim(conn, namespace, room, bytes_=max(0, needed), artifacts=0 if place.seq is not None else 1)


def _mine(namespace: str, blob_id: str) -> ColumnElement[bool]:
    return (uploads.c.blob_id == blob_id) & (uploads.c.namespace == namespace)


def _read_reservation(conn: Connection, namespace: str, blob_id: str) -> int | None:
    """Returns the bytes that an upload has reserved; None if its intent is gone."""
    # Because of the lock, two reservations for one upload are made one after the other.
    return conn.scalar(select(uploads.c.reserved).where(_mine(namespace, blob_id)).with_for_update())


def apply_reserve_more(conn: Connection, change: ReserveMore) -> bool | QuotaExceeded:
    """Carries out ReserveMore."""
    reserved = _read_reservation(conn, change.namespace, change.blob_id)
    # The intent is gone, so the upload was reaped or abandoned.
    if reserved is None:
        return False
    more = change.reserve - reserved
    if more > 0 and change.room is not None:
        full = usage.claim(conn, change.namespace, change.room, bytes_=more)
        if full is not None:
            return full
    conn.execute(update(uploads).where(_mine(change.namespace, change.blob_id)).values(reserved=change.reserve))
    usage.count(conn, change.namespace, reserved=more)
    return True


def apply_begin(conn: Connection, change: BeginUpload) -> QuotaExceeded | None:
    """Carries out BeginUpload."""
    if change.room is not None:
        full = usage.claim(conn, change.namespace, change.room, bytes_=change.reserve)
        if full is not None:
            return full
    usage.count(conn, change.namespace, reserved=change.reserve)
    values = {name: getattr(change, name) for name in ("blob_id", "namespace", "placement", "lease_until")}
    conn.execute(insert(uploads), {**values, "reserved": change.reserve})
    return None


def apply_renew(conn: Connection, change: RenewUpload) -> bool:
    """Carries out RenewUpload."""
    renewal = update(uploads).where(_mine(change.namespace, change.blob_id)).values(lease_until=change.lease_until)
    return conn.execute(renewal).rowcount == 1


def apply_abandon(conn: Connection, change: AbandonUpload) -> None:
    """Carries out AbandonUpload."""
    removal = delete(uploads).where(_mine(change.namespace, change.blob_id)).returning(uploads.c.reserved)
    for reserved in conn.scalars(removal):
        usage.count(conn, change.namespace, reserved=-reserved)


def apply_reap(conn: Connection, change: ReapUploads) -> int:
    """Carries out ReapUploads: turns intents whose lease has ended into dead blobs; returns how many.

    It is unknown which bytes the writers have left, so the blobs have no digest, no size and no index.
    """
    # The time is also compared by the database server's clock: a replica whose clock is ahead must not end the uploads
    # of others.
    overdue = select(uploads).where(uploads.c.lease_until < by_now(NOW)).order_by(uploads.c.lease_until)
    late = conn.execute(overdue.limit(change.limit).with_for_update(skip_locked=True), {"now": change.now}).all()
    if not late:
        return 0
    # This is the fence: a writer that commits later finds no intent, and stores nothing.
    conn.execute(delete(uploads).where(uploads.c.blob_id.in_([row.blob_id for row in late])))
    # The bytes that these uploads had reserved are free again.
    for row in late:
        usage.count(conn, row.namespace, reserved=-row.reserved)
    unknown = {"sha256": b"", "digest": 0, "size": 0, "stored_size": 0, "frames": b"", "dead_at": change.now}
    dead = [{"id": row.blob_id, "namespace": row.namespace, "placement": row.placement, **unknown} for row in late]
    conn.execute(insert(blobs), dead)
    return len(late)


# Leases use the clock of the database server, if there is one, so that all replicas use the same clock.
_clock = database_time(NOW)
_new = upsert(leases).values(
    name=bindparam("name"), holder=bindparam("holder"), until=_clock + (bindparam("until", type_=UtcDateTime) - NOW)
)
_TAKE = _new.on_conflict_do_update(
    index_elements=[leases.c.name],
    set_={"holder": _new.excluded.holder, "until": _new.excluded.until},
    # The holder of a lease may renew it at any time, other processes may take it only after its end. Otherwise no row
    # is changed.
    where=or_(leases.c.holder == _new.excluded.holder, leases.c.until <= _clock),
)


def holder(conn: Connection, name: str) -> str | None:
    """Returns the last holder of a lease, even if the lease has ended; None if nobody has ever had it."""
    return conn.scalar(select(leases.c.holder).where(leases.c.name == name))


def apply_take(conn: Connection, change: TakeLease) -> bool:
    """Carries out TakeLease."""
    until = change.now + timedelta(seconds=change.seconds)
    values = {"name": change.name, "holder": change.holder, "now": change.now, "until": until}
    return conn.execute(_TAKE, values).rowcount == 1
