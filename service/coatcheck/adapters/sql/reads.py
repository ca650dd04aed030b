"""What is asked of the catalogue and changes nothing, lists aside. Each question is one statement: one moment."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Integer,
    Select,
    Text,
    and_,
    bindparam,
    literal_column,
    null,
    select,
    tuple_,
    union_all,
)

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.changes.bury import NOW, is_live
from coatcheck.adapters.sql.prepared import Prepared
from coatcheck.adapters.sql.tables import artifacts, blobs, idempotency_keys, inline_bytes, tombstones, uploads, views
from coatcheck.adapters.sql.types import Many, UtcDateTime
from coatcheck.adapters.sql.words import among, by_now
from coatcheck.core.artifact import Blob, Gone
from coatcheck.core.views import TEXT
from coatcheck.ports.artifacts import KeyRecord
from coatcheck.ports.catalog import Found
from coatcheck.ports.tidying import DeadBlob

_WIDTH = rows.WIDTH
_NAMESPACE = bindparam("namespace", type_=Text())
_NUMBER = bindparam("number", type_=BigInteger())
_VIEW_BLOBS = blobs.alias("view_blobs")
_VIEW_BYTES = inline_bytes.alias("view_bytes")


def _find(*, with_bytes: bool, with_view: bool) -> Select[Any]:
    # Artifact and tombstone in one statement: a re-post between two would show neither.
    anchor = select(literal_column("1", Integer()).label("one")).subquery("anchor")
    here = anchor.outerjoin(
        artifacts, and_(artifacts.c.namespace == _NAMESPACE, artifacts.c.number == _NUMBER)
    ).outerjoin(blobs, blobs.c.seq == artifacts.c.blob_seq)
    stored: ColumnElement[Any] = null()
    if with_bytes:
        here = here.outerjoin(inline_bytes, inline_bytes.c.blob_seq == artifacts.c.blob_seq)
        stored = inline_bytes.c.stored
    view: list[ColumnElement[Any]] = []
    if with_view:
        here = (
            here.outerjoin(views, and_(views.c.artifact_seq == artifacts.c.seq, views.c.name == TEXT))
            .outerjoin(_VIEW_BLOBS, _VIEW_BLOBS.c.seq == views.c.blob_seq)
            .outerjoin(_VIEW_BYTES, _VIEW_BYTES.c.blob_seq == views.c.blob_seq)
        )
        view = [*rows.VIEW_COLUMNS, *rows.blob_columns(_VIEW_BLOBS), _VIEW_BYTES.c.stored]
    here = here.outerjoin(
        tombstones,
        and_(
            artifacts.c.seq.is_(None),
            tombstones.c.namespace == _NAMESPACE,
            tombstones.c.number == _NUMBER,
            tombstones.c.until > NOW,
        ),
    )
    return select(
        *rows.ARTIFACT_COLUMNS,
        *rows.BLOB_COLUMNS,
        is_live(),
        artifacts.c.expires_at.label("ends_at"),
        artifacts.c.tool_name,
        artifacts.c.session,
        stored,
        tombstones.c.reason,
        tombstones.c.at,
        tombstones.c.tool_name,
        tombstones.c.session,
        *view,
    ).select_from(here)


_FIND = {
    (with_bytes, with_view): Prepared(_find(with_bytes=with_bytes, with_view=with_view))
    for with_bytes in (False, True)
    for with_view in (False, True)
}
_STORED = (
    select(inline_bytes.c.stored)
    .join_from(blobs, inline_bytes, inline_bytes.c.blob_seq == blobs.c.seq)
    .where(blobs.c.namespace == _NAMESPACE, blobs.c.id == bindparam("id"))
)
_KEY = select(idempotency_keys.c.fingerprint, idempotency_keys.c.number, idempotency_keys.c.created).where(
    idempotency_keys.c.namespace == _NAMESPACE,
    idempotency_keys.c.key == bindparam("key"),
    idempotency_keys.c.expires_at > NOW,
)
_DEAD = (
    select(blobs.c.namespace, blobs.c.id, blobs.c.placement, blobs.c.dead_at, blobs.c.stored_size)
    .where(blobs.c.dead_at.is_not(None), blobs.c.dead_at < by_now(NOW))
    .order_by(blobs.c.dead_at, blobs.c.id)
    .limit(bindparam("most"))
)
_DEAD_AFTER = _DEAD.where(
    tuple_(blobs.c.dead_at, blobs.c.id) > tuple_(bindparam("at", type_=UtcDateTime), bindparam("id", type_=Text()))
)
_SAME = (
    select(*rows.BLOB_COLUMNS)
    .where(
        blobs.c.digest == bindparam("digest"),
        blobs.c.dead_at.is_(None),
        blobs.c.condemned_at.is_(None),
        blobs.c.namespace == _NAMESPACE,
        blobs.c.sha256 == bindparam("sha256"),
        blobs.c.size == bindparam("size"),
    )
    .limit(1)
)
_IDS = bindparam("ids", type_=Many(Text()))
_KNOWN = union_all(
    select(blobs.c.namespace, blobs.c.id).where(among(blobs.c.id, _IDS)),
    select(uploads.c.namespace, uploads.c.blob_id).where(among(uploads.c.blob_id, _IDS)),
)
_ALL = Prepared(
    select(blobs.c.seq, blobs.c.namespace, *rows.BLOB_COLUMNS)
    .where(blobs.c.seq > bindparam("after"), blobs.c.dead_at.is_(None))
    .order_by(blobs.c.seq)
    .limit(bindparam("most"))
)
_MOST_NAMES = 500


def find(
    conn: Connection, namespace: str, number: int, now: datetime, *, with_bytes: bool, with_view: bool
) -> Found | Gone | None:
    """The artifact, its tombstone, or None."""
    row = _FIND[with_bytes, with_view].rows(conn, {"namespace": namespace, "number": number, "now": now})[0]
    live, expires_at, tool_name, session, stored, reason, at, *buried_and_view = row[_WIDTH:]
    buried, view = buried_and_view[:2], buried_and_view[2:]
    if row[0] is None:
        return None if reason is None else rows.gone(number, reason, at, *buried)
    if not live:
        return rows.gone(number, "expired", expires_at, tool_name, session)
    if not view or view[0] is None:
        return Found(rows.artifact(row), stored)
    return Found(rows.artifact(row), stored, rows.found_view(view[:-1], view[-1]))


def stored_bytes(conn: Connection, namespace: str, blob_id: str) -> bytes | None:
    """The stored bytes of an inline blob; None when there is no such row."""
    return conn.execute(_STORED, {"namespace": namespace, "id": blob_id}).scalar_one_or_none()


def find_key(conn: Connection, namespace: str, key: str, now: datetime) -> KeyRecord | None:
    """What an idempotency key stands for."""
    row = conn.execute(_KEY, {"namespace": namespace, "key": key, "now": now}).first()
    return None if row is None else KeyRecord(*row)


def dead_blobs(conn: Connection, before: datetime, limit: int, after: DeadBlob | None) -> list[DeadBlob]:
    """Blobs that died before a moment, by moment and ID."""
    values: dict[str, Any] = {"now": before, "most": limit}
    if after is None:
        return [DeadBlob(*row) for row in conn.execute(_DEAD, values)]
    return [DeadBlob(*row) for row in conn.execute(_DEAD_AFTER, values | {"at": after.dead_at, "id": after.id})]


def same_bytes(conn: Connection, namespace: str, sha256: bytes, size: int) -> Blob | None:
    """The live, trusted blob with this content."""
    wanted = {"namespace": namespace, "digest": rows.digest(sha256), "sha256": sha256, "size": size}
    row = conn.execute(_SAME, wanted).first()
    return None if row is None else rows.blob(row)


def known_blobs(conn: Connection, names: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """The names that a row knows. An empty namespace asks for the ID in any."""
    asked = list(names)
    known: set[tuple[str, str]] = set()
    for start in range(0, len(asked), _MOST_NAMES):
        part = asked[start : start + _MOST_NAMES]
        for namespace, blob_id in conn.execute(_KNOWN, {"ids": [blob_id for _, blob_id in part]}):
            known |= {(namespace, blob_id), ("", blob_id)}
    return known.intersection(asked)


def live_blobs(conn: Connection, after: int, limit: int) -> list[tuple[int, str, Blob]]:
    """A page of live blobs: row, namespace, blob."""
    found = _ALL.rows(conn, {"after": after, "most": limit})
    return [(row[0], row[1], rows.blob(row[2:])) for row in found]
