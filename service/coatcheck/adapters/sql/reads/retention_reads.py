"""Queries of retention: candidates, plans, runs, jobs.

Queries over many rows are paged by row number, so that none of them occupies a connection for long.

The audit log's lines, as they are stored.

Lists the event log.
"""

from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from sqlalchemy import (
    BigInteger,
    Connection,
    Integer,
    Text,
    bindparam,
    case,
    func,
    literal_column,
    or_,
    select,
    tuple_,
)

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.changes import audit, holds
from coatcheck.adapters.sql.changes.runs import IN_PART, belongs, part_values, values_of
from coatcheck.adapters.sql.changes.tombstone import is_live
from coatcheck.adapters.sql.dialect import RowNumber, UtcDateTime, by_now
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

_NAMESPACE = bindparam("namespace", type_=Text())
_AFTER = bindparam("after", type_=RowNumber)
_NOW = bindparam("now", type_=UtcDateTime)
_LIMIT = bindparam("limit", type_=BigInteger())
_AGE = case(
    *(
        (artifacts.c.created_at > bindparam(f"since{n}", type_=UtcDateTime), literal_column(str(n), Integer()))
        for n in range(len(AGES))
    ),
    else_=literal_column(str(len(AGES)), Integer()),
)
_ROW: Final[list[Any]] = [
    artifacts.c.seq,
    artifacts.c.number,
    blobs.c.size,
    artifacts.c.kind,
    artifacts.c.tool_name,
    artifacts.c.session,
    _AGE,
]
"""The columns of a RetentionCandidate. None needs a conversion, as there may be a million."""


def _candidates(job: RetentionJob, *, look: bool) -> Prepared:
    conditions = [*belongs(job), *([holds.is_not_held()] if look else [])]
    return Prepared(
        select(*_ROW)
        .join_from(artifacts, blobs, blobs.c.seq == artifacts.c.blob_seq)
        .where(artifacts.c.namespace == _NAMESPACE, artifacts.c.seq > _AFTER, *conditions)
        .order_by(artifacts.c.seq)
        .limit(_LIMIT)
    )


_CANDIDATES = {(job, look): _candidates(job, look=look) for job in REMOVING for look in (False, True)}
_SAMPLE = (
    select(
        blobs.c.size.label("bytes"),
        *(artifacts.c[name] for name in ("namespace", "kind", "tool_name", "session", "created_at", "expires_at")),
    )
    .join_from(artifacts, blobs, blobs.c.seq == artifacts.c.blob_seq)
    .where(artifacts.c.namespace == _NAMESPACE, artifacts.c.number == bindparam("number", type_=BigInteger()))
)
_FIRST_EXPIRED = (
    select(artifacts.c.expires_at)
    .where(artifacts.c.namespace == _NAMESPACE, artifacts.c.expires_at <= bindparam("moment", type_=UtcDateTime))
    .order_by(artifacts.c.expires_at)
    .limit(1)
)
_HELD = {
    job: select(func.count())
    .select_from(artifacts)
    .where(artifacts.c.namespace == _NAMESPACE, *belongs(job), ~holds.is_not_held())
    for job in REMOVING
}
_ANY_HOLD = select(hold_rows.c.id).limit(1)
# The order of eviction, behind the last row of the page before.
_OLDEST_READ = Prepared(
    select(artifacts.c.read_at, artifacts.c.seq, blobs.c.size)
    .join_from(artifacts, blobs, blobs.c.seq == artifacts.c.blob_seq)
    .where(
        artifacts.c.namespace == _NAMESPACE,
        artifacts.c.pinned.is_(False),
        artifacts.c.created_at <= bindparam("moment", type_=UtcDateTime),
        tuple_(artifacts.c.read_at, artifacts.c.seq)
        > tuple_(bindparam("read_after", type_=UtcDateTime), bindparam("after", type_=RowNumber)),
        is_live(),
        holds.is_not_held(),
    )
    .order_by(artifacts.c.read_at, artifacts.c.seq)
    .limit(_LIMIT)
)
_PAGE = (
    select(artifacts.c.seq, artifacts.c.blob_seq)
    .where(artifacts.c.namespace == _NAMESPACE, artifacts.c.seq > _AFTER)
    .order_by(artifacts.c.seq)
    .limit(_LIMIT)
    .subquery()
)
_LIVE = Prepared(
    select(func.count(), func.coalesce(func.sum(blobs.c.size), 0), func.max(_PAGE.c.seq)).join_from(
        _PAGE, blobs, blobs.c.seq == _PAGE.c.blob_seq
    )
)


def candidates(
    conn: Connection, namespace: str, criteria: Criteria, now: datetime, *, after: int, limit: int
) -> list[RetentionCandidate]:
    """Returns artifacts of a namespace that a job would remove, after a row."""
    values = {"namespace": namespace, "after": after, "limit": limit, "now": now, **values_of(criteria)}
    values |= {f"since{n}": criteria.moment - age for n, age in enumerate(AGES)}
    # If nothing is held, three look-ups per row are saved; the removal checks again.
    look = conn.execute(_ANY_HOLD).first() is not None
    return list(map(RetentionCandidate._make, _CANDIDATES[criteria.job, look].rows(conn, values)))


def sample(conn: Connection, namespace: str, number: int) -> PlanSample | None:
    """Returns an artifact of a namespace, as a plan shows it."""
    row = conn.execute(_SAMPLE, {"namespace": namespace, "number": number}).mappings().first()
    return None if row is None else PlanSample(id=ids.render(number), **row)


def first_expired(conn: Connection, namespace: str, moment: datetime) -> datetime | None:
    """Returns when the first artifact of a namespace that has expired by `moment` did."""
    expires_at: datetime | None = conn.execute(_FIRST_EXPIRED, {"namespace": namespace, "moment": moment}).scalar()
    return expires_at


def count_held(conn: Connection, namespace: str, criteria: Criteria, now: datetime) -> int:
    """Returns how many a job would remove if they were not held."""
    if conn.execute(_ANY_HOLD).first() is None:
        return 0
    count: int = conn.execute(
        _HELD[criteria.job], {"namespace": namespace, "now": now, **values_of(criteria)}
    ).scalar_one()
    return count


def oldest_read(
    conn: Connection, namespace: str, moment: datetime, *, after: tuple[datetime, int], limit: int
) -> list[tuple[datetime, int, int]]:
    """Returns what may be evicted, least recently read first: moment of the last read, row, bytes."""
    values = {
        "namespace": namespace,
        "moment": moment,
        "now": moment,
        "read_after": after[0],
        "after": after[1],
        "limit": limit,
    }
    return [(row[0], row[1], row[2]) for row in _OLDEST_READ.rows(conn, values)]


def live(conn: Connection, namespace: str, *, after: int, limit: int) -> tuple[LiveTotals, int | None]:
    """Returns totals of up to `limit` rows of a namespace after a row, and where to continue."""
    count, size, last = _LIVE.rows(conn, {"namespace": namespace, "after": after, "limit": limit})[0]
    # A page that is not full is the last.
    return LiveTotals(count, int(size)), (last if count == limit else None)


_DEAD = select(func.count(), func.coalesce(func.sum(blobs.c.stored_size), 0)).where(
    blobs.c.dead_at.is_not(None), blobs.c.dead_at < by_now(_NOW)
)
_OLD_TOMBSTONES = select(func.count()).select_from(tombstones).where(tombstones.c.until <= by_now(_NOW))
_OLD_KEYS = select(func.count()).select_from(idempotency_keys).where(idempotency_keys.c.expires_at <= by_now(_NOW))
_OLD_LINES = select(func.count()).select_from(audit_log).where(audit.IS_OLD)
_ALL = select(func.count(), func.coalesce(func.sum(blobs.c.stored_size), 0)).where(blobs.c.dead_at.is_(None))


def items(conn: Connection, job: RetentionJob, before: datetime, audit_life: timedelta | None) -> tuple[int, int]:
    """Returns how many items a job that removes no artifacts would delete, and their stored bytes."""
    if job is RetentionJob.PURGE:
        records: int = sum(conn.execute(each, {"now": before}).scalar_one() for each in (_OLD_TOMBSTONES, _OLD_KEYS))
        if audit_life is not None:
            records += conn.execute(_OLD_LINES, {"now": before, "before": before - audit_life}).scalar_one()
        return records, 0
    row = conn.execute(_DEAD, {"now": before}).one() if job is RetentionJob.SWEEP else conn.execute(_ALL).one()
    return row[0], int(row[1])


# -------------------------------------------------------------------------------------------- plans and runs

_PARTS = select(func.count()).where(plan_parts.c.plan_id == plans.c.id).correlate(plans).scalar_subquery()
# The same set may have been planned more than once: the plan that ends last is found.
_PLAN = (
    select(plans.c.id, plans.c.summary, plans.c.criteria, _PARTS)
    .where(plans.c.digest == bindparam("digest"), plans.c.until > _NOW)
    .order_by(plans.c.until.desc())
    .limit(1)
)
_LEFT = {
    job: select(func.count(), func.coalesce(func.sum(blobs.c.size), 0))
    .join_from(artifacts, blobs, blobs.c.seq == artifacts.c.blob_seq)
    .where(*IN_PART, *belongs(job), holds.is_not_held())
    for job in REMOVING
}


def find_plan(conn: Connection, digest: str, now: datetime) -> KeptPlan | None:
    """Returns the plan of this digest, while it can be applied."""
    row = conn.execute(_PLAN, {"digest": bytes.fromhex(digest), "now": now}).first()
    if row is None:
        return None
    try:
        plan = msgspec.json.decode(row.summary, type=RetentionPlan)
    except msgspec.ValidationError:  # another release made it, within the last hour
        return None
    return KeptPlan(id=row.id, plan=plan, criteria=msgspec.json.decode(row.criteria, type=Criteria), parts=row[3])


def part_left(conn: Connection, plan_id: str, part: int, now: datetime) -> LiveTotals:
    """Returns totals of the artifacts in one part of a plan that still meet the criteria."""
    members = part_values(conn, plan_id, part, now)
    if members is None:
        return LiveTotals()
    criteria, values = members
    count, size = conn.execute(_LEFT[criteria.job], values).one()
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
    """Returns runs, latest first."""
    # By moment and ID, since runs may begin at the same moment.
    statement = select(runs).order_by(runs.c.started_at.desc(), runs.c.id.desc()).limit(limit)
    if before is not None:
        moment, last = before
        older = (runs.c.started_at < moment) | ((runs.c.started_at == moment) & (runs.c.id < last))
        statement = statement.where(older)
    if job is not None:
        statement = statement.where(runs.c.job == job)
    if outcome is not None:
        statement = statement.where(runs.c.outcome == outcome.value)
    if namespace is not None:
        statement = statement.where(runs.c.namespace == namespace)
    return [rows.run_of(row) for row in conn.execute(statement)]


def list_jobs(conn: Connection) -> list[JobState]:
    """Returns jobs that were changed or have run."""
    return [rows.job_of(row) for row in conn.execute(select(*jobs.c).order_by(jobs.c.name))]


def find_lines(
    conn: Connection,
    *,
    before: int | None = None,
    limit: int,
    namespace: str | None = None,
    run_id: str | None = None,
    action: str | None = None,
) -> list[AuditLine]:
    """Returns lines that meet all conditions, latest first."""
    statement: Any = select(audit_log).order_by(audit_log.c.seq.desc()).limit(limit)
    if before is not None:
        statement = statement.where(audit_log.c.seq < before)
    if namespace is not None:
        statement = statement.where(audit_log.c.namespace == namespace)
    if run_id is not None:
        statement = statement.where(audit_log.c.run_id == run_id)
    if action is not None:
        statement = statement.where(or_(audit_log.c.action == action, audit_log.c.action.startswith(f"{action}.")))
    return [_line(row) for row in conn.execute(statement)]


def _line(row: Any) -> AuditLine:  # noqa: ANN401 - a row of `audit_log`
    return AuditLine(
        seq=row.seq,
        at=row.at,
        action=row.action,
        by=By(row.actor, row.key_id, row.run_id),
        namespace=row.namespace,
        reason=row.reason,
        size=row.size,
        numbers=unpack_numbers(row.numbers),
        details=msgspec.json.decode(row.details),
    )


def list_events(
    conn: Connection, namespace: str, *, session: str | None, artifact: int | None, before: int | None, limit: int
) -> list[Event]:
    """Returns events of a session, of an artifact, or of both, latest first."""
    of = {"session": session, "artifact": artifact}
    conditions = [events.c[name] == value for name, value in of.items() if value is not None]
    if before is not None:
        conditions.append(events.c.number < before)
    statement = select(events).where(events.c.namespace == namespace, *conditions)
    return [_event(row) for row in conn.execute(statement.order_by(events.c.number.desc()).limit(limit))]


def _event(row: Any) -> Event:  # noqa: ANN401 - a row of `events`
    return Event(
        number=row.number,
        namespace=row.namespace,
        session=row.session,
        artifact=row.artifact,
        action=row.action,
        key_id=row.key_id,
        tokens=row.tokens,
        tokens_before=row.tokens_before,
        details=msgspec.json.decode(row.details),
    )
