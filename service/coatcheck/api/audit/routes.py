"""The audit log. For administrators."""

from coatcheck.api.audit.wire import AuditQuery, LinesView, lines_view
from coatcheck.api.route import RouteCall, route


@route("GET /v1/admin/audit", answers={200: "A page."})
async def list_audit(call: RouteCall, query: AuditQuery) -> LinesView:
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
