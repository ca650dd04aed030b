"""Reading by meaning: the passages that answer a query."""

from typing import Any

from litestar import Request, Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath

from coatcheck.api.artifacts.wire import answer
from coatcheck.api.http.query import read_query
from coatcheck.api.http.request_parts import caller, cited
from coatcheck.api.parameters import PassagesQuery
from coatcheck.api.reading import docs
from coatcheck.api.services import RouteContext


@get("/v1/artifacts/{artifact_id:str}/windows", opt={"doc": docs.PASSAGES})
async def find_passages(
    request: Request[Any, Any, Any], desk: NamedDependency[RouteContext], artifact_id: FromPath[str]
) -> Response[bytes]:
    """The passages that best answer a query, within a budget."""
    asked = read_query(request.scope, PassagesQuery)
    number, section = cited(artifact_id, asked.section)
    found = await desk.services.windows(
        caller(request.scope),
        number,
        query=asked.query,
        max_tokens=asked.max_tokens,
        view=asked.view,
        section=section,
    )
    return answer(found)
