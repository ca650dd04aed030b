"""The pages of retention: the schedule, plans, runs and their removed artifacts, and the audit log."""

from typing import Annotated, Final

from msgspec import UNSET, Meta, Struct
from msgspec.structs import replace

from coatcheck.api.audit import AuditQuery, lines_view
from coatcheck.api.http.access import ADMIN
from coatcheck.api.page.call import Elsewhere, PageAnswer, PageCall, Shown, address, page
from coatcheck.api.parameters import plain, seconds
from coatcheck.api.retention import Digest, PlanRequest, RunsQuery, read_cursor, runs_view
from coatcheck.core.keys import resolve_administered
from coatcheck.core.retention.jobs import REMOVING, RetentionJob

_WAIT: Final = 2.0
"""Seconds to wait for the end of a run before its page is shown. The page of a longer run shows its progress."""


class ApplyForm(Struct, kw_only=True, forbid_unknown_fields=True):
    """The form that applies a plan."""

    digest: Digest
    confirm: bool = False
    """Whether the run may remove more than 20 % of the live bytes, as in the API."""


class JobForm(Struct, kw_only=True, forbid_unknown_fields=True):
    """The form that pauses or resumes a scheduled job, or changes its interval."""

    name: str
    paused: bool | None = None
    """Whether the job is paused; None: stays as it is."""
    interval: Annotated[int, Meta(ge=0, le=86_400)] | None = None
    """Seconds between two rounds; 0: as configured; None: stays as it is."""


class UndoForm(Struct, kw_only=True, forbid_unknown_fields=True):
    """The form that restores the next part of the artifacts that a run removed."""

    cursor: int = 0
    """The position at which the previous part ended; 0: begin with the first part."""
    ttl: str | None = None
    """How long artifacts that have expired are kept from now; None: they are not restored."""


@page("GET /ui/retention", scope=ADMIN)
async def show_retention(call: PageCall) -> PageAnswer:
    """Shows the schedule, the form that makes a plan, and the latest runs."""
    query = call.query(RunsQuery, "done")
    listing = await call.services.retention.runs(
        call.who, before=read_cursor(query.cursor), limit=query.limit, job=query.job, outcome=query.outcome
    )
    runs = runs_view(listing, query.limit)
    filters = {"job": query.job, "outcome": query.outcome}
    values = {
        "status": await call.services.retention.status(call.who) if call.everywhere else None,
        # Jobs that remove no artifacts concern the whole store, so only administrators of all namespaces may plan them.
        "jobs": [str(job) for job in RetentionJob if call.everywhere or job in REMOVING],
        "runs": runs.items,
        "first": address("/ui/retention", **filters),
        "more": None if runs.next is None else address("/ui/retention", **filters, cursor=runs.next),
        "query": query,
    }
    return Shown("retention.jinja", values)


@page("POST /ui/retention/plan", scope=ADMIN)
async def plan_retention(call: PageCall) -> PageAnswer:
    """Plans a job and shows exactly what it would remove."""
    form = await call.form(PlanRequest)
    plain(form.session, "session")
    if form.session is not None and form.namespace is None:  # a session is always in a single namespace
        form = replace(form, namespace=resolve_administered(call.who, None))
    return Shown("plan.jinja", {"plan": await call.services.retention.plan(call.who, form.job, form.scope())})


@page("POST /ui/retention/apply", scope=ADMIN)
async def apply_retention(call: PageCall) -> PageAnswer:
    """Applies a plan by its digest, and leads to the page of the run."""
    form = await call.form(ApplyForm)
    run = await call.services.retention.running.apply(call.who, form.digest, confirm=form.confirm, wait=_WAIT)
    return Elsewhere(f"/ui/retention/runs/{run.id}")


@page("GET /ui/retention/runs/{run_id}", scope=ADMIN)
async def show_run(call: PageCall, run_id: str) -> PageAnswer:
    """Shows the progress of a run and its lines in the audit log."""
    run = await call.services.retention.run(call.who, run_id)
    lines = await call.services.retention.audit(
        call.who, run.scope.namespace, before=None, limit=50, run_id=run_id, action=None
    )
    values = {"run": run, "lines": lines_view(lines, 50).items, "removes": run.job in set(REMOVING)}
    return Shown("run.jinja", values)


@page("POST /ui/retention/runs/{run_id}/undo", scope=ADMIN)
async def undo_run(call: PageCall, run_id: str) -> PageAnswer:
    """Restores a part of the artifacts that a run removed."""
    form = await call.form(UndoForm)
    ttl = UNSET if form.ttl is None else seconds(form.ttl, "ttl")
    undone = await call.services.retention.undo.run(call.who, run_id, after=form.cursor, ttl=ttl)
    return Shown("undone.jinja", {"run_id": run_id, "undone": undone, "next": undone.next, "ttl": form.ttl})


@page("POST /ui/retention/jobs", scope=ADMIN)
async def change_job(call: PageCall) -> PageAnswer:
    """Pauses or resumes a scheduled job, or changes its interval."""
    form = await call.form(JobForm)
    await call.services.retention.change_job(call.who, form.name, paused=form.paused, interval=form.interval)
    return Elsewhere("/ui/retention?done=job")


@page("GET /ui/audit", scope=ADMIN)
async def show_audit(call: PageCall) -> PageAnswer:
    """Shows a page of the audit log, latest line first."""
    query = call.query(AuditQuery)
    listing = await call.services.retention.audit(
        call.who,
        query.namespace,
        before=query.before,
        limit=query.limit,
        run_id=query.run,
        action=query.action,
    )
    lines = lines_view(listing, query.limit)
    filters = {"namespace": query.namespace, "run": query.run, "action": query.action}
    first = address("/ui/audit", **filters)
    more = None if lines.next is None else address("/ui/audit", **filters, before=lines.next)
    return Shown("audit.jinja", {"lines": lines.items, "first": first, "more": more, "query": query})
