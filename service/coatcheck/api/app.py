"""The ASGI application: Litestar, and everything that applies to all requests, even to those that no route takes.

Every answer has a request ID, hosts and origins are checked, HEAD works wherever GET does, `Allow` names all methods of
a path, and every error is a problem document. Litestar's middleware cannot do this: it does not see requests that no
route takes.
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

_CONTENT_ROUTES: Final = {str(route.method): route for route in ROUTES if route.raw}
"""Routes of an artifact's bytes, by method. All of them have the same path."""
_CONTENT_PATH: Final = _CONTENT_ROUTES["GET"].path
_DIRECT_ROUTES: Final = {(str(route.method), route.path): route for route in ROUTES if route.direct}
"""Routes that are called without using Litestar, by method and path."""
_REQUEST_ID_BYTES: Final = 16
"""Random bytes of a request ID: as many as a UUID has."""
_SERVICE_METHODS: Final = {"HEAD", "OPTIONS"}.union(str(route.method) for route in ROUTES)
"""The methods of the whole service, which `OPTIONS *` returns."""
_PARAMETER = re.compile(r"\\\{[^}:]+(?::(str|path))?\\\}")
"""Matches a parameter in a path template after `re.escape`, and captures the parameter's type."""


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
        new_request_id: returns an ID for a request that comes without one; None: IDs are random.
    """
    random = RandomWords(_REQUEST_ID_BYTES)
    return Face(services, limits or RequestLimits(), new_request_id or (lambda: random().hex()))


@cache
def document() -> bytes:
    """Returns the OpenAPI document of this release. No service needs to run. The first call takes 30 ms."""
    return openapi_document(ROUTES)


class Face(Litestar):
    """The HTTP application: routes, access control, limits and problem details."""

    def __init__(self, services: Services, limits: RequestLimits, new_request_id: Callable[[], str]) -> None:
        self._log = RequestLog(services.clock, services.meter)
        self._context = RouteContext(services, limits, MemoryBudget(limits.buffered), self._log, document)
        self._mcp = Mount(services.tools)
        self._services = services
        # Litestar's own document, logging and body limit are off: their answers would have another form.
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
        # OPTIONS and `Allow` need every path's methods. Add by hand the routes that Litestar does not know.
        methods = {route.path: frozenset(route.methods) for route in self.routes}
        methods[_CONTENT_PATH] = frozenset({"GET", "OPTIONS"})
        methods[MCP_PATH] = MCP_METHODS
        # A path without parameters is looked up. Paths with parameters are matched one by one.
        self._fixed_paths = {path: names for path, names in methods.items() if "{" not in path}
        self._patterns = [(_matcher(path), names) for path, names in methods.items() if "{" in path]
        self._content = _matcher(_CONTENT_PATH)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - Litestar's types are narrower
        """See ASGI."""
        # For the lifespan, Litestar calls the functions in `on_startup` and `on_shutdown`.
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        request_id = sane_request_id(scope) or self._new_request_id()
        scope.setdefault("state", {})["request_id"] = request_id
        exchange = Exchange(cast("HTTPScope", scope), receive, send, request_id)
        # The HTTP protocol finds the exchange under this key, and cancels it if the client leaves.
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
            # Status, route and caller are known only after the answer.
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
            # Do not raise the cancellation again: only the server awaits a request, and would log it as a bug.
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
        # Check hosts and origins first: a request that they forbid must not reach any route.
        admit(scope, self._limits)
        method: str = scope["method"]
        # The most frequent routes skip Litestar: its routing and injection cost more than the rest of this layer.
        direct = _DIRECT_ROUTES.get((method, scope["path"]))
        if direct is not None:
            await self._let_in(scope, direct.path, direct.scope)
            await direct.serve(scope, receive, send, self._context)
            return
        if scope["path"].startswith("//"):  # Litestar would ignore the second slash
            raise _no_route(scope)
        # OPTIONS needs no key: it reveals no more than the OpenAPI document, which needs no key either.
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
            # First check whether the request can be served at all. If not, looking up its key would be wasted work.
            self._mcp.check(scope)
            await self._let_in(scope, MCP_PATH, MCP_SCOPE)
            await self._mcp.serve(scope, receive, send)
            return
        # The routes of an artifact's bytes are raw ASGI functions, which Litestar cannot route (decision 0010).
        content = self._content.fullmatch(scope["path"])
        if content is not None:
            route = _CONTENT_ROUTES.get(method)
            if route is None:
                raise _not_allowed(method)
            await self._let_in(scope, route.path, route.scope)
            await route.function(self._services, content[1], request_id, scope, receive, send)
            return
        if method == "HEAD" and "GET" in self._methods_of_path(scope):
            send.silent = True
            # Change a copy: the server's own scope must still say HEAD, so that it expects no body.
            scope = cast("HTTPScope", {**scope, "method": "GET"})
        try:
            await super().__call__(scope, receive, send)
        finally:
            # For HEAD, Litestar has put the template into the copy of the scope. Put it into the state, which both
            # scopes share, so that log and metrics find it.
            set_route(scope, template_of(scope))

    async def _let_in(self, scope: HTTPScope, path: str, needed: str | None) -> None:
        """Identifies the caller and checks its scope and rate limit, before anything else of the request is read.

        Routes that need no key have no rate limit: their answers are the same for all callers and cost almost nothing.

        Raises:
            CoatcheckError: `unauthenticated`, `forbidden`, `rate_limited`, `payload_too_large`; `storage_unavailable`
                while keys cannot be looked up.
        """
        set_route(scope, path)
        if path == METRICS_PATH and self._limits.metrics_open:
            return
        await let_in(self._services.authenticate, scope, needed)
        who = caller_of(scope)
        # Requests for metrics have no rate limit (decision 0029).
        allowance = None if who is None or path == METRICS_PATH else self._services.allowances.of(who)
        if allowance is not None:
            exchange: Exchange = scope["state"]["exchange"]
            exchange.allow(allowance)
            set_allowance(scope, allowance)
            allowance.begin(content_length(scope))

    async def _guard(self, connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
        """Lets a request in. Litestar calls this once it has found the route, and before it reads the body."""
        route: Route = handler.opt["route"]
        await self._let_in(cast("HTTPScope", connection.scope), route.path, route.scope)

    async def _options(self, scope: HTTPScope, send: Send) -> None:
        allow = sorted(_SERVICE_METHODS) if scope["path"] == "*" else self._methods_of_path(scope)
        if not allow:
            raise _no_route(scope)
        await send_response(send, 204, [("allow", ", ".join(allow))])

    def _methods_of_path(self, scope: Scope) -> list[str]:
        """Returns the methods of a request's path, in alphabetical order; none if no route has the path."""
        path = scope["path"]
        if self._is_page(path):
            return self._page.methods(path)
        allowed_methods = self._fixed_paths.get(path.rstrip("/"))
        if allowed_methods is None:
            matching = (methods for pattern, methods in self._patterns if pattern.fullmatch(path))
            allowed_methods = next(matching, frozenset[str]())
            # A session and its `/usage` match the same template.
            if path.startswith(SESSIONS):
                allowed_methods &= {"GET", "OPTIONS"} if names_usage(scope) else {"DELETE", "OPTIONS"}
        return sorted(allowed_methods | {"HEAD"} if "GET" in allowed_methods else allowed_methods)

    def _problem(self, request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
        """Turns an exception of a route into a response."""
        known_error = _error_of(error, request.scope)
        request_id, route = request.scope["state"]["request_id"], route_of(request.scope)
        if known_error is None:
            self._log.broke(error, request_id, route)
            known_error = internal()
        else:
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
        # Send the error in the form that the client understands: JSON-RPC to MCP clients, HTML to browsers.
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
    # Litestar's exceptions are mistakes of the caller unless their status says otherwise. All others are bugs.
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
    """Returns a request's caller; None before it is known, and on routes that need no key."""
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
    """Returns a pattern that matches the paths of a template. A parameter of type `path` may contain slashes."""
    pattern = _PARAMETER.sub(lambda match: "(.+)" if match[1] == "path" else "([^/]+)", re.escape(path))
    return re.compile(f"{pattern}/?")
