"""Whether the process lives, and whether it can serve. Says nothing that a stranger may not know."""

from typing import Any

from litestar import Request, Response, get
from litestar.di import NamedDependency

from coatcheck.api import service_docs as docs
from coatcheck.api.fields import EmptyQuery
from coatcheck.api.query import read_query
from coatcheck.api.services import RouteContext
from coatcheck.api.views import HealthView, answer


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
