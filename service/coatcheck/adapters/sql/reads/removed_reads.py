"""What was removed and can be restored: its former row, blob and views."""

from datetime import datetime
from typing import Any, Final, cast

import msgspec
from sqlalchemy import BigInteger, ColumnElement, Connection, Text, bindparam, select

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.tables import blobs, removed, removed_views
from coatcheck.adapters.sql.types import UtcDateTime
from coatcheck.core.artifact import Artifact
from coatcheck.core.views.view import View, ViewMeasure, unpack_sections
from coatcheck.ports.retention_changes import RemovedArtifact, RemovedView

_NAMESPACE = bindparam("namespace", type_=Text())
_AFTER = bindparam("after", type_=BigInteger())
_LIMIT = bindparam("limit", type_=BigInteger())
_WAS: Final[list[ColumnElement[Any]]] = [removed.c[column.name] for column in rows.ARTIFACT_COLUMNS]
_REMOVED: Final[Any] = (
    select(
        *_WAS,
        *rows.BLOB_COLUMNS,
        removed.c.seq,
        removed.c.removed_at,
        removed.c.reason,
        removed.c.run_id,
        blobs.c.namespace,
    )
    .join_from(removed, blobs, blobs.c.seq == removed.c.blob_seq, isouter=True)
    .where(removed.c.removed_at > bindparam("since", type_=UtcDateTime))
)
_OF_NUMBER = (
    _REMOVED.where(removed.c.namespace == _NAMESPACE, removed.c.number == bindparam("number"))
    .order_by(removed.c.seq.desc())
    .limit(1)
)
_OF_RUN = (
    _REMOVED.where(removed.c.run_id == bindparam("run", type_=Text()), removed.c.seq > _AFTER)
    .order_by(removed.c.seq)
    .limit(_LIMIT)
)
_VIEWS: Final[Any] = (
    select(
        removed_views.c.name,
        removed_views.c.extractor,
        removed_views.c.partial,
        removed_views.c.measure,
        removed_views.c.sections,
        removed_views.c.blob_seq,
        blobs.c.namespace,
        *rows.BLOB_COLUMNS,
    )
    .join_from(removed_views, blobs, blobs.c.seq == removed_views.c.blob_seq, isouter=True)
    .where(removed_views.c.removed_seq == bindparam("row"))
)


def find_removal(conn: Connection, namespace: str, number: int, since: datetime) -> RemovedArtifact | None:
    """Returns the last removal of an artifact that can be undone."""
    row = conn.execute(_OF_NUMBER, {"namespace": namespace, "number": number, "since": since}).first()
    return None if row is None else _removal_of_row(conn, row)


def list_removals(conn: Connection, run_id: str, since: datetime, *, after: int, limit: int) -> list[RemovedArtifact]:
    """Returns what a run has removed and can be undone, after a row."""
    removed_rows = conn.execute(_OF_RUN, {"run": run_id, "since": since, "after": after, "limit": limit}).all()
    return [_removal_of_row(conn, row) for row in removed_rows]


def _removal_of_row(conn: Connection, row: Any) -> RemovedArtifact:  # noqa: ANN401 - a row of _REMOVED
    seq, removed_at, reason, run_id, blob_namespace = row[rows.WIDTH :]
    namespace, number = row[0], row[1]
    artifact: Artifact | None = None
    if blob_namespace == namespace:
        artifact = rows.artifact(row)
        if artifact.blob.sha256 != artifact.measure.sha256:  # the row belongs to another blob by now
            artifact = None
    return RemovedArtifact(
        seq=seq,
        removed_at=removed_at,
        reason=reason,
        run_id=run_id,
        artifact=artifact,
        number=number,
        namespace=namespace,
        views=_views(conn, seq, namespace),
    )


def _views(conn: Connection, seq: int, namespace: str) -> tuple[RemovedView, ...]:
    removed_views: list[RemovedView] = []
    for row in cast("list[Any]", conn.execute(_VIEWS, {"row": seq}).all()):
        name, extractor, partial, measure, sections, blob_seq, owner, *columns = row
        measured = msgspec.json.decode(measure, type=ViewMeasure)
        blob = None if blob_seq is None or owner != namespace else rows.blob(columns)
        if blob_seq is not None and (blob is None or blob.size != measured.size):
            continue
        view = View(
            name=name,
            extractor=extractor,
            partial=bool(partial),
            sections=unpack_sections(sections),
            measure=measured,
        )
        removed_views.append(RemovedView(view, blob))
    return tuple(removed_views)
