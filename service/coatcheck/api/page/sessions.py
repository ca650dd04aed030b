"""The pages of sessions: a list of sessions, and a page for each with its payloads, events and token account."""

import asyncio
from datetime import datetime, timedelta
from typing import Annotated, Final

from msgspec import Meta, Struct

from coatcheck.api.artifacts import artifact_views
from coatcheck.api.events import event_view
from coatcheck.api.http.access import DELETE, READ
from coatcheck.api.page.call import Elsewhere, PageAnswer, PageCall, Shown, address, page
from coatcheck.api.parameters import Session
from coatcheck.api.sessions import session_usage_view
from coatcheck.core import ids
from coatcheck.core.artifact import Artifact
from coatcheck.core.errors import CoatcheckError
from coatcheck.core.event import Event, first_number
from coatcheck.core.kinds.spec import spec_of
from coatcheck.ports.catalog import ArtifactFilter

PAGE: Final = 100
"""Maximum artifacts, and maximum events, of a session that one page lists."""
SEARCHES: Final = 8
"""Maximum web searches of a session whose results the page names."""
RESULTS: Final = 20
"""Maximum results of one web search that the page names."""


class SessionQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of a session's page."""

    name: Session
    until: Annotated[datetime, Meta(tz=True)] | None = None
    """Only payloads and events before this moment; None: from the latest on."""
    done: str | None = None
    """The result of a form, by its key in `app._DONE`; None: no form was sent."""


class SessionForm(Struct, kw_only=True, forbid_unknown_fields=True):
    """The form that deletes a session."""

    name: Session


class Cited(Struct, frozen=True):
    """A result of a web search, which is cited by its section."""

    section: str
    """Name of the result's section; empty if it has none. If the results cannot be read, the title is the error."""
    title: str


@page("GET /ui/sessions", scope=READ)
async def list_sessions(call: PageCall) -> PageAnswer:
    """Shows the sessions with the latest activity, and a form that opens any session."""
    accounts = await call.services.overview.sessions(call.who)
    return Shown("sessions.jinja", {"items": [session_usage_view(each.session, each.usage) for each in accounts]})


@page("GET /ui/session", scope=READ)
async def show_session(call: PageCall) -> PageAnswer:
    """Shows a session's payloads and events, latest first, and its token account."""
    query = call.query(SessionQuery)
    items, until = await _timeline(call, query)
    payloads = [a for _, a, _ in items if a is not None]
    views = {each.id: each for each in await artifact_views(call.services.holds, payloads)}
    usage = session_usage_view(query.name, await call.services.tell_usage(call.who, query.name))
    values = {
        "name": query.name,
        "usage": usage,
        "items": [(None if a is None else views[a.id], None if e is None else event_view(e)) for _, a, e in items],
        "cited": await _find_cited_results(call, payloads),
        "more": None if until is None else address("/ui/session", name=query.name, until=until.isoformat()),
        "paged": query.until is not None,
        "may_delete": call.may(DELETE),
    }
    return Shown("session.jinja", values)


async def _timeline(
    call: PageCall, query: SessionQuery
) -> tuple[list[tuple[datetime, Artifact | None, Event | None]], datetime | None]:
    """Returns a session's payloads and events, latest first, and `until` of the next page; None: there is none."""
    where = ArtifactFilter(session=query.name, created_before=query.until)
    payloads = await call.services.browse(call.who, where, None, PAGE)
    while not payloads.items and payloads.next is not None:  # the query stopped at its limit before it found an item
        payloads = await call.services.browse(call.who, where, payloads.next, PAGE)
    # The numbers of events grow with time, so a moment determines a position in their list.
    before = None if query.until is None else first_number(query.until)
    events = await call.services.events(call.who, session=query.name, before=before, limit=PAGE)
    items: list[tuple[datetime, Artifact | None, Event | None]] = [
        *((each.created_at, each, None) for each in payloads.items),
        *((each.at, None, each) for each in events.events),
    ]
    items.sort(key=lambda item: item[0], reverse=True)
    ends = [payloads.items[-1].created_at] if payloads.next is not None else []
    ends += [events.events[-1].at] if events.next is not None and events.events else []
    if not ends:
        return items, None
    # If there is a next page, move all items of the last moment to it, so that none of them can be missing.
    complete_items = [item for item in items if item[0] > max(ends)]
    return (complete_items, max(ends) + timedelta(microseconds=1)) if complete_items else (items, max(ends))


@page("POST /ui/session/delete", scope=DELETE)
async def delete_session(call: PageCall) -> PageAnswer:
    """Asks for confirmation; once confirmed, deletes everything in the session."""
    form = await call.form(SessionForm)
    question = call.confirm(
        f"Delete session {form.name}?",
        button="Delete",
        back=address("/ui/session", name=form.name),
        warning="This deletes all its artifacts, except held ones.",
    )
    if question is not None:
        return question
    await call.services.forget_session(call.who, form.name)
    return Elsewhere(address("/ui/artifacts", session=form.name))


async def _find_cited_results(call: PageCall, payloads: list[Artifact]) -> dict[str, list[Cited]]:
    """Returns, by artifact ID, the results of the newest web searches among the payloads."""
    searches = [each for each in payloads if spec_of(each.facts.kind).source == "response"][:SEARCHES]
    cited = await asyncio.gather(*(_results(call, each) for each in searches))
    return dict(zip((each.id for each in searches), cited, strict=True))


async def _results(call: PageCall, search: Artifact) -> list[Cited]:
    try:
        outline = await call.inspection.outline(call.who, ids.parse(search.id), limit=RESULTS)
    except CoatcheckError as error:
        return [Cited("", f"{error.detail} ({error.code})")]
    return [Cited(entry.section or "", entry.title) for entry in outline.entries]
