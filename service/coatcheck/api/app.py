"""The ASGI application: Litestar, and what applies to every request, whether or not a route takes it.

Every answer has a request ID, hosts and origins are checked, HEAD works wherever GET does, `Allow` names all methods of
a path, and every error is a problem document. Litestar's own middleware is not used, as it does not see requests that
no route takes.
"""

import asyncio
import re
from collections.abc import Callable
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final, cast

from litestar import Litestar, Request, Response
from litestar.connection import ASGIConnection
from litestar.di import Provide
from litestar.exceptions import HTTPException, MethodNotAllowedException, NotFoundException
from litestar.handlers import BaseRouteHandler
from litestar.types import HTTPScope, Receive, Scope, Send

from coatcheck.api.http.access import METRICS_PATH, admit, let_in, sane_request_id
from coatcheck.api.http.body import content_length
from coatcheck.api.http.exchange import LEFT, Exchange, RequestLog, ResponseSender, route_of, set_route, template_of
from coatcheck.api.http.limits import MemoryBudget, RequestLimits
from coatcheck.api.http.problems import internal, render
from coatcheck.api.http.rates import set_allowance
from coatcheck.api.http.request_parts import field
from coatcheck.api.openapi import openapi_document
from coatcheck.api.page import is_page
from coatcheck.api.route import Route, send_response
from coatcheck.api.routes import ROUTES
from coatcheck.api.services import RouteContext, Services
from coatcheck.api.sessions import SESSIONS, names_usage
from coatcheck.api.tools import METHODS as MCP_METHODS
from coatcheck.api.tools import PATH as MCP_PATH
from coatcheck.api.tools import SCOPE as MCP_SCOPE
from coatcheck.api.tools import Mount, json_rpc
from coatcheck.core.artifact import Caller
from coatcheck.core.errors import CoatcheckError, Code, invalid_request
from coatcheck.runtime.work_placement import RandomWords

if TYPE_CHECKING:
    from coatcheck.api.page.app import Page

_CONTENT: Final = {str(route.method): route for route in ROUTES if route.raw}
"""Routes of an artifact's bytes, by method. They have one path."""
_CONTENT_PATH: Final = _CONTENT["GET"].path
_DIRECT: Final = {(str(route.method), route.path): route for route in ROUTES if route.direct}
"""Routes that are called before Litestar, by method and path."""
_REQUEST_ID_BYTES: Final = 16
"""Random bytes of a request ID: as many as a UUID has."""
_EVERY = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST")
"""What `OPTIONS *` answers: the methods of the whole service."""
_PARAMETER = re.compile(r"\\\{[^}:]+(?::(str|path))?\\\}")
"""Matches a parameter in an escaped path template, and captures its type."""


def create_app(
    services: Services,
    limits: RequestLimits | None = None,
    *,
    new_request_id: Callable[[], str] | None = None,
) -> "Face":
    """Returns the HTTP interface to the use cases.

    Args:
        services: the use cases; their creator closes them.
        limits: bounds of the interface.
        new_request_id: makes IDs for requests that come without one; None: random ones.
    """
    random = RandomWords(_REQUEST_ID_BYTES)
    return Face(services, limits or RequestLimits(), new_request_id or (lambda: random().hex()))


@cache
def document() -> bytes:
    """Returns the OpenAPI document of this release. Needs no running service; the first call takes 30 ms."""
    return openapi_document(ROUTES)


class Face(Litestar):
    """The HTTP application: routes, access control, limits and problem details."""

    def __init__(self, services: Services, limits: RequestLimits, new_request_id: Callable[[], str]) -> None:
        self._log = RequestLog(services.clock, services.meter)
        self._context = RouteContext(services, limits, MemoryBudget(limits.buffered), self._log, document)
        self._mcp = Mount(services.tools)
        self._services = services
        # Litestar's own document, logging and limit of bodies are off: they would answer in another form than ours.
        super().__init__(  # pyright: ignore[reportUnknownMemberType] - Litestar's own annotations
            [route.handler() for route in ROUTES if not route.raw],
            dependencies={
                "context": Provide(lambda: self._context, sync_to_thread=False),
            },
            exception_handlers={Exception: self._problem},
            guards=[self._guard],
            on_startup=[self._mcp.open],
            on_shutdown=[self._mcp.close],
            openapi_config=None,
            logging_config=None,
            request_max_body_size=None,
        )
        self._limits = limits
        self._new_request_id = new_request_id
        # OPTIONS and `Allow` need every path's methods; routes outside Litestar's table are added by hand.
        methods = {route.path: frozenset(route.methods) for route in self.routes}
        methods[_CONTENT_PATH] = frozenset({"GET", "OPTIONS"})
        methods[MCP_PATH] = MCP_METHODS
        # A path without parameters is looked up; only the others are matched one by one.
        self._plain = {path: names for path, names in methods.items() if "{" not in path}
        self._patterns = [(_matcher(path), names) for path, names in methods.items() if "{" in path]
        self._content = _matcher(_CONTENT_PATH)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - Litestar's types are narrower
        """See ASGI."""
        # The lifespan: Litestar starts and stops what is mounted.
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        request_id = sane_request_id(scope) or self._new_request_id()
        scope.setdefault("state", {})["request_id"] = request_id
        exchange = Exchange(cast("HTTPScope", scope), receive, send, request_id)
        # Here the protocol finds the exchange to cancel if the client leaves.
        scope["state"]["exchange"] = exchange
        if self._services.tracer.on and not exchange.is_asked_all_the_time:
            await self._trace_answer(exchange)
        else:
            await self._answer(exchange)

    def _is_page(self, path: str) -> bool:
        return self._services.inspection is not None and is_page(path)

    @cached_property
    def _page(self) -> "Page":
        """Returns the administrator's page, created on first use: its templates take a tenth of the start-up time."""
        from coatcheck.api.page.app import Page  # noqa: PLC0415 - at the first request of a page

        assert self._services.inspection is not None  # noqa: S101 - _is_page was asked
        return Page(self._context, self._services.inspection)

    async def _trace_answer(self, exchange: Exchange) -> None:
        parent, state = field(exchange.scope, b"traceparent"), field(exchange.scope, b"tracestate")
        with self._services.tracer.request(exchange.scope["method"], parent, state) as span:
            await self._answer(exchange)
            # Only now are status, route and caller known.
            for name, value in exchange.facts(caller_of(exchange.scope)).items():
                span.note(name, value)

    async def _answer(self, exchange: Exchange) -> None:
        scope, request_id, sending = exchange.scope, exchange.id, exchange.sent
        try:
            await self._serve(scope, cast("Receive", exchange.received), sending, request_id)
        except CoatcheckError as e:
            self._log.log_failure(e, request_id, exchange.route)
            if sending.started:
                raise
            await self._send_problem(e, scope, sending, request_id)
        except asyncio.CancelledError:
            # Only the server awaits a request, and it would log this as a bug.
            if exchange.left:
                sending.status = sending.status or LEFT
            elif not sending.started:  # the service is stopping
                await asyncio.shield(self._send_problem(_stopping_error(), scope, sending, request_id, close=True))
        except Exception as e:
            self._log.broke(e, request_id, exchange.route)
            if sending.started:
                raise
            await self._send_problem(internal(), scope, sending, request_id)
        finally:
            self._log.log_answer(exchange, caller_of(scope))

    async def _serve(self, scope: HTTPScope, receive: Receive, send: ResponseSender, request_id: str) -> None:
        # Hosts and origins come first: what they refuse must not reach any code that answers.
        admit(scope, self._limits)
        method: str = scope["method"]
        # The hottest routes skip Litestar, whose routing and injection cost more than the rest of this layer.
        direct = _DIRECT.get((method, scope["path"]))
        if direct is not None:
            await self._let_in(scope, direct.path, direct.scope)
            await direct.serve(scope, receive, send, self._context)
            return
        if scope["path"].startswith("//"):  # Litestar would overlook it
            raise _no_route(scope)
        # OPTIONS needs no key: the OpenAPI document, which needs none either, says the same.
        if method == "OPTIONS":
            await self._options(scope, send)
            return
        # The administrator's page has sign-in, routing and errors of its own.
        if self._is_page(scope["path"]):
            send.silent = method == "HEAD"
            await self._page(
                scope if method != "HEAD" else cast("HTTPScope", {**scope, "method": "GET"}), receive, send
            )
            return
        if scope["path"].rstrip("/") == MCP_PATH:
            # What cannot be served is refused whoever sends it, which saves the look-up of a key.
            self._mcp.check(scope)
            await self._let_in(scope, MCP_PATH, MCP_SCOPE)
            await self._mcp.serve(scope, receive, send)
            return
        # Bytes of artifacts: raw ASGI functions, which Litestar's router cannot take (decision 0010).
        content = self._content.fullmatch(scope["path"])
        if content is not None:
            route = _CONTENT.get(method)
            if route is None:
                raise _not_allowed(method)
            await self._let_in(scope, route.path, route.scope)
            await route.function(self._services, content[1], request_id, scope, receive, send)
            return
        if method == "HEAD" and "GET" in self._methods_of_path(scope):
            send.silent = True
            # A copy, because the server checks its own scope to see that this answer has no body.
            scope = cast("HTTPScope", {**scope, "method": "GET"})
        try:
            await super().__call__(scope, receive, send)
        finally:
            # After HEAD, Litestar has left the template in a copy of the scope; the state, which both share, takes it
            # to log and metrics.
            set_route(scope, template_of(scope))

    async def _let_in(self, scope: HTTPScope, path: str, needed: str | None) -> None:
        """Identifies the caller and checks scope and rate limit, before anything else of the request is read.

        Routes that need no caller are not limited: their answers are the same for all callers and cost almost nothing.
        """
        set_route(scope, path)
        if path == METRICS_PATH and self._limits.metrics_open:
            return
        await let_in(self._services.authenticate, scope, needed)
        who = caller_of(scope)
        # Scrapes are not limited (decision 0029).
        allowance = None if who is None or path == METRICS_PATH else self._services.allowances.of(who)
        if allowance is not None:
            exchange: Exchange = scope["state"]["exchange"]
            exchange.allow(allowance)
            set_allowance(scope, allowance)
            allowance.begin(content_length(scope))

    async def _guard(self, connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
        """Runs before each of Litestar's routes, once it is found and before anything else of the request is read."""
        route: Route = handler.opt["route"]
        await self._let_in(cast("HTTPScope", connection.scope), route.path, route.scope)

    async def _options(self, scope: HTTPScope, send: Send) -> None:
        allow = sorted(_EVERY) if scope["path"] == "*" else self._methods_of_path(scope)
        if not allow:
            raise _no_route(scope)
        await send_response(send, 204, [("allow", ", ".join(allow))])

    def _methods_of_path(self, scope: Scope) -> list[str]:
        """Returns the methods of a request's path, in alphabetical order; none if no route takes it."""
        path = scope["path"]
        if self._is_page(path):
            return self._page.methods(path)
        allowed_methods = self._plain.get(path.rstrip("/"))
        if allowed_methods is None:
            matching = (methods for pattern, methods in self._patterns if pattern.fullmatch(path))
            allowed_methods = next(matching, frozenset[str]())
        if path.startswith(SESSIONS):  # two templates that routing cannot tell apart
            allowed_methods &= {"GET", "OPTIONS"} if names_usage(scope) else {"DELETE", "OPTIONS"}
        return sorted(allowed_methods | {"HEAD"} if "GET" in allowed_methods else allowed_methods)

    def _problem(self, request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
        """Turns an exception of a route into a response."""
        known_error = _error_of(error, request.scope)
        request_id, route = request.scope["state"]["request_id"], route_of(request.scope)
        if known_error is None:
            self._log.broke(error, request_id, route)
            known_error = internal()
        self._log.log_failure(known_error, request_id, route)
        problem = render(known_error, request_id)
        headers = dict(problem.headers)
        media_type = headers.pop("content-type")
        if known_error.code is Code.METHOD_NOT_ALLOWED:
            headers["allow"] = ", ".join(self._methods_of_path(request.scope))
        return Response(content=problem.body, status_code=problem.status, headers=headers, media_type=media_type)

    async def _send_problem(
        self, error: CoatcheckError, scope: Scope, send: Send, request_id: str, *, close: bool = False
    ) -> None:
        problem = render(error, request_id)
        # Nothing was sent yet, so each kind of client gets the error in the form that it understands.
        if scope["path"].rstrip("/") == MCP_PATH:
            problem = json_rpc(error, problem, request_id)
        elif self._is_page(scope["path"]):
            problem = self._page.problem(error, request_id)
        headers = [*problem.headers, ("content-length", str(len(problem.body)))]
        if error.code is Code.METHOD_NOT_ALLOWED:
            headers.append(("allow", ", ".join(self._methods_of_path(scope))))
        if close:
            headers.append(("connection", "close"))
        body = b"" if scope["type"] == "http" and scope["method"] == "HEAD" else problem.body
        await send_response(send, problem.status, headers, body)


def _error_of(error: Exception, scope: Scope) -> CoatcheckError | None:
    """Returns the exception as a CoatcheckError; None for a bug."""
    # What Litestar raises is a caller's mistake unless its status says otherwise; everything unknown is a bug.
    match error:
        case CoatcheckError():
            return error
        case NotFoundException():
            return _no_route(scope)
        case MethodNotAllowedException():
            return _not_allowed(scope["method"] if scope["type"] == "http" else "this method")
        case HTTPException() if error.status_code < 500:  # noqa: PLR2004 - server errors begin here
            return invalid_request(f"{error.detail}.")
        case _:
            return None


def caller_of(scope: Scope) -> Caller | None:
    """Returns the caller, or None until it is known."""
    return cast("Caller | None", scope["state"].get("caller"))


def _stopping_error() -> CoatcheckError:
    return CoatcheckError(
        Code.STORAGE_UNAVAILABLE, "The service is stopping and abandoned this request. Retry the same call."
    )


def _no_route(scope: Scope) -> CoatcheckError:
    path = ascii(scope["path"][:80])
    return CoatcheckError(Code.ROUTE_NOT_FOUND, f"There is no route {path}. /v1/openapi.json lists all routes.")


def _not_allowed(method: str) -> CoatcheckError:
    return CoatcheckError(Code.METHOD_NOT_ALLOWED, f"This path does not take {method[:20]}; see the Allow field.")


def _matcher(path: str) -> re.Pattern[str]:
    """Returns a path template as a pattern; a path parameter of type `path` may hold slashes."""
    pattern = _PARAMETER.sub(lambda match: "(.+)" if match[1] == "path" else "([^/]+)", re.escape(path))
    return re.compile(f"{pattern}/?")
