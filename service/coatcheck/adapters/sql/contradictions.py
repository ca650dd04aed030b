"""Rows that contradict each other: what no change of ours can leave behind, and what is to be done about it."""

from datetime import datetime

from sqlalchemy import ColumnElement, Connection, bindparam, delete, exists, func, select, update

from coatcheck.adapters.sql.tables import artifacts, blobs, inline_bytes
from coatcheck.adapters.sql.types import UtcDateTime
from coatcheck.core import ids
from coatcheck.core.findings import Finding

_UNUSED: ColumnElement[bool] = blobs.c.dead_at.is_(None) & ~exists().where(
    artifacts.c.blob_seq == blobs.c.seq
).correlate(blobs)
_UNREFERENCED = select(blobs.c.namespace, blobs.c.id).where(_UNUSED).order_by(blobs.c.seq)
_BURY = update(blobs).where(_UNUSED).values(dead_at=bindparam("now", type_=UtcDateTime))
_STRAY: ColumnElement[bool] = ~exists().where(
    blobs.c.seq == inline_bytes.c.blob_seq, blobs.c.placement == "inline"
).correlate(inline_bytes)
_STRAYS = select(func.count()).select_from(inline_bytes).where(_STRAY)
_DROP_STRAYS = delete(inline_bytes).where(_STRAY)
_HOLLOW = (
    select(artifacts.c.namespace, artifacts.c.number)
    .outerjoin(blobs, blobs.c.seq == artifacts.c.blob_seq)
    .where(blobs.c.seq.is_(None) | blobs.c.dead_at.is_not(None))
    .order_by(artifacts.c.seq)
)
_DONE = {"unreferenced": " It is marked dead now; the sweep removes it.", "stray": " They are removed."}


def contradictions(conn: Connection) -> list[Finding]:
    """What contradicts itself, in any namespace that this connection may see."""
    found: list[Finding] = []
    if strays := conn.execute(_STRAYS).scalar_one():
        found.append(Finding("stray", "", "", f"{strays:,} rows of stored bytes belong to no blob."))
    found += [
        Finding("unreferenced", namespace, blob_id, "No artifact uses this live blob.")
        for namespace, blob_id in conn.execute(_UNREFERENCED)
    ]
    found += [
        Finding("dangling", namespace, "", f"Artifact {ids.render(number)} points at a blob that is dead.")
        for namespace, number in conn.execute(_HOLLOW)
    ]
    return found


def repair(conn: Connection, now: datetime) -> None:
    """Bury what nothing uses and drop what belongs to nothing. Only while nobody stores."""
    conn.execute(_BURY, {"now": now})
    conn.execute(_DROP_STRAYS)


def repaired(findings: list[Finding]) -> list[Finding]:
    """The findings after `repair`."""
    return [
        Finding(f.what, f.namespace, f.blob_id, f.detail + _DONE[f.what], repaired=True) if f.what in _DONE else f
        for f in findings
    ]
