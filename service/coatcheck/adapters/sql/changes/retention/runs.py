"""Runs as rows: begun, carried on part by part, ended; and scheduled rounds summed up by the hour.

A part advances the run in the transaction that removes its artifacts. So whoever carries a run on, after a crash or
concurrently, does each part once; and what was counted is what was removed.
"""

from datetime import datetime
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Executable, bindparam, func, insert, select, update

from coatcheck.adapters.sql import run_rows
from coatcheck.adapters.sql.changes import audit, holds
from coatcheck.adapters.sql.changes.retention.conditions import IN_PART, belongs, part_values
from coatcheck.adapters.sql.changes.tombstone import (
    ARTIFACT_ROW,
    ArtifactRow,
    Removal,
    read_rows,
    tombstone,
    tombstone_expired,
)
from coatcheck.adapters.sql.dialect import DIALECTS, insert_into
from coatcheck.adapters.sql.rows import Reason
from coatcheck.adapters.sql.tables import artifacts, jobs, plan_parts, plans, runs
from coatcheck.core.retention.audit import AuditLine, By, Detail
from coatcheck.core.retention.jobs import REMOVING, Job
from coatcheck.core.retention.runs import JobState, Outcome, RetentionRun, make_scheduled_round
from coatcheck.ports.maintenance import ExpireArtifacts
from coatcheck.ports.retention_changes import (
    BatchResult,
    BeginRun,
    ClaimRun,
    EndRun,
    MarkJob,
    NoteRound,
    RemoveBatch,
    SetJob,
)

_RUNNING = select(runs).where(runs.c.outcome == Outcome.RUNNING.value)
_LOCK = _RUNNING.where(runs.c.id == bindparam("run")).with_for_update()
_OF_PLAN = _RUNNING.where(runs.c.plan_id == bindparam("plan"))
_PARTS = select(func.count()).where(plan_parts.c.plan_id == bindparam("plan"))
_LEFT = (
    _RUNNING.where(runs.c.lease_until <= bindparam("now", type_=runs.c.lease_until.type))
    .order_by(runs.c.lease_until)
    .limit(1)
    .with_for_update(skip_locked=True)
)
# In row order, as all lock them.
_MEMBERS = {
    job: select(*ARTIFACT_ROW)
    .where(*IN_PART, *belongs(job), holds.is_not_held())
    .order_by(artifacts.c.seq)
    .with_for_update()
    for job in REMOVING
}
_REASONS: Final[dict[Job, Reason]] = {
    Job.EXPIRE: "expired",
    Job.EVICT: "evicted",
    Job.SESSION: "session_deleted",
    Job.NAMESPACE: "deleted",
    Job.LOST: "deleted",
}


def apply_begin_run(conn: Connection, change: BeginRun) -> RetentionRun:
    """Carries out BeginRun."""
    run = change.run
    # Of two concurrent calls, the second waits here and then sees the first one's run.
    conn.execute(select(plans.c.id).where(plans.c.id == change.plan_id).with_for_update()).all()
    row = conn.execute(_OF_PLAN, {"plan": change.plan_id}).first()
    if row is not None:
        return run_rows.run_of(row)
    values = {
        "plan_id": change.plan_id,
        "parts": conn.execute(_PARTS, {"plan": change.plan_id}).scalar_one(),
        "next_part": 0,
        "worker": change.worker,
        "lease_until": change.lease_until,
    }
    conn.execute(insert(runs), run_rows.values_of(run) | values)
    _tell(conn, run, "run.started", run.started_at, {"planned": run.planned, "plan": run.plan})
    return run


def apply_claim(conn: Connection, change: ClaimRun) -> RetentionRun | None:
    """Carries out ClaimRun."""
    row = conn.execute(_LEFT, {"now": change.now}).first()
    if row is None:
        return None
    run = run_rows.run_of(row)
    conn.execute(update(runs).where(runs.c.id == run.id), {"worker": change.worker, "lease_until": change.lease_until})
    return run


def apply_batch(conn: Connection, change: RemoveBatch) -> BatchResult | None:
    """Carries out RemoveBatch."""
    row = conn.execute(_LOCK, {"run": change.run_id}).first()
    if row is None:
        return None
    run = run_rows.run_of(row)
    members = part_values(conn, row.plan_id, row.next_part, change.now)
    if members is None:
        return BatchResult(run, more=False)
    criteria, values = members
    artifact_rows = read_rows(conn, _MEMBERS[criteria.job], values)
    reason = _REASONS[Job(run.job)]
    by = By(run.actor, run.key_id, run.id)
    tombstone(conn, artifact_rows, Removal(reason, change.now, change.tombstone_until, by, change.tombstone_lives))
    counts = _counts(artifact_rows, change.now)
    moved = msgspec.structs.replace(
        run,
        artifacts=run.artifacts + counts["artifacts"],
        bytes=run.bytes + counts["bytes"],
        oldest_overdue_seconds=max(
            run.oldest_overdue_seconds, counts["oldest_overdue_seconds"] if reason == "expired" else 0.0
        ),
        updated_at=change.now,
    )
    place = {"next_part": row.next_part + 1, "worker": change.worker, "lease_until": change.lease_until}
    conn.execute(update(runs).where(runs.c.id == run.id), run_rows.values_of(moved) | place)
    return BatchResult(moved, more=row.next_part + 1 < row.parts)


def _counts(artifact_rows: list[ArtifactRow], now: datetime) -> dict[str, Any]:
    """Returns a run's counts after removing these artifacts."""
    late = [(now - each.expires_at).total_seconds() for each in artifact_rows if each.expires_at is not None]
    return {
        "artifacts": len(artifact_rows),
        "bytes": sum(each.size for each in artifact_rows),
        "oldest_overdue_seconds": max(late, default=0.0),
    }


def apply_end(conn: Connection, change: EndRun) -> None:
    """Carries out EndRun."""
    row = conn.execute(_LOCK, {"run": change.run_id}).first()
    if row is None:
        return
    run = run_rows.run_of(row)
    ended = msgspec.structs.replace(
        run,
        outcome=change.outcome,
        detail=change.detail,
        finished_at=change.now,
        updated_at=change.now,
        bytes=run.bytes + change.bytes,
        items=run.items + change.items,
        busy_seconds=run.busy_seconds + change.busy_seconds,
    )
    conn.execute(update(runs).where(runs.c.id == run.id), run_rows.values_of(ended))
    details: dict[str, Detail] = {"artifacts": ended.artifacts, "bytes": ended.bytes, "items": ended.items}
    _tell(conn, ended, f"run.{change.outcome.value}", change.now, details)


def _tell(conn: Connection, run: RetentionRun, action: str, at: datetime, details: dict[str, Detail]) -> None:
    line = AuditLine(
        at=at,
        action=action,
        by=By(run.actor, run.key_id, run.id),
        namespace=run.scope.namespace,
        reason=run.job,
        details=details if run.scope.session is None else {**details, "session": run.scope.session},
    )
    audit.append(conn, line)


# ---------------------------------------------------------------------------------------------- the schedule

_ADDED = ("artifacts", "bytes", "items", "busy_ms")


def _add(dialect: str) -> Executable:
    statement = insert_into(runs, dialect)
    new = statement.excluded
    return statement.on_conflict_do_update(
        index_elements=[runs.c.id],
        set_={
            **{name: runs.c[name] + new[name] for name in _ADDED},
            "oldest_overdue": run_rows.larger(dialect, runs.c.oldest_overdue, new.oldest_overdue),
            "updated_at": run_rows.larger(dialect, runs.c.updated_at, new.updated_at),
        },
    )


_ADD = {dialect: _add(dialect) for dialect in DIALECTS}


def apply_note_round(conn: Connection, change: NoteRound) -> None:
    """Carries out NoteRound."""
    _add_round(conn, change.run)


def _add_round(conn: Connection, run: RetentionRun) -> None:
    """Adds a round to the hour's run.

    It comes after the locks of what it counts, and before those that all take last.
    """
    conn.execute(_ADD[conn.dialect.name], run_rows.values_of(run) | {"parts": 0, "next_part": 0})


def apply_expire(conn: Connection, change: ExpireArtifacts) -> int:
    """Removes what has expired, and adds it to its run in the same transaction."""
    artifact_rows = tombstone_expired(conn, change)
    if artifact_rows and change.by.run_id is not None:
        run = make_scheduled_round("expire", change.now, **_counts(artifact_rows, change.now))
        _add_round(conn, msgspec.structs.replace(run, id=change.by.run_id))
    return len(artifact_rows)


_JOB = select(*jobs.c).where(jobs.c.name == bindparam("job")).with_for_update()


def apply_set_job(conn: Connection, change: SetJob) -> JobState:
    """Carries out SetJob."""
    state = _state(conn, change.name)
    interval = state.interval if change.interval is None else (change.interval or None)
    paused = state.paused if change.paused is None else change.paused
    changed = {"paused": paused, "interval": interval, "changed_by": change.by.actor, "changed_at": change.now}
    conn.execute(update(jobs).where(jobs.c.name == change.name), changed)
    line = AuditLine(
        at=change.now,
        action="job.changed",
        by=change.by,
        reason=change.name,
        details={"paused": paused, "interval": interval},
    )
    audit.append(conn, line)
    return msgspec.structs.replace(state, **changed)


def apply_mark_job(conn: Connection, change: MarkJob) -> None:
    """Carries out MarkJob."""
    _state(conn, change.name)
    values = {"last_at": change.now, "last_outcome": change.outcome, "last_detail": change.detail}
    conn.execute(update(jobs).where(jobs.c.name == change.name), values)


def _state(conn: Connection, name: str) -> JobState:
    conn.execute(insert_into(jobs, conn.dialect.name).on_conflict_do_nothing(), {"name": name, "paused": False})
    return run_rows.job_of(conn.execute(_JOB, {"job": name}).one())
