"""Plans, runs, undo and the schedule, for those who administer retention."""

from msgspec import UNSET

from coatcheck.api.checks import plain
from coatcheck.api.durations import seconds
from coatcheck.api.retention.wire import (
    ApplyAsk,
    JobAsk,
    JobView,
    PlanAsk,
    PlanView,
    RunsQuery,
    RunsView,
    RunView,
    StatusView,
    UndoAsk,
    UndoneView,
    plan_view,
    read_cursor,
    run_view,
    runs_view,
    status_view,
    undone_view,
)
from coatcheck.api.route import JSON_BODY, Call, Reply, route
from coatcheck.api.views import copy_fields
from coatcheck.core import ids
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.retention import Outcome


@route("POST /v1/admin/retention/plan", answers={200: "The plan."}, problems=JSON_BODY)
async def plan_retention(call: Call, body: PlanAsk) -> PlanView:
    """Rehearse a job.

    Says what a job would remove now, and why; removes nothing. The plan can be applied for an hour, by its digest,
    which covers exactly that set.
    """
    plain(body.session, "session")
    plan = await call.services.retention.plan(call.caller, body.job, body.scope())
    return plan_view(plan)


@route(
    "POST /v1/admin/retention/apply",
    answers={200: "The run has ended.", 202: "The run goes on; ask for it."},
    problems=(*JSON_BODY, Code.PLAN_CHANGED, Code.CONFIRMATION_NEEDED),
)
async def apply_retention(call: Call, body: ApplyAsk) -> Reply[RunView]:
    """Apply a plan.

    Removes what the plan covers and still meets its reason, and nothing else. Refused when more than a tenth of its
    artifacts or bytes have gone, or are held or pinned by now, and, without `confirm`, when it would remove more than
    20 % of the live bytes. Applying a plan that is being applied answers its run.
    """
    run = await call.services.retention.apply(call.caller, body.digest, confirm=body.confirm, wait=body.wait)
    return Reply(run_view(run), 202 if run.outcome is Outcome.RUNNING else 200)


@route("GET /v1/admin/retention/runs", answers={200: "A page."}, problems=(Code.INVALID_CURSOR,))
async def list_runs(call: Call, query: RunsQuery) -> RunsView:
    """List runs.

    The latest first. Rounds of the schedule are one run an hour and job; where nothing is done, none.
    """
    found = await call.services.retention.runs(
        call.caller,
        before=read_cursor(query.cursor),
        limit=query.limit,
        job=query.job,
        outcome=query.outcome,
    )
    return runs_view(found, query.limit)


@route("GET /v1/admin/retention/runs/{run_id}", answers={200: "The run."}, problems=(Code.RUN_NOT_FOUND,))
async def get_run(call: Call, run_id: str) -> RunView:
    """A run.

    How far it is, or what it has done.
    """
    return run_view(await call.services.retention.run(call.caller, run_id))


@route("GET /v1/admin/retention/status", answers={200: "The status."})
async def get_retention_status(call: Call) -> StatusView:
    """How retention stands.

    What is overdue, the schedule, and the runs that are under way. Needs a key of `*`.
    """
    return status_view(await call.services.retention.status(call.caller))


@route("PATCH /v1/admin/retention/jobs/{name}", answers={200: "Changed."}, problems=JSON_BODY)
async def change_job(call: Call, name: str, body: JobAsk) -> JobView:
    """Pause, resume or pace a job of the schedule.

    Holds for every replica within five seconds. Expiry itself is exact on every route, paused or not.
    """
    interval = None if body.interval is UNSET else (body.interval or 0)
    state = await call.services.retention.change_job(
        call.caller, name, paused=None if body.paused is UNSET else body.paused, interval=interval
    )
    return copy_fields(JobView, state)


@route(
    "POST /v1/admin/retention/undo",
    answers={200: "What came back, and what did not."},
    problems=(*JSON_BODY, Code.RUN_NOT_FOUND, Code.INVALID_ARTIFACT_ID),
)
async def undo_removal(call: Call, body: UndoAsk) -> UndoneView:
    """Bring back what was removed.

    Until the grace of the sweep has passed: by artifact IDs, or what a run has removed. An artifact comes back with
    its ID, bytes, views, labels and expiry; one that has expired needs a `ttl`. What cannot be brought back is named
    with its reason. A run with more than 500 artifacts takes several calls, each with `next` as cursor.
    """
    if (body.run is None) == (not body.artifacts):
        raise CoatcheckError(Code.INVALID_REQUEST, "Name `artifacts`, or a `run`.", parameter="artifacts")
    ttl = seconds(body.ttl, "ttl")
    who, retention = call.caller, call.services.retention
    if body.run is None:
        numbers = [ids.parse(each) for each in body.artifacts]
        return undone_view(await retention.undo(who, body.namespace, numbers, ttl), None)
    undone, last = await retention.undo_run(who, body.run, after=body.cursor, ttl=ttl)
    return undone_view(undone, last if undone.more else None)
