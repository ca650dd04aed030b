"""Finds and repairs rows that contradict each other. No change of the service can leave such rows behind."""

from datetime import datetime
from typing import Final

from sqlalchemy import ColumnElement, Connection, Table, delete, exists, func, select, update

from coatcheck.adapters.sql.changes import usage
from coatcheck.adapters.sql.changes.tombstone import is_unused
from coatcheck.adapters.sql.tables import artifacts, blobs, inline_bytes, surveys, views
from coatcheck.core import ids
from coatcheck.core.findings import Finding

# A blob is marked dead when the last artifact or view that points at it is removed. A live blob that nothing points at
# would therefore take space forever.
_UNUSED: ColumnElement[bool] = blobs.c.dead_at.is_(None) & is_unused()
_UNREFERENCED = select(blobs.c.namespace, blobs.c.id).where(_UNUSED).order_by(blobs.c.seq)
# Inline bytes that no read can reach, because their blob is missing or is not inline.
_STRAY = ~exists().where(blobs.c.seq == inline_bytes.c.blob_seq, blobs.c.placement == "inline").correlate(inline_bytes)


def _lost(table: Table) -> ColumnElement[bool]:
    return ~exists().where(artifacts.c.seq == table.c.artifact_seq).correlate(table)


# Rows without an owner. SQLite enforces foreign keys only on connections that enable them, so another program may have
# left views and surveys without their artifact. `repair` deletes these rows before it marks unused blobs dead, since a
# view without an artifact still points at a blob.
_ORPHANS: Final = (
    (inline_bytes, _STRAY, "rows of stored bytes belong to no blob"),
    (views, _lost(views), "views belong to no artifact"),
    (surveys, _lost(surveys), "surveys belong to no artifact"),
)
# Artifacts whose blob is missing or dead. `repair` does not change them, because the database lacks their bytes.
_HOLLOW = (
    select(artifacts.c.namespace, artifacts.c.number)
    .outerjoin(blobs, blobs.c.seq == artifacts.c.blob_seq)
    .where(blobs.c.seq.is_(None) | blobs.c.dead_at.is_not(None))
    .order_by(artifacts.c.seq)
)
# Views whose blob is missing or dead. A view without a blob of its own is the payload itself, which `_HOLLOW` covers.
_HOLLOW_VIEWS = (
    select(artifacts.c.namespace, artifacts.c.number, views.c.name)
    .join_from(artifacts, views, views.c.artifact_seq == artifacts.c.seq)
    .outerjoin(blobs, blobs.c.seq == views.c.blob_seq)
    .where(views.c.blob_seq.is_not(None), blobs.c.seq.is_(None) | blobs.c.dead_at.is_not(None))
    .order_by(artifacts.c.seq)
)
# Sentences about the findings that `repair` corrects, by their kind. `repair` does not correct the other kinds.
_DONE = {
    "unreferenced": " It is marked dead now; the sweep removes it.",
    "stray": " They are removed.",
    "usage": " It is corrected.",
}


def contradictions(conn: Connection) -> list[Finding]:
    """Returns the contradictions in all namespaces that this connection may see."""
    findings: list[Finding] = []
    # Rows without an owner are counted over all namespaces, because their namespaces are not reliable.
    for table, condition, what in _ORPHANS:
        if count := conn.scalar(select(func.count()).select_from(table).where(condition)):
            findings.append(Finding("stray", "", "", f"{count:,} {what}."))
    findings += [
        Finding("unreferenced", namespace, blob_id, "No artifact and no view uses this live blob.")
        for namespace, blob_id in conn.execute(_UNREFERENCED)
    ]
    findings += [
        Finding("dangling", namespace, "", f"Artifact {ids.render(number)} points at a blob that is dead.")
        for namespace, number in conn.execute(_HOLLOW)
    ]
    findings += [
        Finding("dangling", namespace, "", f"The {name} view of {ids.render(number)} points at a blob that is dead.")
        for namespace, number, name in conn.execute(_HOLLOW_VIEWS)
    ]
    findings += [Finding("usage", drift.true.namespace, "", _drift(drift)) for drift in usage.find_drifts(conn)]
    return findings


def _drift(drift: usage.Drift) -> str:
    counters, true = drift.counters, drift.true
    return (
        f"Usage says {counters.artifacts:,} artifacts, {counters.bytes:,} stored bytes and "
        f"{counters.reserved:,} reserved; "
        f"the rows come to {true.artifacts:,}, {true.bytes:,} and {true.reserved:,}."
    )


def repair(conn: Connection, now: datetime) -> None:
    """Deletes rows without an owner, marks unused blobs dead, and corrects the counts in `usage`.

    Only allowed while no process stores or deletes.
    """
    for table, condition, _ in _ORPHANS:
        conn.execute(delete(table).where(condition))
    conn.execute(update(blobs).where(_UNUSED).values(dead_at=now))
    # The counts are corrected last, because the statements above change the counted rows.
    usage.correct(conn)


def mark_repaired(findings: list[Finding]) -> list[Finding]:
    """Returns the findings as they are after `repair`: findings that `repair` corrects are marked as repaired."""
    return [
        Finding(f.what, f.namespace, f.blob_id, f.detail + _DONE[f.what], repaired=True) if f.what in _DONE else f
        for f in findings
    ]
