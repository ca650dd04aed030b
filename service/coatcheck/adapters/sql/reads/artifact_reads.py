"""Queries about artifacts and blobs, except lists. Most queries are one statement, which sees one state of the data."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from itertools import product
from typing import Any

from sqlalchemy import (
    Boolean,
    ColumnElement,
    Connection,
    Integer,
    LargeBinary,
    Select,
    Text,
    and_,
    bindparam,
    literal_column,
    null,
    or_,
    select,
    tuple_,
    union_all,
)

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.changes.tombstone import is_live
from coatcheck.adapters.sql.dialect import NAMESPACE, NOW, among, bind_seqs, by_now, contains_text, equal
from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.tables import (
    artifacts,
    blobs,
    inline_bytes,
    surveys,
    tombstones,
    uploads,
    views,
)
from coatcheck.core.artifact import Artifact, Blob, Gone
from coatcheck.core.views.view import TEXT
from coatcheck.ports.catalog import FoundArtifact, PayloadKey, RunKey
from coatcheck.ports.maintenance import DeadBlob

_VIEW_BLOBS = blobs.alias("view_blobs")
_VIEW_BYTES = inline_bytes.alias("view_bytes")


def _find(*, with_bytes: bool, with_view: bool, with_survey: bool, with_receipt: bool) -> Select[Any]:
    # One statement looks for the artifact and its tombstone. With two statements, the payload might be posted again
    # between them, and neither would be found.
    anchor = select(literal_column("1", Integer()).label("one")).subquery("anchor")
    here = anchor.outerjoin(artifacts, equal(artifacts.c.namespace, artifacts.c.number)).outerjoin(
        blobs, blobs.c.seq == artifacts.c.blob_seq
    )
    # Parts that the caller does not need are not joined, since each join costs a look-up and the transfer of its bytes.
    inline_column: ColumnElement[Any] = null()
    if with_bytes:
        here = here.outerjoin(inline_bytes, inline_bytes.c.blob_seq == artifacts.c.blob_seq)
        inline_column = inline_bytes.c.stored
    survey: ColumnElement[Any] = null()
    if with_survey:
        here = here.outerjoin(surveys, surveys.c.artifact_seq == artifacts.c.seq)
        survey = surveys.c.data
    view: list[ColumnElement[Any]] = []
    if with_view:
        here = (
            here.outerjoin(views, and_(views.c.artifact_seq == artifacts.c.seq, views.c.name == TEXT))
            .outerjoin(_VIEW_BLOBS, _VIEW_BLOBS.c.seq == views.c.blob_seq)
            .outerjoin(_VIEW_BYTES, _VIEW_BYTES.c.blob_seq == views.c.blob_seq)
        )
        view = [*rows.view_columns(views, _VIEW_BLOBS), _VIEW_BYTES.c.stored]
    here = here.outerjoin(
        tombstones,
        and_(
            # A tombstone counts only if there is no artifact with its number: a payload that is posted again gets the
            # number that it had before.
            artifacts.c.seq.is_(None),
            equal(tombstones.c.namespace, tombstones.c.number),
            tombstones.c.until > NOW,
        ),
    )
    return select(
        *rows.ARTIFACT_COLUMNS,
        is_live(),
        artifacts.c.expires_at.label("ends_at"),
        artifacts.c.tool_name,
        artifacts.c.session,
        inline_column,
        survey,
        artifacts.c.receipt if with_receipt else null(),
        tombstones.c.reason,
        tombstones.c.at,
        tombstones.c.tool_name,
        tombstones.c.session,
        *view,
    ).select_from(here)


# There are sixteen statements, for all combinations of the flags. Each is compiled when it is first needed.
_FIND = {
    flags: Prepared(_find(with_bytes=flags[0], with_view=flags[1], with_survey=flags[2], with_receipt=flags[3]))
    for flags in product((False, True), repeat=4)
}
_LIVE = Prepared(
    rows.ARTIFACTS.where(artifacts.c.namespace == NAMESPACE, among(artifacts.c.number, bind_seqs("numbers")), is_live())
)
_MAX_EXAMINED_ARTIFACTS = 1_000
"""Maximum artifacts of a session, or with the same content, among which an earlier artifact is searched for. The newest
ones are searched."""
# The limit is in the subquery, so that a long session costs no more than a short one. Artifacts beyond the limit are
# not found.
_RECENT = (
    select(artifacts)
    .where(equal(artifacts.c.namespace, artifacts.c.session))
    .order_by(artifacts.c.seq.desc())
    .limit(_MAX_EXAMINED_ARTIFACTS)
    .subquery("recent")
)
_COMMAND = bindparam("command", type_=Text())
_LATEST = (
    select(_RECENT.c.number)
    .where(
        or_(_RECENT.c.expires_at.is_(None), _RECENT.c.expires_at > NOW),
        # Leave out the payload itself, which may have been stored before.
        _RECENT.c.identity != bindparam("but", type_=LargeBinary()),
        # Two runs without a tool's name count as runs of the same tool.
        _RECENT.c.tool_name.is_not_distinct_from(bindparam("tool_name", type_=Text())),
        contains_text(_RECENT.c.said, _COMMAND) == bindparam("has_command", type_=Boolean()),
    )
    .order_by(_RECENT.c.seq.desc())
    .limit(1)
)
# This has no condition on the session, because with one the query planner might read all artifacts of the session.
_SAME_CONTENT = (
    select(artifacts.c.seq, artifacts.c.session, artifacts.c.expires_at, artifacts.c.facts)
    .join_from(blobs, artifacts, artifacts.c.blob_seq == blobs.c.seq)
    .where(equal(blobs.c.digest, blobs.c.namespace, blobs.c.sha256, blobs.c.size), blobs.c.dead_at.is_(None))
    .order_by(artifacts.c.seq.desc())
    .limit(_MAX_EXAMINED_ARTIFACTS)
    .subquery("same_content")
)
_MAX_EARLIER_CARDS = 8
"""Maximum earlier artifacts with the same content that are searched for a session's card. Chosen, not measured."""
_GIVEN = Prepared(
    rows.ARTIFACTS.join(_SAME_CONTENT, artifacts.c.seq == _SAME_CONTENT.c.seq)
    .where(
        _SAME_CONTENT.c.session == bindparam("session", type_=Text()),
        or_(_SAME_CONTENT.c.expires_at.is_(None), _SAME_CONTENT.c.expires_at > NOW),
        # No string in the JSON contains this text, because quotation marks in strings are escaped.
        contains_text(_SAME_CONTENT.c.facts, literal_column("'\"given\":['", Text())),
    )
    .order_by(_SAME_CONTENT.c.seq.desc())
    .limit(_MAX_EARLIER_CARDS)
)
_NAMES_PER_STATEMENT = 500
"""Maximum names that one statement looks up, so that no statement takes long. Chosen, not measured."""


def find(
    conn: Connection,
    namespace: str,
    number: int,
    now: datetime,
    *,
    with_bytes: bool = False,
    with_view: bool = False,
    with_survey: bool = False,
    with_receipt: bool = False,
) -> FoundArtifact | Gone | None:
    """See Catalog."""
    statement = _FIND[with_bytes, with_view, with_survey, with_receipt]
    row = statement.rows(conn, {"namespace": namespace, "number": number, "now": now})[0]
    live, expires_at, tool_name, session, stored_bytes, survey, receipt, reason, at, *buried_and_view = row[
        rows.WIDTH :
    ]
    buried, view = buried_and_view[:2], buried_and_view[2:]
    # Because of the anchor there is always a row. Its namespace is NULL if there is no artifact.
    if row[0] is None:
        return None if reason is None else rows.make_tombstone(number, reason, at, *buried)
    if not live:
        return rows.make_tombstone(number, "expired", expires_at, tool_name, session)
    found_view = rows.view_of_row(view[:-1], view[-1]) if view and view[0] is not None else None
    return FoundArtifact(rows.artifact(row), stored_bytes, found_view, survey, rows.receipt_record(receipt))


def live_artifacts(conn: Connection, namespace: str, numbers: Collection[int], now: datetime) -> dict[int, Artifact]:
    """See Catalog."""
    live_rows = _LIVE.rows(conn, {"namespace": namespace, "numbers": list(numbers), "now": now})
    return {row[1]: rows.artifact(row) for row in live_rows}


def latest_run(conn: Connection, run: RunKey, now: datetime) -> int | None:
    """See Catalog."""
    parameters = {
        "namespace": run.namespace,
        "session": run.session,
        "tool_name": run.tool_name,
        "command": rows.member("command", run.command),
        "has_command": run.command is not None,
        "but": run.but,
        "now": now,
    }
    return conn.scalar(_LATEST, parameters)


def find_given_cards(conn: Connection, payload: PayloadKey, now: datetime) -> list[Artifact]:
    """See Catalog."""
    parameters = {
        "digest": rows.digest(payload.sha256),
        "namespace": payload.namespace,
        "sha256": payload.sha256,
        "size": payload.size,
        "session": payload.session,
        "now": now,
    }
    return [rows.artifact(row) for row in _GIVEN.rows(conn, parameters)]


def read_inline_bytes(conn: Connection, namespace: str, blob_id: str) -> bytes | None:
    """See InlineBytes."""
    statement = select(inline_bytes.c.stored).join_from(blobs, inline_bytes)
    return conn.scalar(statement.where(blobs.c.namespace == namespace, blobs.c.id == blob_id))


def dead_blobs(conn: Connection, before: datetime, limit: int, after: DeadBlob | None = None) -> list[DeadBlob]:
    """See Upkeep."""
    b = blobs.c
    # The time is also compared by the database server's clock, because the grace period protects readers.
    statement = select(b.namespace, b.id, b.placement, b.dead_at, b.stored_size).where(
        b.dead_at.is_not(None), b.dead_at < by_now(NOW)
    )
    if after is not None:
        statement = statement.where(tuple_(b.dead_at, b.id) > (after.dead_at, after.id))
    page = statement.order_by(b.dead_at, b.id).limit(limit)
    return [DeadBlob(*row) for row in conn.execute(page, {"now": before})]


def find_known_blobs(conn: Connection, names: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Returns which of these names belong to a blob or an upload in progress.

    A name is a pair of namespace and blob ID. An empty namespace stands for any namespace.
    """
    blob_names = list(names)
    known_names: set[tuple[str, str]] = set()
    for start in range(0, len(blob_names), _NAMES_PER_STATEMENT):
        ids = [blob_id for _, blob_id in blob_names[start : start + _NAMES_PER_STATEMENT]]
        # The file of an upload in progress has no row in `blobs` yet, but is not garbage.
        known = union_all(
            select(blobs.c.namespace, blobs.c.id).where(blobs.c.id.in_(ids)),
            select(uploads.c.namespace, uploads.c.blob_id).where(uploads.c.blob_id.in_(ids)),
        )
        for namespace, blob_id in conn.execute(known):
            known_names |= {(namespace, blob_id), ("", blob_id)}
    return known_names.intersection(blob_names)


def live_blobs(conn: Connection, after: int, limit: int) -> list[tuple[int, str, Blob]]:
    """Returns up to `limit` live blobs with row numbers above `after`: row number, namespace and blob of each."""
    live = select(blobs.c.seq, blobs.c.namespace, *rows.BLOB_COLUMNS).where(
        blobs.c.seq > after, blobs.c.dead_at.is_(None)
    )
    blob_rows: Sequence[Any] = conn.execute(live.order_by(blobs.c.seq).limit(limit)).all()
    return [(row[0], row[1], rows.blob(row[2:])) for row in blob_rows]
