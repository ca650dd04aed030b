"""Wire types of retention: fields of requests and answers, with their bounds."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Annotated, ClassVar, Final

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from coatcheck.api.parameters import DURATION, MAX_SEQ, Cursor, Limit, Name, OneNamespace
from coatcheck.api.views import copy_fields
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.ids import EXAMPLE_ID
from coatcheck.core.policies.policy import MAX_BYTES
from coatcheck.core.retention.jobs import Job, JobScope
from coatcheck.core.retention.runs import JobState, Outcome, RetentionRun
from coatcheck.usecases.retention.administer_retention import Status
from coatcheck.usecases.retention.run_retention import MOST_WAIT
from coatcheck.usecases.retention.undo_removal import LIMIT

Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$", description="`digest` of the plan.")]
Count = Annotated[int, Meta(ge=0, le=MAX_BYTES)]
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class PlanRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """The body that plans a job."""

    EXAMPLES: ClassVar = [{"job": "session", "namespace": "default", "session": "run-17"}]

    job: Annotated[
        Job,
        Meta(
            description="`expire`, `evict` (least recently read, down to a limit), `session`, `namespace` and `lost` "
            "(bytes found missing or damaged) remove artifacts; `sweep` and `purge` remove what is left of removed "
            "artifacts; `storage` and `verify` compare the store with the catalogue and remove nothing."
        ),
    ]
    namespace: OneNamespace | None = None
    session: Annotated[Name, Meta(description="For `session`.")] | None = None
    max_bytes: Annotated[Count, Meta(description="For `evict`: bytes of content that may stay.")] | None = None
    max_artifacts: Annotated[Count, Meta(description="For `evict`: artifacts that may stay.")] | None = None

    def scope(self) -> JobScope:
        """Returns the scope of the job."""
        return copy_fields(JobScope, self)


class ApplyRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """The body that applies a plan."""

    EXAMPLES: ClassVar = [{"digest": "9b5548c95bd3aba995faea0cddc39669b22251faab643a18929fd3e6f3505731"}]

    digest: Digest
    confirm: Annotated[bool, Meta(description="Confirms that more than 20 % of the live bytes may be removed.")] = False
    wait: Annotated[
        float, Meta(ge=0, le=MOST_WAIT, description="Seconds to wait for the run to end before answering.")
    ] = 5.0


class UndoRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """The body that restores removed artifacts: by their IDs, or everything that a run removed."""

    EXAMPLES: ClassVar = [{"artifacts": [EXAMPLE_ID]}]

    namespace: OneNamespace | None = None
    artifacts: Annotated[
        tuple[str, ...],
        Meta(min_length=1, max_length=LIMIT, description="IDs of the artifacts to restore.", examples=[[EXAMPLE_ID]]),
    ] = ()
    run: Annotated[Name, Meta(description="A run's ID, instead of `artifacts`.")] | None = None
    cursor: Annotated[int, Meta(ge=0, le=MAX_SEQ, description="With `run`: `next` of the previous answer.")] = 0
    ttl: (
        Annotated[
            int | str, Meta(description=f"New TTL, counted from now, for artifacts that have expired. {DURATION}")
        ]
        | None
    ) = None


class JobRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """The body that changes a job of the schedule; fields that are left out stay as they are."""

    EXAMPLES: ClassVar = [{"interval": 60}]

    paused: bool | UnsetType = UNSET
    interval: Annotated[
        int | None | UnsetType, Meta(description="Seconds between two rounds, 1 to 86,400. Null: as configured.")
    ] = UNSET


class RunsQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of `GET /v1/admin/retention/runs`."""

    job: Annotated[Name, Meta(description="Only runs of this job.")] | None = None
    outcome: Annotated[Outcome, Meta(description="Only runs with this outcome.")] | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


class RunsView(Struct, frozen=True, kw_only=True):
    """A page of runs, latest first."""

    items: tuple[RetentionRun, ...]
    next: str | None


class StatusView(Struct, frozen=True, kw_only=True):
    """The status of retention."""

    at: datetime
    expired: Annotated[int, Meta(description="Artifacts that have expired and are not removed yet; up to 100,000.")]
    oldest_overdue_seconds: float
    dead_blobs: int
    dead_bytes: int
    artifacts: int | None
    stored_bytes: int | None
    jobs: tuple[JobState, ...]
    running: tuple[RetentionRun, ...]


def runs_view(runs: list[RetentionRun], limit: int) -> RunsView:
    """Returns a page of runs as callers see it."""
    last = runs[-1] if len(runs) == limit else None
    cursor = None if last is None else _cursor(last.started_at, last.id)
    return RunsView(items=tuple(runs), next=cursor)


def _cursor(moment: datetime, run_id: str) -> str:
    microseconds = (moment - _EPOCH) // timedelta(microseconds=1)
    return base64.urlsafe_b64encode(msgspec.json.encode([microseconds, run_id])).decode().rstrip("=")


def read_cursor(text: str | None) -> tuple[datetime, str] | None:
    """Returns start and ID of the run after which a list continues.

    Raises:
        CoatcheckError: `invalid_cursor`.
    """
    if text is None:
        return None
    try:
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        microseconds, run_id = msgspec.json.decode(base64.urlsafe_b64decode(padded), type=tuple[int, str])
        return _EPOCH + timedelta(microseconds=microseconds), run_id
    except (ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise CoatcheckError(
            Code.INVALID_CURSOR, "The cursor does not belong to this list. Start again without one."
        ) from error


def status_view(status: Status) -> StatusView:
    """Returns the status of retention as callers see it."""
    overdue = status.overdue
    late = 0.0 if overdue.oldest is None else (status.at - overdue.oldest).total_seconds()
    return copy_fields(
        StatusView,
        overdue,
        at=status.at,
        oldest_overdue_seconds=round(max(0.0, late), 3),
        dead_blobs=overdue.dead,
        jobs=status.jobs,
        running=status.running,
    )
