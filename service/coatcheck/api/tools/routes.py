"""The tools for models: how to declare them, and what a call of them answers."""

from typing import Any

import msgspec
from litestar import Request, Response, get, post
from litestar.di import NamedDependency

from coatcheck.api.artifacts.wire import ToolsView, answer
from coatcheck.api.http.body import body_too_large, content_length, open_body
from coatcheck.api.http.json_body import decode_aside
from coatcheck.api.http.limits import MIB
from coatcheck.api.http.query import read_query
from coatcheck.api.http.request_parts import caller, require_json
from coatcheck.api.parameters import ToolCallQuery, ToolsQuery
from coatcheck.api.services import RouteContext
from coatcheck.api.tools import docs

_BODY = MIB
"""Bytes of a body with calls: no payload is in it."""


@get("/v1/tools", opt={"doc": docs.TOOLS})
async def get_tools(request: Request[Any, Any, Any], desk: NamedDependency[RouteContext]) -> Response[bytes]:
    """The tools as a provider wants them declared."""
    asked = read_query(request.scope, ToolsQuery)
    declared = desk.services.tools.declare(asked.format, strict=asked.strict, listing=asked.listing)
    return answer(ToolsView(tuple(declared)))


@post("/v1/tools/call", status_code=200, opt={"doc": docs.CALL_TOOL})
async def call_tool(request: Request[Any, Any, Any], desk: NamedDependency[RouteContext]) -> Response[bytes]:
    """Execute a call, or several. What a call asks for is always answered, also that it cannot be had."""
    scope = request.scope
    asked = read_query(scope, ToolCallQuery)
    require_json(scope)
    length = content_length(scope)
    if length is not None and length > _BODY:
        raise body_too_large(_BODY)
    with desk.budget.room() as room:
        data = await open_body(scope, request.receive, desk.limits).whole(_BODY, room)
        body, _ = await decode_aside(data, object)
        results = await desk.services.tools.answer(caller(scope), body, asked.format, asked.max_tokens)
    return Response(content=msgspec.json.encode(results), media_type="application/json")
