"""Routes of health checks, metrics and the OpenAPI document. Health checks need no key, and reveal nothing secret."""

from http import HTTPStatus
from typing import Annotated, Literal

from litestar import Response
from msgspec import Meta, Struct

from coatcheck.api.http.request_parts import field
from coatcheck.api.route import JSON, Answer, Reply, RouteCall, route
from coatcheck.core.keys import require_everywhere
from coatcheck.ports.catalog import Health, HealthReason


class LivenessView(Struct, frozen=True):
    """Says that the process is alive."""

    status: Literal["live"] = "live"


class ReadinessView(Struct, frozen=True, omit_defaults=True):
    """Says whether the service can serve everything, and if not, why."""

    status: Health
    """`ready`: everything works. `degraded`: posts get cards, and storing or reading works in part. `away`: posts get
    cards, and nothing else works."""
    reasons: tuple[HealthReason, ...] = ()


class OpenApi(Struct, frozen=True):
    """An OpenAPI document (for its own schema see the OpenAPI specification)."""

    openapi: Annotated[str, Meta(examples=["3.1.1"])]


@route("GET /health/live", scope=None, tag="Service", answers={200: "The process is alive."})
async def check_liveness(_: RouteCall) -> LivenessView:
    """Is the process alive?

    Answers as long as the process runs, without contacting storage. For load balancers and probes: a service that is
    not ready still answers posts with cards.
    """
    return LivenessView()


@route(
    "GET /health/ready",
    scope=None,
    tag="Service",
    answers={200: "The service is ready.", 503: "It is degraded or away."},
)
async def check_readiness(call: RouteCall) -> Reply[ReadinessView]:
    """Can it serve everything?

    Asks the catalogue and the blob store whether they can be read and take writes, and names the one that is away. For
    alerts. Answers within four seconds; the result is up to one second old.
    """
    readiness = await call.services.readiness()
    status = HTTPStatus.OK if readiness.health == "ready" else HTTPStatus.SERVICE_UNAVAILABLE
    return Reply(ReadinessView(readiness.health, readiness.reasons), status)


@route("GET /metrics", tag="Service", answers={200: Answer("The metrics.", media=("text/plain",))})
async def get_metrics(call: RouteCall) -> Response[bytes]:
    """Get metrics for monitoring.

    Returns counters and gauges in the text format of Prometheus, or in OpenMetrics if the client accepts it. If several
    processes of one service share the work, the numbers cover all of them. Needs a key of `*`, unless the
    administrator has opened the route or no keys are required. The metrics contain no name that a caller chose.
    """
    if not call.limits.metrics_open:
        require_everywhere(call.caller)  # metrics count the activity of all namespaces
    body, media_type = await call.services.metrics(field(call.scope, b"accept") or "")
    if media_type.startswith("text/"):  # Litestar adds the charset UTF-8 itself
        media_type = media_type.replace("; charset=utf-8", "")
    return Response(content=body, media_type=media_type, headers={"cache-control": "no-store"})


@route("GET /v1/openapi.json", scope=None, tag="Service", answers={200: "The document."})
async def get_open_api(call: RouteCall) -> OpenApi | Response[bytes]:
    """Get this document.

    The OpenAPI 3.1 document of this release.
    """
    return Response(content=call.context.document(), media_type=JSON, headers={"cache-control": "no-cache"})
