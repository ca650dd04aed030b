"""Jobs that an administrator can request, with their scopes and criteria, and the runs that carry them out.

A job's criteria are fixed when it is planned, and each artifact must meet them when it is removed. All scheduled rounds
of a job within an hour form one run. The first round that finds something to do creates this run, so an idle store
writes nothing.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta, Struct
from msgspec.structs import replace

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.retention.audit import SCHEDULE, By
from coatcheck.core.text.count import plural


class RetentionJob(StrEnum):
    """What can be planned and applied."""

    EXPIRE = "expire"
    """Remove artifacts that have expired; the schedule does so anyway."""
    EVICT = "evict"
    """Remove a namespace's least recently read artifacts until the namespace is below a limit. Pinned artifacts
    stay."""
    SESSION = "session"
    """Remove all artifacts of a session."""
    NAMESPACE = "namespace"
    """Remove all artifacts of a namespace."""
    LOST = "lost"
    """Remove artifacts whose bytes were found missing or damaged."""
    SWEEP = "sweep"
    """Remove the bytes of removed artifacts after the grace period."""
    PURGE = "purge"
    """Delete tombstones, idempotency keys and audit lines whose time is over."""
    STORAGE = "storage"
    """Compare the store with the catalogue; report differences, and remove nothing."""
    VERIFY = "verify"
    """Compare the store with the catalogue, and every blob with its digest; report differences, and remove nothing."""


REMOVING: Final = frozenset(
    {RetentionJob.EXPIRE, RetentionJob.EVICT, RetentionJob.SESSION, RetentionJob.NAMESPACE, RetentionJob.LOST}
)
"""Jobs that remove artifacts."""
LIVE_ONLY: Final = frozenset({RetentionJob.EVICT, RetentionJob.SESSION, RetentionJob.LOST})
"""Jobs that ignore expired artifacts: `expire` removes these, and records the right reason."""


class JobScope(Struct, frozen=True, kw_only=True):
    """The scope of a job."""

    namespace: Annotated[str | None, Meta(description="Null: all of them.")]
    session: str | None
    max_bytes: int | None
    """Target of `evict`: at most this many bytes of content in the namespace; None sets no such target."""
    max_artifacts: int | None
    """Target of `evict`: at most this many artifacts in the namespace; None sets no such target."""


WHOLE_STORE: Final = JobScope(namespace=None, session=None, max_bytes=None, max_artifacts=None)


class Criteria(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The conditions under which a run removes an artifact; the SQL statement that removes it checks them."""

    job: RetentionJob
    moment: datetime
    """Time of the plan. Artifacts that are created or expire after it are not included."""
    namespace: str | None = None
    session: str | None = None
    read_until: datetime | None = None
    """For `evict`: the time of the latest read that an artifact may have had; None for other jobs."""
    read_until_seq: int | None = None
    """For `evict`: the highest row that may be removed among the artifacts that were read at `read_until`."""


def check_scope(job: RetentionJob, scope: JobScope) -> None:
    """Refuses a scope that does not fit its job.

    Raises:
        CoatcheckError: `invalid_request`, with the field that is wrong.
    """
    if job in {RetentionJob.EVICT, RetentionJob.SESSION, RetentionJob.NAMESPACE} and scope.namespace is None:
        raise _wrong(f"A plan to {_VERBS[job]} needs its namespace.", "namespace")
    if (job is RetentionJob.SESSION) != (scope.session is not None):
        problem = "needs its session" if job is RetentionJob.SESSION else "is not about a session; leave it out"
        raise _wrong(f"A plan to {_VERBS[job]} {problem}.", "session")
    limits = (scope.max_bytes, scope.max_artifacts)
    if job is RetentionJob.EVICT and limits == (None, None):
        raise _wrong("A plan to evict needs a target: max_bytes or max_artifacts.", "max_bytes")
    if job is not RetentionJob.EVICT and limits != (None, None):
        raise _wrong(
            f"A plan to {_VERBS[job]} takes no limits; max_bytes and max_artifacts are for evict.", "max_bytes"
        )
    if any(limit is not None and limit < 0 for limit in limits):
        raise _wrong("A limit must not be below 0.", "max_bytes")
    if job not in REMOVING and scope.namespace is not None:
        raise _wrong(f"A plan to {_VERBS[job]} covers the whole store; leave the namespace out.", "namespace")


_VERBS: Final = {
    RetentionJob.EXPIRE: "remove what has expired",
    RetentionJob.EVICT: "evict",
    RetentionJob.SESSION: "delete a session",
    RetentionJob.NAMESPACE: "delete a namespace",
    RetentionJob.LOST: "remove what is lost",
    RetentionJob.SWEEP: "sweep",
    RetentionJob.PURGE: "purge",
    RetentionJob.STORAGE: "audit storage",
    RetentionJob.VERIFY: "verify digests",
}


def describe_job(job: RetentionJob, scope: JobScope) -> str:
    """Returns the reason why a plan contains its artifacts, as a sentence without the full stop."""
    where = "in all namespaces" if scope.namespace is None else f"in namespace {scope.namespace}"
    limits = [
        *([] if scope.max_bytes is None else [plural(scope.max_bytes, "byte")]),
        *([] if scope.max_artifacts is None else [plural(scope.max_artifacts, "artifact")]),
    ]
    sentences = {
        RetentionJob.EXPIRE: f"artifacts {where} whose time to live has passed; every route answers that they are gone",
        RetentionJob.EVICT: f"the least recently read artifacts {where}, until it is down to {' and '.join(limits)}",
        RetentionJob.SESSION: f"every live artifact of session {scope.session} {where}",
        RetentionJob.NAMESPACE: f"every artifact {where}",
        RetentionJob.LOST: f"artifacts {where} whose bytes were found missing or damaged",
        RetentionJob.SWEEP: "bytes of removed artifacts whose grace has passed; nothing readable is removed",
        RetentionJob.PURGE: "tombstones, idempotency keys and audit lines whose time is over; no payload is removed",
        RetentionJob.STORAGE: "compares names and sizes of all stored bytes with the catalogue; removes nothing",
        RetentionJob.VERIFY: "reads all stored bytes and compares their digests; removes nothing",
    }
    return sentences[job]


def _wrong(detail: str, parameter: str) -> CoatcheckError:
    return CoatcheckError(Code.INVALID_REQUEST, detail, parameter=parameter)


class RunOutcome(StrEnum):
    """The state of a run."""

    RUNNING = "running"
    """In progress; or interrupted, and resumed soon."""
    FINISHED = "finished"
    FAILED = "failed"
    """Given up. Removals until then are not undone."""


class RetentionRun(Struct, frozen=True, kw_only=True):
    """The state of a run of a job, and what it has done so far."""

    id: str
    job: str
    """A `RetentionJob`, or a job that only the schedule has: `reap`, `index`."""
    scope: JobScope
    actor: Annotated[str, Meta(description="Who applied its plan; `schedule` for scheduled rounds.")]
    key_id: str | None
    outcome: RunOutcome
    started_at: datetime
    updated_at: datetime
    finished_at: datetime | None
    plan: Annotated[str | None, Meta(description="The plan's digest.")]
    planned: int
    """Number of artifacts in the run's plan."""
    artifacts: Annotated[int, Meta(description="Removed so far.")]
    bytes: int
    """Bytes of content of the removed artifacts, or stored bytes of the blobs that were swept."""
    items: Annotated[
        int, Meta(description="Everything that is not an artifact: blobs swept, records removed, findings.")
    ]
    busy_seconds: float
    """Working time of all workers together, in seconds."""
    oldest_overdue_seconds: float
    """The longest time in seconds between an artifact's expiry and its removal."""
    detail: str

    @property
    def left_count(self) -> int:
        """Number of artifacts in the plan that were not removed: they were already gone, pinned, held or changed."""
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
    """`done` or `failed`; None if the job has not run yet."""
    last_detail: str | None

    @classmethod
    def make_unchanged(cls, name: str) -> "JobState":
        """Returns the state of a job that nobody has changed and that has not run yet."""
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
        outcome=RunOutcome.RUNNING,
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
    """Returns the ID of the run for all rounds of a job within an hour, in whichever process they are."""
    return f"run_{job}_{now:%Y%m%d%H}"


def make_scheduled_round(job: str, now: datetime, **counts: float) -> RetentionRun:
    """Returns a scheduled round, or a part of one, as its hour's run; `counts` are values of the run's fields."""
    return replace(
        begin_run(hourly_run(job, now), job, WHOLE_STORE, SCHEDULE, now), outcome=RunOutcome.FINISHED, **counts
    )
