"""Converts rows of runs and jobs to values and back."""

from typing import Any, Final

import msgspec
from msgspec.structs import replace
from sqlalchemy import ColumnElement, func

from coatcheck.core.retention.jobs import WHOLE_STORE
from coatcheck.core.retention.runs import JobState, Outcome, RetentionRun

_CONVERTED: Final = {"scope", "plan", "outcome", "busy_seconds", "oldest_overdue_seconds"}
_ALIKE: Final = [name for name in RetentionRun.__struct_fields__ if name not in _CONVERTED]


def run_of(row: Any) -> RetentionRun:  # noqa: ANN401 - a row of `runs`
    """Returns a run from its row."""
    return RetentionRun(
        **{name: getattr(row, name) for name in _ALIKE},
        scope=replace(WHOLE_STORE, **msgspec.json.decode(row.scope)),
        plan=None if row.plan_digest is None else row.plan_digest.hex(),
        outcome=Outcome(row.outcome),
        busy_seconds=row.busy_ms / 1000,
        oldest_overdue_seconds=row.oldest_overdue / 1000,
    )


def values_of(run: RetentionRun) -> dict[str, Any]:
    """Returns a run's row, without its worker and position."""
    return {name: getattr(run, name) for name in _ALIKE} | {
        "namespace": run.scope.namespace,
        "scope": msgspec.json.encode(run.scope).decode(),
        "plan_digest": None if run.plan is None else bytes.fromhex(run.plan),
        "outcome": run.outcome.value,
        "busy_ms": round(run.busy_seconds * 1000),
        "oldest_overdue": round(run.oldest_overdue_seconds * 1000),
    }


def job_of(row: Any) -> JobState:  # noqa: ANN401 - a row of `jobs`
    """Returns a job's state from its row."""
    return JobState(**{name: getattr(row, name) for name in JobState.__struct_fields__})


def larger(dialect: str, one: ColumnElement[Any], other: ColumnElement[Any]) -> ColumnElement[Any]:
    """Returns the larger of two values."""
    return func.max(one, other) if dialect == "sqlite" else func.greatest(one, other)
