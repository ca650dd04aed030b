"""Converts rows to values and values to rows. The only place that knows how a value is stored in a column.

Converts rows of runs and jobs to values and back.

Rows of keys and namespaces, and queries on them.

A query for a key has no namespace: its answer determines the namespace.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace
from sqlalchemy import ColumnElement, Connection, FromClause, Row, Text, bindparam, func, select, tuple_

from coatcheck.adapters.sql.dialect import Many, UtcDateTime, among
from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.tables import artifacts, blobs, keys, namespaces, views
from coatcheck.core import ids
from coatcheck.core.artifact import Artifact, Blob, DeclaredMetadata, DetectedMetadata, Gone, Measure, ReceiptRecord
from coatcheck.core.keys import KeyInfo, KeyRow, NamespaceInfo
from coatcheck.core.retention.jobs import WHOLE_STORE, JobState, RetentionRun, RunOutcome
from coatcheck.core.views.view import View, ViewMeasure, unpack_sections
from coatcheck.ports.artifacts import FoundView

Reason = Literal["expired", "deleted", "session_deleted", "namespace_deleted", "evicted"]

ARTIFACT_COLUMNS: list[ColumnElement[Any]] = [
    artifacts.c.namespace,
    artifacts.c.number,
    artifacts.c.said,
    artifacts.c.labels,
    artifacts.c.measure,
    artifacts.c.facts,
    artifacts.c.created_at,
    artifacts.c.expires_at,
    artifacts.c.ttl,
    artifacts.c.idle_ttl,
    artifacts.c.pinned,
    artifacts.c.engine,
]
"""The columns that `artifact` reads, in order, before BLOB_COLUMNS."""


def blob_columns(table: FromClause) -> list[ColumnElement[Any]]:
    """Returns the columns that `blob` reads, in order."""
    c = table.c
    names = (c.id, c.placement, c.size, c.stored_size, c.sha256, c.frames)
    return [*names, c.condemned_at.is_not(None).label("condemned")]


BLOB_COLUMNS = blob_columns(blobs)
VIEW_COLUMNS: list[ColumnElement[Any]] = [
    views.c.name,
    views.c.extractor,
    views.c.partial,
    views.c.measure,
    views.c.sections,
]
"""The columns that `view_of_row` reads, in order, before those of the view's blob."""
_VERSION_MARK: Final = "@"
"""Between an extractor and the view's version, which the column lacks in rows of early releases."""
WIDTH = len(ARTIFACT_COLUMNS) + len(BLOB_COLUMNS)
"""Number of columns that `artifact` reads."""

# msgspec analyses a decoder's type when it is created, so each one is created once.
_encoder = msgspec.json.Encoder()
_declared = msgspec.json.Decoder(DeclaredMetadata)
_measure = msgspec.json.Decoder(Measure)
_facts = msgspec.json.Decoder(DetectedMetadata)
_receipt = msgspec.json.Decoder(ReceiptRecord)
_labels = msgspec.json.Decoder(tuple[str, ...])
_view_measure = msgspec.json.Decoder(ViewMeasure)


def artifact(row: Sequence[Any]) -> Artifact:
    """Returns the artifact whose columns begin the row."""
    namespace, number, declared_json, labels, measure, facts, *rest = row[: len(ARTIFACT_COLUMNS)]
    created_at, expires_at, ttl, idle_ttl, pinned, engine = rest
    spoken = _declared.decode(declared_json)
    # The JSON has no labels: they may change, and so have a column of their own.
    if labels is not None:
        spoken = msgspec.structs.replace(spoken, labels=_labels.decode(labels))
    return Artifact(
        namespace=namespace,
        id=ids.render(number),
        declared=spoken,
        measure=_measure.decode(measure),
        facts=_facts.decode(facts),
        blob=blob(row[len(ARTIFACT_COLUMNS) : WIDTH]),
        created_at=created_at,
        expires_at=expires_at,
        ttl=ttl,
        idle_ttl=idle_ttl,
        pinned=pinned,
        engine=engine,
    )


def blob(columns: Sequence[Any]) -> Blob:
    """Returns the blob from BLOB_COLUMNS."""
    blob_id, placement, size, stored_size, sha256, frames, condemned = columns
    return Blob(
        id=blob_id,
        placement=placement,
        size=size,
        stored_size=stored_size,
        sha256=sha256,
        index=frames,
        condemned=bool(condemned),
    )


def receipt_record(column: str | None) -> ReceiptRecord | None:
    """Returns what a model got in the artifact's place; None if its row does not tell."""
    return None if column is None else _receipt.decode(column)


def unpack_metadata(declared: str, facts: str) -> tuple[DeclaredMetadata, DetectedMetadata]:
    """Returns the metadata in these columns; labels have one of their own."""
    return _declared.decode(declared), _facts.decode(facts)


def view_of_row(columns: Sequence[Any], inline: bytes | None) -> FoundView:
    """Returns the view from VIEW_COLUMNS and the columns of its blob, which are NULL if it has none of its own."""
    name, label, partial, measure, sections, *own = columns
    # Version 0, of a row without one, is older than any: such a view counts as old and may be replaced.
    extractor, _, version = label.partition(_VERSION_MARK)
    view = View(
        name=name,
        extractor=extractor,
        version=int(version or 0),
        partial=bool(partial),
        sections=unpack_sections(sections),
        measure=_view_measure.decode(measure),
    )
    return FoundView(view, None if own[0] is None else blob(own), inline)


def extractor_label(view: View) -> str:
    """Returns what made a view, with the view's version, as the column holds it."""
    return f"{view.extractor}{_VERSION_MARK}{view.version}"


def make_tombstone(number: int, reason: Reason, at: datetime, tool_name: str | None, session: str | None) -> Gone:
    """Returns a tombstone from its columns."""
    return Gone(id=ids.render(number), reason=reason, at=at, tool_name=tool_name, session=session)


def encode(value: msgspec.Struct) -> str:
    """Returns a value as JSON text."""
    return _encoder.encode(value).decode()


def encode_declared(declared: DeclaredMetadata) -> str:
    """Returns the declared metadata without labels, which have a column of their own because they may change."""
    return encode(msgspec.structs.replace(declared, labels=()) if declared.labels else declared)


def member(name: str, value: object = None) -> str:
    """Returns the text that a member of metadata is written as, and nothing else; without a value, with any.

    Quotes inside strings are escaped, so no string contains it.
    """
    return f'"{name}":' if value is None else f'"{name}":{_encoder.encode(value).decode()}'


def encode_labels(labels: tuple[str, ...]) -> str | None:
    """Returns the labels as a JSON array; None if there are none."""
    return _encoder.encode(labels).decode() if labels else None


def columns_of_metadata(declared: DeclaredMetadata, facts: DetectedMetadata) -> dict[str, Any]:
    """Returns the columns that follow from declared and detected metadata, except labels and session."""
    return {
        "said": encode_declared(declared),
        "facts": encode(facts),
        "tool_name": declared.tool_name,
        "kind": facts.kind.value,
        # A payload's own URL may contain what no text column accepts.
        "url": (declared.url or facts.url or "").replace("\0", "") or None,
    }


def digest(sha256: bytes) -> int:
    """Returns the first eight bytes of a digest as a signed integer."""
    # Signed, as BIGINT is on both databases. Eight bytes find the candidates; the whole digest decides.
    return int.from_bytes(sha256[:8], "big", signed=True)


_CONVERTED: Final = {"scope", "plan", "outcome", "busy_seconds", "oldest_overdue_seconds"}
"""Fields of a run that its row has in another form: JSON, bytes or milliseconds."""
_ALIKE: Final = [name for name in RetentionRun.__struct_fields__ if name not in _CONVERTED]
"""Fields of a run that its row has under the same name, with the same value."""


def run_of(row: Any) -> RetentionRun:  # noqa: ANN401 - a row of `runs`
    """Returns a run from its row."""
    return RetentionRun(
        **{name: getattr(row, name) for name in _ALIKE},
        scope=replace(WHOLE_STORE, **msgspec.json.decode(row.scope)),
        plan=None if row.plan_digest is None else row.plan_digest.hex(),
        outcome=RunOutcome(row.outcome),
        busy_seconds=row.busy_ms / 1000,
        oldest_overdue_seconds=row.oldest_overdue / 1000,
    )


def values_of(run: RetentionRun) -> dict[str, Any]:
    """Returns a run's row, without its worker and position."""
    return {name: getattr(run, name) for name in _ALIKE} | {
        "namespace": run.scope.namespace,
        "scope": msgspec.json.encode(run.scope).decode(),
        "plan_digest": None if run.plan is None else bytes.fromhex(run.plan),
        "outcome": run.outcome.value,
        "busy_ms": round(run.busy_seconds * 1000),
        "oldest_overdue": round(run.oldest_overdue_seconds * 1000),
    }


def job_of(row: Any) -> JobState:  # noqa: ANN401 - a row of `jobs`
    """Returns a job's state from its row."""
    return JobState(**{name: getattr(row, name) for name in JobState.__struct_fields__})


def larger(dialect: str, one: ColumnElement[Any], other: ColumnElement[Any]) -> ColumnElement[Any]:
    """Returns the larger of two values."""
    # SQLite's `max` of two arguments is what PostgreSQL calls `greatest`; of one, it is the aggregate.
    return func.max(one, other) if dialect == "sqlite" else func.greatest(one, other)


KEY_COLUMNS: list[ColumnElement[Any]] = [column for column in keys.c if column.name != "digest"]
"""The columns that `info_of` reads."""
# An outer join: a key of all namespaces has no row in `namespaces`.
_FIND = Prepared(
    select(*KEY_COLUMNS, keys.c.digest, namespaces.c.disabled_at)
    .join_from(keys, namespaces, namespaces.c.namespace == keys.c.namespace, isouter=True)
    .where(among(keys.c.id, bindparam("ids", type_=Many(Text()))))
)
_ANY = Prepared(select(keys.c.id).limit(1))
_PLACE = select(keys.c.created_at).where(keys.c.id == bindparam("before"))  # only within the listed namespace
# By moment and ID, since keys may have the same moment: `ix_keys_created_at_id` has this order.
_NEWEST = select(*KEY_COLUMNS).order_by(keys.c.created_at.desc(), keys.c.id.desc()).limit(bindparam("most"))
_BEHIND = tuple_(keys.c.created_at, keys.c.id) < tuple_(
    bindparam("at", type_=UtcDateTime), bindparam("before", type_=Text())
)
_NAMESPACES = (
    select(namespaces)
    .where(namespaces.c.namespace > bindparam("after"))
    .order_by(namespaces.c.namespace)
    .limit(bindparam("most"))
)


def scopes_column(scopes: Collection[str]) -> str:
    """Returns scopes as one text."""
    return " ".join(sorted(scopes))


def info_of(row: Row[Any]) -> KeyInfo:
    """Returns a key from KEY_COLUMNS."""
    return _info(tuple(row))


def _info(columns: tuple[Any, ...]) -> KeyInfo:
    key_id, namespace, name, scopes, session_prefix, created_at, expires_at, revoked_at, requests, size = columns
    return KeyInfo(
        id=key_id,
        namespace=namespace,
        name=name,
        scopes=tuple(scopes.split()),
        session_prefix=session_prefix,
        created_at=created_at,
        expires_at=expires_at,
        revoked_at=revoked_at,
        requests_per_minute=requests,
        bytes_per_minute=size,
    )


def namespace_of(row: Row[Any]) -> NamespaceInfo:
    """Returns a namespace from its row."""
    return NamespaceInfo(name=row.namespace, created_at=row.created_at, disabled_at=row.disabled_at)


def find_keys(conn: Connection, ids: Collection[str]) -> dict[str, KeyRow]:
    """Returns the keys of these IDs, and whether their namespaces are disabled."""
    result_rows = _FIND.rows(conn, {"ids": sorted(ids)})
    return {row[0]: KeyRow(_info(row[:-2]), row[-2], row[-1]) for row in result_rows}


def any_key(conn: Connection) -> bool:
    """Returns whether a key was ever created."""
    return bool(_ANY.rows(conn, {}))


def list_keys(conn: Connection, namespace: str | None, *, before: str | None, limit: int) -> list[KeyInfo]:
    """Returns keys, newest first."""
    statement, place = _NEWEST, _PLACE
    if namespace is not None:
        statement, place = (each.where(keys.c.namespace == namespace) for each in (statement, place))
    values: dict[str, Any] = {"most": limit}
    if before is not None:
        at: datetime | None = conn.execute(place, {"before": before}).scalar_one_or_none()
        # The cursor's key does not exist, or is another namespace's, which this caller may not learn.
        if at is None:
            return []
        statement = statement.where(_BEHIND)
        values |= {"at": at, "before": before}
    return [info_of(row) for row in conn.execute(statement, values)]


def list_namespaces(conn: Connection, *, after: str, limit: int, only: str | None = None) -> list[NamespaceInfo]:
    """Returns namespaces after a name."""
    statement = _NAMESPACES if only is None else _NAMESPACES.where(namespaces.c.namespace == only)
    return [namespace_of(row) for row in conn.execute(statement, {"after": after, "most": limit})]
