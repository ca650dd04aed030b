"""Looking artifacts up, changing how long they are kept, deleting them."""

from typing import Any
from urllib.parse import unquote_to_bytes

from litestar import Request, Response, delete, get, patch
from litestar.di import NamedDependency
from litestar.params import FromPath
from litestar.types import Scope
from msgspec import UNSET

from coatcheck.api.artifacts import docs
from coatcheck.api.artifacts.wire import CardView, DeletedView, ListView, answer, artifact_view, described_view
from coatcheck.api.http.accept import prefers_text
from coatcheck.api.http.body import open_body
from coatcheck.api.http.headers import field, raw_path
from coatcheck.api.http.json_body import decode
from coatcheck.api.http.limits import KIB
from coatcheck.api.http.query import read_query
from coatcheck.api.http.request_parts import caller, cited, require_json
from coatcheck.api.ingest.requests import checked_labels, duration, plain
from coatcheck.api.parameters import CardQuery, EmptyQuery, ListQuery, PatchBody
from coatcheck.api.services import RouteContext
from coatcheck.core import ids
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.catalog import ArtifactFilter

_PATCH_BODY = 64 * KIB
_SESSION_LENGTH = 256
SESSIONS = "/v1/sessions/"
USAGE = "/usage"
"""Behind a session's name: its account. Routing cannot tell it from a part of the name, which may hold slashes."""


@get("/v1/artifacts", opt={"doc": docs.LIST})
async def list_artifacts(request: Request[Any, Any, Any], desk: NamedDependency[RouteContext]) -> Response[bytes]:
    """A page of artifacts, newest first."""
    asked = read_query(request.scope, ListQuery)
    where = ArtifactFilter(
        session=asked.session, kind=asked.kind, tool_name=asked.tool_name, url=asked.url, label=asked.label
    )
    listing = await desk.services.browse(caller(request.scope), where, asked.cursor, asked.limit, query=asked.q)
    return answer(ListView(tuple(artifact_view(item) for item in listing.items), listing.next, listing.partial))


@get("/v1/artifacts/{artifact_id:str}", opt={"doc": docs.GET})
async def get_artifact(
    request: Request[Any, Any, Any], desk: NamedDependency[RouteContext], artifact_id: FromPath[str]
) -> Response[bytes]:
    """Metadata and card."""
    read_query(request.scope, EmptyQuery)
    return answer(described_view(await desk.services.describe(caller(request.scope), cited(artifact_id)[0])))


@get("/v1/artifacts/{artifact_id:str}/card", opt={"doc": docs.CARD})
async def get_card(
    request: Request[Any, Any, Any], desk: NamedDependency[RouteContext], artifact_id: FromPath[str]
) -> Response[bytes]:
    """The card at another budget, for another query or for a model without the tool, as JSON or as the text alone."""
    asked = read_query(request.scope, CardQuery)
    described = await desk.services.describe(
        caller(request.scope),
        cited(artifact_id)[0],
        budget=asked.tokens,
        query=asked.query,
        tools=asked.tools != "none",
    )
    if prefers_text(field(request.scope, b"accept")):
        return Response(
            content=described.text.encode(),
            media_type="text/plain",
            headers={"vary": "accept", "x-content-type-options": "nosniff"},
        )
    view = CardView(id=described.artifact.id, text=described.text, tokens=described.tokens, card=described.card)
    return answer(view, headers={"vary": "accept"})


@patch("/v1/artifacts/{artifact_id:str}", opt={"doc": docs.PATCH})
async def patch_artifact(
    request: Request[Any, Any, Any],
    desk: NamedDependency[RouteContext],
    artifact_id: FromPath[str],
) -> Response[bytes]:
    """Change ttl, idle_ttl, pin and labels; what is left out stays."""
    scope = request.scope
    read_query(scope, EmptyQuery)
    require_json(scope, "application/merge-patch+json")
    number = ids.parse(artifact_id)
    with desk.budget.room() as room:
        data = await open_body(scope, request.receive, desk.limits).whole(_PATCH_BODY, room)
        asked, _ = decode(data, PatchBody)
    artifact = await desk.services.extend(
        caller(scope),
        number,
        ttl=UNSET if asked.ttl is UNSET else duration(asked.ttl, "ttl"),
        idle_ttl=UNSET if asked.idle_ttl is UNSET else duration(asked.idle_ttl, "idle_ttl"),
        pinned=asked.pin,
        labels=UNSET if asked.labels is UNSET else checked_labels(asked.labels),
    )
    return answer(artifact_view(artifact))


@delete("/v1/artifacts/{artifact_id:str}", opt={"doc": docs.DELETE})
async def delete_artifact(
    request: Request[Any, Any, Any], desk: NamedDependency[RouteContext], artifact_id: FromPath[str]
) -> None:
    """Delete it; from then on it answers `gone`."""
    read_query(request.scope, EmptyQuery)
    await desk.services.forget(caller(request.scope), ids.parse(artifact_id))


@delete("/v1/sessions/{session:path}", status_code=200, opt={"doc": docs.DELETE_SESSION})
async def delete_session(
    request: Request[Any, Any, Any], desk: NamedDependency[RouteContext], session: FromPath[str]
) -> Response[bytes]:
    """Delete all artifacts of a session."""
    read_query(request.scope, EmptyQuery)
    name = session_of(request.scope, session)
    return answer(DeletedView(await desk.services.forget_session(caller(request.scope), name)))


def session_of(scope: Scope, routed: str, suffix: str = "") -> str:
    """The session as the caller wrote it, before a suffix. Routing folds slashes, which a session's name may contain.

    Raises:
        CoatcheckError: `invalid_request` for a name that no session can have; `method_not_allowed` without the suffix.
    """
    _, found, encoded = raw_path(scope).partition(SESSIONS.encode())
    if not found:
        encoded = routed.removeprefix("/").encode()
    if not encoded.endswith(suffix.encode()):
        raise CoatcheckError(Code.METHOD_NOT_ALLOWED, f"Of a session there is only {suffix[1:]} to get.")
    try:
        name = unquote_to_bytes(encoded.removesuffix(suffix.encode())).decode()
    except UnicodeDecodeError:
        name = ""
    if not 1 <= len(name) <= _SESSION_LENGTH:
        raise CoatcheckError(
            Code.INVALID_REQUEST, f"A session is 1 to {_SESSION_LENGTH} characters of UTF-8.", field="session"
        )
    plain(name, "session")
    return name
