"""A run: a job that was carried out, or is being, and what is known of it. It carries nothing out itself.

The schedule's rounds of an hour are one run, made with the first round that found something to do: a store where
nothing happens writes nothing.
"""

from datetime import datetime
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from coatcheck.core.retention.audit import SCHEDULE
from coatcheck.core.retention.jobs import JobScope


class Outcome(StrEnum):
    """How a run stands."""

    RUNNING = "running"
    """Under way, or interrupted and to be taken up again soon."""
    FINISHED = "finished"
    FAILED = "failed"
    """Given up; what it had done until then stays done."""


class RetentionRun(Struct, frozen=True, kw_only=True):
    """What a job has done."""

    id: str
    job: str
    """A Job, or one that only the schedule has: `reap`, `index`."""
    scope: JobScope
    actor: str
    """Who applied its plan; `schedule` for rounds."""
    started_at: datetime
    updated_at: datetime
    outcome: Outcome
    key_id: str | None = None
    finished_at: datetime | None = None
    plan_id: str | None = None
    plan_digest: str | None = None
    planned: int = 0
    """Artifacts that its plan covers."""
    artifacts: int = 0
    """Artifacts removed so far."""
    bytes: int = 0
    """Of content of those, or stored bytes of blobs that were swept."""
    items: int = 0
    """What else was done: blobs swept, records forgotten, findings of a check."""
    busy_seconds: float = 0.0
    """Time spent at it, of all workers together."""
    oldest_overdue: float = 0.0
    """Seconds by which the longest overdue artifact was late when it was removed."""
    parts: int = 0
    next_part: int = 0
    """Where it goes on."""
    detail: str = ""

    @property
    def left(self) -> int:
        """Artifacts of its plan that were not removed: gone by themselves, pinned, held or changed."""
        return max(0, self.planned - self.artifacts)


class JobState(Struct, frozen=True, kw_only=True):
    """A job of the schedule, as an administrator has set it and as it went last."""

    name: str
    paused: bool = False
    interval: int | None = None
    """Seconds between two rounds; None: as the settings say."""
    changed_by: str | None = None
    changed_at: datetime | None = None
    last_at: datetime | None = None
    last_outcome: str | None = None
    """`done` or `failed`."""
    last_detail: str | None = None


def hourly_run(job: str, now: datetime) -> str:
    """The ID of the run that sums up the rounds of a job within an hour, whichever process makes them."""
    return f"run_{job}_{now:%Y%m%d%H}"


def scheduled_round(job: str, now: datetime, **counts: float) -> RetentionRun:
    """A round of the schedule, or a part of one, as the run of its hour; `counts` are fields of the run."""
    run = RetentionRun(
        id=hourly_run(job, now),
        job=job,
        scope=JobScope(),
        actor=SCHEDULE.actor,
        started_at=now,
        updated_at=now,
        outcome=Outcome.FINISHED,
    )
    return replace(run, **counts)
