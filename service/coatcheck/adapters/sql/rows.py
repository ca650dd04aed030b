"""Converts rows to values and values to rows. The only place that knows how a value is stored in a column."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, Literal

import msgspec
from sqlalchemy import ColumnElement, FromClause

from coatcheck.adapters.sql.tables import artifacts, blobs, views
from coatcheck.core import ids
from coatcheck.core.artifact import Artifact, Blob, DeclaredMetadata, DetectedMetadata, Gone, Measure, ReceiptRecord
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
    return int.from_bytes(sha256[:8], "big", signed=True)
