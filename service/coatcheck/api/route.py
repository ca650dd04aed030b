"""Declares a route once, at the function that serves it.

The decorator names the route's method, path, scope, answers and problems. The function's signature has its path
parameters, the model of its query string (`query`), the model of its body (`body`) and the type of its answer. The
function's docstring is the summary and description in the OpenAPI document. Access control, routing and the document
are derived from these.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Final, Generic, TypeVar, cast, get_args

import msgspec
from litestar import Request, Response
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.types import Method, Receive, Scope, Send
from msgspec import Struct

from coatcheck.api.http.access import ADMIN
from coatcheck.api.http.body import body_too_large, content_length, open_body
from coatcheck.api.http.json_body import decode
from coatcheck.api.http.limits import KIB, MemoryReservation, RequestLimits
from coatcheck.api.http.request_parts import EmptyQuery, caller, read_query, refuse_nul, require_json
from coatcheck.api.services import RouteContext, Services
from coatcheck.core.artifact import Caller
from coatcheck.core.errors import Code

T = TypeVar("T")
SendMessage = Callable[[Any], Awaitable[None]]
"""Sends an ASGI message."""
JSON: Final = "application/json"
FORM: Final = "multipart/form-data"
MERGE_PATCH: Final = "application/merge-patch+json"
"""The media type of a merge patch (RFC 7396). A body of this type is read like a JSON body."""
ADMINISTRATION: Final = "Administration"
"""The tag of routes that name no other."""
SMALL: Final = 64 * KIB
"""Maximum bytes of a body without a payload."""

BODY: Final = (
    Code.UNSUPPORTED_MEDIA_TYPE,
    Code.UNSUPPORTED_ENCODING,
    Code.CORRUPT_ENCODING,
    Code.DECOMPRESSION_LIMIT,
    Code.INVALID_DIGEST,
    Code.DIGEST_MISMATCH,
    Code.TRUNCATED_BODY,
    Code.BODY_TOO_LARGE,
)
"""Errors that any body may cause."""
JSON_BODY: Final = (*BODY, Code.INVALID_JSON, Code.INVALID_CONTENT)
"""Errors that any JSON body may cause."""
ONE: Final = (Code.INVALID_ARTIFACT_ID, Code.ARTIFACT_NOT_FOUND, Code.ARTIFACT_GONE)
"""Errors that an artifact's ID may cause."""
STORING: Final = (
    Code.PAYLOAD_TOO_LARGE,
    Code.INVALID_IDEMPOTENCY_KEY,
    Code.IDEMPOTENCY_KEY_REUSED,
    Code.INVALID_ARTIFACT_ID,
    Code.COMPARED_NOT_FOUND,
    Code.ARTIFACT_GONE,
    Code.UPLOAD_FENCED,
    Code.QUOTA_EXCEEDED,
    Code.NAMESPACE_DELETING,
)
"""Errors that storing a payload may cause."""
_CODED: Final = ("Content-Encoding", "Content-Digest", "Repr-Digest")
"""Header parameters of every route that has a body."""


class RouteCall:
    """One request to one route: its caller, its body, and the use cases that answer it."""

    __slots__ = ("context", "receive", "scope")

    def __init__(self, scope: Scope, receive: Receive, context: RouteContext) -> None:
        self.scope = scope
        self.receive = receive
        self.context = context

    @property
    def caller(self) -> Caller:
        """The caller. Only requests to routes that need a key have one."""
        return caller(self.scope)

    @property
    def services(self) -> Services:
        """The use cases."""
        return self.context.services

    @property
    def limits(self) -> RequestLimits:
        """Limits of the HTTP interface."""
        return self.context.limits

    async def json_bytes(self, limit: int, reservation: MemoryReservation, *others: str) -> bytes:
        """Returns the bytes of a JSON body of at most `limit` bytes. `others` are further media types to accept.

        Raises:
            CoatcheckError: `unsupported_media_type`, `body_too_large`, and the errors of reading a body.
        """
        require_json(self.scope, *others)
        return await self.whole_body(limit, reservation)

    async def whole_body(self, limit: int, reservation: MemoryReservation) -> bytes:
        """Returns the bytes of a body of at most `limit` bytes.

        Raises:
            CoatcheckError: `body_too_large`, and the errors of reading a body.
        """
        # A body that announces too large a length is refused before a byte is read, any other while it arrives.
        length = content_length(self.scope)
        if length is not None and length > limit:
            raise body_too_large(limit)
        return await open_body(self.scope, self.receive, self.limits).whole(limit, reservation)

    async def small_json(self, model: type[T]) -> T:
        """Returns a JSON body of at most SMALL bytes as a `model`.

        Raises:
            CoatcheckError: `invalid_json`, `invalid_request`, and the errors of `json_bytes`.
        """
        with self.context.budget.reserve() as reservation:
            value, _ = decode(await self.json_bytes(SMALL, reservation, MERGE_PATCH), model)
        return value


@dataclass(frozen=True)
class Reply(Generic[T]):
    """A JSON answer with a status or header fields that its route does not always have."""

    view: T
    status: int
    headers: dict[str, str] | None = None
    """Further header fields, by name in lower case; None: there are none."""


@dataclass(frozen=True)
class Answer:
    """How the OpenAPI document describes an answer of a route."""

    description: str
    schema: str | None = None
    """Name of the schema of the answer's JSON; None: that of the route's model."""
    media: tuple[str, ...] = ()
    """Media types besides JSON. Those that begin with `text/` are described as strings, all others as bytes."""
    headers: tuple[str, ...] = ()
    """Names in RESPONSE_HEADERS of the answer's header fields, without those of every answer."""


@dataclass(frozen=True, kw_only=True)
class Route:
    """One operation: everything that routing, access and the OpenAPI document need."""

    method: Method
    path: str
    """The path in the form of the OpenAPI document."""
    routed: str
    """The path in Litestar's form."""
    scope: str | None
    """Scope that a key needs; None: no key is needed."""
    tag: str
    """Heading in the OpenAPI document."""
    operation_id: str
    summary: str
    description: str
    query: type[Struct]
    """Model of the query string. Unknown parameters are refused, so that a misspelt one is not ignored."""
    headers: tuple[str, ...]
    """Names in PARAMETERS of the header fields that a request may have."""
    body: Mapping[str, type[Struct] | str]
    """By media type of the body, its model or the name of its schema."""
    schemas: Mapping[str, type[Struct] | dict[str, Any]]
    """Further schemas, by name, to which the body or the answers refer."""
    model: type[Struct] | None
    """Type of the JSON answers; None: the route has none."""
    answers: Mapping[int, Answer]
    """Answers by status. The first status applies if the function returns a value without a status."""
    problems: tuple[Code, ...]
    """Codes of errors, in addition to those of every route and of every route that needs a key."""
    raw: bool
    """Whether the function is an ASGI function, to which requests go without using Litestar."""
    direct: bool
    """Whether requests go to the function without using Litestar."""
    function: Callable[..., Awaitable[Any]] = field(repr=False)

    def handler(self) -> HTTPRouteHandler:
        """Returns the route as a handler for Litestar."""
        # By convention, the arguments of a route's function that have the type `str` are its path parameters.
        parameters = [name for name, hint in self.function.__annotations__.items() if hint is str]
        status = next(iter(self.answers))

        async def handle(request: Request[Any, Any, Any], context: NamedDependency[RouteContext]) -> Response[bytes]:
            path_values = {name: str(request.path_params[name]) for name in parameters}
            refuse_nul(path_values)
            return _response(
                await self._call_function(RouteCall(request.scope, request.receive, context), path_values), status
            )

        handle.__name__ = self.function.__name__
        return HTTPRouteHandler(self.routed, http_method=self.method, status_code=200, opt={"route": self})(handle)

    async def serve(self, scope: Scope, receive: Receive, send: Send, context: RouteContext) -> None:
        """Serves a request to a `direct` route, whose function returns a `Reply`."""
        reply: Reply[Any] = await self._call_function(RouteCall(scope, receive, context), {})
        content = msgspec.json.encode(reply.view)
        headers = {"content-type": JSON, "content-length": str(len(content)), **(reply.headers or {})}
        await send_response(send, reply.status, headers.items(), content)

    async def _call_function(self, call: RouteCall, arguments: dict[str, Any]) -> Any:  # noqa: ANN401 - what its function returns
        """Calls the function with the given path parameters and with its query and body, and returns its result."""
        hints = self.function.__annotations__
        # Read the query even if the function takes none: every route refuses unknown parameters.
        query = read_query(call.scope, self.query)
        if "query" in hints:
            arguments["query"] = query
        if "body" in hints:
            arguments["body"] = await call.small_json(hints["body"])
        return await self.function(call, **arguments)


def route(
    operation: str,
    *,
    answers: Mapping[int, str | Answer],
    scope: str | None = ADMIN,
    tag: str = ADMINISTRATION,
    problems: tuple[Code, ...] = (),
    headers: tuple[str, ...] = (),
    body: Mapping[str, type[Struct] | str] | None = None,
    schemas: Mapping[str, type[Struct] | dict[str, Any]] | None = None,
    query: type[Struct] = EmptyQuery,
    routed: str | None = None,
    raw: bool = False,
    direct: bool = False,
) -> Callable[[Callable[..., Awaitable[Any]]], Route]:
    """Declares the route that a function serves.

    Args:
        operation: method and path, as in the OpenAPI document: `GET /v1/artifacts/{artifact_id}`.
        answers: the answers by status. The first status applies if the function returns a value without a status.
        scope: the scope that a key needs; None: no key is needed. By default, only administrators may call the route.
        tag: the route's heading in the OpenAPI document.
        problems: codes of errors, in addition to those of every route.
        headers: names of header parameters, in addition to those of every route that has a body.
        body: the models by media type, if the function reads the body itself.
        schemas: schemas to which the body or the answers refer.
        query: the model of the query string, if the function reads it itself.
        routed: the path in Litestar's form, if it cannot be derived.
        raw: whether the function is an ASGI function, to which requests go without using Litestar.
        direct: whether requests go to the function without using Litestar, whose routing and injection cost more than
            the rest of this layer. Only for a path without parameters whose function returns a `Reply`.
    """
    method, path = operation.split(" ")

    def declare(function: Callable[..., Awaitable[Any]]) -> Route:
        hints = function.__annotations__
        # Read the annotations and the docstring once, when the module is imported.
        summary, _, description = (function.__doc__ or "").partition("\n")
        bodies = body if body is not None else ({JSON: hints["body"]} if "body" in hints else {})
        return Route(
            method=cast("Method", method),
            path=path,
            routed=routed or path.replace("}", ":str}"),
            scope=scope,
            tag=tag,
            operation_id=_camel(function.__name__),
            summary=summary.removesuffix("."),
            description=_paragraphs(description),
            query=hints.get("query", query),
            headers=(*headers, *(_CODED if bodies else ())),
            body=bodies,
            schemas=schemas or {},
            model=_model(hints.get("return")),
            answers={status: Answer(text) if isinstance(text, str) else text for status, text in answers.items()},
            problems=problems,
            raw=raw,
            direct=direct,
            function=function,
        )

    return declare


def routes_of(*modules: ModuleType) -> list[Route]:
    """Returns the routes that modules declare."""
    return [value for module in modules for value in vars(module).values() if isinstance(value, Route)]


async def send_response(
    send: SendMessage, status: int, headers: Iterable[tuple[str, str]], body: bytes = b"", *, more: bool = False
) -> None:
    """Sends a response; if `more` is true, only the beginning of one, which the caller continues."""
    encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body, "more_body": more})


def _response(result: object, status: int) -> Response[bytes]:
    if isinstance(result, Response):
        return cast("Response[bytes]", result)
    if result is None:
        return Response(content=b"", status_code=status)
    if isinstance(result, Reply):
        reply = cast("Reply[Any]", result)
        return json_response(reply.view, reply.status, reply.headers)
    return json_response(result, status)


def json_response(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Response[bytes]:
    """Returns a JSON response."""
    return Response(content=msgspec.json.encode(value), status_code=status, media_type=JSON, headers=headers)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _paragraphs(text: str) -> str:
    """Returns a docstring's text with one line per paragraph."""
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))


def _model(returned: Any) -> type[Struct] | None:  # noqa: ANN401 - an annotation
    """Returns the Struct in a return type, which may be a Reply of it or a union with it; None if there is none."""
    if isinstance(returned, type) and issubclass(returned, Struct):
        return returned
    return next((model for each in get_args(returned) if (model := _model(each))), None)
