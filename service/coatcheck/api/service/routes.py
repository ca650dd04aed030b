"""Whether the process lives, and whether it can serve. Says nothing that a stranger may not know."""

from typing import Any

from litestar import Request, Response, get
from litestar.di import NamedDependency

from coatcheck.api.artifacts.wire import HealthView, answer
from coatcheck.api.http.query import read_query
from coatcheck.api.parameters import EmptyQuery
from coatcheck.api.service import docs
from coatcheck.api.services import RouteContext


@get("/health/live", opt={"doc": docs.LIVE})
async def live(request: Request[Any, Any, Any]) -> Response[bytes]:
    """The process answers."""
    read_query(request.scope, EmptyQuery)
    return answer(HealthView("live"))


@get("/health/ready", opt={"doc": docs.READY})
async def ready(request: Request[Any, Any, Any], desk: NamedDependency[RouteContext]) -> Response[bytes]:
    """Storage and database answer, with this release's schema."""
    read_query(request.scope, EmptyQuery)
    await desk.services.ready()
    return answer(HealthView("ready"))
