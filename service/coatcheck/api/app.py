"""The ASGI application: Litestar with what every request gets, whether a route takes it or not.

A request ID on every answer, hosts and origins checked, HEAD wherever there is GET, `Allow` that names all methods of
a path, and every error as problem details. Litestar's own middleware is not used for this: it does not see requests
that no route takes.
"""

import asyncio
import logging
import re
import uuid
from collections.abc import Callable
from functools import cache
from typing import Any, cast

from litestar import Litestar, Request, Response
from litestar.di import Provide
from litestar.exceptions import HTTPException, MethodNotAllowedException, NotFoundException
from litestar.types import HTTPScope, Message, Receive, Scope, Send

from coatcheck.api.gate import admit, sane_request_id
from coatcheck.api.journal import Journal
from coatcheck.api.limits import Limits
from coatcheck.api.mcp import METHODS as MCP_METHODS
from coatcheck.api.mcp import PATH as MCP_PATH
from coatcheck.api.mcp import Mount, json_rpc
from coatcheck.api.openapi import openapi_document
from coatcheck.api.problems import internal, render
from coatcheck.api.room import Budget
from coatcheck.api.routes import CONTENT_PATH, ROUTES
from coatcheck.api.routes.content import serve_content
from coatcheck.api.services import Desk, Services
from coatcheck.core.errors import CoatcheckError, Code

_log = logging.getLogger("coatcheck.api")
_EVERY = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST")
_PARAMETER = re.compile(r"\\\{[^}:]+(?::(str|path))?\\\}")


def create_app(
    services: Services, limits: Limits | None = None, *, new_request_id: Callable[[], str] = lambda: uuid.uuid4().hex
) -> "Face":
    """The HTTP face over the use cases.

    Args:
        services: the use cases; whoever built them closes them.
        limits: bounds of the face.
        new_request_id: names requests whose caller did not.
    """
    return Face(services, limits or Limits(), new_request_id)


@cache
def document() -> bytes:
    """The OpenAPI document of this release; needs no running service, and 30 ms when it is first asked for."""
    return openapi_document(ROUTES)


class Face(Litestar):
    """One application."""

    def __init__(self, services: Services, limits: Limits, new_request_id: Callable[[], str]) -> None:
        self._journal = Journal(services.clock)
        desk = Desk(services, limits, Budget(limits.buffered), self._journal, document)
        self._mcp = Mount(services.tools)
        super().__init__(  # pyright: ignore[reportUnknownMemberType] - Litestar's own annotations
            ROUTES,
            dependencies={
                "desk": Provide(lambda: desk, sync_to_thread=False),
            },
            exception_handlers={Exception: self._problem},
            on_startup=[self._mcp.open],
            on_shutdown=[self._mcp.close],
            openapi_config=None,
            logging_config=None,
            request_max_body_size=None,
        )
        self._services = services
        self._limits = limits
        self._new_request_id = new_request_id
        methods = {route.path: frozenset(route.methods) for route in self.routes}
        methods[CONTENT_PATH] = frozenset({"GET", "OPTIONS"})
        methods[MCP_PATH] = MCP_METHODS
        self._plain = {path: names for path, names in methods.items() if "{" not in path}
        self._patterns = [(_matcher(path), names) for path, names in methods.items() if "{" in path]
        self._content = _matcher(CONTENT_PATH)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - Litestar's types are narrower
        """See ASGI."""
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        request_id = sane_request_id(scope) or self._new_request_id()
        scope.setdefault("state", {})["request_id"] = request_id
        sending = _Sending(send, request_id.encode())
        try:
            await self._serve(cast("HTTPScope", scope), receive, sending, request_id)
        except CoatcheckError as e:
            self._journal.failed(e, request_id, scope["path"])
            if sending.started:
                raise
            await self._send_problem(e, scope, sending, request_id)
        except asyncio.CancelledError:
            # Only stopping cancels a request. Nothing awaits it but the server, which would log it as a bug.
            if not sending.started:
                await asyncio.shield(self._send_problem(_stopped(), scope, sending, request_id, close=True))
        except Exception:
            _log.exception("request %s failed: %s %s", request_id, scope["method"], scope["path"])
            if sending.started:
                raise
            await self._send_problem(internal(), scope, sending, request_id)
        finally:
            self._journal.answered(scope["method"], scope["path"], sending.status, request_id)

    async def _serve(self, scope: HTTPScope, receive: Receive, send: "_Sending", request_id: str) -> None:
        admit(scope, self._limits)
        method: str = scope["method"]
        if scope["path"].startswith("//"):  # Litestar would overlook it
            raise _no_route(scope)
        if method == "OPTIONS":
            await self._options(scope, send)
            return
        if scope["path"].rstrip("/") == MCP_PATH:
            await self._mcp.serve(scope, receive, send)
            return
        content = self._content.fullmatch(scope["path"])
        if content is not None:
            if method not in {"GET", "HEAD"}:
                raise _not_allowed(method)
            await serve_content(self._services, content[1], request_id, scope, receive, send)
            return
        if method == "HEAD" and "GET" in self._allowed(scope["path"]):
            send.silent = True
            # A copy: the server looks at its own scope to know that this answer has no body.
            scope = cast("HTTPScope", {**scope, "method": "GET"})
        await super().__call__(scope, receive, send)

    async def _options(self, scope: HTTPScope, send: Send) -> None:
        allow = sorted(_EVERY) if scope["path"] == "*" else self._allowed(scope["path"])
        if not allow:
            raise _no_route(scope)
        headers = [(b"allow", ", ".join(allow).encode())]
        await send({"type": "http.response.start", "status": 204, "headers": headers})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _allowed(self, path: str) -> list[str]:
        """The methods of a path, in alphabetical order; none when no route takes it."""
        found = self._plain.get(path.rstrip("/"))
        if found is None:
            matching = (methods for pattern, methods in self._patterns if pattern.fullmatch(path))
            found = next(matching, frozenset[str]())
        return sorted(found | {"HEAD"} if "GET" in found else found)

    def _problem(self, request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
        """Any exception of a route as a response."""
        known = _known(error, request.scope)
        if known is None:
            _log.error(
                "request %s failed: %s %s",
                request.scope["state"]["request_id"],
                request.scope["method"],
                request.scope["path"],
                exc_info=error,
            )
            known = internal()
        self._journal.failed(known, request.scope["state"]["request_id"], request.scope["path"])
        problem = render(known, request.scope["state"]["request_id"])
        headers = dict(problem.headers)
        media_type = headers.pop("content-type")
        if known.code is Code.METHOD_NOT_ALLOWED:
            headers["allow"] = ", ".join(self._allowed(request.scope["path"]))
        return Response(content=problem.body, status_code=problem.status, headers=headers, media_type=media_type)

    async def _send_problem(
        self, error: CoatcheckError, scope: Scope, send: Send, request_id: str, *, close: bool = False
    ) -> None:
        problem = render(error, request_id)
        if scope["path"].rstrip("/") == MCP_PATH:
            problem = json_rpc(error, problem, request_id)
        headers = [*problem.headers, ("content-length", str(len(problem.body)))]
        if error.code is Code.METHOD_NOT_ALLOWED:
            headers.append(("allow", ", ".join(self._allowed(scope["path"]))))
        if close:
            headers.append(("connection", "close"))
        encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        await send({"type": "http.response.start", "status": problem.status, "headers": encoded})
        body = b"" if scope["type"] == "http" and scope["method"] == "HEAD" else problem.body
        await send({"type": "http.response.body", "body": body, "more_body": False})


class _Sending:
    """A `send` that adds the request ID, knows whether a response has begun, and can keep its body back (HEAD)."""

    def __init__(self, send: Send, request_id: bytes) -> None:
        self._send = send
        self._request_id = request_id
        self.started = False
        self.status = 0
        self.silent = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            self.status = message["status"]
            message["headers"] = [*message["headers"], (b"x-request-id", self._request_id)]
        elif self.silent and message["type"] == "http.response.body":
            message["body"] = b""
        await self._send(message)


def _known(error: Exception, scope: Scope) -> CoatcheckError | None:
    """The error in our words; None for a bug."""
    match error:
        case CoatcheckError():
            return error
        case NotFoundException():
            return _no_route(scope)
        case MethodNotAllowedException():
            return _not_allowed(scope["method"] if scope["type"] == "http" else "this method")
        case HTTPException() if error.status_code < 500:  # noqa: PLR2004 - server errors begin here
            return CoatcheckError(Code.INVALID_REQUEST, f"{error.detail}.")
        case _:
            return None


def _stopped() -> CoatcheckError:
    return CoatcheckError(
        Code.STORAGE_UNAVAILABLE, "The service is stopping and gave this request up. Retry the same call."
    )


def _no_route(scope: Scope) -> CoatcheckError:
    shown = ascii(scope["path"][:80])
    return CoatcheckError(Code.ROUTE_NOT_FOUND, f"There is no route {shown}. /v1/openapi.json lists them.")


def _not_allowed(method: str) -> CoatcheckError:
    return CoatcheckError(Code.METHOD_NOT_ALLOWED, f"This path does not take {method[:20]}; see the Allow field.")


def _matcher(path: str) -> re.Pattern[str]:
    """A path template as a pattern; a path parameter of type `path` may hold slashes."""
    pattern = _PARAMETER.sub(lambda found: "(.+)" if found[1] == "path" else "([^/]+)", re.escape(path))
    return re.compile(f"{pattern}/?")
