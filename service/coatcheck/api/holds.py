"""Routes with which administrators list, place and release holds. A hold forbids the deletion of what it covers."""

from datetime import datetime
from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from coatcheck.api.parameters import DURATION, Cursor, Limit, Namespace, life, plain
from coatcheck.api.route import JSON_BODY, RouteCall, route
from coatcheck.core import ids
from coatcheck.core.errors import Code
from coatcheck.core.retention.audit import MAX_REASON_CHARS, Hold
from coatcheck.usecases.retention.administer_holds import two_ends


class NewHoldRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """The body that places a hold: on an artifact, on a session, or, if neither is given, on the namespace."""

    EXAMPLES: ClassVar = [{"reason": "case 7", "session": "run-17"}]

    reason: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_REASON_CHARS,
            description="The reason, shown to whoever may read what it covers.",
        ),
    ]
    namespace: Namespace | None = None
    artifact: Annotated[str, Meta(description="ID of the artifact to hold.")] | None = None
    session: Annotated[str, Meta(min_length=1, max_length=256)] | None = None
    until: (
        Annotated[datetime, Meta(tz=True, description="When the hold ends. Default: when it is released.")] | None
    ) = None
    ttl: Annotated[int | str, Meta(description=f"When the hold ends, counted from now. {DURATION}.")] | None = None


class HoldsQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of `GET /v1/admin/holds`."""

    namespace: Namespace | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


class HoldView(Struct, frozen=True, kw_only=True):
    """A hold that protects artifacts from deletion."""

    id: Annotated[str, Meta(pattern="^hold_[0-9a-f]{16}$", examples=["hold_00ff12ab34cd56ef"])]
    namespace: str
    artifact: Annotated[str | None, Meta(description="The artifact that it covers.")]
    session: Annotated[
        str | None, Meta(description="The session that it covers; with neither, it covers the namespace.")
    ]
    reason: str
    by: str
    at: datetime
    until: Annotated[datetime | None, Meta(description="Null: until it is released.")]


class HoldsView(Struct, frozen=True):
    """A page of holds, by ID."""

    items: tuple[HoldView, ...]
    next: str | None = None


@route("GET /v1/admin/holds", answers={200: "A page."})
async def list_holds(call: RouteCall, query: HoldsQuery) -> HoldsView:
    """List holds.

    In order of ID, including holds that have ended.
    """
    page = await call.services.holds.list(call.caller, query.namespace, after=query.cursor, limit=query.limit)
    return HoldsView(tuple(map(hold_view, page.items)), page.after)


@route(
    "POST /v1/admin/holds",
    answers={201: "Placed."},
    problems=(*JSON_BODY, Code.ARTIFACT_NOT_FOUND, Code.ARTIFACT_GONE, Code.INVALID_ARTIFACT_ID),
)
async def place_hold(call: RouteCall, body: NewHoldRequest) -> HoldView:
    """Place a hold.

    Prevents an artifact, a session with everything added to it later, or a namespace from being deleted: by anyone,
    through any route, by expiry or by eviction. Once this request is answered, every delete that is not answered yet
    leaves what the hold covers, and gets 423 with the hold's ID. An artifact that expires under a hold is reported as
    gone, but its row and bytes stay: a caller with the scope `admin` can give it a later `ttl`, or pin it.
    """
    plain(body.reason, "reason")
    if body.ttl is not None and body.until is not None:  # even a `ttl` of `forever` contradicts `until`
        raise two_ends()
    hold = await call.services.holds.place(
        call.caller,
        body.namespace,
        reason=body.reason,
        number=None if body.artifact is None else ids.parse(body.artifact),
        session=plain(body.session, "session"),
        until=body.until,
        life=life(body.ttl, "ttl"),
    )
    return hold_view(hold)


@route(
    "DELETE /v1/admin/holds/{hold_id}", answers={200: "The hold that was released."}, problems=(Code.HOLD_NOT_FOUND,)
)
async def release_hold(call: RouteCall, hold_id: str) -> HoldView:
    """Release a hold.

    Artifacts without another hold can be deleted from then on; the next sweep removes those that have expired.
    """
    return hold_view(await call.services.holds.release(call.caller, hold_id))


def hold_view(hold: Hold) -> HoldView:
    """Returns a hold as callers see it."""
    artifact = None if hold.number is None else ids.render(hold.number)
    return HoldView(
        id=hold.id,
        namespace=hold.namespace,
        artifact=artifact,
        session=hold.session,
        reason=hold.reason,
        by=hold.made_by,
        at=hold.at,
        until=hold.until,
    )
