"""Reading further: a part of an artifact, where a pattern matches, and what there is to read."""

from typing import Any

from litestar import Request, Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath

from coatcheck.api.artifacts.wire import answer
from coatcheck.api.http.query import read_query
from coatcheck.api.http.request_parts import caller, cited
from coatcheck.api.parameters import OutlineQuery, ReadQuery, SearchQuery
from coatcheck.api.reading import docs
from coatcheck.api.services import RouteContext
from coatcheck.usecases.read import ReadRequest
from coatcheck.usecases.search import PatternSearchRequest


@get("/v1/artifacts/{artifact_id:str}/read", opt={"doc": docs.READ})
async def read_artifact(
    request: Request[Any, Any, Any], desk: NamedDependency[RouteContext], artifact_id: FromPath[str]
) -> Response[bytes]:
    """Part of an artifact as text, within a budget."""
    asked = read_query(request.scope, ReadQuery)
    number, section = cited(artifact_id, asked.section)
    ask = ReadRequest(
        unit=asked.unit,
        offset=asked.offset,
        limit=asked.limit,
        view=asked.view,
        section=section,
        cursor=asked.cursor,
        max_tokens=asked.max_tokens,
    )
    return answer(await desk.services.read(caller(request.scope), number, ask))


@get("/v1/artifacts/{artifact_id:str}/search", opt={"doc": docs.SEARCH})
async def search_artifact(
    request: Request[Any, Any, Any], desk: NamedDependency[RouteContext], artifact_id: FromPath[str]
) -> Response[bytes]:
    """Lines that match a pattern, within a budget."""
    asked = read_query(request.scope, SearchQuery)
    number, section = cited(artifact_id, asked.section)
    ask = PatternSearchRequest(
        pattern=asked.pattern,
        literal=asked.literal,
        ignore_case=asked.ignore_case,
        context=asked.context,
        offset=asked.offset,
        limit=asked.limit,
        section=section,
        view=asked.view,
        max_tokens=asked.max_tokens,
    )
    return answer(await desk.services.search(caller(request.scope), number, ask))


@get("/v1/artifacts/{artifact_id:str}/outline", opt={"doc": docs.OUTLINE})
async def outline_artifact(
    request: Request[Any, Any, Any], desk: NamedDependency[RouteContext], artifact_id: FromPath[str]
) -> Response[bytes]:
    """What is in an artifact and where, within a budget."""
    asked = read_query(request.scope, OutlineQuery)
    number, section = cited(artifact_id, asked.section)
    found = await desk.services.outline(
        caller(request.scope),
        number,
        section=section,
        offset=asked.offset,
        limit=asked.limit,
        max_tokens=asked.max_tokens,
    )
    return answer(found)
