"""Events: what was done with artifacts and in sessions."""

from coatcheck.api.checks import plain
from coatcheck.api.events.wire import EventsQuery, EventsView, event_view
from coatcheck.api.http.access import READ
from coatcheck.api.route import RouteCall, route
from coatcheck.core import ids


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
