"""Intents: blobs that are being written, and how long their writers are presumed alive."""

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from coatcheck.adapters.sql.changes import usage
from coatcheck.adapters.sql.changes.quota import reserve
from coatcheck.adapters.sql.changes.tombstone import NOW
from coatcheck.adapters.sql.dialect import by_now
from coatcheck.adapters.sql.tables import blobs, uploads
from coatcheck.core.policies.quota import QuotaExceeded
from coatcheck.ports.maintenance import ReapUploads
from coatcheck.ports.uploads import AbandonUpload, BeginUpload, RenewUpload

_ADD = insert(uploads)
_ONE = (uploads.c.blob_id == bindparam("id")) & (uploads.c.namespace == bindparam("space"))
_RENEW = update(uploads).where(_ONE).values(lease_until=bindparam("until", type_=uploads.c.lease_until.type))
_REMOVE = delete(uploads).where(_ONE).returning(uploads.c.reserved)
_REMOVE_MANY = delete(uploads).where(_ONE)
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
    conn.execute(_REMOVE_MANY, [{"id": blob_id, "space": namespace} for blob_id, namespace, _, _ in late])
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
