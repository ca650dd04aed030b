"""The bytes themselves: a raw ASGI handler, called before Litestar, because ranges are the hottest path.

Its route is not in Litestar's table: the router of 2.25 fails on a raw handler with a path parameter.
"""

from typing import cast

from litestar.types import HTTPScope, Receive, Send

from coatcheck.api.content import send as content_route
from coatcheck.api.content.representation import representation
from coatcheck.api.content.send import request_fields, respond, send_response
from coatcheck.api.http.problems import render
from coatcheck.api.http.query import read_query
from coatcheck.api.http.request_parts import caller, cited
from coatcheck.api.parameters import ContentQuery
from coatcheck.api.services import Services

_OURS = frozenset({"content-type", "content-length", "cache-control"})


async def serve_content(
    services: Services, artifact_id: str, request_id: str, scope: HTTPScope, receive: Receive, send: Send
) -> None:
    """Answer GET or HEAD of an artifact's bytes.

    Raises:
        CoatcheckError: before the response has begun: what finding, opening and reading raise.
    """
    asked = read_query(scope, ContentQuery)
    number, section = cited(artifact_id, asked.section)
    reading = await services.open_view(caller(scope), number, view=asked.view, section=section)
    fields = request_fields(list(scope["headers"]))
    method = str(scope["method"])
    response = respond(representation(reading), method, fields, services.clock.now())
    if response.error is None:
        await send_response(response, cast("content_route.Receive", receive), cast("content_route.Send", send))
        return
    problem = render(response.error, request_id)
    kept = [(name.lower(), value) for name, value in response.headers if name.lower() not in _OURS]
    headers = [*problem.headers, *kept, ("content-length", str(len(problem.body)))]
    encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    await send({"type": "http.response.start", "status": response.status, "headers": encoded})
    body = b"" if method == "HEAD" else problem.body
    await send({"type": "http.response.body", "body": body, "more_body": False})
