"""Routes that look up artifacts, change how long they are kept, and delete them."""

from litestar import Response
from msgspec import UNSET

from coatcheck.api.artifacts.wire import (
    ArtifactView,
    CardQuery,
    CardView,
    DescribedView,
    ListQuery,
    ListView,
    PatchBody,
    artifact_views,
    description_view,
)
from coatcheck.api.checks import check_labels, plain
from coatcheck.api.durations import seconds_or_unset
from coatcheck.api.http.access import DELETE, READ
from coatcheck.api.http.headers import field, prefers_text
from coatcheck.api.http.request_parts import resolve_citation
from coatcheck.api.route import BODY, JSON, MERGE_PATCH, ONE, Answer, Reply, RouteCall, route
from coatcheck.api.views import copy_fields
from coatcheck.core import ids
from coatcheck.core.errors import Code
from coatcheck.ports.catalog import ArtifactFilter


@route(
    "GET /v1/artifacts",
    scope=READ,
    tag="Artifacts",
    answers={200: "A page."},
    problems=(Code.INVALID_CURSOR, Code.OVERLOADED, Code.INTEGRITY),
)
async def list_artifacts(call: RouteCall, query: ListQuery) -> ListView:
    """List artifacts.

    Lists live artifacts, newest first. All conditions given must hold; with `q`, an artifact must contain every word.
    Everything stored before the request is found, unless the answer says `partial`. An unknown parameter is an error.
    """
    for name in ("session", "tool_name", "url", "final_url", "label"):
        plain(getattr(query, name), name)
    where = copy_fields(ArtifactFilter, query)
    listing = await call.services.browse(call.caller, where, query.cursor, query.limit, query=query.q)
    items = await artifact_views(call.services.holds, listing.items)
    return ListView(items, listing.next, listing.partial)


@route(
    "GET /v1/artifacts/{artifact_id}",
    scope=READ,
    tag="Artifacts",
    answers={200: "Metadata and card."},
    problems=(*ONE, Code.INTEGRITY),
)
async def get_artifact(call: RouteCall, artifact_id: str) -> DescribedView:
    """Get an artifact.

    Returns its metadata, its card as the present engine makes it at the default budget, and in `receipt` what a model
    got in its place when it was stored: by which engine, and the digest of the text. At that budget, for that query,
    the same engine makes the same card, byte for byte; a later one may make another.
    """
    described = await call.services.describe(call.caller, resolve_citation(artifact_id)[0])
    (view,) = await artifact_views(call.services.holds, [described.artifact])
    return description_view(described, view)


@route(
    "GET /v1/artifacts/{artifact_id}/card",
    scope=READ,
    tag="Reading",
    answers={200: Answer("The card.", media=("text/plain",))},
    problems=(*ONE, Code.INTEGRITY),
)
async def get_card(call: RouteCall, artifact_id: str, query: CardQuery) -> Reply[CardView] | Response[bytes]:
    """Render the card again.

    Renders the card at another budget, for another query, or for a model that has no tool to read further with
    (`tools=none`). Returns JSON, or only the text with `Accept: text/plain`.
    """
    described = await call.services.describe(
        call.caller,
        resolve_citation(artifact_id)[0],
        budget=query.tokens,
        query=query.query,
        tools=query.tools != "none",
    )
    if prefers_text(field(call.scope, b"accept")):
        return Response(
            content=described.text.encode(),
            media_type="text/plain",
            headers={"vary": "accept", "x-content-type-options": "nosniff"},
        )
    return Reply(copy_fields(CardView, described, id=described.artifact.id), 200, {"vary": "accept"})


@route(
    "PATCH /v1/artifacts/{artifact_id}",
    scope=DELETE,
    tag="Artifacts",
    body={JSON: PatchBody, MERGE_PATCH: PatchBody},
    answers={200: "The artifact as it is now."},
    problems=(*ONE, *BODY, Code.INVALID_JSON),
)
async def change_artifact(call: RouteCall, artifact_id: str, body: PatchBody) -> ArtifactView:
    """Change an artifact's expiry, pin or labels.

    Fields that are left out stay as they are. A new `ttl` counts from creation.
    """
    artifact = await call.services.extend(
        call.caller,
        ids.parse(artifact_id),
        ttl=seconds_or_unset(body.ttl, "ttl"),
        idle_ttl=seconds_or_unset(body.idle_ttl, "idle_ttl"),
        pinned=body.pin,
        labels=UNSET if body.labels is UNSET else check_labels(body.labels),
    )
    return (await artifact_views(call.services.holds, [artifact]))[0]


@route(
    "DELETE /v1/artifacts/{artifact_id}",
    scope=DELETE,
    tag="Artifacts",
    answers={204: "Deleted."},
    problems=(*ONE, Code.HELD),
)
async def delete_artifact(call: RouteCall, artifact_id: str) -> None:
    """Delete an artifact.

    From then on, every route reports it as gone; its bytes are removed a little later.
    """
    await call.services.forget(call.caller, ids.parse(artifact_id))
