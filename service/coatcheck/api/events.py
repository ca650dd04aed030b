"""The route that lists events: reads of artifacts, and what else was done in a session."""

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Struct

from coatcheck.api.http.access import READ
from coatcheck.api.parameters import Limit, Session, plain
from coatcheck.api.route import RouteCall, route
from coatcheck.core import ids
from coatcheck.core.event import Action, Event
from coatcheck.core.ids import ID_LENGTH


class EventsQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of `GET /v1/events`; at least one of `session` and `artifact_id`."""

    session: Session | None = None
    artifact_id: Annotated[str, Meta(max_length=ID_LENGTH, description="Only events about this artifact.")] | None = (
        None
    )
    limit: Limit = 50
    before: (
        Annotated[
            str,
            Meta(pattern="^[1-9][0-9]{0,17}$", description="Only events before this one: `next` of the previous page."),
        ]
        | None
    ) = None


class EventView(Struct, frozen=True, kw_only=True):
    """One thing that was done."""

    id: Annotated[str, Meta(description="A number that grows with time.")]
    at: datetime
    action: Annotated[Action, Meta(description="How an artifact was read, or what else was done in the session.")]
    session: str | None
    artifact_id: Annotated[str | None, Meta(description="Null: it was about the session.")]
    key_id: Annotated[str | None, Meta(description="Key of the caller. Null: none was needed.")]
    tokens: Annotated[int, Meta(description="Tokens of the answer; for a compaction, of the request that it returned.")]
    tokens_before: Annotated[
        int | None,
        Meta(description="For a compaction, tokens of the original request; for a search, of the whole response."),
    ]
    details: Annotated[
        dict[str, Any],
        Meta(description="What was requested: pattern, query, path or range; what a compaction replaced, and by what."),
    ]


class EventsView(Struct, frozen=True, kw_only=True):
    """A page of events, latest first."""

    items: tuple[EventView, ...]
    next: str | None


def event_view(event: Event) -> EventView:
    """Returns an event as callers see it."""
    return EventView(
        id=str(event.number),
        at=event.at,
        action=event.action,
        session=event.session,
        artifact_id=None if event.artifact is None else ids.render(event.artifact),
        key_id=event.key_id,
        tokens=event.tokens,
        tokens_before=event.tokens_before,
        details=event.details,
    )


@route("GET /v1/events", scope=READ, tag="Artifacts", answers={200: "A page."})
async def list_events(call: RouteCall, query: EventsQuery) -> EventsView:
    """List what was done with an artifact or in a session.

    Returns reads, searches in artifacts, budgeted web searches and compactions, latest first, with what was requested
    and its cost in tokens. Events are written every second, so a crash loses the last second or two. They are deleted
    with their artifact or session, after 30 days, and when there are more than COATCHECK_EVENTS. Viewing the
    administrator's page, fetching bytes and rendering a card are not recorded.
    """
    number = None if query.artifact_id is None else ids.parse(query.artifact_id)
    page = await call.services.events(
        call.caller,
        session=plain(query.session, "session"),
        artifact=number,
        before=None if query.before is None else int(query.before),
        limit=query.limit,
    )
    return EventsView(items=tuple(map(event_view, page.events)), next=None if page.next is None else str(page.next))
