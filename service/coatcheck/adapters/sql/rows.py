"""Converts rows to values and values to rows. No other module knows how a value is stored in a column.

Also has the queries on keys and namespaces. The query for a key has no namespace as parameter, because only the key's
row says which namespace the caller has.
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
    """Returns the columns that `artifact` reads first, in its order; the columns of the artifact's blob must follow."""
    return [table.c[name] for name in _ARTIFACT]


def blob_columns(table: FromClause) -> list[ColumnElement[Any]]:
    """Returns the columns of a blob in the order in which `blob` reads them."""
    c = table.c
    names = (c.id, c.placement, c.size, c.stored_size, c.sha256, c.frames)
    return [*names, c.condemned_at.is_not(None).label("condemned")]


def view_columns(table: FromClause, blob_table: FromClause) -> list[ColumnElement[Any]]:
    """Returns the columns of a view and its blob in the order in which `view_of_row` reads them."""
    names = ("name", "extractor", "partial", "measure", "sections")
    return [*(table.c[name] for name in names), *blob_columns(blob_table)]


BLOB_COLUMNS = blob_columns(blobs)
ARTIFACT_COLUMNS = [*artifact_columns(artifacts), *BLOB_COLUMNS]
"""The columns of an artifact and its blob in the order in which `artifact` reads them."""
ARTIFACTS: Select[Any] = select(*ARTIFACT_COLUMNS).join_from(artifacts, blobs)
"""Selects artifacts with their blobs."""
_VERSION_MARK: Final = "@"
"""Separates the name of an extractor from the view's version. Rows of early releases have no version."""
WIDTH = len(ARTIFACT_COLUMNS)
"""Number of columns that `artifact` reads."""

# msgspec analyses the type when a decoder is created, so each decoder is created only once.
_encoder = msgspec.json.Encoder()
_declared = msgspec.json.Decoder(DeclaredMetadata)
_measure = msgspec.json.Decoder(Measure)
_facts = msgspec.json.Decoder(DetectedMetadata)
_receipt = msgspec.json.Decoder(ReceiptRecord)
_labels = msgspec.json.Decoder(tuple[str, ...])
_view_measure = msgspec.json.Decoder(ViewMeasure)


def artifact(row: Sequence[Any]) -> Artifact:
    """Returns the artifact in the first columns of a row."""
    namespace, number, declared_json, labels, measure, facts, *life = row[: len(_ARTIFACT)]
    created_at, expires_at, ttl, idle_ttl, pinned, engine = life
    declared = _read_declared(declared_json)
    # The labels are not in the JSON. They may change, and so have a column of their own.
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
    """Returns the blob whose BLOB_COLUMNS are given."""
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
    """Returns the record of the text that a model got in place of the payload; None if the column is NULL."""
    return None if column is None else _receipt.decode(column)


def unpack_metadata(declared: str, facts: str) -> tuple[DeclaredMetadata, DetectedMetadata]:
    """Returns the declared metadata, without labels, and the detected metadata from their JSON columns."""
    return _read_declared(declared), _facts.decode(facts)


def _read_declared(declared: str) -> DeclaredMetadata:
    # Releases before 0.12 stored null if a request gave null for the labels. As in `member`, no string contains this.
    return _declared.decode(declared.replace('"labels":null', '"labels":[]'))


def view_of_row(columns: Sequence[Any], inline: bytes | None) -> FoundView:
    """Returns the view from `view_columns` and its inline bytes.

    The blob's columns are NULL if the view has no blob of its own, because the view is the payload itself.
    """
    name, label, partial, measure, sections, *own = columns
    # A row without a version gets version 0, which is older than any other: the view counts as old and may be replaced.
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
    """Returns the name of a view's extractor and the view's version, as the column `extractor` has them."""
    return f"{view.extractor}{_VERSION_MARK}{view.version}"


def make_tombstone(number: int, reason: Reason, at: datetime, tool_name: str | None, session: str | None) -> Gone:
    """Returns a tombstone from its columns."""
    return Gone(id=ids.render(number), reason=reason, at=at, tool_name=tool_name, session=session)


def encode(value: msgspec.Struct) -> str:
    """Returns a value as JSON text."""
    return _encoder.encode(value).decode()


def encode_declared(declared: DeclaredMetadata) -> str:
    """Returns the declared metadata as JSON, without labels: they may change, and so have a column of their own."""
    return encode(replace(declared, labels=()) if declared.labels else declared)


def member(name: str, value: object = None) -> str:
    """Returns the text of a member in metadata's JSON, name and value; without a value, only the name and the colon.

    Quotation marks inside JSON strings are escaped, so no string value contains this text.
    """
    return f'"{name}":' if value is None else f'"{name}":{_encoder.encode(value).decode()}'


def encode_labels(labels: tuple[str, ...]) -> str | None:
    """Returns the labels as a JSON array; None if there are none."""
    return _encoder.encode(labels).decode() if labels else None


def columns_of_metadata(declared: DeclaredMetadata, facts: DetectedMetadata) -> dict[str, Any]:
    """Returns the columns that are filled from declared and detected metadata, except labels and session."""
    return {
        "said": encode_declared(declared),
        "facts": encode(facts),
        "tool_name": declared.tool_name,
        "kind": facts.kind.value,
        # The URL may come from the payload, and may contain NUL, which PostgreSQL's text columns refuse.
        "url": (declared.url or facts.url or "").replace("\0", "") or None,
    }


def life_from_now(
    created_at: datetime, now: datetime, *, ttl: int | None, idle_ttl: int | None, pinned: bool
) -> dict[str, Any]:
    """Returns the life columns of an artifact whose TTL and idle TTL begin now, whenever the artifact was created.

    `ttl` and `idle_ttl` are in seconds; None: no such limit.
    """
    # A TTL counts from `created_at`, which does not change, so the artifact's age is added to the TTL. The age is
    # rounded up, since the artifact would otherwise expire too early.
    ttl = None if ttl is None else math.ceil((now - created_at).total_seconds()) + ttl
    expires_at = expiry(created_at, now, ttl=ttl, idle_ttl=idle_ttl, pinned=pinned)
    return {"ttl": ttl, "idle_ttl": idle_ttl, "pinned": pinned, "read_at": now, "expires_at": expires_at}


def digest(sha256: bytes) -> int:
    """Returns the first eight bytes of a digest as a signed integer."""
    # BIGINT is signed on both databases. The eight bytes find the candidates; the whole digest decides among them.
    return int.from_bytes(sha256[:8], "big", signed=True)


_CONVERTED: Final = {"scope", "plan", "outcome", "busy_seconds", "oldest_overdue_seconds"}
"""Fields of a run that are stored in another form: as JSON, bytes or milliseconds."""
_ALIKE: Final = [name for name in RetentionRun.__struct_fields__ if name not in _CONVERTED]
"""Fields of a run that are stored unchanged, in columns of the same name."""


def struct_of(kind: type[T], row: Any, **converted: Any) -> T:  # noqa: ANN401 - a row, and values of any column
    """Returns a struct whose fields have the values of the row's columns of the same names.

    `converted` has the values of the fields that are stored in another form.
    """
    names = cast("type[msgspec.Struct]", kind).__struct_fields__
    return kind(**{name: getattr(row, name) for name in names if name not in converted}, **converted)


def where_given(statement: Select[Any], values: Mapping[Column[Any], object]) -> Select[Any]:
    """Returns the statement restricted to rows that have these values in these columns; None: any value."""
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
    """Returns the columns of a run, except the plan's ID, the worker, the lease and the numbers of parts."""
    return {name: getattr(run, name) for name in _ALIKE} | {
        "namespace": run.scope.namespace,
        "scope": msgspec.json.encode(run.scope).decode(),
        "plan_digest": None if run.plan is None else bytes.fromhex(run.plan),
        "outcome": run.outcome.value,
        "busy_ms": round(run.busy_seconds * 1000),
        "oldest_overdue": round(run.oldest_overdue_seconds * 1000),
    }


# The join is an outer join, because a key of all namespaces has no row in `namespaces`.
_FIND = Prepared(
    select(keys, namespaces.c.disabled_at)
    .join_from(keys, namespaces, namespaces.c.namespace == keys.c.namespace, isouter=True)
    .where(among(keys.c.id, bindparam("ids", type_=Many(Text()))))
)


def scopes_column(scopes: Collection[str]) -> str:
    """Returns scopes as their column has them: in alphabetical order, separated by spaces."""
    return " ".join(sorted(scopes))


def key_of(row: Any) -> KeyInfo:  # noqa: ANN401 - a row of `keys`
    """Returns a key from its row."""
    return struct_of(KeyInfo, row, scopes=tuple(row.scopes.split()))


def namespace_of(row: Any) -> NamespaceInfo:  # noqa: ANN401 - a row of `namespaces`
    """Returns a namespace from its row."""
    return struct_of(NamespaceInfo, row, name=row.namespace)


def find_keys(conn: Connection, ids: Collection[str]) -> dict[str, KeyRow]:
    """Returns the keys with these IDs by ID, each with the time at which its namespace was disabled, if it was."""
    key_rows: dict[str, KeyRow] = {}
    for *columns, disabled_at in _FIND.rows(conn, {"ids": sorted(ids)}):
        row = SimpleNamespace(**dict(zip(keys.c.keys(), columns, strict=True)))
        key_rows[row.id] = KeyRow(key_of(row), row.digest, disabled_at)
    return key_rows


def any_key(conn: Connection) -> bool:
    """Returns whether any key was ever created, including expired and revoked keys."""
    return conn.scalar(select(keys.c.id).limit(1)) is not None


def list_keys(conn: Connection, namespace: str | None, *, before: str | None, limit: int) -> list[KeyInfo]:
    """Returns up to `limit` keys, newest first.

    `namespace`: None means the keys of all namespaces. `before`: the ID of a key after which the list begins; None: it
    begins with the newest key.
    """
    only = {keys.c.namespace: namespace}
    # Keys are ordered by time and ID, since several may have the same time. `ix_keys_created_at_id` has this order.
    statement = select(keys).order_by(keys.c.created_at.desc(), keys.c.id.desc()).limit(limit)
    if before is not None:
        at = conn.scalar(where_given(select(keys.c.created_at), {**only, keys.c.id: before}))
        # The cursor's key does not exist, or belongs to another namespace. The caller must not learn which it is.
        if at is None:
            return []
        statement = statement.where(tuple_(keys.c.created_at, keys.c.id) < (at, before))
    return [key_of(row) for row in conn.execute(where_given(statement, only))]


def list_namespaces(conn: Connection, *, after: str, limit: int, only: str | None = None) -> list[NamespaceInfo]:
    """Returns up to `limit` namespaces whose names follow `after`, in the order of the names.

    `only`: only the namespace of this name; None: all.
    """
    name = namespaces.c.namespace
    statement = where_given(select(namespaces).where(name > after).order_by(name).limit(limit), {name: only})
    return [namespace_of(row) for row in conn.execute(statement)]
