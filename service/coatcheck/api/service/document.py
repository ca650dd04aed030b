"""The interface's description, as OpenAPI."""

from typing import Any

from litestar import Request, Response, get
from litestar.di import NamedDependency

from coatcheck.api.http.query import read_query
from coatcheck.api.parameters import EmptyQuery
from coatcheck.api.service import docs
from coatcheck.api.services import RouteContext


@get("/v1/openapi.json", opt={"doc": docs.DOCUMENT})
async def openapi_json(request: Request[Any, Any, Any], desk: NamedDependency[RouteContext]) -> Response[bytes]:
    """The OpenAPI 3.1 document of this release."""
    read_query(request.scope, EmptyQuery)
    return Response(content=desk.document(), media_type="application/json")
