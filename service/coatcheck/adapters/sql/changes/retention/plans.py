"""Plans as rows: kept part by part, found by their digest, and deleted when they have ended."""

import msgspec
from sqlalchemy import Connection, Executable, bindparam, delete, insert, select

from coatcheck.adapters.sql.changes import removal_records
from coatcheck.adapters.sql.dialect import DIALECTS, insert_into
from coatcheck.adapters.sql.tables import plan_parts, plans, runs
from coatcheck.adapters.sql.types import UtcDateTime
from coatcheck.core.retention.plan import PLAN_LIFE
from coatcheck.core.retention.runs import Outcome
from coatcheck.ports.retention_changes import ForgetRemoved, KeepPlan

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


def _keep(dialect: str) -> Executable:
    statement = insert_into(plans, dialect)
    new = {name: statement.excluded[name] for name in ("digest", "summary")}
    return statement.on_conflict_do_update(index_elements=[plans.c.id], set_=new)


_KEEP = {dialect: _keep(dialect) for dialect in DIALECTS}
_DROP = delete(plans).where(plans.c.id.in_(_OVER))


def apply_keep(conn: Connection, change: KeepPlan) -> None:
    """Keeps parts of a plan; `plan` makes it findable."""
    values = {
        "id": change.plan_id,
        "digest": b"" if change.plan is None else bytes.fromhex(change.plan.digest),
        "namespace": change.scope.namespace,
        "job": change.criteria.job.value,
        "scope": msgspec.json.encode(change.scope).decode(),
        "criteria": msgspec.json.encode(change.criteria).decode(),
        "summary": msgspec.json.encode(change.plan).decode(),
        "until": change.criteria.moment + PLAN_LIFE,
    }
    conn.execute(_KEEP[conn.dialect.name], values)
    if change.parts:
        parts = [{"plan_id": change.plan_id, **msgspec.structs.asdict(part)} for part in change.parts]
        conn.execute(insert(plan_parts), parts)


def apply_forget_removed(conn: Connection, change: ForgetRemoved) -> int:
    """Carries out ForgetRemoved; a plan that a run is applying is kept."""
    conn.execute(_DROP, {"now": change.now})
    return removal_records.forget(conn, change.before, change.limit)
