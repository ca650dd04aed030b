"""Rows of runs, plans and jobs to values and back."""

from typing import Any

import msgspec
from sqlalchemy import ColumnElement, func

from coatcheck.adapters.sql.tables import runs
from coatcheck.core.retention.jobs import JobScope
from coatcheck.core.retention.runs import JobState, Outcome, RetentionRun

_OTHERS = {"worker", "lease_until"}
COLUMNS: list[ColumnElement[Any]] = [column for column in runs.c if column.name not in _OTHERS]
"""What `run_of` reads."""


def run_of(row: Any) -> RetentionRun:  # noqa: ANN401 - a row of `runs`
    """A run from its row."""
    return RetentionRun(
        id=row.id,
        job=row.job,
        scope=msgspec.json.decode(row.scope, type=JobScope),
        actor=row.actor,
        key_id=row.key_id,
        plan_id=row.plan_id,
        plan_digest=None if row.plan_digest is None else row.plan_digest.hex(),
        parts=row.parts,
        next_part=row.next_part,
        started_at=row.started_at,
        updated_at=row.updated_at,
        finished_at=row.finished_at,
        outcome=Outcome(row.outcome),
        planned=row.planned,
        artifacts=row.artifacts,
        bytes=row.bytes,
        items=row.items,
        busy_seconds=row.busy_ms / 1000,
        oldest_overdue=row.oldest_overdue / 1000,
        detail=row.detail,
    )


def values_of(run: RetentionRun) -> dict[str, Any]:
    """A run's row, without who is at it."""
    return {
        "id": run.id,
        "job": run.job,
        "namespace": run.scope.namespace,
        "scope": msgspec.json.encode(run.scope).decode(),
        "actor": run.actor,
        "key_id": run.key_id,
        "plan_id": run.plan_id,
        "plan_digest": None if run.plan_digest is None else bytes.fromhex(run.plan_digest),
        "parts": run.parts,
        "next_part": run.next_part,
        "started_at": run.started_at,
        "updated_at": run.updated_at,
        "finished_at": run.finished_at,
        "outcome": run.outcome.value,
        "planned": run.planned,
        "artifacts": run.artifacts,
        "bytes": run.bytes,
        "items": run.items,
        "busy_ms": round(run.busy_seconds * 1000),
        "oldest_overdue": round(run.oldest_overdue * 1000),
        "detail": run.detail,
    }


def job_of(row: Any) -> JobState:  # noqa: ANN401 - a row of `jobs`
    """A job's state from its row."""
    return JobState(**{name: getattr(row, name) for name in JobState.__struct_fields__})


def larger(dialect: str, one: ColumnElement[Any], other: ColumnElement[Any]) -> ColumnElement[Any]:
    """The larger of two values."""
    return func.max(one, other) if dialect == "sqlite" else func.greatest(one, other)
