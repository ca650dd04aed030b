"""Routes with which administrators plan, apply and undo retention jobs, list runs, and change the schedule."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Annotated, ClassVar, Final

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from coatcheck.api.parameters import DURATION, MAX_SEQ, Cursor, Limit, Name, OneNamespace, plain, seconds
from coatcheck.api.route import JSON_BODY, Reply, RouteCall, route
from coatcheck.core import ids
from coatcheck.core.errors import CoatcheckError, Code, invalid_request
from coatcheck.core.ids import EXAMPLE_ID
from coatcheck.core.policies.policy import MAX_BYTES
from coatcheck.core.retention.jobs import JobScope, JobState, RetentionJob, RetentionRun, RunOutcome
from coatcheck.core.retention.plan import RetentionPlan
from coatcheck.usecases.retention.administer_retention import RetentionStatus
from coatcheck.usecases.retention.run_retention import WAIT_SECONDS
from coatcheck.usecases.retention.undo_removal import LIMIT, UndoResult

Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$", description="`digest` of the plan.")]
Count = Annotated[int, Meta(ge=0, le=MAX_BYTES)]
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""The moment from which cursors count microseconds, as an integer: a float could not represent them exactly."""


class PlanRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """The body that plans a job."""

    EXAMPLES: ClassVar = [{"job": "session", "namespace": "default", "session": "run-17"}]

    job: Annotated[
        RetentionJob,
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
        """Returns the scope of the planned job."""
        return msgspec.convert(self, JobScope, from_attributes=True)


class ApplyRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """The body that applies a plan."""

    EXAMPLES: ClassVar = [{"digest": "9b5548c95bd3aba995faea0cddc39669b22251faab643a18929fd3e6f3505731"}]

    digest: Digest
    confirm: Annotated[bool, Meta(description="Confirms that more than 20 % of the live bytes may be removed.")] = False
    wait: Annotated[
        float, Meta(ge=0, le=WAIT_SECONDS, description="Seconds to wait for the run to end before answering.")
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


class JobPatchRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """The body that changes a job of the schedule; fields that are left out stay as they are."""

    EXAMPLES: ClassVar = [{"interval": 60}]

    paused: bool | UnsetType = UNSET
    interval: Annotated[
        int | None | UnsetType, Meta(description="Seconds between two rounds, 1 to 86,400. Null: as configured.")
    ] = UNSET


class RunsQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of `GET /v1/admin/retention/runs`."""

    job: Annotated[Name, Meta(description="Only runs of this job.")] | None = None
    outcome: Annotated[RunOutcome, Meta(description="Only runs with this outcome.")] | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


class RunsView(Struct, frozen=True, kw_only=True):
    """A page of runs, latest first."""

    items: tuple[RetentionRun, ...]
    next: str | None


def runs_view(runs: list[RetentionRun], limit: int) -> RunsView:
    """Returns a page of runs as callers see it. `limit` is the maximum number of runs on a page."""
    # A full page may also be the last one. Then the next page is empty.
    last = runs[-1] if len(runs) == limit else None
    cursor = None if last is None else _cursor(last.started_at, last.id)
    return RunsView(items=tuple(runs), next=cursor)


def _cursor(moment: datetime, run_id: str) -> str:
    microseconds = (moment - _EPOCH) // timedelta(microseconds=1)
    return base64.urlsafe_b64encode(msgspec.json.encode([microseconds, run_id])).decode().rstrip("=")


def read_cursor(text: str | None) -> tuple[datetime, str] | None:
    """Returns the start and the ID of the run after which a list continues; None if there is no cursor.

    Raises:
        CoatcheckError: `invalid_cursor`.
    """
    if text is None:
        return None
    try:
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        # Several runs may begin in the same microsecond, so the position includes the ID.
        microseconds, run_id = msgspec.json.decode(base64.urlsafe_b64decode(padded), type=tuple[int, Name])
        return _EPOCH + timedelta(microseconds=microseconds), run_id
    except (ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise CoatcheckError(
            Code.INVALID_CURSOR, "The cursor does not belong to this list. Start again without one."
        ) from error


@route("POST /v1/admin/retention/plan", answers={200: "The plan."}, problems=(*JSON_BODY, Code.DELETIONS_PAUSED))
async def plan_retention(call: RouteCall, body: PlanRequest) -> RetentionPlan:
    """Plan a retention job.

    Returns what a job would remove now, and why; removes nothing. For an hour, the plan can be applied by its digest,
    which covers exactly that set.
    """
    plain(body.session, "session")
    return await call.services.retention.plan(call.caller, body.job, body.scope())


@route(
    "POST /v1/admin/retention/apply",
    answers={200: "The run has ended.", 202: "The run continues; get it to see its progress."},
    problems=(*JSON_BODY, Code.PLAN_CHANGED, Code.CONFIRMATION_NEEDED, Code.DELETIONS_PAUSED),
)
async def apply_retention(call: RouteCall, body: ApplyRequest) -> Reply[RetentionRun]:
    """Apply a plan.

    Removes those artifacts of the plan that still meet its criteria, and nothing else. The request is refused if more
    than a tenth of the plan's artifacts or bytes have gone since, or are held or pinned now. Without `confirm`, it is
    also refused if it would remove more than 20 % of the live bytes. Applying a plan that is already being applied
    returns its run.
    """
    apply = call.services.retention.running.apply
    run = await apply(call.caller, body.digest, confirm=body.confirm, wait=body.wait)
    return Reply(run, 202 if run.outcome is RunOutcome.RUNNING else 200)


@route("GET /v1/admin/retention/runs", answers={200: "A page."}, problems=(Code.INVALID_CURSOR,))
async def list_runs(call: RouteCall, query: RunsQuery) -> RunsView:
    """List runs.

    Latest first. The schedule records one run per job and hour, and none when there was nothing to do.
    """
    runs = await call.services.retention.runs(
        call.caller,
        before=read_cursor(query.cursor),
        limit=query.limit,
        job=query.job,
        outcome=query.outcome,
    )
    return runs_view(runs, query.limit)


@route("GET /v1/admin/retention/runs/{run_id}", answers={200: "The run."}, problems=(Code.RUN_NOT_FOUND,))
async def get_run(call: RouteCall, run_id: str) -> RetentionRun:
    """Get a run.

    Returns its progress, or its result.
    """
    return await call.services.retention.run(call.caller, run_id)


@route("GET /v1/admin/retention/status", answers={200: "The status."})
async def get_retention_status(call: RouteCall) -> RetentionStatus:
    """Get the status of retention.

    Returns what is overdue, the schedule, and the runs in progress. Needs a key of `*`.
    """
    return await call.services.retention.status(call.caller)


@route("PATCH /v1/admin/retention/jobs/{name}", answers={200: "Changed."}, problems=JSON_BODY)
async def change_job(call: RouteCall, name: str, body: JobPatchRequest) -> JobState:
    """Pause, resume or pace a scheduled job.

    Takes effect on every replica within five seconds. Expiry itself is exact on every route, whether or not the job
    is paused.

    `deletions` stands for everything that deletes by time. The service pauses it when the clock jumps by more than a
    day; by resuming it, an administrator confirms that the clock is right.
    """
    if body.interval == 0:
        raise invalid_request(
            "An interval must be 1 to 86400 seconds, or null for the one in the settings.", parameter="interval"
        )
    # For the use case, None leaves the interval unchanged, and 0 restores the interval of the settings.
    interval = None if body.interval is UNSET else (body.interval or 0)
    paused = None if body.paused is UNSET else body.paused
    return await call.services.retention.change_job(call.caller, name, paused=paused, interval=interval)


@route(
    "POST /v1/admin/retention/undo",
    answers={200: "What was restored, and what was not."},
    problems=(*JSON_BODY, Code.RUN_NOT_FOUND, Code.INVALID_ARTIFACT_ID),
)
async def undo_removal(call: RouteCall, body: UndoRequest) -> UndoResult:
    """Restore what was removed.

    Restores artifacts by ID, or everything that a run removed, until the grace period of the sweep has passed. An
    artifact comes back with its ID, bytes, views, labels and expiry; one that has expired needs a `ttl`. Artifacts that
    cannot be restored are listed with the reason. A run with more than 500 artifacts takes several calls, each with
    `next` as cursor.
    """
    if (body.run is None) == (not body.artifacts):
        raise invalid_request("Give either `artifacts` or a `run`.", parameter="artifacts")
    if body.run is not None and body.namespace is not None:
        raise invalid_request("`namespace` goes with `artifacts`; a run is undone as a whole.", parameter="namespace")
    if body.run is None and body.cursor:
        raise invalid_request("`cursor` goes with a `run`; `artifacts` are restored in one answer.", parameter="cursor")
    ttl = UNSET if body.ttl is None else seconds(body.ttl, "ttl")
    undo = call.services.retention.undo
    if body.run is not None:
        return await undo.run(call.caller, body.run, after=body.cursor, ttl=ttl)
    return await undo.artifacts(call.caller, body.namespace, [ids.parse(each) for each in body.artifacts], ttl=ttl)
