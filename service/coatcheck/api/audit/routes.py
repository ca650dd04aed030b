"""The audit log. For administrators."""

from coatcheck.api.audit.wire import (
    AuditQuery,
    HeadView,
    LinesView,
    VerifiedAuditView,
    VerifyAuditQuery,
    head_view,
    lines_view,
    verified_view,
)
from coatcheck.api.route import RouteCall, route
from coatcheck.core.audit import Head
from coatcheck.core.errors import Code


@route("GET /v1/admin/audit", answers={200: "A page."})
async def list_audit(call: RouteCall, query: AuditQuery) -> LinesView:
    """The audit's lines.

    The latest first. Every removal is in exactly one line, with all its artifacts. A line's hash is SHA-256 over its
    fields and the hash before it, as docs/decisions/0031 spells them out.
    """
    found = await call.services.retention.audit(
        call.caller,
        query.namespace,
        before=query.before,
        limit=query.limit,
        run_id=query.run,
        action=query.action,
    )
    return lines_view(found, query.limit)


@route("GET /v1/admin/audit/verify", answers={200: "Whether it is intact, and where not."})
async def verify_audit(call: RouteCall, query: VerifyAuditQuery) -> VerifiedAuditView:
    """Verify the audit.

    Follows the chain from its first line to its head. A line that was changed, removed, inserted or moved shows, and
    a missing end does. Who may change every row of the database can write a new chain, which only a head that was
    kept elsewhere shows: give it as `head`. Needs a key of `*`.
    """
    kept = None if query.head is None else Head.parse(query.head)
    return verified_view(await call.services.retention.verify_audit(call.caller, kept))


@route("GET /v1/admin/audit/head", answers={200: "The head."}, problems=(Code.INTEGRITY,))
async def get_audit_head(call: RouteCall) -> HeadView:
    """The audit's head.

    To be kept where who administers the database cannot write. Needs a key of `*`.
    """
    return head_view(await call.services.retention.audit_head(call.caller))
