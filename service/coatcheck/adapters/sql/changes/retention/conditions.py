"""Which artifacts belong to a job, in SQL: the same conditions for planning and for removing."""

from datetime import datetime
from typing import Any, Final

import msgspec
from sqlalchemy import BigInteger, ColumnElement, Connection, Text, and_, bindparam, or_, select

from coatcheck.adapters.sql.changes.tombstone import is_live
from coatcheck.adapters.sql.dialect import among, by_now
from coatcheck.adapters.sql.tables import artifacts, blobs, plan_parts, plans
from coatcheck.adapters.sql.types import Many, RowNumber, UtcDateTime
from coatcheck.core.retention.audit import unpack_numbers
from coatcheck.core.retention.jobs import LIVE_ONLY, Criteria, Job

_MOMENT: Final = bindparam("moment", type_=UtcDateTime)
_READ_UNTIL: Final = bindparam("read_until", type_=UtcDateTime)


def belongs(job: Job) -> list[ColumnElement[bool]]:
    """Returns conditions on an artifact's row; their parameters are those of `values_of`, and `:now`.

    Holds are separate.
    """
    conditions: list[ColumnElement[bool]] = [artifacts.c.created_at <= _MOMENT]
    if job in LIVE_ONLY:
        conditions.append(is_live())
    if job is Job.EXPIRE:
        conditions.append(artifacts.c.expires_at <= by_now(_MOMENT))
    elif job is Job.SESSION:
        conditions.append(artifacts.c.session == bindparam("session", type_=Text()))
    elif job is Job.LOST:
        conditions.append(_is_lost())
    elif job is Job.EVICT:
        conditions += [artifacts.c.pinned.is_(False), _is_old()]
    return conditions


def _is_lost() -> ColumnElement[bool]:
    there = blobs.alias("own")
    return there.select().where(there.c.seq == artifacts.c.blob_seq, there.c.condemned_at.is_not(None)).exists()


def _is_old() -> ColumnElement[bool]:
    last = and_(artifacts.c.read_at == _READ_UNTIL, artifacts.c.seq <= bindparam("read_until_seq", type_=RowNumber))
    return or_(artifacts.c.read_at < _READ_UNTIL, last)


_PART = select(plan_parts, plans.c.criteria).where(
    plan_parts.c.plan_id == plans.c.id, plans.c.id == bindparam("plan"), plan_parts.c.part == bindparam("part")
)
IN_PART: Final = (
    artifacts.c.namespace == bindparam("namespace", type_=Text()),
    artifacts.c.seq.between(bindparam("first", type_=RowNumber), bindparam("last", type_=RowNumber)),
    among(artifacts.c.number, bindparam("numbers", type_=Many(BigInteger()))),
)
"""Selects what is in a part of a plan, with the parameters of `part_values`."""


def part_values(
    conn: Connection, plan_id: str | None, part: int, now: datetime
) -> tuple[Criteria, dict[str, Any]] | None:
    """Returns a plan's criteria and the parameters of IN_PART and `belongs`; None if there is no such part."""
    row = conn.execute(_PART, {"plan": plan_id, "part": part}).first()
    if row is None:
        return None
    criteria = msgspec.json.decode(row.criteria, type=Criteria)
    members = {"namespace": row.namespace, "first": row.first_seq, "last": row.last_seq}
    return criteria, members | {"numbers": unpack_numbers(row.numbers), "now": now, **values_of(criteria)}


def values_of(criteria: Criteria) -> dict[str, Any]:
    """Returns the parameters of `belongs`."""
    values: dict[str, Any] = {"moment": criteria.moment}
    if criteria.job is Job.SESSION:
        values["session"] = criteria.session
    if criteria.job is Job.EVICT:
        values |= {"read_until": criteria.read_until, "read_until_seq": criteria.read_until_seq}
    return values
