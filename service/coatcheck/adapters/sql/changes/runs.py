"""Stores retention plans and runs as rows. Plans are stored in parts and found by their digest; runs apply them.

Planning and removing select a job's artifacts by the same conditions. The transaction that removes the artifacts of a
part also advances the run to the next part. Therefore each part is done once, even if another process continues the run
after a crash or at the same time, and the counts of a run agree with what it has removed. Scheduled rounds are summed
up by the hour.
"""

from datetime import datetime
from typing import Any, Final

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Text,
    and_,
    bindparam,
    case,
    func,
    insert,
    or_,
    select,
    update,
)

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.changes import audit, holds, session_usage
from coatcheck.adapters.sql.changes.tombstone import (
    ARTIFACT_ROW,
    ArtifactRow,
    Removal,
    is_live,
    read_rows,
    tombstone,
    tombstone_expired,
)
from coatcheck.adapters.sql.dialect import NAMESPACE, RowNumber, UtcDateTime, among, bind_seqs, by_now, upsert
from coatcheck.adapters.sql.rows import Reason
from coatcheck.adapters.sql.tables import artifacts, blobs, jobs, plan_parts, plans, runs
from coatcheck.core.retention.audit import AuditLine, By, Detail, unpack_numbers
from coatcheck.core.retention.jobs import (
    LIVE_ONLY,
    REMOVING,
    Criteria,
    JobState,
    RetentionJob,
    RetentionRun,
    RunOutcome,
    make_scheduled_round,
)
from coatcheck.core.retention.plan import PLAN_LIFE
from coatcheck.ports.maintenance import ExpireArtifacts
from coatcheck.ports.retention import (
    BatchResult,
    BeginRun,
    ClaimRun,
    EndRun,
    KeepPlan,
    MarkJob,
    NoteRound,
    RemoveBatch,
    SetJob,
)

_MOMENT: Final = bindparam("moment", type_=UtcDateTime)
"""The moment at which the job was planned."""
_READ_UNTIL: Final = bindparam("read_until", type_=UtcDateTime)


def belongs(job: RetentionJob) -> list[ColumnElement[bool]]:
    """Returns all conditions under which a job removes an artifact, except the condition that no hold covers it.

    The parameters of the conditions are those that `values_of` returns, and `:now`.
    """
    # A job never removes an artifact that was stored after the job was planned.
    conditions: list[ColumnElement[bool]] = [artifacts.c.created_at <= _MOMENT]
    if job in LIVE_ONLY:
        conditions.append(is_live())
    if job is RetentionJob.EXPIRE:
        conditions.append(artifacts.c.expires_at <= by_now(_MOMENT))
    elif job is RetentionJob.SESSION:
        conditions.append(artifacts.c.session == bindparam("session", type_=Text()))
    elif job is RetentionJob.LOST:
        conditions.append(_is_lost())
    elif job is RetentionJob.EVICT:
        conditions += [artifacts.c.pinned.is_(False), _is_old()]
    return conditions


def _is_lost() -> ColumnElement[bool]:
    # An alias is needed because the enclosing statement may join `blobs` itself.
    there = blobs.alias("own")
    return there.select().where(there.c.seq == artifacts.c.blob_seq, there.c.condemned_at.is_not(None)).exists()


def _is_old() -> ColumnElement[bool]:
    # Many artifacts may have been read last at the same moment; among them, the row number decides.
    last = and_(artifacts.c.read_at == _READ_UNTIL, artifacts.c.seq <= bindparam("read_until_seq", type_=RowNumber))
    return or_(artifacts.c.read_at < _READ_UNTIL, last)


IN_PART: Final = (
    artifacts.c.namespace == NAMESPACE,
    artifacts.c.seq.between(bindparam("first", type_=RowNumber), bindparam("last", type_=RowNumber)),
    among(artifacts.c.number, bind_seqs("numbers")),
)
"""Conditions that select the artifacts in a part of a plan; `part_values` returns their parameters."""


def part_values(
    conn: Connection, plan_id: str | None, part: int, now: datetime
) -> tuple[Criteria, dict[str, Any]] | None:
    """Returns a plan's criteria, and the parameters of IN_PART and `belongs`; None if the plan has no such part."""
    statement = select(plan_parts, plans.c.criteria).join(plans, plans.c.id == plan_parts.c.plan_id)
    row = conn.execute(statement.where(plans.c.id == plan_id, plan_parts.c.part == part)).first()
    if row is None:
        return None
    criteria = msgspec.json.decode(row.criteria, type=Criteria)
    members = {"namespace": row.namespace, "first": row.first_seq, "last": row.last_seq}
    return criteria, members | {"numbers": unpack_numbers(row.numbers), "now": now, **values_of(criteria)}


def values_of(criteria: Criteria) -> dict[str, Any]:
    """Returns the parameters of the conditions that `belongs` returns, without `:now`."""
    values: dict[str, Any] = {"moment": criteria.moment}
    if criteria.job is RetentionJob.SESSION:
        values["session"] = criteria.session
    if criteria.job is RetentionJob.EVICT:
        values |= {"read_until": criteria.read_until, "read_until_seq": criteria.read_until_seq}
    return values


def apply_keep(conn: Connection, change: KeepPlan) -> None:
    """Stores parts of a plan. The change that has `plan` completes the plan, which can be found from then on."""
    values = {
        "id": change.plan_id,
        # While parts are missing, the plan has no digest, so that nobody can find it.
        "digest": b"" if change.plan is None else bytes.fromhex(change.plan.digest),
        "namespace": change.scope.namespace,
        "job": change.criteria.job.value,
        "scope": msgspec.json.encode(change.scope).decode(),
        "criteria": msgspec.json.encode(change.criteria).decode(),
        "summary": msgspec.json.encode(change.plan).decode(),
        "until": change.criteria.moment + PLAN_LIFE,
    }
    new = upsert(plans)
    changed = {"digest": new.excluded.digest, "summary": new.excluded.summary}
    conn.execute(new.on_conflict_do_update(index_elements=[plans.c.id], set_=changed), values)
    if change.parts:
        parts = [{"plan_id": change.plan_id, **msgspec.structs.asdict(part)} for part in change.parts]
        conn.execute(insert(plan_parts), parts)


_RUNNING = select(runs).where(runs.c.outcome == RunOutcome.RUNNING.value)
# Locks artifacts in row order, as all transactions do, which prevents deadlocks.
_MEMBERS = {
    job: select(*ARTIFACT_ROW)
    .where(*IN_PART, *belongs(job), holds.is_not_held())
    .order_by(artifacts.c.seq)
    .with_for_update()
    for job in REMOVING
}
# Whole namespaces and lost payloads are removed for administrators only, so the reason is `deleted`, as for any other
# deletion by an administrator.
_REASONS: Final[dict[RetentionJob, Reason]] = {
    RetentionJob.EXPIRE: "expired",
    RetentionJob.EVICT: "evicted",
    RetentionJob.SESSION: "session_deleted",
    RetentionJob.NAMESPACE: "deleted",
    RetentionJob.LOST: "deleted",
}
_DELETING: Final = frozenset({RetentionJob.SESSION, RetentionJob.NAMESPACE})
"""Jobs that delete sessions with their accounts and events; others make room, or remove what is of no use."""


def apply_begin_run(conn: Connection, change: BeginRun) -> RetentionRun:
    """Carries out BeginRun."""
    run = change.run
    # If two calls are concurrent, the second one waits for this lock, and then sees the run that the first one began.
    conn.execute(select(plans.c.id).where(plans.c.id == change.plan_id).with_for_update()).all()
    row = conn.execute(_RUNNING.where(runs.c.plan_id == change.plan_id)).first()
    if row is not None:
        return rows.run_of(row)
    values = {
        "plan_id": change.plan_id,
        "parts": conn.scalar(select(func.count()).where(plan_parts.c.plan_id == change.plan_id)),
        "next_part": 0,
        "worker": change.worker,
        "lease_until": change.lease_until,
    }
    conn.execute(insert(runs), rows.values_of(run) | values)
    _add_audit_line(conn, run, "run.started", run.started_at, {"planned": run.planned, "plan": run.plan})
    return run


def apply_claim(conn: Connection, change: ClaimRun) -> RetentionRun | None:
    """Carries out ClaimRun."""
    oldest = _RUNNING.where(runs.c.lease_until <= change.now).order_by(runs.c.lease_until).limit(1)
    row = conn.execute(oldest.with_for_update(skip_locked=True)).first()
    if row is None:
        return None
    run = rows.run_of(row)
    conn.execute(update(runs).where(runs.c.id == run.id), {"worker": change.worker, "lease_until": change.lease_until})
    return run


def _lock_run(conn: Connection, run_id: str) -> Row[Any] | None:
    """Locks an unfinished run and returns its row; None if the run has ended.

    If two processes work on the same run, the second one waits for the lock, and then does the next part.
    """
    return conn.execute(_RUNNING.where(runs.c.id == run_id).with_for_update()).first()


def apply_batch(conn: Connection, change: RemoveBatch) -> BatchResult | None:
    """Carries out RemoveBatch."""
    row = _lock_run(conn, change.run_id)
    if row is None:
        return None
    run = rows.run_of(row)
    # The plan's criteria are checked again now: an artifact that no longer meets them, or is held now, stays. None
    # means that the last part is done.
    members = part_values(conn, row.plan_id, row.next_part, change.now)
    if members is None:
        return BatchResult(run, more=False)
    criteria, values = members
    artifact_rows = read_rows(conn, _MEMBERS[criteria.job], **values)
    reason = _REASONS[RetentionJob(run.job)]
    by = By(run.actor, run.key_id, run.id)
    tombstone(conn, artifact_rows, Removal(reason, change.now, change.tombstone_until, by, change.tombstone_lives))
    if criteria.job in _DELETING:
        _drop_ended_sessions(conn, values["namespace"], artifact_rows, change.now)
    counts = _counts(artifact_rows, change.now)
    moved = msgspec.structs.replace(
        run,
        artifacts=run.artifacts + counts["artifacts"],
        bytes=run.bytes + counts["bytes"],
        # Only an expired artifact is overdue; other jobs remove artifacts before their time.
        oldest_overdue_seconds=max(
            run.oldest_overdue_seconds, counts["oldest_overdue_seconds"] if reason == "expired" else 0.0
        ),
        updated_at=change.now,
    )
    # The counts and the next part change in the transaction of the removals, so that a part is not counted twice if the
    # answer to the commit is lost.
    place = {"next_part": row.next_part + 1, "worker": change.worker, "lease_until": change.lease_until}
    conn.execute(update(runs).where(runs.c.id == run.id), rows.values_of(moved) | place)
    return BatchResult(moved, more=row.next_part + 1 < row.parts)


def _drop_ended_sessions(conn: Connection, namespace: str, artifact_rows: list[ArtifactRow], now: datetime) -> None:
    """Deletes the accounts and events of the sessions of removed artifacts that have no live artifact any more."""
    sessions = {row.session for row in artifact_rows if row.session is not None}
    mine = (artifacts.c.namespace == namespace, artifacts.c.session.in_(sessions))
    left = conn.scalars(select(artifacts.c.session).where(*mine, is_live()).distinct(), {"now": now}).all()
    session_usage.drop_sessions(conn, namespace, sessions.difference(left))


def _counts(artifact_rows: list[ArtifactRow], now: datetime) -> dict[str, Any]:
    """Returns the counts that the removal of these artifacts adds to a run."""
    late = [(now - each.expires_at).total_seconds() for each in artifact_rows if each.expires_at is not None]
    return {
        "artifacts": len(artifact_rows),
        "bytes": sum(each.size for each in artifact_rows),
        "oldest_overdue_seconds": max(late, default=0.0),
    }


def apply_end(conn: Connection, change: EndRun) -> None:
    """Carries out EndRun."""
    # A run ends once: a repeated change finds no unfinished run.
    row = _lock_run(conn, change.run_id)
    if row is None:
        return
    run = rows.run_of(row)
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
    conn.execute(update(runs).where(runs.c.id == run.id), rows.values_of(ended))
    details: dict[str, Detail] = {"artifacts": ended.artifacts, "bytes": ended.bytes, "items": ended.items}
    _add_audit_line(conn, ended, f"run.{change.outcome.value}", change.now, details)


def _add_audit_line(conn: Connection, run: RetentionRun, action: str, at: datetime, details: dict[str, Detail]) -> None:
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
"""Columns in which the values of all rounds of one hour are summed up."""


_new = upsert(runs)


def _larger(name: str) -> ColumnElement[Any]:
    return case((_new.excluded[name] > runs.c[name], _new.excluded[name]), else_=runs.c[name])


_ADD_ROUND = _new.on_conflict_do_update(
    index_elements=[runs.c.id],
    set_={
        **{name: runs.c[name] + _new.excluded[name] for name in _ADDED},
        **{name: _larger(name) for name in ("oldest_overdue", "updated_at")},
    },
)


def apply_note_round(conn: Connection, change: NoteRound) -> None:
    """Carries out NoteRound.

    Locks the run's row: call this after locking the rows to remove, and before locking the rows that every transaction
    locks last.
    """
    conn.execute(_ADD_ROUND, rows.values_of(change.run) | {"parts": 0, "next_part": 0})


def apply_expire(conn: Connection, change: ExpireArtifacts) -> int:
    """Removes expired artifacts, and adds their counts to the hour's run in the same transaction.

    Returns how many artifacts were removed.
    """
    artifact_rows = tombstone_expired(conn, change)
    # A round that has removed nothing is not recorded, so that an idle store writes no runs.
    if artifact_rows and change.by.run_id is not None:
        run = make_scheduled_round("expire", change.now, **_counts(artifact_rows, change.now))
        apply_note_round(conn, NoteRound(run=msgspec.structs.replace(run, id=change.by.run_id)))
    return len(artifact_rows)


def apply_set_job(conn: Connection, change: SetJob) -> JobState:
    """Carries out SetJob."""
    state = _state(conn, change.name)
    # An interval of None in the change keeps the present interval; 0 returns to the interval of the settings.
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
    # A job has no row before an administrator first changes it or it first runs.
    conn.execute(upsert(jobs).on_conflict_do_nothing(), {"name": name, "paused": False})
    return rows.struct_of(JobState, conn.execute(select(jobs).where(jobs.c.name == name).with_for_update()).one())
