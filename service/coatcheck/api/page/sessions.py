"""Sessions: what was put into one, in order, and its totals of tokens."""

import asyncio
from typing import Final

from msgspec import Struct

from coatcheck.api.artifacts.wire import artifact_view
from coatcheck.api.http.access import DELETE, READ
from coatcheck.api.page.call import Elsewhere, PageAnswer, PageCall, Shown, address, page
from coatcheck.api.parameters import Cursor, Session
from coatcheck.api.sessions.routes import session_usage_view
from coatcheck.core import ids
from coatcheck.core.artifact import Artifact
from coatcheck.core.errors import CoatcheckError
from coatcheck.core.kinds.spec import spec_of
from coatcheck.ports.catalog import ArtifactFilter

PAGE: Final = 100
SEARCHES: Final = 8
RESULTS: Final = 20
"""Most searches of a page whose results are named, and most results of each."""


class SessionQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """A session, and where in it to continue."""

    name: Session
    cursor: Cursor | None = None
    done: str | None = None


class SessionForm(Struct, kw_only=True, forbid_unknown_fields=True):
    """A session to be deleted."""

    name: Session
    confirmed: bool = False


class Cited(Struct, frozen=True):
    """A search result, which is cited by its section."""

    section: str
    title: str


@page("GET /ui/sessions", scope=READ)
async def list_sessions(call: PageCall) -> PageAnswer:
    """Shows the sessions with the latest activity, and a form that opens any session."""
    found = await call.inspection.overview.sessions(call.who)
    return Shown("sessions.jinja", {"items": [session_usage_view(each.session, each.usage) for each in found]})


@page("GET /ui/session", scope=READ)
async def show_session(call: PageCall) -> PageAnswer:
    """Shows a session's payloads, newest first, and its account."""
    query = call.query(SessionQuery)
    found = await call.services.browse(call.who, ArtifactFilter(session=query.name), query.cursor, PAGE)
    usage = session_usage_view(query.name, await call.services.tell_usage(call.who, query.name))
    more = None if found.next is None else address("/ui/session", name=query.name, cursor=found.next)
    values = {
        "name": query.name,
        "usage": usage,
        "items": [artifact_view(each) for each in found.items],
        "cited": await _cited(call, found.items),
        "more": more,
        "paged": query.cursor is not None,
        "may_delete": call.may(DELETE),
    }
    return Shown("session.jinja", values)


@page("POST /ui/session/delete", scope=DELETE)
async def delete_session(call: PageCall) -> PageAnswer:
    """Asks for confirmation; once confirmed, deletes everything in the session."""
    form = await call.form(SessionForm)
    if not form.confirmed:
        return Shown("confirm_session.jinja", {"name": form.name})
    await call.services.forget_session(call.who, form.name)
    return Elsewhere(address("/ui/artifacts", session=form.name))


async def _cited(call: PageCall, found: list[Artifact]) -> dict[str, list[Cited]]:
    """Returns what the newest few searches found, by artifact."""
    searches = [each for each in found if spec_of(each.facts.kind).source == "response"][:SEARCHES]
    cited = await asyncio.gather(*(_results(call, each) for each in searches))
    return dict(zip((each.id for each in searches), cited, strict=True))


async def _results(call: PageCall, search: Artifact) -> list[Cited]:
    try:
        outline = await call.inspection.outline(call.who, ids.parse(search.id), limit=RESULTS)
    except CoatcheckError as error:
        return [Cited("", f"{error.detail} ({error.code})")]
    return [Cited(entry.section or "", entry.title) for entry in outline.entries]
