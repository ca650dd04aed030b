"""Routes of health, metrics and the OpenAPI document. Health reveals nothing that a stranger may not know."""

from typing import Annotated

from litestar import Response
from msgspec import Meta, Struct

from coatcheck.api.http.headers import field
from coatcheck.api.route import JSON, Answer, RouteCall, route
from coatcheck.core.errors import Code
from coatcheck.core.keys import require_everywhere


class HealthView(Struct, frozen=True):
    """Says that the service is alive, or ready."""

    status: Annotated[str, Meta(examples=["ready"])]


class OpenApi(Struct, frozen=True):
    """An OpenAPI document (for its own schema see the OpenAPI specification)."""

    openapi: Annotated[str, Meta(examples=["3.1.1"])]


@route("GET /health/live", scope=None, tag="Service", answers={200: "The process is alive."})
async def check_liveness(_: RouteCall) -> HealthView:
    """Is the process alive?

    Answers as long as the process runs, without contacting storage.
    """
    return HealthView("live")


@route(
    "GET /health/ready",
    scope=None,
    tag="Service",
    answers={200: "The service is ready."},
    problems=(Code.SCHEMA_OUTDATED,),
)
async def check_readiness(call: RouteCall) -> HealthView:
    """Can it serve?

    Checks that the database and the store respond, with the schema of this release.
    """
    await call.services.ready()
    return HealthView("ready")


@route("GET /metrics", tag="Service", answers={200: Answer("The metrics.", media=("text/plain",))})
async def get_metrics(call: RouteCall) -> Response[bytes]:
    """Get metrics for monitoring.

    Returns counters and gauges of this process in the text format of Prometheus, or in OpenMetrics where that is
    accepted. Needs the scope `admin` unless the administrator has opened it; while no keys are
    required, it is open. It contains no name that a caller chose.
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
    return Response(content=call.context.document(), media_type=JSON)
