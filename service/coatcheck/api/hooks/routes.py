"""Hooks of agents' hosts: an event after a tool call in, what the model shall see of it out."""

from typing import Any, Final

import msgspec
from litestar import Request, Response, post
from litestar.di import NamedDependency
from msgspec import UNSET

from coatcheck.api.hooks import docs
from coatcheck.api.hooks.wire import HookQuery
from coatcheck.api.http.body import open_body
from coatcheck.api.http.json_body import decode_aside
from coatcheck.api.http.query import read_query
from coatcheck.api.http.request_parts import caller, require_json
from coatcheck.api.ingest.requests import checked_labels, duration
from coatcheck.api.services import RouteContext
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.usecases.hook import HookRequest, answer_hook

_UNTAKEN: Final = frozenset({Code.BODY_TOO_LARGE, Code.OVERLOADED, Code.INVALID_CONTENT})
"""Events that are right and cannot be taken: the host keeps what it has."""


@post("/v1/hooks/claude-code", status_code=200, opt={"doc": docs.CLAUDE_CODE})
async def claude_code_hook(request: Request[Any, Any, Any], desk: NamedDependency[RouteContext]) -> Response[bytes]:
    """Store what is bulky in a tool's response, and answer what replaces it."""
    scope = request.scope
    query = read_query(scope, HookQuery)
    asked = HookRequest(
        card_tokens=query.card_tokens,
        inline_tokens=query.inline_tokens,
        labels=checked_labels(query.labels),
        ttl=query.ttl if query.ttl is UNSET else duration(query.ttl, "ttl"),
    )
    require_json(scope)
    answer = b"{}"
    try:
        with desk.budget.room() as room:
            data = await open_body(scope, request.receive, desk.limits).whole(desk.limits.json_body, room)
            said, _ = await decode_aside(data, object)
            output = await answer_hook(desk.services.ingest, caller(scope), said, asked)
            answer = _encoded(output)
    except CoatcheckError as e:
        if e.code not in _UNTAKEN:
            raise
        desk.journal.failed(e, scope["state"]["request_id"], scope["path"])
    return Response(content=answer, media_type="application/json")


def _encoded(output: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(output)
    except RecursionError as e:  # a thread could decode what is too deep for the rest of this stack
        raise CoatcheckError(Code.INVALID_CONTENT, "The response is nested too deeply.") from e
