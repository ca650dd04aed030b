"""Plans as rows: opened, filled part by part, closed with their digest, and forgotten when they are over."""

import msgspec
from sqlalchemy import Connection, bindparam, delete, insert, select, update

from coatcheck.adapters.sql.changes import removal_records
from coatcheck.adapters.sql.tables import plan_parts, plans, runs
from coatcheck.adapters.sql.types import UtcDateTime
from coatcheck.core.retention.runs import Outcome
from coatcheck.ports.retention_changes import ClosePlan, ForgetRemoved, KeepParts, OpenPlan

_NOW = bindparam("now", type_=UtcDateTime)
_OVER = (
    select(plans.c.id)
    .where(
        plans.c.until <= _NOW,
        ~select(runs.c.id)
        .where(runs.c.plan_id == plans.c.id, runs.c.outcome == Outcome.RUNNING.value)
        .correlate(plans)
        .exists(),
    )
    .limit(10)
)
_DROP = delete(plans).where(plans.c.id.in_(_OVER))


def apply_open(conn: Connection, change: OpenPlan) -> None:
    """Begin to keep a plan."""
    conn.execute(
        insert(plans),
        {
            "id": change.plan_id,
            "digest": b"",
            "namespace": change.scope.namespace,
            "job": change.criteria.job.value,
            "scope": msgspec.json.encode(change.scope).decode(),
            "criteria": msgspec.json.encode(change.criteria).decode(),
            "summary": "{}",
            "until": change.until,
        },
    )


def apply_parts(conn: Connection, change: KeepParts) -> None:
    """Keep parts of a plan."""
    conn.execute(
        insert(plan_parts),
        [{"plan_id": change.plan_id, **msgspec.structs.asdict(part)} for part in change.parts],
    )


def apply_close(conn: Connection, change: ClosePlan) -> None:
    """Have a plan found."""
    conn.execute(
        update(plans).where(plans.c.id == change.plan_id),
        {
            "digest": bytes.fromhex(change.plan.digest),
            "summary": msgspec.json.encode(change.plan).decode(),
            "until": change.plan.until,
        },
    )


def apply_forget_removed(conn: Connection, change: ForgetRemoved) -> int:
    """Give up what cannot be undone any more, and plans that are over, unless a run is at them."""
    conn.execute(_DROP, {"now": change.now})
    return removal_records.forget(conn, change.before, change.limit)
