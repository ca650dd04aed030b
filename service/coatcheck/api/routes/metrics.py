"""The metrics, for a Prometheus that comes to fetch them. What they mean is in `docs/metrics.md`."""

from typing import Any

from litestar import Request, Response, get
from litestar.di import NamedDependency

from coatcheck.api import service_docs as docs
from coatcheck.api.fields import EmptyQuery
from coatcheck.api.headers import field
from coatcheck.api.origin_guard import METRICS_PATH
from coatcheck.api.query import read_query
from coatcheck.api.request_parts import require_everywhere
from coatcheck.api.services import RouteContext


@get(METRICS_PATH, opt={"doc": docs.METRICS})
async def metrics(request: Request[Any, Any, Any], desk: NamedDependency[RouteContext]) -> Response[bytes]:
    """All numbers of this process."""
    read_query(request.scope, EmptyQuery)
    if not desk.limits.metrics_open:
        require_everywhere(request.scope)  # they count what every namespace does
    body, media_type = await desk.services.metrics(field(request.scope, b"accept") or "")
    if media_type.startswith("text/"):  # of which Litestar says itself that it is UTF-8
        media_type = media_type.replace("; charset=utf-8", "")
    return Response(content=body, media_type=media_type, headers={"cache-control": "no-store"})
