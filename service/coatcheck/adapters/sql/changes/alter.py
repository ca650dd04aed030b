"""What may change of a live artifact: its expiry, its pin, its labels, and the moment of its last read."""

from datetime import datetime
from typing import Any, NamedTuple

from msgspec import UNSET
from sqlalchemy import ColumnElement, Connection, bindparam, select, update

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.changes.bury import is_live, tombstone_of
from coatcheck.adapters.sql.tables import artifacts, blobs
from coatcheck.core.artifact import Artifact, Gone
from coatcheck.core.expiry import expiry
from coatcheck.ports import PatchArtifact, Touch

_HERE = (artifacts.c.namespace == bindparam("space")) & (artifacts.c.number == bindparam("at"))


class _State(NamedTuple):
    """What a change is decided from: columns of the row."""

    seq: int
    created_at: datetime
    read_at: datetime
    expires_at: datetime | None
    ttl: int | None
    idle_ttl: int | None
    pinned: bool
    tool_name: str | None


_COLUMNS: list[ColumnElement[Any]] = [artifacts.c[name] for name in _State._fields]
_STATE = select(*_COLUMNS).where(_HERE).with_for_update()
_FULL = select(*rows.ARTIFACT_COLUMNS, *rows.BLOB_COLUMNS).join_from(artifacts, blobs).where(_HERE)
_IDLE = (
    select(artifacts.c.seq, artifacts.c.created_at, artifacts.c.read_at, artifacts.c.ttl, artifacts.c.idle_ttl)
    .where(_HERE, artifacts.c.pinned.is_(False), artifacts.c.idle_ttl.is_not(None), is_live())
    .with_for_update()
)
_BY_SEQ = update(artifacts).where(artifacts.c.seq == bindparam("row"))
_TOUCH = _BY_SEQ.values(
    read_at=bindparam("read", type_=artifacts.c.read_at.type),
    expires_at=bindparam("expires", type_=artifacts.c.expires_at.type),
)


def apply_patch(conn: Connection, change: PatchArtifact) -> Artifact | Gone | None:
    """Change one artifact and answer it."""
    here = {"space": change.namespace, "at": change.number}
    found = conn.execute(_STATE, here).first()
    if found is None:
        return tombstone_of(conn, change.namespace, change.number, change.now)
    row = _State._make(found)
    if row.expires_at is not None and row.expires_at <= change.now:
        return rows.gone(change.number, "expired", row.expires_at, row.tool_name)
    values = _patched(change, row)
    if values:
        conn.execute(_BY_SEQ.values(**values), {"row": row.seq})
    return rows.artifact(conn.execute(_FULL, here).one())


def _patched(change: PatchArtifact, row: _State) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if change.labels is not UNSET:
        values["labels"] = rows.encode_labels(change.labels)
    if change.ttl is UNSET and change.idle_ttl is UNSET and change.pinned is UNSET:
        return values
    ttl = row.ttl if change.ttl is UNSET else change.ttl
    pinned = row.pinned if change.pinned is UNSET else change.pinned
    idle_ttl, read_at = row.idle_ttl, row.read_at
    if change.idle_ttl is not UNSET:
        # Reads are noted only while there is an idle TTL: an old moment here would mean nothing.
        idle_ttl, read_at = change.idle_ttl, change.now
    expires_at = expiry(row.created_at, read_at, ttl=ttl, idle_ttl=idle_ttl, pinned=pinned)
    if row.pinned and expires_at is not None and expires_at <= change.now:
        expires_at = expiry(change.now, change.now, ttl=ttl, idle_ttl=idle_ttl, pinned=False)
    return values | {
        "ttl": ttl,
        "idle_ttl": idle_ttl,
        "pinned": pinned,
        "read_at": read_at,
        "expires_at": expires_at,
    }


def apply_touch(conn: Connection, change: Touch) -> None:
    """Move idle expiries. A read counts if the artifact was live when it was read."""
    # In one order in every replica, which spares them waiting for each other in a circle.
    for namespace, number, moment in sorted(change.reads):
        row = conn.execute(_IDLE, {"space": namespace, "at": number, "now": moment}).first()
        if row is None or row.read_at >= moment:
            continue
        expires_at = expiry(row.created_at, moment, ttl=row.ttl, idle_ttl=row.idle_ttl, pinned=False)
        conn.execute(_TOUCH, {"row": row.seq, "read": moment, "expires": expires_at})
