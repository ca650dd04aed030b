"""Contexts of models: a request body made smaller, how full one is, and what a session's tokens came to."""

import asyncio
from typing import Any

from litestar import Request, Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath
from msgspec import UNSET

from coatcheck.api.artifacts.routes import USAGE, session_of
from coatcheck.api.artifacts.wire import answer
from coatcheck.api.context import docs
from coatcheck.api.context.views import compact_view, usage_view
from coatcheck.api.context.wire import CompactBody, MeasureBody
from coatcheck.api.http.body import body_too_large, content_length, open_body
from coatcheck.api.http.json_body import BOM, decode_aside, mend
from coatcheck.api.http.memory_budget import MemoryReservation
from coatcheck.api.http.query import read_query
from coatcheck.api.http.request_parts import caller, require_json
from coatcheck.api.ingest.requests import checked_labels, duration, plain
from coatcheck.api.ingest.routes import MENDED
from coatcheck.api.parameters import EmptyQuery
from coatcheck.api.services import RouteContext
from coatcheck.usecases.compact import CompactRequest as Asked
from coatcheck.usecases.compact import HistoryBody
from coatcheck.usecases.find_or_ingest import PayloadRetention


@post("/v1/context/compact", status_code=200, opt={"doc": docs.COMPACT})
async def compact_context(request: Request[Any, Any, Any], desk: NamedDependency[RouteContext]) -> Response[bytes]:
    """Make a request body smaller."""
    with desk.budget.room() as room:
        data = (await _whole(request, desk, room)).removeprefix(BOM)
        asked, mended = await decode_aside(data, CompactBody)
        decodable = await asyncio.to_thread(mend, data) if mended else None
        body = HistoryBody(data, asked.body, "body", decodable)
        ask = Asked(
            policy=asked.policy.policy(),
            format=asked.format,
            keep=PayloadRetention(
                session=plain(asked.session, "session"),
                labels=checked_labels(asked.labels),
                ttl=asked.ttl if asked.ttl is UNSET else duration(asked.ttl, "ttl"),
                idle_ttl=asked.idle_ttl if asked.idle_ttl is UNSET else duration(asked.idle_ttl, "idle_ttl"),
                pinned=asked.pin,
            ),
            ask=asked.ask(),
            notices=(MENDED,) if mended else (),
        )
        del data, decodable, asked
        made = await desk.services.compact(caller(request.scope), body, ask)
        del body
        await asyncio.sleep(0)  # until the loop goes on, it holds what it was woken with: the whole body as values
    return answer(compact_view(made))


@post("/v1/context/measure", status_code=200, opt={"doc": docs.MEASURE})
async def measure_context(request: Request[Any, Any, Any], desk: NamedDependency[RouteContext]) -> Response[bytes]:
    """Say how full a context is."""
    with desk.budget.room() as room:
        data = await _whole(request, desk, room)
        asked, _ = await decode_aside(data, MeasureBody)
        del data
        ask = asked.ask(outputs_stay=asked.outputs_stay)
        session = plain(asked.session, "session")
        measured = await desk.services.measure(
            caller(request.scope), asked.body, ask, asked.policy.policy(), named=asked.format, session=session
        )
    return answer(measured)


@get("/v1/sessions/{session:path}", opt={"doc": docs.USAGE, "path": f"/v1/sessions/{{session}}{USAGE}"})
async def get_session_usage(
    request: Request[Any, Any, Any], desk: NamedDependency[RouteContext], session: FromPath[str]
) -> Response[bytes]:
    """What a session's tokens came to."""
    scope = request.scope
    read_query(scope, EmptyQuery)
    name = session_of(scope, session, suffix=USAGE)
    return answer(usage_view(name, await desk.services.tell_usage(caller(scope), name)))


async def _whole(request: Request[Any, Any, Any], desk: RouteContext, room: MemoryReservation) -> bytes:
    scope, limit = request.scope, desk.limits.json_body
    read_query(scope, EmptyQuery)
    require_json(scope)
    length = content_length(scope)
    if length is not None and length > limit:
        raise body_too_large(limit)
    return await open_body(scope, request.receive, desk.limits).whole(limit, room)
