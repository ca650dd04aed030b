"""Plans, runs, undo, the schedule and the audit, for those who administer them."""

from typing import Any

from litestar import Request, Response, get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath
from msgspec import UNSET

from coatcheck.api.artifacts.wire import answer
from coatcheck.api.audit import wire as audit_fields
from coatcheck.api.http.query import read_query
from coatcheck.api.http.request_parts import caller
from coatcheck.api.http.small_body import small_body
from coatcheck.api.ingest.requests import duration, plain
from coatcheck.api.parameters import EmptyQuery
from coatcheck.api.retention import docs
from coatcheck.api.retention import wire as fields
from coatcheck.api.services import RouteContext
from coatcheck.core import ids
from coatcheck.core.audit import Head
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.retention import Outcome


@post("/v1/admin/retention/plan", status_code=200, opt={"doc": docs.PLAN})
async def plan_retention(request: Request[Any, Any, Any], desk: NamedDependency[RouteContext]) -> Response[bytes]:
    """Rehearse a job."""
    asked = await small_body(request, desk, fields.PlanAsk)
    plain(asked.session, "session")
    plan = await desk.services.retention.plan(caller(request.scope), asked.job, asked.scope())
    return answer(fields.plan_view(plan))


@post("/v1/admin/retention/apply", status_code=200, opt={"doc": docs.APPLY})
async def apply_retention(request: Request[Any, Any, Any], desk: NamedDependency[RouteContext]) -> Response[bytes]:
    """Apply a plan."""
    asked = await small_body(request, desk, fields.ApplyAsk)
    run = await desk.services.retention.apply(
        caller(request.scope), asked.digest, confirm=asked.confirm, wait=asked.wait
    )
    return answer(fields.run_view(run), status=202 if run.outcome is Outcome.RUNNING else 200)


@get("/v1/admin/retention/runs", opt={"doc": docs.LIST_RUNS})
async def list_runs(request: Request[Any, Any, Any], desk: NamedDependency[RouteContext]) -> Response[bytes]:
    """A page of runs."""
    asked = read_query(request.scope, fields.RunsQuery)
    found = await desk.services.retention.runs(
        caller(request.scope),
        before=fields.read_cursor(asked.cursor),
        limit=asked.limit,
        job=asked.job,
        outcome=asked.outcome,
    )
    return answer(fields.runs_view(found, asked.limit))


@get("/v1/admin/retention/runs/{run_id:str}", opt={"doc": docs.GET_RUN})
async def get_run(
    request: Request[Any, Any, Any], desk: NamedDependency[RouteContext], run_id: FromPath[str]
) -> Response[bytes]:
    """A run."""
    read_query(request.scope, EmptyQuery)
    return answer(fields.run_view(await desk.services.retention.run(caller(request.scope), run_id)))


@get("/v1/admin/retention/status", opt={"doc": docs.STATUS})
async def retention_status(request: Request[Any, Any, Any], desk: NamedDependency[RouteContext]) -> Response[bytes]:
    """How retention stands."""
    read_query(request.scope, EmptyQuery)
    return answer(fields.status_view(await desk.services.retention.status(caller(request.scope))))


@patch("/v1/admin/retention/jobs/{name:str}", opt={"doc": docs.CHANGE_JOB})
async def change_job(
    request: Request[Any, Any, Any], desk: NamedDependency[RouteContext], name: FromPath[str]
) -> Response[bytes]:
    """Pause, resume or pace a job of the schedule."""
    asked = await small_body(request, desk, fields.JobAsk)
    interval = None if asked.interval is UNSET else (asked.interval or 0)
    state = await desk.services.retention.change_job(
        caller(request.scope), name, paused=None if asked.paused is UNSET else asked.paused, interval=interval
    )
    return answer(fields.job_view(state))


@post("/v1/admin/retention/undo", status_code=200, opt={"doc": docs.UNDO})
async def undo_removal(request: Request[Any, Any, Any], desk: NamedDependency[RouteContext]) -> Response[bytes]:
    """Bring back what was removed."""
    asked = await small_body(request, desk, fields.UndoAsk)
    if (asked.run is None) == (not asked.artifacts):
        raise CoatcheckError(Code.INVALID_REQUEST, "Name `artifacts`, or a `run`.", parameter="artifacts")
    ttl = None if asked.ttl is None else duration(asked.ttl, "ttl")
    who, retention = caller(request.scope), desk.services.retention
    if asked.run is None:
        numbers = [ids.parse(each) for each in asked.artifacts]
        return answer(fields.undone_view(await retention.undo(who, asked.namespace, numbers, ttl), None))
    undone, last = await retention.undo_run(who, asked.run, after=asked.cursor, ttl=ttl)
    return answer(fields.undone_view(undone, last if undone.more else None))


@get("/v1/admin/audit", opt={"doc": docs.LIST_AUDIT})
async def list_audit(request: Request[Any, Any, Any], desk: NamedDependency[RouteContext]) -> Response[bytes]:
    """A page of the audit."""
    asked = read_query(request.scope, audit_fields.AuditQuery)
    found = await desk.services.retention.audit(
        caller(request.scope),
        asked.namespace,
        before=asked.before,
        limit=asked.limit,
        run_id=asked.run,
        action=asked.action,
    )
    return answer(audit_fields.lines_view(found, asked.limit))


@get("/v1/admin/audit/verify", opt={"doc": docs.VERIFY_AUDIT})
async def verify_audit(request: Request[Any, Any, Any], desk: NamedDependency[RouteContext]) -> Response[bytes]:
    """Verify the audit."""
    asked = read_query(request.scope, audit_fields.VerifyAuditQuery)
    kept = None if asked.head is None else Head.parse(asked.head)
    return answer(audit_fields.verified_view(await desk.services.retention.verify_audit(caller(request.scope), kept)))


@get("/v1/admin/audit/head", opt={"doc": docs.AUDIT_HEAD})
async def audit_head(request: Request[Any, Any, Any], desk: NamedDependency[RouteContext]) -> Response[bytes]:
    """The audit's head."""
    read_query(request.scope, EmptyQuery)
    return answer(audit_fields.head_view(await desk.services.retention.audit_head(caller(request.scope))))
