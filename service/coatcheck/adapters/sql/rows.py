"""Rows to values and values to rows. The only place that knows how a value is spelled in a column."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec
from sqlalchemy import ColumnElement

from coatcheck.adapters.sql.tables import artifacts, blobs
from coatcheck.core import ids
from coatcheck.core.artifact import Artifact, Blob, Facts, Gone, Measure, Said

Reason = Literal["expired", "deleted", "session_deleted", "evicted"]

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
"""What `artifact` reads, in its order, before BLOB_COLUMNS."""
BLOB_COLUMNS: list[ColumnElement[Any]] = [
    blobs.c.id,
    blobs.c.placement,
    blobs.c.size,
    blobs.c.stored_size,
    blobs.c.sha256,
    blobs.c.frames,
    blobs.c.condemned_at.is_not(None).label("condemned"),
]
WIDTH = len(ARTIFACT_COLUMNS) + len(BLOB_COLUMNS)
"""Columns that `artifact` takes."""

_encoder = msgspec.json.Encoder()
_said = msgspec.json.Decoder(Said)
_measure = msgspec.json.Decoder(Measure)
_facts = msgspec.json.Decoder(Facts)
_labels = msgspec.json.Decoder(tuple[str, ...])


def artifact(row: Sequence[Any]) -> Artifact:
    """The artifact whose columns begin the row."""
    namespace, number, said, labels, measure, facts, *rest = row[: len(ARTIFACT_COLUMNS)]
    created_at, expires_at, ttl, idle_ttl, pinned, engine = rest
    spoken = _said.decode(said)
    if labels is not None:
        spoken = msgspec.structs.replace(spoken, labels=_labels.decode(labels))
    return Artifact(
        namespace=namespace,
        id=ids.render(number),
        said=spoken,
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
    """The blob from BLOB_COLUMNS."""
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


def gone(number: int, reason: Reason, at: datetime, tool_name: str | None) -> Gone:
    """A tombstone from its columns."""
    return Gone(id=ids.render(number), reason=reason, at=at, tool_name=tool_name)


def encode(value: msgspec.Struct) -> str:
    """A value as JSON text."""
    return _encoder.encode(value).decode()


def encode_said(said: Said) -> str:
    """What was said, without its labels: they have a column of their own because they may change."""
    return encode(msgspec.structs.replace(said, labels=()) if said.labels else said)


def encode_labels(labels: tuple[str, ...]) -> str | None:
    """The labels as a JSON array, or None for none."""
    return _encoder.encode(labels).decode() if labels else None


def digest(sha256: bytes) -> int:
    """The first eight bytes of a digest as a database's signed integer."""
    return int.from_bytes(sha256[:8], "big", signed=True)
