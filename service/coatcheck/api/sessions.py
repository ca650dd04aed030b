"""Routes of sessions: list them, read the token account of one, and delete one with all its artifacts."""

from datetime import datetime
from typing import Annotated, Final
from urllib.parse import unquote_to_bytes

from litestar.types import Scope
from msgspec import Meta, Struct, structs

from coatcheck.api.http.access import DELETE, READ
from coatcheck.api.http.request_parts import raw_path
from coatcheck.api.parameters import Limit, plain
from coatcheck.api.route import RouteCall, route
from coatcheck.core.context.measure import session_lines
from coatcheck.core.errors import CoatcheckError, Code, invalid_request
from coatcheck.core.event import SessionUsage
from coatcheck.core.keys import SESSION_LENGTH

SESSIONS: Final = "/v1/sessions/"
USAGE: Final = "/usage"
"""The end of the path of a session's account, after the session's name. As a name may contain slashes, routing cannot
tell this from a part of the name. If a name itself ends like this, its slash must be percent-encoded."""
_Count = Annotated[int, Meta(ge=0)]


class SessionUsageView(Struct, frozen=True, kw_only=True):
    """A session's token account, in tokens of o200k_base."""

    session: str
    since: Annotated[datetime | None, Meta(description="Null: nothing was counted yet.")]
    at: Annotated[datetime | None, Meta(description="When something was counted last.")]
    artifacts: Annotated[_Count, Meta(description="Payloads ingested; each counts once, however often it is sent.")]
    raw_tokens: Annotated[_Count, Meta(description="Tokens of the payloads that were answered with a card.")]
    given_tokens: Annotated[
        int,
        Meta(
            description="Tokens returned in their place: cards, markers, small payloads themselves, budgeted searches."
        ),
    ]
    reads: _Count
    read_tokens: Annotated[_Count, Meta(description="Tokens of answers that read from artifacts.")]
    saved_tokens: Annotated[
        int, Meta(description="`raw_tokens` less `given_tokens` less `read_tokens`: what never entered the context.")
    ]
    compactions: _Count
    unsent_tokens: Annotated[
        _Count, Meta(description="Tokens by which compaction made requests smaller, summed over all requests.")
    ]
    persisted_tokens: Annotated[
        int | None,
        Meta(description="Tokens of the last compacted or measured context: instructions, tools and what stays."),
    ]
    transient_tokens: Annotated[
        int | None,
        Meta(description="Tokens of tool payload of that turn that will not stay. Null: nothing was measured."),
    ]
    window_tokens: Annotated[int | None, Meta(description="The usable window then. Null: it was not known.")]
    search_tokens: Annotated[
        int | None, Meta(description="Tokens of the texts of web searches in that turn, in tokens of o200k_base.")
    ]
    search_cap: Annotated[int | None, Meta(description="Maximum tokens of these texts, as their requests limited it.")]
    lines: Annotated[
        tuple[str, ...],
        Meta(
            description="The same as three lines, as `/v1/context/measure` returned them; none if nothing was measured."
        ),
    ]


class SessionsQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of `GET /v1/sessions`."""

    limit: Limit = 50


class SessionsView(Struct, frozen=True):
    """Sessions, latest activity first."""

    items: tuple[SessionUsageView, ...]


class DeletedView(Struct, frozen=True):
    """The result of deleting a session."""

    deleted: Annotated[int, Meta(ge=0, description="Artifacts that were live and are now gone.")]


@route("GET /v1/sessions", scope=READ, tag="Contexts", answers={200: "The accounts."})
async def list_sessions(call: RouteCall, query: SessionsQuery) -> SessionsView:
    """List the sessions with the latest activity.

    Each with its token account. A session without any counts is not listed.
    """
    accounts = await call.services.overview.sessions(call.caller, query.limit)
    return SessionsView(tuple(session_usage_view(each.session, each.usage) for each in accounts))


@route(
    "DELETE /v1/sessions/{session}",
    routed="/v1/sessions/{session:path}",
    scope=DELETE,
    tag="Artifacts",
    answers={200: "Deleted."},
    problems=(Code.HELD,),
)
async def delete_session(call: RouteCall, session: str) -> DeletedView:
    """Delete a session.

    Deletes all artifacts of the session. A session that was never used has none. If a hold covers the session, nothing
    is deleted; if holds cover only some of its artifacts, all others are deleted, and `deleted` in the problem says how
    many. If the session's name ends in `/usage`, that slash must be percent-encoded.
    """
    if names_usage(call.scope):
        raise CoatcheckError(Code.METHOD_NOT_ALLOWED, "A session's usage can only be read; delete the session itself.")
    name = session_of(call.scope, session)
    return DeletedView(await call.services.forget_session(call.caller, name))


@route(
    "GET /v1/sessions/{session}/usage",
    routed="/v1/sessions/{session:path}",
    scope=READ,
    tag="Contexts",
    answers={200: "The account."},
)
async def get_session_usage(call: RouteCall, session: str) -> SessionUsageView:
    """Get a session's token account.

    Returns what was ingested and what was returned in its place, what was read back, and what was saved. Counts are
    written every second: a crash loses the last second or two, and the last second of other replicas is not included
    yet. A session without any counts has zeros. The account is deleted with the session, or after 90 days without a
    request.
    """
    name = session_of(call.scope, session, suffix=USAGE)
    usage = await call.services.tell_usage(call.caller, name)
    return session_usage_view(name, usage)


def session_usage_view(session: str, usage: SessionUsage) -> SessionUsageView:
    """Returns a session's token account as callers see it."""
    spent = usage.spent
    return SessionUsageView(
        session=session,
        since=usage.since,
        at=usage.at,
        saved_tokens=spent.raw_tokens - spent.given_tokens - spent.read_tokens,
        **structs.asdict(spent),
        lines=tuple(session_lines(spent)),
    )


def names_usage(scope: Scope) -> bool:
    """Returns whether a path under `SESSIONS` leads to a session's account rather than to a session."""
    return (raw_path(scope) or scope["path"].encode()).endswith(USAGE.encode())


def session_of(scope: Scope, routed: str, suffix: str = "") -> str:
    """Returns the session's name in a path, exactly as the caller wrote it.

    Args:
        scope: the request's ASGI scope.
        routed: the name as Litestar routes it, in which repeated slashes have become one.
        suffix: the end of the path, after the name.

    Raises:
        CoatcheckError: `invalid_request` for an invalid name; `method_not_allowed` if the path does not end in
            `suffix`.
    """
    # Use the path as it was sent: it distinguishes `%2F` from a slash, and contains repeated slashes unchanged. A name
    # may contain all of these.
    _, separator, encoded = raw_path(scope).partition(SESSIONS.encode())
    # If the server does not provide that path, the routed name is the best substitute.
    if not separator:
        encoded = routed.removeprefix("/").encode()
    if not encoded.endswith(suffix.encode()):
        raise CoatcheckError(Code.METHOD_NOT_ALLOWED, f"A session itself cannot be read; only its {suffix[1:]} can.")
    try:
        name = unquote_to_bytes(encoded.removesuffix(suffix.encode())).decode()
    except UnicodeDecodeError:
        # An empty name is refused below, because of its length.
        name = ""
    if not 1 <= len(name) <= SESSION_LENGTH:
        raise invalid_request(f"A session's name must be 1 to {SESSION_LENGTH} characters of UTF-8.", field="session")
    plain(name, "session")
    return name
