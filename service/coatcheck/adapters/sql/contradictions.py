"""Rows that contradict each other, which none of our changes can leave behind, and their repair."""

from datetime import datetime
from typing import Final

from sqlalchemy import ColumnElement, Connection, Table, delete, exists, func, select, update

from coatcheck.adapters.sql.changes import usage
from coatcheck.adapters.sql.changes.tombstone import is_unused
from coatcheck.adapters.sql.tables import artifacts, blobs, inline_bytes, surveys, views
from coatcheck.core import ids
from coatcheck.core.findings import Finding

# Only the removal of a pointer marks a blob dead, so a live blob without one would take space for good.
_UNUSED: ColumnElement[bool] = blobs.c.dead_at.is_(None) & is_unused()
_UNREFERENCED = select(blobs.c.namespace, blobs.c.id).where(_UNUSED).order_by(blobs.c.seq)
# No read reaches bytes whose blob is missing or is not kept inline.
_STRAY = ~exists().where(blobs.c.seq == inline_bytes.c.blob_seq, blobs.c.placement == "inline").correlate(inline_bytes)


def _lost(table: Table) -> ColumnElement[bool]:
    return ~exists().where(artifacts.c.seq == table.c.artifact_seq).correlate(table)


# Views first: a lost one still points at a blob, which counts as unused only afterwards. SQLite enforces foreign keys
# only on connections that switch it on, so another program may have left views and surveys without their artifact.
_ORPHANS: Final = (
    (inline_bytes, _STRAY, "rows of stored bytes belong to no blob"),
    (views, _lost(views), "views belong to no artifact"),
    (surveys, _lost(surveys), "surveys belong to no artifact"),
)
# An artifact whose blob is missing or dead. `repair` leaves it alone: nothing in the database brings bytes back.
_HOLLOW = (
    select(artifacts.c.namespace, artifacts.c.number)
    .outerjoin(blobs, blobs.c.seq == artifacts.c.blob_seq)
    .where(blobs.c.seq.is_(None) | blobs.c.dead_at.is_not(None))
    .order_by(artifacts.c.seq)
)
# A view without a blob of its own is the payload itself, which `_HOLLOW` covers.
_HOLLOW_VIEWS = (
    select(artifacts.c.namespace, artifacts.c.number, views.c.name)
    .join_from(artifacts, views, views.c.artifact_seq == artifacts.c.seq)
    .outerjoin(blobs, blobs.c.seq == views.c.blob_seq)
    .where(views.c.blob_seq.is_not(None), blobs.c.seq.is_(None) | blobs.c.dead_at.is_not(None))
    .order_by(artifacts.c.seq)
)
# What `repair` does about each kind of finding; it only leaves the others in the report.
_DONE = {
    "unreferenced": " It is marked dead now; the sweep removes it.",
    "stray": " They are removed.",
    "usage": " It is corrected.",
}


def contradictions(conn: Connection) -> list[Finding]:
    """Returns contradictions in all namespaces that this connection may see."""
    findings: list[Finding] = []
    # Rows without an owner are counted over all namespaces: nothing says whose they were.
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
    """Marks unused blobs dead, deletes orphans, corrects the sums. Only while nobody stores."""
    for table, condition, _ in _ORPHANS:
        conn.execute(delete(table).where(condition))
    conn.execute(update(blobs).where(_UNUSED).values(dead_at=now))
    # Last, as the statements above change what the sums count.
    usage.correct(conn)


def mark_repaired(findings: list[Finding]) -> list[Finding]:
    """Returns the findings after `repair`."""
    return [
        Finding(f.what, f.namespace, f.blob_id, f.detail + _DONE[f.what], repaired=True) if f.what in _DONE else f
        for f in findings
    ]
