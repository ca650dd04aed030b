"""The metrics, for a Prometheus that comes to fetch them. What they mean is in `docs/metrics.md`."""

from typing import Any

from litestar import Request, Response, get
from litestar.di import NamedDependency

from coatcheck.api.http.headers import field
from coatcheck.api.http.origin_guard import METRICS_PATH
from coatcheck.api.http.query import read_query
from coatcheck.api.http.request_parts import require_everywhere
from coatcheck.api.parameters import EmptyQuery
from coatcheck.api.service import docs
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
