"""Lists live artifacts, newest first, and finds removed artifacts that can be restored.

An index for each filter would make storing and deleting slower. Instead, a list walks through the rows in stretches,
newest first, and stops when its page is full or time is up. The index along which it walks also contains the time of
creation, the kind and the tool of each artifact, so that a filter by these skips a million rows in a fraction of a
second. Other filters read each row. The next page continues where a page has stopped. A page may therefore contain
fewer artifacts than requested, or none, without being the last one.
"""

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from msgspec.structs import astuple
from sqlalchemy import ColumnElement, Connection, Row, Text, and_, bindparam, func, literal, not_, or_, select

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.changes.tombstone import is_live
from coatcheck.adapters.sql.dialect import NAMESPACE, UtcDateTime, among, bind_seqs, contains_text, equal, has_label
from coatcheck.adapters.sql.tables import artifacts, blobs, removed, removed_views
from coatcheck.core.artifact import Artifact
from coatcheck.ports.artifacts import FoundView
from coatcheck.ports.catalog import ArtifactFilter, ArtifactPage
from coatcheck.ports.retention import RemovedArtifact

STRETCH = 5_000
"""Rows that the first statement of a list examines, which takes tens of milliseconds. Later statements examine as many
rows as the time allows."""
SECONDS = 0.1
"""Seconds after which a list begins no further stretch."""

_MINE = artifacts.c.namespace == NAMESPACE
_LIVE = rows.ARTIFACTS.add_columns(artifacts.c.seq).where(_MINE, is_live())
_LIST = _LIVE.order_by(artifacts.c.seq.desc()).limit(bindparam("most"))
_END = select(artifacts.c.seq).where(_MINE).order_by(artifacts.c.seq.desc()).limit(1).offset(bindparam("stretch"))
_PREFIX = bindparam("session_prefix", type_=Text())
_IN_METADATA = ("status", "final_url")
"""Names of the conditions on members of the declared metadata, or of the detected metadata if the member was not
declared."""


def _has_member(name: str) -> ColumnElement[bool]:
    member, any_value = bindparam(name, type_=Text()), literal(rows.member(name))
    declared, detected = artifacts.c.said, artifacts.c.facts
    # A detected value only counts if no value was declared.
    undeclared = and_(not_(contains_text(declared, any_value)), contains_text(detected, member))
    return or_(contains_text(declared, member), undeclared)


_CONDITIONS: dict[str, ColumnElement[bool]] = {
    # This compares prefixes instead of a range, since the order of texts depends on the database's collation.
    "session_prefix": func.substr(artifacts.c.session, 1, func.length(_PREFIX)) == _PREFIX,
    **{name: equal(artifacts.c[name]) for name in ("session", "kind", "tool_name", "url")},
    **{name: _has_member(name) for name in _IN_METADATA},
    "label": has_label(artifacts.c.labels, bindparam("label")),
    "created_after": artifacts.c.created_at >= bindparam("created_after", type_=UtcDateTime),
    "created_before": artifacts.c.created_at < bindparam("created_before", type_=UtcDateTime),
}


def of_rows(
    conn: Connection,
    namespace: str,
    where: ArtifactFilter,
    now: datetime,
    proposed: Sequence[int],
    *also: ColumnElement[Any],
) -> list[Row[Any]]:
    """Returns the artifacts with these row numbers that are live and meet all conditions except `terms`, newest first.

    `also` are columns that the result has in addition.
    """
    filters = _bind_filters(where)
    # The statement has no order, because with an order the query planner may walk through all rows from the newest.
    statement = _LIVE.where(among(artifacts.c.seq, bind_seqs()), *(_CONDITIONS[name] for name in filters)).add_columns(
        *also
    )
    values = {"namespace": namespace, "now": now, **filters, "seqs": proposed}
    live_rows = conn.execute(statement.where(among(artifacts.c.seq, bind_seqs())), values).all()
    return sorted(live_rows, key=lambda row: row.seq, reverse=True)


def _bind_filters(where: ArtifactFilter) -> dict[str, Any]:
    fields = zip(where.__struct_fields__, astuple(where), strict=True)
    return {
        name: rows.member(name, value) if name in _IN_METADATA else value
        for name, value in fields
        if value is not None and name in _CONDITIONS
    }


def list_artifacts(
    conn: Connection,
    namespace: str,
    where: ArtifactFilter,
    now: datetime,
    *,
    before: int | None,
    limit: int,
    stretch: int = STRETCH,
    seconds: float = SECONDS,
) -> ArtifactPage:
    """Returns a page of live artifacts that meet all conditions, newest first.

    Args:
        conn: a transaction.
        namespace: the namespace of the artifacts.
        where: the conditions; `terms` is ignored.
        now: the time at which the artifacts must be live.
        before: the row number before which the page begins; None: it begins with the newest artifact.
        limit: the maximum number of artifacts.
        stretch: the rows that the first statement examines.
        seconds: the time after which no further stretch begins.
    """
    began = time.monotonic()
    end, least = began + seconds, stretch
    filters = _bind_filters(where)
    values: dict[str, Any] = {"namespace": namespace, "now": now, **filters}
    page_rows: list[Row[Any]] = []
    while True:
        # Without filters, or with only a session, the index contains only artifacts that meet the conditions, so the
        # limit ends the walk.
        first = _end_of_stretch(conn, filters, values, before, stretch) if filters.keys() - {"session"} else None
        # One artifact more than requested is read, to find out whether there is another page.
        page_rows += _stretch(conn, filters, values, before, first, limit + 1 - len(page_rows))
        if len(page_rows) > limit:
            return ArtifactPage([rows.artifact(row) for row in page_rows[:limit]], page_rows[limit - 1].seq)
        now_at = time.monotonic()
        # If time is up, the page ends with the stretch, and the next page begins there.
        if first is None or now_at >= end:
            return ArtifactPage([rows.artifact(row) for row in page_rows], first)
        before = first
        stretch = _next_stretch(stretch, now_at - began, end - now_at, least)
        began = now_at


def _next_stretch(rows_seen: int, took: float, seconds_left: float, least: int) -> int:
    """Returns how many rows to examine next: as many as fit into half of the remaining time.

    The number is at most twice the former one, and at least `least`.
    """
    fitting = int(rows_seen * seconds_left / (2 * took)) if took > 0 else 2 * rows_seen
    return max(least, min(2 * rows_seen, fitting))


def _end_of_stretch(
    conn: Connection, filters: dict[str, Any], values: dict[str, Any], before: int | None, stretch: int
) -> int | None:
    """Returns the oldest row number of the stretch that begins before a row number.

    None: the stretch reaches the end of the rows.
    """
    statement = _END if before is None else _END.where(artifacts.c.seq < before)
    if "session" in filters:
        statement = statement.where(_CONDITIONS["session"])
    return conn.scalar(statement, {**values, "stretch": stretch - 1})


def _stretch(
    conn: Connection, filters: dict[str, Any], values: dict[str, Any], before: int | None, first: int | None, most: int
) -> list[Row[Any]]:
    statement = _LIST.where(*(_CONDITIONS[name] for name in filters))
    if before is not None:
        statement = statement.where(artifacts.c.seq < before)
    if first is not None:
        statement = statement.where(artifacts.c.seq >= first)
    return list(conn.execute(statement, {**values, "most": most}).all())


# The join is an outer join, because the sweep may have deleted the blob's row.
_REMOVED: Final = select(
    *rows.artifact_columns(removed),
    *rows.BLOB_COLUMNS,
    *(removed.c.seq, removed.c.removed_at, removed.c.reason, removed.c.run_id, blobs.c.namespace),
).join_from(removed, blobs, blobs.c.seq == removed.c.blob_seq, isouter=True)


def find_removal(conn: Connection, namespace: str, number: int, since: datetime) -> RemovedArtifact | None:
    """Returns the last removal of an artifact, if it was after `since` and can therefore be undone; otherwise None."""
    mine = (removed.c.removed_at > since, removed.c.namespace == namespace, removed.c.number == number)
    row = conn.execute(_REMOVED.where(*mine).order_by(removed.c.seq.desc()).limit(1)).first()
    return None if row is None else _removal_of_row(conn, row)


def list_removals(conn: Connection, run_id: str, since: datetime, *, after: int, limit: int) -> list[RemovedArtifact]:
    """Returns up to `limit` removals by a run that can be undone, with row numbers above `after`.

    A removal can be undone if it was after `since`.
    """
    mine = (removed.c.removed_at > since, removed.c.run_id == run_id, removed.c.seq > after)
    removed_rows = conn.execute(_REMOVED.where(*mine).order_by(removed.c.seq).limit(limit)).all()
    return [_removal_of_row(conn, row) for row in removed_rows]


def _removal_of_row(conn: Connection, row: Any) -> RemovedArtifact:  # noqa: ANN401 - a row of _REMOVED
    seq, removed_at, reason, run_id, blob_namespace = row[rows.WIDTH :]
    namespace, number = row[0], row[1]
    artifact: Artifact | None = None
    # No foreign key protects `blob_seq`, and SQLite reuses row numbers. The comparisons show whether the blob is still
    # the artifact's.
    if blob_namespace == namespace:
        artifact = rows.artifact(row)
        if artifact.blob.sha256 != artifact.measure.sha256:  # another blob has this row number now
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


def _views(conn: Connection, seq: int, namespace: str) -> tuple[FoundView, ...]:
    kept: list[FoundView] = []
    statement = (
        select(removed_views.c.blob_seq, blobs.c.namespace, *rows.view_columns(removed_views, blobs))
        .join_from(removed_views, blobs, blobs.c.seq == removed_views.c.blob_seq, isouter=True)
        .where(removed_views.c.removed_seq == seq)
    )
    view_rows: Sequence[Any] = conn.execute(statement).all()
    for blob_seq, owner, *columns in view_rows:
        found = rows.view_of_row(columns, None)
        blob = found.blob if owner == namespace else None
        # A view is left out if its bytes are gone or another blob has the row number now: it can be extracted again.
        if blob_seq is None or (blob is not None and blob.size == found.view.measure.size):
            kept.append(FoundView(found.view, blob))
    return tuple(kept)
