"""Queries of retention and operation: candidates of jobs, plans, runs, jobs, the audit log and the event log.

Queries over many rows are paged by row number, so that no query occupies a connection for long.
"""

from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from sqlalchemy import (
    Connection,
    Integer,
    bindparam,
    case,
    func,
    literal_column,
    or_,
    select,
    tuple_,
)

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.changes import holds
from coatcheck.adapters.sql.changes.runs import IN_PART, belongs, part_values, values_of
from coatcheck.adapters.sql.changes.tombstone import is_live
from coatcheck.adapters.sql.dialect import LIMIT, NAMESPACE, NOW, OLD, RowNumber, UtcDateTime, by_now
from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.tables import (
    artifacts,
    audit_log,
    blobs,
    events,
    idempotency_keys,
    jobs,
    plan_parts,
    plans,
    runs,
    tombstones,
)
from coatcheck.adapters.sql.tables import holds as hold_rows
from coatcheck.core import ids
from coatcheck.core.event import Event
from coatcheck.core.retention.audit import AuditLine, By, unpack_numbers
from coatcheck.core.retention.jobs import REMOVING, Criteria, JobState, RetentionJob, RetentionRun, RunOutcome
from coatcheck.core.retention.plan import AGES, PlanSample, RetentionCandidate, RetentionPlan
from coatcheck.ports.retention import KeptPlan, LiveTotals

_AFTER = bindparam("after", type_=RowNumber)
_A = artifacts.c
_AGE = case(
    *(
        (artifacts.c.created_at > bindparam(f"since{n}", type_=UtcDateTime), literal_column(str(n), Integer()))
        for n in range(len(AGES))
    ),
    else_=literal_column(str(len(AGES)), Integer()),
)
_ROW: Final[list[Any]] = [_A.seq, _A.number, blobs.c.size, _A.kind, _A.tool_name, _A.session, _AGE]
"""The columns of a RetentionCandidate. No column needs a conversion, because there may be a million candidates."""


def _candidates(job: RetentionJob, *, look: bool) -> Prepared:
    conditions = [*belongs(job), *([holds.is_not_held()] if look else [])]
    return Prepared(
        select(*_ROW)
        .join_from(artifacts, blobs, blobs.c.seq == artifacts.c.blob_seq)
        .where(artifacts.c.namespace == NAMESPACE, artifacts.c.seq > _AFTER, *conditions)
        .order_by(artifacts.c.seq)
        .limit(LIMIT)
    )


_CANDIDATES = {(job, look): _candidates(job, look=look) for job in REMOVING for look in (False, True)}
# Lists artifacts in the order of eviction, beginning after the last artifact of the previous page.
_OLDEST_READ = Prepared(
    select(artifacts.c.read_at, artifacts.c.seq, blobs.c.size)
    .join_from(artifacts, blobs, blobs.c.seq == artifacts.c.blob_seq)
    .where(
        artifacts.c.namespace == NAMESPACE,
        artifacts.c.pinned.is_(False),
        artifacts.c.created_at <= bindparam("moment", type_=UtcDateTime),
        tuple_(artifacts.c.read_at, artifacts.c.seq)
        > tuple_(bindparam("read_after", type_=UtcDateTime), bindparam("after", type_=RowNumber)),
        is_live(),
        holds.is_not_held(),
    )
    .order_by(artifacts.c.read_at, artifacts.c.seq)
    .limit(LIMIT)
)
_PAGE = (
    select(artifacts.c.seq, artifacts.c.blob_seq, is_live().label("is_live"))
    .where(artifacts.c.namespace == NAMESPACE, artifacts.c.seq > _AFTER)
    .order_by(artifacts.c.seq)
    .limit(LIMIT)
    .subquery()
)
# Expired artifacts are counted out here and not in the page, so that many of them do not make a page take longer.
_LIVE = Prepared(
    select(
        func.count().filter(_PAGE.c.is_live),
        func.coalesce(func.sum(blobs.c.size).filter(_PAGE.c.is_live), 0),
        func.count(),
        func.max(_PAGE.c.seq),
    ).join_from(_PAGE, blobs, blobs.c.seq == _PAGE.c.blob_seq)
)


def candidates(
    conn: Connection, namespace: str, criteria: Criteria, now: datetime, *, after: int, limit: int
) -> list[RetentionCandidate]:
    """Returns up to `limit` artifacts of a namespace that a job would remove, with row numbers above `after`."""
    values = {"namespace": namespace, "after": after, "limit": limit, "now": now, **values_of(criteria)}
    values |= {f"since{n}": criteria.moment - age for n, age in enumerate(AGES)}
    # If there are no holds, the statement without the three look-ups per row is used. The removal checks holds again.
    return list(map(RetentionCandidate._make, _CANDIDATES[criteria.job, _has_holds(conn)].rows(conn, values)))


def _has_holds(conn: Connection) -> bool:
    return conn.scalar(select(hold_rows.c.id).limit(1)) is not None


def sample(conn: Connection, namespace: str, number: int) -> PlanSample | None:
    """Returns an artifact of a namespace in the form in which a plan shows it; None if there is none."""
    columns = (_A.namespace, _A.kind, _A.tool_name, _A.session, _A.created_at, _A.expires_at)
    statement = select(blobs.c.size.label("bytes"), *columns).join_from(artifacts, blobs)
    row = conn.execute(statement.where(_A.namespace == namespace, _A.number == number)).first()
    return None if row is None else rows.struct_of(PlanSample, row, id=ids.render(number))


def first_expired(conn: Connection, namespace: str, moment: datetime) -> datetime | None:
    """Returns the earliest expiry of a namespace's artifacts that have expired by `moment`; None if there is none."""
    expired = select(_A.expires_at).where(_A.namespace == namespace, _A.expires_at <= moment)
    return conn.scalar(expired.order_by(_A.expires_at).limit(1))


def count_held(conn: Connection, namespace: str, criteria: Criteria, now: datetime) -> int:
    """Returns the number of artifacts that a job would remove if they were not held."""
    if not _has_holds(conn):
        return 0
    held = (_A.namespace == namespace, *belongs(criteria.job), ~holds.is_not_held())
    statement = select(func.count()).select_from(artifacts).where(*held)
    return conn.execute(statement, {"now": now, **values_of(criteria)}).scalar_one()


def oldest_read(
    conn: Connection, namespace: str, moment: datetime, *, after: tuple[datetime, int], limit: int
) -> list[tuple[datetime, int, int]]:
    """Returns up to `limit` artifacts that may be evicted, least recently read first.

    Each is the time of the last read, the row number, and the bytes of content. `after` is the time and row number of
    the last artifact on the previous page.
    """
    place = {"read_after": after[0], "after": after[1], "limit": limit}
    values = {"namespace": namespace, "moment": moment, "now": moment, **place}
    return [(row[0], row[1], row[2]) for row in _OLDEST_READ.rows(conn, values)]


def live(conn: Connection, namespace: str, now: datetime, *, after: int, limit: int) -> tuple[LiveTotals, int | None]:
    """Returns totals of those of the next `limit` artifacts of a namespace that have not expired by `now`.

    The next artifacts are those with row numbers above `after`. Also returns the row number after which to continue;
    None: there are no more artifacts.
    """
    values = {"namespace": namespace, "now": now, "after": after, "limit": limit}
    count, size, rows_seen, last = _LIVE.rows(conn, values)[0]
    # A page that is not full is the last.
    return LiveTotals(count, int(size)), (last if rows_seen == limit else None)


def items(conn: Connection, job: RetentionJob, before: datetime, audit_life: timedelta | None) -> tuple[int, int]:
    """Returns how many items a job would work on, and their stored bytes. Only for jobs that remove no artifacts.

    Args:
        conn: a transaction.
        job: the job. PURGE deletes records, SWEEP dead blobs; any other job examines the blobs that are not dead.
        before: the time before which items must have ended.
        audit_life: how long lines of the audit log are kept; None: forever.
    """
    if job is RetentionJob.PURGE:
        records = [(tombstones.c.until <= OLD, before), (idempotency_keys.c.expires_at <= OLD, before)]
        records += [] if audit_life is None else [(audit_log.c.at < OLD, before - audit_life)]
        count = 0
        for old, moment in records:
            counted = select(func.count()).where(old)
            count += conn.execute(counted, {"now": before, "before": moment}).scalar_one()
        return count, 0
    dead = blobs.c.dead_at.is_not(None) & (blobs.c.dead_at < by_now(NOW))
    statement = select(func.count(), func.coalesce(func.sum(blobs.c.stored_size), 0))
    counted = statement.where(dead if job is RetentionJob.SWEEP else blobs.c.dead_at.is_(None))
    count, size = conn.execute(counted, {"now": before}).one()
    return count, int(size)


# -------------------------------------------------------------------------------------------- plans and runs


def find_plan(conn: Connection, digest: str, now: datetime) -> KeptPlan | None:
    """Returns the plan with this digest; None if there is none that can still be applied."""
    parts = select(func.count()).where(plan_parts.c.plan_id == plans.c.id).correlate(plans).scalar_subquery()
    found = select(plans, parts).where(plans.c.digest == bytes.fromhex(digest), plans.c.until > now)
    # The same set may have been planned several times. The plan that can be applied longest is used.
    row = conn.execute(found.order_by(plans.c.until.desc()).limit(1)).first()
    if row is None:
        return None
    try:
        plan = msgspec.json.decode(row.summary, type=RetentionPlan)
    except msgspec.ValidationError:  # another release of the service has made the plan, within the last hour
        return None
    return KeptPlan(id=row.id, plan=plan, criteria=msgspec.json.decode(row.criteria, type=Criteria), parts=row[-1])


def part_left(conn: Connection, plan_id: str, part: int, now: datetime) -> LiveTotals:
    """Returns totals of the artifacts in one part of a plan that still meet the criteria."""
    members = part_values(conn, plan_id, part, now)
    if members is None:
        return LiveTotals()
    criteria, values = members
    totals = select(func.count(), func.coalesce(func.sum(blobs.c.size), 0)).join_from(artifacts, blobs)
    statement = totals.where(*IN_PART, *belongs(criteria.job), holds.is_not_held())
    count, size = conn.execute(statement, values).one()
    return LiveTotals(count, int(size))


def run(conn: Connection, run_id: str) -> RetentionRun | None:
    """Returns the retention run with this ID; None if there is none."""
    row = conn.execute(select(runs).where(runs.c.id == run_id)).first()
    return None if row is None else rows.run_of(row)


def list_runs(
    conn: Connection,
    *,
    before: tuple[datetime, str] | None = None,
    limit: int,
    job: str | None = None,
    outcome: RunOutcome | None = None,
    namespace: str | None = None,
) -> list[RetentionRun]:
    """Returns up to `limit` runs that meet all conditions, latest first.

    `before` is the start and the ID of the last run on the previous page; None: the first page. The conditions are
    `job`, `outcome` and `namespace`; None: any.
    """
    # Runs are ordered by time and ID, since several may begin at the same time.
    statement = select(runs).order_by(runs.c.started_at.desc(), runs.c.id.desc()).limit(limit)
    if before is not None:
        moment, last = before
        older = (runs.c.started_at < moment) | ((runs.c.started_at == moment) & (runs.c.id < last))
        statement = statement.where(older)
    given = {runs.c.job: job, runs.c.outcome: None if outcome is None else outcome.value, runs.c.namespace: namespace}
    return [rows.run_of(row) for row in conn.execute(rows.where_given(statement, given))]


def list_jobs(conn: Connection) -> list[JobState]:
    """Returns the states of the jobs that were changed by an administrator or have run, in the order of their names."""
    return [rows.struct_of(JobState, row) for row in conn.execute(select(jobs).order_by(jobs.c.name))]


def find_lines(
    conn: Connection,
    *,
    before: int | None = None,
    limit: int,
    namespace: str | None = None,
    run_id: str | None = None,
    action: str | None = None,
) -> list[AuditLine]:
    """Returns up to `limit` lines of the audit log that meet all conditions, latest first.

    `before` is the number of the last line on the previous page; None: the first page. `action` also selects the
    actions that begin with it and a dot: `run` selects `run.started`.
    """
    statement: Any = select(audit_log).order_by(audit_log.c.seq.desc()).limit(limit)
    if before is not None:
        statement = statement.where(audit_log.c.seq < before)
    if action is not None:
        begins = audit_log.c.action.startswith(f"{action}.", autoescape=True)
        statement = statement.where(or_(audit_log.c.action == action, begins))
    filtered = rows.where_given(statement, {audit_log.c.namespace: namespace, audit_log.c.run_id: run_id})
    return [_line(row) for row in conn.execute(filtered)]


def _line(row: Any) -> AuditLine:  # noqa: ANN401 - a row of `audit_log`
    return rows.struct_of(
        AuditLine,
        row,
        by=By(row.actor, row.key_id, row.run_id),
        numbers=unpack_numbers(row.numbers),
        details=msgspec.json.decode(row.details),
    )


def list_events(
    conn: Connection, namespace: str, *, session: str | None, artifact: int | None, before: int | None, limit: int
) -> list[Event]:
    """Returns up to `limit` events of a namespace, latest first.

    `session` and `artifact` restrict them to a session and to an artifact's number; None: any. `before` is the number
    of the last event on the previous page; None: the first page.
    """
    e = events.c
    statement = rows.where_given(select(events), {e.namespace: namespace, e.session: session, e.artifact: artifact})
    if before is not None:
        statement = statement.where(e.number < before)
    event_rows = conn.execute(statement.order_by(e.number.desc()).limit(limit))
    return [rows.struct_of(Event, row, details=msgspec.json.decode(row.details)) for row in event_rows]
