"""Routes of an artifact's bytes. Their functions are raw ASGI handlers, which are called without using Litestar.

Requests for ranges are the most frequent ones, and Litestar's router (2.25) fails on a raw handler with a path
parameter. A response begins only after its first bytes have been read. Reading stops when the client has left.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, cast

from litestar.types import HTTPScope, Receive, Send
from msgspec import Struct

from coatcheck.api.http.access import READ
from coatcheck.api.http.problems import render
from coatcheck.api.http.representation import ContentResponse, representation, request_fields, respond
from coatcheck.api.http.request_parts import caller, read_query, resolve_citation
from coatcheck.api.route import ONE, Answer, SendMessage, route, send_response
from coatcheck.api.services import Services
from coatcheck.core.errors import Code
from coatcheck.core.read_answer import Section, View

Message = MutableMapping[str, Any]
ReceiveMessage = Callable[[], Awaitable[Message]]


async def send_content(response: ContentResponse, receive: ReceiveMessage, send: SendMessage) -> None:
    """Sends a response. Stops reading the payload when the client has left.

    Raises:
        CoatcheckError: an error of reading the payload. An error in one of the first two blocks is raised before
            anything is sent. A later one leaves the response shorter than its Content-Length, so that the client
            notices.
    """
    blocks = response.body
    # Read two blocks before sending the status, so that an error in them becomes a problem document. For a body of at
    # most two blocks, that includes the check of the digest, which precedes the last block.
    first = await anext(blocks, b"") if blocks is not None else b""
    second = await anext(blocks, None) if blocks is not None else None
    headers = [(name.lower(), value) for name, value in response.headers]
    await send_response(send, response.status, headers, first, more=second is not None)
    if blocks is None or second is None:
        return
    # `receive` returns only when a message arrives, so a separate task waits for it during the sending.
    disconnect_task = asyncio.create_task(_wait_for_disconnect(receive))
    try:
        await send({"type": "http.response.body", "body": second, "more_body": True})
        del first, second  # for a slow client, only one block stays in memory here, and one that is being written
        async for each in blocks:
            if disconnect_task.done():
                return
            await send({"type": "http.response.body", "body": each, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        disconnect_task.cancel()


async def _wait_for_disconnect(receive: ReceiveMessage) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


_OURS: Final = frozenset({"content-type", "content-length", "cache-control"})
"""Header fields that a problem document has itself. The response's other fields, such as Content-Range, are kept."""
_CONDITIONS: Final = ("If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since")
"""Names of the header fields with conditions (RFC 9110 section 13.1)."""
_UNCHANGED: Final = Answer("The caller's copy is current.", headers=("ETag",))


class ContentQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of `GET /v1/artifacts/{artifact_id}/content`."""

    section: Section | None = None
    view: View | None = None


@route(
    "GET /v1/artifacts/{artifact_id}/content",
    raw=True,
    scope=READ,
    tag="Reading",
    query=ContentQuery,
    headers=("Range", "If-Range", *_CONDITIONS),
    answers={
        200: Answer(
            "The whole representation.",
            media=("*/*",),
            headers=("ETag", "Accept-Ranges", "Repr-Digest"),
        ),
        206: Answer(
            "The requested ranges; several come as multipart/byteranges.",
            media=("*/*", "multipart/byteranges"),
            headers=("ETag", "Content-Range"),
        ),
        304: _UNCHANGED,
    },
    problems=(
        *ONE,
        Code.SECTION_NOT_FOUND,
        Code.VIEW_NOT_AVAILABLE,
        Code.PRECONDITION_FAILED,
        Code.RANGE_NOT_SATISFIABLE,
        Code.INTEGRITY,
    ),
)
async def get_content(
    services: Services, artifact_id: str, request_id: str, scope: HTTPScope, receive: Receive, send: Send
) -> None:
    """Fetch the bytes.

    Returns the payload; with `view=text`, its text view; with `section`, only this section of it. Each of these has its
    own entity tag. Ranges and conditions work as in RFC 9110. Browsers are told to download the bytes, not to guess
    their type, and to run nothing in them.
    """
    await _serve(services, artifact_id, request_id, scope, receive, send)


@route(
    "HEAD /v1/artifacts/{artifact_id}/content",
    raw=True,
    scope=READ,
    tag="Reading",
    query=ContentQuery,
    headers=_CONDITIONS,
    answers={200: Answer("It exists.", headers=("ETag", "Accept-Ranges", "Repr-Digest")), 304: _UNCHANGED},
    problems=(*ONE, Code.SECTION_NOT_FOUND, Code.VIEW_NOT_AVAILABLE, Code.PRECONDITION_FAILED),
)
async def head_content(
    services: Services, artifact_id: str, request_id: str, scope: HTTPScope, receive: Receive, send: Send
) -> None:
    """Get the header fields of the bytes.

    Returns the header fields of `getContent` without a Range, and no body.
    """
    await _serve(services, artifact_id, request_id, scope, receive, send)


async def _serve(
    services: Services, artifact_id: str, request_id: str, scope: HTTPScope, receive: Receive, send: Send
) -> None:
    """Serves a GET or HEAD request.

    Raises:
        CoatcheckError: any error of finding, opening and reading the artifact; see `send_content`.
    """
    query = read_query(scope, ContentQuery)
    number, section = resolve_citation(artifact_id, query.section)
    reading = await services.open_view(caller(scope), number, view=query.view, section=section)
    fields = request_fields(list(scope["headers"]))
    method = str(scope["method"])
    response = respond(representation(reading), method, fields)
    if response.error is None:
        await send_content(response, cast("ReceiveMessage", receive), send)
        return
    # The problem document for a failed condition or range keeps the entity tag and the size of the representation.
    problem = render(response.error, request_id)
    kept_headers = [(name.lower(), value) for name, value in response.headers if name.lower() not in _OURS]
    headers = [*problem.headers, *kept_headers, ("content-length", str(len(problem.body)))]
    await send_response(send, response.status, headers, b"" if method == "HEAD" else problem.body)
