"""Reading JSON by path: the values that a JSONPath query or a JSON Pointer finds."""

from typing import Any

from litestar import Request, Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath

from coatcheck.api.artifacts.wire import answer
from coatcheck.api.http.query import read_query
from coatcheck.api.http.request_parts import caller, cited
from coatcheck.api.parameters import JsonQuery
from coatcheck.api.reading import docs
from coatcheck.api.services import RouteContext
from coatcheck.core.errors import CoatcheckError, Code


@get("/v1/artifacts/{artifact_id:str}/json", opt={"doc": docs.JSON_PATH})
async def read_json(
    request: Request[Any, Any, Any], desk: NamedDependency[RouteContext], artifact_id: FromPath[str]
) -> Response[bytes]:
    """Values of a JSON document by path, within a budget."""
    asked = read_query(request.scope, JsonQuery)
    number, section = cited(artifact_id)
    if section is not None:
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            "A path leads through the whole payload, not through a section of its text: leave the section out.",
            parameter="section",
        )
    found = await desk.services.read_json(
        caller(request.scope),
        number,
        path=asked.path,
        limit=asked.limit,
        max_tokens=asked.max_tokens,
        cursor=asked.cursor,
        fields=tuple(name.strip() for name in asked.fields.split(",")) if asked.fields is not None else (),
    )
    return answer(found)
