"""Retention plans, runs, undo and the schedule. For administrators."""

from msgspec import UNSET

from coatcheck.api.checks import plain
from coatcheck.api.durations import seconds
from coatcheck.api.retention.wire import (
    ApplyRequest,
    JobRequest,
    PlanRequest,
    RunsQuery,
    RunsView,
    StatusView,
    UndoRequest,
    read_cursor,
    runs_view,
    status_view,
)
from coatcheck.api.route import JSON_BODY, Reply, RouteCall, route
from coatcheck.core import ids
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.retention.plan import RetentionPlan
from coatcheck.core.retention.runs import JobState, Outcome, RetentionRun
from coatcheck.usecases.retention.undo_removal import UndoResult


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

    Removes those artifacts of the plan that still meet its criteria, and nothing else. Refused if more than a tenth of
    its artifacts or bytes have since gone, or are now held or pinned, and, without `confirm`, if it would remove more
    than 20 % of the live bytes. Applying a plan that is already being applied returns its run.
    """
    apply = call.services.retention.running.apply
    run = await apply(call.caller, body.digest, confirm=body.confirm, wait=body.wait)
    return Reply(run, 202 if run.outcome is Outcome.RUNNING else 200)


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
async def get_retention_status(call: RouteCall) -> StatusView:
    """Get the status of retention.

    Returns what is overdue, the schedule, and the runs in progress. Needs a key of `*`.
    """
    return status_view(await call.services.retention.status(call.caller))


@route("PATCH /v1/admin/retention/jobs/{name}", answers={200: "Changed."}, problems=JSON_BODY)
async def change_job(call: RouteCall, name: str, body: JobRequest) -> JobState:
    """Pause, resume or pace a scheduled job.

    Takes effect on every replica within five seconds. Expiry itself is exact on every route, whether or not the job
    is paused.

    `deletions` stands for everything that deletes by time. The service pauses it when the clock jumps by more than a
    day; to resume it confirms that the clock is right.
    """
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
        raise CoatcheckError(Code.INVALID_REQUEST, "Give either `artifacts` or a `run`.", parameter="artifacts")
    ttl = seconds(body.ttl, "ttl")
    undo = call.services.retention.undo
    if body.run is not None:
        return await undo.run(call.caller, body.run, after=body.cursor, ttl=ttl)
    return await undo.artifacts(call.caller, body.namespace, [ids.parse(each) for each in body.artifacts], ttl=ttl)
