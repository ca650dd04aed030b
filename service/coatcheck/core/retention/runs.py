"""Runs: jobs that were carried out, or are in progress, and their results.

The schedule's rounds within an hour form one run, created by the first round that found something to do: an idle store
writes nothing.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from coatcheck.core.retention.audit import SCHEDULE, By
from coatcheck.core.retention.jobs import WHOLE_STORE, JobScope


class Outcome(StrEnum):
    """The state of a run."""

    RUNNING = "running"
    """In progress, or interrupted and soon to be resumed."""
    FINISHED = "finished"
    FAILED = "failed"
    """Given up; what it had done until then stays done."""


class RetentionRun(Struct, frozen=True, kw_only=True):
    """The result of a job."""

    id: str
    job: str
    """A Job, or one that only the schedule has: `reap`, `index`."""
    scope: JobScope
    actor: Annotated[str, Meta(description="Who applied its plan; `schedule` for scheduled rounds.")]
    key_id: str | None
    outcome: Outcome
    started_at: datetime
    updated_at: datetime
    finished_at: datetime | None
    plan: Annotated[str | None, Meta(description="The plan's digest.")]
    planned: int
    """Artifacts that its plan covers."""
    artifacts: Annotated[int, Meta(description="Removed so far.")]
    bytes: int
    """Bytes of content of those, or stored bytes of blobs that were swept."""
    items: Annotated[
        int, Meta(description="Everything that is not an artifact: blobs swept, records removed, findings.")
    ]
    busy_seconds: float
    """Time spent on it by all workers together."""
    oldest_overdue_seconds: float
    """How late the longest overdue artifact was removed."""
    detail: str

    @property
    def left_count(self) -> int:
        """Artifacts of its plan that were not removed: already gone, pinned, held or changed."""
        return max(0, self.planned - self.artifacts)


class JobState(Struct, frozen=True, kw_only=True):
    """A job of the schedule."""

    name: str
    paused: bool
    interval: Annotated[int | None, Meta(description="Seconds. Null: as configured.")]
    changed_by: str | None
    changed_at: datetime | None
    last_at: Annotated[datetime | None, Meta(description="When it ran last, to the minute.")]
    last_outcome: str | None
    """`done` or `failed`."""
    last_detail: str | None

    @classmethod
    def make_unchanged(cls, name: str) -> "JobState":
        """Returns the state of a job that nobody has changed and that has not run."""
        return cls(
            name=name,
            paused=False,
            interval=None,
            changed_by=None,
            changed_at=None,
            last_at=None,
            last_outcome=None,
            last_detail=None,
        )


def begin_run(run_id: str, job: str, scope: JobScope, by: By, now: datetime) -> RetentionRun:
    """Returns a new run without a plan."""
    return RetentionRun(
        id=run_id,
        job=job,
        scope=scope,
        actor=by.actor,
        key_id=by.key_id,
        outcome=Outcome.RUNNING,
        started_at=now,
        updated_at=now,
        finished_at=None,
        plan=None,
        planned=0,
        artifacts=0,
        bytes=0,
        items=0,
        busy_seconds=0.0,
        oldest_overdue_seconds=0.0,
        detail="",
    )


def hourly_run(job: str, now: datetime) -> str:
    """Returns the ID of the run that sums up a job's rounds within an hour, whichever process makes them."""
    return f"run_{job}_{now:%Y%m%d%H}"


def make_scheduled_round(job: str, now: datetime, **counts: float) -> RetentionRun:
    """Returns a scheduled round, or a part of one, as the run of its hour; `counts` are fields of the run."""
    return replace(begin_run(hourly_run(job, now), job, WHOLE_STORE, SCHEDULE, now), outcome=Outcome.FINISHED, **counts)
