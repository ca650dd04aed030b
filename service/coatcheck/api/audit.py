"""The route with which administrators list the audit log."""

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Struct

from coatcheck.api.parameters import MAX_SEQ, Limit, Name, OneNamespace
from coatcheck.api.route import RouteCall, route
from coatcheck.core import ids
from coatcheck.core.retention.audit import AuditLine


class AuditQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of `GET /v1/admin/audit`."""

    namespace: OneNamespace | None = None
    run: Annotated[Name, Meta(description="Only lines of this run.")] | None = None
    action: (
        Annotated[
            Name,
            Meta(
                description="Only this action, such as `artifact.removed`; `artifact` selects all that begin with it."
            ),
        ]
        | None
    ) = None
    limit: Limit = 50
    before: (
        Annotated[int, Meta(ge=1, le=MAX_SEQ, description="Only lines before this one: `next` of the previous page.")]
        | None
    ) = None


class AuditLineView(Struct, frozen=True, kw_only=True):
    """A line of the audit log."""

    seq: int
    """Number of the line, which increases from line to line, with gaps. It can be passed as `before`."""
    at: datetime
    action: str
    """Name of the action: a noun, a dot and a participle, such as `artifact.removed`."""
    actor: str
    key_id: str | None
    namespace: str | None
    """The namespace concerned; null: the whole store."""
    reason: str
    run: str | None
    """ID of the retention run that did it; null: it was not done by a run."""
    count: Annotated[int, Meta(description="Number of artifacts that the line is about.")]
    bytes: int
    """Bytes of content of all these artifacts together."""
    artifacts: Annotated[tuple[str, ...], Meta(description="IDs of all these artifacts.")]
    details: dict[str, Any]


class AuditLinesView(Struct, frozen=True, kw_only=True):
    """A page of the audit log, latest first."""

    items: tuple[AuditLineView, ...]
    next: int | None


def line_view(line: AuditLine) -> AuditLineView:
    """Returns a line of the audit log as callers see it."""
    return AuditLineView(
        seq=line.seq,
        at=line.at,
        action=line.action,
        actor=line.by.actor,
        key_id=line.by.key_id,
        namespace=line.namespace,
        reason=line.reason,
        run=line.by.run_id,
        count=len(line.numbers),
        bytes=line.size,
        artifacts=tuple(map(ids.render, line.numbers)),
        details=line.details,
    )


def lines_view(lines: list[AuditLine], limit: int) -> AuditLinesView:
    """Returns a page of the audit log as callers see it. `limit` is the maximum number of lines on a page."""
    return AuditLinesView(items=tuple(map(line_view, lines)), next=lines[-1].seq if len(lines) == limit else None)


@route("GET /v1/admin/audit", answers={200: "A page."})
async def list_audit(call: RouteCall, query: AuditQuery) -> AuditLinesView:
    """List the lines of the audit log.

    Latest first. Every removal is in exactly one line, with all its artifacts. Lines are kept for 90 days, or for the
    time in COATCHECK_AUDIT_TTL.
    """
    lines = await call.services.retention.audit(
        call.caller,
        query.namespace,
        before=query.before,
        limit=query.limit,
        run_id=query.run,
        action=query.action,
    )
    return lines_view(lines, query.limit)
