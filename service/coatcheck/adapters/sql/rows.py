"""Converts rows to values and values to rows. The only place that knows how a value is stored in a column.

Also queries on keys and namespaces. One for a key has no namespace: its answer determines the namespace.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from types import SimpleNamespace
from typing import Any, Final, Literal, TypeVar, cast

import msgspec
from msgspec.structs import replace
from sqlalchemy import Column, ColumnElement, Connection, FromClause, Select, Text, bindparam, select, tuple_

from coatcheck.adapters.sql.dialect import Many, among
from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.tables import artifacts, blobs, keys, namespaces
from coatcheck.core import ids
from coatcheck.core.artifact import Artifact, Blob, DeclaredMetadata, DetectedMetadata, Gone, Measure, ReceiptRecord
from coatcheck.core.keys import KeyInfo, KeyRow, NamespaceInfo
from coatcheck.core.policies.policy import expiry
from coatcheck.core.retention.jobs import WHOLE_STORE, RetentionRun, RunOutcome
from coatcheck.core.views.view import View, ViewMeasure, unpack_sections
from coatcheck.ports.artifacts import FoundView

T = TypeVar("T")
Reason = Literal["expired", "deleted", "session_deleted", "namespace_deleted", "evicted"]

_ARTIFACT = (
    *("namespace", "number", "said", "labels", "measure", "facts"),
    *("created_at", "expires_at", "ttl", "idle_ttl", "pinned", "engine"),
)


def artifact_columns(table: FromClause) -> list[ColumnElement[Any]]:
    """Returns the columns that `artifact` reads, in order, before those of its blob."""
    return [table.c[name] for name in _ARTIFACT]


def blob_columns(table: FromClause) -> list[ColumnElement[Any]]:
    """Returns the columns that `blob` reads, in order."""
    c = table.c
    names = (c.id, c.placement, c.size, c.stored_size, c.sha256, c.frames)
    return [*names, c.condemned_at.is_not(None).label("condemned")]


def view_columns(table: FromClause, blob_table: FromClause) -> list[ColumnElement[Any]]:
    """Returns the columns that `view_of_row` reads, in order."""
    names = ("name", "extractor", "partial", "measure", "sections")
    return [*(table.c[name] for name in names), *blob_columns(blob_table)]


BLOB_COLUMNS = blob_columns(blobs)
ARTIFACT_COLUMNS = [*artifact_columns(artifacts), *BLOB_COLUMNS]
"""The columns that `artifact` reads."""
ARTIFACTS: Select[Any] = select(*ARTIFACT_COLUMNS).join_from(artifacts, blobs)
"""Selects artifacts with their blobs."""
_VERSION_MARK: Final = "@"
"""Between an extractor and the view's version, which the column lacks in rows of early releases."""
WIDTH = len(ARTIFACT_COLUMNS)
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
    namespace, number, declared_json, labels, measure, facts, *life = row[: len(_ARTIFACT)]
    created_at, expires_at, ttl, idle_ttl, pinned, engine = life
    declared = _declared.decode(declared_json)
    # The JSON has no labels: they may change, and so have a column of their own.
    if labels is not None:
        declared = replace(declared, labels=_labels.decode(labels))
    return Artifact(
        namespace=namespace,
        id=ids.render(number),
        declared=declared,
        measure=_measure.decode(measure),
        facts=_facts.decode(facts),
        blob=blob(row[len(_ARTIFACT) : WIDTH]),
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
    """Returns the view from `view_columns`; those of its blob are NULL if it has none of its own."""
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
    return encode(replace(declared, labels=()) if declared.labels else declared)


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


def life_from_now(
    created_at: datetime, now: datetime, *, ttl: int | None, idle_ttl: int | None, pinned: bool
) -> dict[str, Any]:
    """Returns the columns of an artifact that lives for `ttl` seconds from now on, whenever it was created."""
    # A TTL counts from `created_at`, which stays, so the age is added: rounded up, or it would end too early.
    ttl = None if ttl is None else math.ceil((now - created_at).total_seconds()) + ttl
    expires_at = expiry(created_at, now, ttl=ttl, idle_ttl=idle_ttl, pinned=pinned)
    return {"ttl": ttl, "idle_ttl": idle_ttl, "pinned": pinned, "read_at": now, "expires_at": expires_at}


def digest(sha256: bytes) -> int:
    """Returns the first eight bytes of a digest as a signed integer."""
    # Signed, as BIGINT is on both databases. Eight bytes find the candidates; the whole digest decides.
    return int.from_bytes(sha256[:8], "big", signed=True)


_CONVERTED: Final = {"scope", "plan", "outcome", "busy_seconds", "oldest_overdue_seconds"}
"""Fields of a run that its row has in another form: JSON, bytes or milliseconds."""
_ALIKE: Final = [name for name in RetentionRun.__struct_fields__ if name not in _CONVERTED]
"""Fields of a run that its row has under the same name, with the same value."""


def struct_of(kind: type[T], row: Any, **converted: Any) -> T:  # noqa: ANN401 - a row, and values of any column
    """Returns a struct from the columns with its fields' names; `converted`: the fields that have another form."""
    names = cast("type[msgspec.Struct]", kind).__struct_fields__
    return kind(**{name: getattr(row, name) for name in names if name not in converted}, **converted)


def where_given(statement: Select[Any], values: Mapping[Column[Any], object]) -> Select[Any]:
    """Returns the statement for rows in which columns have these values; None: any."""
    return statement.where(*(column == value for column, value in values.items() if value is not None))


def run_of(row: Any) -> RetentionRun:  # noqa: ANN401 - a row of `runs`
    """Returns a run from its row."""
    return struct_of(
        RetentionRun,
        row,
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


# An outer join: a key of all namespaces has no row in `namespaces`.
_FIND = Prepared(
    select(keys, namespaces.c.disabled_at)
    .join_from(keys, namespaces, namespaces.c.namespace == keys.c.namespace, isouter=True)
    .where(among(keys.c.id, bindparam("ids", type_=Many(Text()))))
)


def scopes_column(scopes: Collection[str]) -> str:
    """Returns scopes as one text."""
    return " ".join(sorted(scopes))


def key_of(row: Any) -> KeyInfo:  # noqa: ANN401 - a row of `keys`
    """Returns a key from its row."""
    return struct_of(KeyInfo, row, scopes=tuple(row.scopes.split()))


def namespace_of(row: Any) -> NamespaceInfo:  # noqa: ANN401 - a row of `namespaces`
    """Returns a namespace from its row."""
    return struct_of(NamespaceInfo, row, name=row.namespace)


def find_keys(conn: Connection, ids: Collection[str]) -> dict[str, KeyRow]:
    """Returns the keys of these IDs, and whether their namespaces are disabled."""
    key_rows: dict[str, KeyRow] = {}
    for *columns, disabled_at in _FIND.rows(conn, {"ids": sorted(ids)}):
        row = SimpleNamespace(**dict(zip(keys.c.keys(), columns, strict=True)))
        key_rows[row.id] = KeyRow(key_of(row), row.digest, disabled_at)
    return key_rows


def any_key(conn: Connection) -> bool:
    """Returns whether a key was ever created."""
    return conn.scalar(select(keys.c.id).limit(1)) is not None


def list_keys(conn: Connection, namespace: str | None, *, before: str | None, limit: int) -> list[KeyInfo]:
    """Returns keys, newest first."""
    only = {keys.c.namespace: namespace}
    # By moment and ID, since keys may have the same moment: `ix_keys_created_at_id` has this order.
    statement = select(keys).order_by(keys.c.created_at.desc(), keys.c.id.desc()).limit(limit)
    if before is not None:
        at = conn.scalar(where_given(select(keys.c.created_at), {**only, keys.c.id: before}))
        # The cursor's key does not exist, or is another namespace's, which this caller may not learn.
        if at is None:
            return []
        statement = statement.where(tuple_(keys.c.created_at, keys.c.id) < (at, before))
    return [key_of(row) for row in conn.execute(where_given(statement, only))]


def list_namespaces(conn: Connection, *, after: str, limit: int, only: str | None = None) -> list[NamespaceInfo]:
    """Returns namespaces after a name."""
    name = namespaces.c.namespace
    statement = where_given(select(namespaces).where(name > after).order_by(name).limit(limit), {name: only})
    return [namespace_of(row) for row in conn.execute(statement)]
