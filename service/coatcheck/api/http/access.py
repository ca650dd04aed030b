"""Who may call what: ONE table from route to scope, the key out of a request, and the caller that it stands for.

A route that the table does not name needs `admin`, so that a forgotten entry opens nothing; a test compares the table
with the OpenAPI document. What is the same for everybody needs no key: health, declarations of tools, the document.
Refuses to guess between two keys, and never repeats one in an answer.
"""

import re
from typing import Final

from litestar.handlers import BaseRouteHandler
from litestar.types import HTTPScope, Scope

from coatcheck.api.http.headers import field
from coatcheck.core.keys import PREFIX, unauthenticated
from coatcheck.usecases.authenticate import Authenticate

INGEST, READ, DELETE, ADMIN = "ingest", "read", "delete", "admin"

NEEDED: Final[dict[str, str | None]] = {
    "POST /v1/artifacts": INGEST,
    "POST /v1/artifacts/raw": INGEST,
    "POST /v1/artifacts:batch": INGEST,
    "POST /v1/search-results": INGEST,
    "POST /v1/hooks/claude-code": INGEST,
    "POST /v1/context/compact": INGEST,
    "POST /v1/context/measure": INGEST,
    "GET /v1/sessions/{session}/usage": READ,
    "GET /v1/artifacts": READ,
    "GET /v1/artifacts/{artifact_id}": READ,
    "GET /v1/artifacts/{artifact_id}/card": READ,
    "GET /v1/artifacts/{artifact_id}/content": READ,
    "GET /v1/artifacts/{artifact_id}/json": READ,
    "GET /v1/artifacts/{artifact_id}/outline": READ,
    "GET /v1/artifacts/{artifact_id}/read": READ,
    "GET /v1/artifacts/{artifact_id}/search": READ,
    "GET /v1/artifacts/{artifact_id}/windows": READ,
    "POST /v1/citations/verify": READ,
    "POST /v1/tools/call": READ,
    "POST /mcp": READ,
    "PATCH /v1/artifacts/{artifact_id}": DELETE,  # a shorter life is a deletion
    "DELETE /v1/artifacts/{artifact_id}": DELETE,
    "DELETE /v1/sessions/{session}": DELETE,
    "GET /v1/admin/keys": ADMIN,
    "POST /v1/admin/keys": ADMIN,
    "DELETE /v1/admin/keys/{key_id}": ADMIN,
    "GET /v1/admin/namespaces": ADMIN,
    "POST /v1/admin/namespaces": ADMIN,
    "PATCH /v1/admin/namespaces/{namespace}": ADMIN,
    "DELETE /v1/admin/namespaces/{namespace}": ADMIN,
    "GET /v1/admin/policies": ADMIN,
    "PUT /v1/admin/policies": ADMIN,
    "DELETE /v1/admin/policies": ADMIN,
    "GET /v1/admin/policies/history": ADMIN,
    "GET /v1/admin/policies/effective": ADMIN,
    "GET /v1/admin/holds": ADMIN,
    "POST /v1/admin/holds": ADMIN,
    "DELETE /v1/admin/holds/{hold_id}": ADMIN,
    "GET /v1/admin/usage": ADMIN,
    "POST /v1/admin/retention/plan": ADMIN,
    "POST /v1/admin/retention/apply": ADMIN,
    "POST /v1/admin/retention/undo": ADMIN,
    "GET /v1/admin/retention/runs": ADMIN,
    "GET /v1/admin/retention/runs/{run_id}": ADMIN,
    "GET /v1/admin/retention/status": ADMIN,
    "PATCH /v1/admin/retention/jobs/{name}": ADMIN,
    "GET /v1/admin/audit": ADMIN,
    "GET /v1/admin/audit/verify": ADMIN,
    "GET /v1/admin/audit/head": ADMIN,
    "GET /metrics": ADMIN,  # unless the settings open it
    "GET /v1/tools": None,
    "GET /v1/openapi.json": None,
    "GET /health/live": None,
    "GET /health/ready": None,
}
"""Method and path to the scope that a key needs; None: no key is asked for. HEAD is as GET."""

_TYPED: Final = re.compile(r"\{([^}:]+):[^}]+\}")
_BEARER: Final = "bearer "


def template(path: str) -> str:
    """A route's path as the OpenAPI document writes it."""
    return _TYPED.sub(r"{\1}", path)


def path_of(handler: BaseRouteHandler) -> str:
    """The path that a handler serves; the one that it names where routing needs another."""
    named: str | None = handler.opt.get("path")
    return named or next(iter(handler.paths))


def needed(method: str, path: str) -> str | None:
    """The scope that a route needs; None: none, and no key."""
    return NEEDED.get(f"{'GET' if method == 'HEAD' else method} {template(path)}", ADMIN)


def presented(scope: Scope) -> str | None:
    """The key that a request brings: `Authorization: Bearer ck_live_…`, or `X-Api-Key`.

    Credentials of another form are not for us: something in front of the service may have asked for them.

    Raises:
        CoatcheckError: `unauthenticated` when it brings two that differ.
    """
    found = field(scope, b"x-api-key")
    if found is not None and not found.startswith(PREFIX):
        found = None
    bearer = field(scope, b"authorization")
    if bearer is None or bearer[: len(_BEARER)].lower() != _BEARER:
        return found
    token = bearer[len(_BEARER) :].strip()
    if not token.startswith(PREFIX):
        return found
    if found not in {None, token}:
        raise unauthenticated("Two different keys were presented. Send one, in `Authorization` or in `X-Api-Key`.")
    return token


async def let_in(authenticate: Authenticate, scope: HTTPScope, method: str, path: str) -> None:
    """Let a request through to its route, and remember whose it is.

    Raises:
        CoatcheckError: `unauthenticated`, `forbidden`; `storage_unavailable` while nobody can tell.
    """
    wanted = needed(method, path)
    if wanted is not None:
        scope["state"]["caller"] = await authenticate(presented(scope), wanted)
