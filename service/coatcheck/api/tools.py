"""The tools for models over HTTP: their declarations, their calls in any provider's form, and MCP at /mcp.

The schemas of calls allow any members, because providers add members to their objects.

MCP is served as streamable HTTP by the official SDK, without sessions and with JSON answers. The package `tools` has
the MCP server; this module adds the transport. The origin guard checks hosts and origins, as for every route. The SDK's
own check is off, because two lists of allowed hosts would drift apart. Only POST is served: without sessions, there is
nothing to open or to end. An error that occurs before the SDK is called is answered as a JSON-RPC error.

The SDK is imported in a thread when the first client connects. The import takes a second of CPU time, which a service
without MCP clients should not spend. The SDK is an extra, `coatcheck[mcp]`, because agent frameworks in the same
environment may need another version of it. If it is missing, every answer says how to install it.
"""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
from litestar import Response
from litestar.types import HTTPReceiveMessage, HTTPScope, Method, Receive, Send, WebSocketReceiveMessage
from msgspec import Meta, Struct

from coatcheck.api.http.access import READ
from coatcheck.api.http.body import body_too_large, content_length
from coatcheck.api.http.json_body import decode_aside
from coatcheck.api.http.limits import MIB
from coatcheck.api.http.problems import Problem, members
from coatcheck.api.http.request_parts import caller, require_json
from coatcheck.api.mcp_sdk import MISSING, is_installed
from coatcheck.api.route import JSON, JSON_BODY, Answer, RouteCall, json_response, route
from coatcheck.api.services import Tools
from coatcheck.core.errors import CoatcheckError, Code, invalid_request
from coatcheck.core.ids import EXAMPLE_ID
from coatcheck.core.read_answer import MAX_TOKENS

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

Node = dict[str, Any]
_REF: Final = "#/components/schemas/"
"""Prefix of references between schemas."""
_ARGUMENTS: Final[Node] = {"artifact_id": EXAMPLE_ID, "pattern": "moon|sun"}

_CALL: Final[Node] = {
    "description": (
        "A name with arguments; OpenAI's tool call or function_call item, Anthropic's tool_use, Gemini's functionCall, "
        "the params of MCP's tools/call or the whole JSON-RPC request; or a message of a provider that holds calls."
    ),
    "type": "object",
    "examples": [
        {"name": "read_artifact", "arguments": _ARGUMENTS},
        {"type": "tool_use", "id": "toolu_1", "name": "read_artifact", "input": _ARGUMENTS},
    ],
}
_RESULT: Final[Node] = {
    "description": (
        "`text`, `tokens`, `is_error` and the call's `id` where it had one; or OpenAI's tool message or "
        "function_call_output item, Anthropic's tool_result, Gemini's functionResponse, MCP's CallToolResult."
    ),
    "type": "object",
    "examples": [{"text": f"[{EXAMPLE_ID} \u00b7 search_results \u00b7 \u2026", "tokens": 412, "is_error": False}],
}

TOOL_SCHEMAS: Final[dict[str, Node]] = {
    "ToolCall": {
        "description": "A call, or up to 32.",
        "anyOf": [{"$ref": _REF + "OneToolCall"}, {"type": "array", "items": {"$ref": _REF + "OneToolCall"}}],
    },
    "OneToolCall": _CALL,
    "ToolResult": {
        "description": "A result for a call, a list of them for a list of calls.",
        "anyOf": [{"$ref": _REF + "OneToolResult"}, {"type": "array", "items": {"$ref": _REF + "OneToolResult"}}],
    },
    "OneToolResult": _RESULT,
}
"""Schemas by name, to which the body and the answer of `call_tool` refer."""


_BODY: Final = MIB
"""Maximum bytes of a body with tool calls, which contains no payload."""
ToolFormat = Annotated[
    Literal["openai-chat", "openai-responses", "anthropic", "gemini", "mcp", "json-schema"],
    Meta(description="The provider's form of the declarations.", examples=["anthropic"]),
]
ResultFormat = Annotated[
    Literal["text", "openai-chat", "openai-responses", "anthropic", "gemini", "mcp"],
    Meta(description="The form of a result. Default: recognised by the call.", examples=["anthropic"]),
]


class ToolsQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of `GET /v1/tools`."""

    format: ToolFormat = "json-schema"
    strict: Annotated[
        bool, Meta(description="The variant for strict mode, if the provider has one: every property is required.")
    ] = False
    listing: Annotated[
        bool, Meta(description="Adds `list_artifacts`, which MCP always has. Each tool costs tokens in every request.")
    ] = False


class ToolCallQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of `POST /v1/tools/call`."""

    format: ResultFormat | None = None
    max_tokens: (
        Annotated[
            int,
            Meta(
                ge=800,
                le=MAX_TOKENS,
                description="Maximum tokens of one answer. Default: 4,000. At most 30,000 characters in any case.",
            ),
        ]
        | None
    ) = None


class ToolsView(Struct, frozen=True):
    """Tools, declared in a provider's format."""

    tools: Annotated[tuple[dict[str, Any], ...], Meta(description="Exactly what to put into the `tools` of a request.")]


@route("GET /v1/tools", scope=None, tag="Tools", answers={200: "The declarations."})
async def get_tools(call: RouteCall, query: ToolsQuery) -> ToolsView:
    """Declare the tools.

    Returns the declaration of the tool `read_artifact` in the form that a provider expects; with `listing`, of
    `list_artifacts` as well. A declaration is the same for every request and session of a deployment, so it can be part
    of a cached prompt. Every call printed on a card is a valid call of `read_artifact`. MCP clients discover the tools
    themselves at `/mcp` (streamable HTTP).
    """
    declared = call.services.tools.declare(query.format, strict=query.strict, listing=query.listing)
    return ToolsView(tuple(declared))


@route(
    "POST /v1/tools/call",
    scope=READ,
    tag="Tools",
    body={JSON: "ToolCall"},
    schemas=TOOL_SCHEMAS,
    answers={200: Answer("The results, in the order of the calls.", schema="ToolResult")},
    problems=JSON_BODY,
)
async def call_tool(call: RouteCall, query: ToolCallQuery) -> Response[bytes]:
    """Execute tool calls.

    Takes a name and arguments, or the call object of any provider as it was sent, alone or in a list (or the message
    that contains them), and returns text or that provider's result object, with the call's ID; `format` selects another
    form. Arguments are read leniently; the answer says which were ignored. Every call is answered with 200: a failure
    is a sentence for the model that names the next step, marked as an error if the form has such a mark.
    """
    with call.context.budget.reserve() as reservation:
        body, _ = await decode_aside(await call.json_bytes(_BODY, reservation), object)
        results = await call.services.tools.answer(call.caller, body, query.format, query.max_tokens)
    return json_response(results)


PATH: Final = "/mcp"
"""Path at which MCP is served."""
SCOPE: Final = READ
"""Scope that a key needs for MCP."""
METHODS: Final[frozenset[Method]] = frozenset({"POST", "OPTIONS"})
"""Methods of PATH. GET would open a stream and DELETE would end a session, but there are no streams or sessions."""
_MAX_LEADING_SPACE: Final = 4 * 1024
"""Maximum bytes of white space before a message that are read in order to detect a batch."""
_INVALID_REQUEST: Final = -32600
"""Code of an invalid request (JSON-RPC 2.0, section 5.1)."""
_INTERNAL_ERROR: Final = -32603
"""Code of an internal error (JSON-RPC 2.0, section 5.1)."""
_FIRST_SERVER_ERROR: Final = 500
"""The first status of a server's error (RFC 9110 section 15.6)."""


class Mount:
    """The MCP endpoint of one application. `open` and `close` are called when the application starts and ends."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._open = False
        """Whether requests are served, which is so between the application's start and its end."""
        self._stop = asyncio.Event()
        self._manager_task: asyncio.Task[None] | None = None
        """The task that runs the SDK's manager; None until the first client connects."""
        self._ready: asyncio.Future[StreamableHTTPSessionManager] | None = None
        """Gets the manager once it runs, or the error of its start; None until the first client connects."""
        self._installed = is_installed()

    async def open(self) -> None:
        """Begins to serve requests."""
        self._open = True
        self._stop = asyncio.Event()

    async def close(self) -> None:
        """Stops serving requests, and waits until the SDK's manager has ended."""
        self._open = False
        self._stop.set()
        task, self._manager_task = self._manager_task, None
        if task is not None:
            await task

    def check(self, scope: HTTPScope) -> None:
        """Refuses requests that cannot be served, whoever sends them.

        Raises:
            CoatcheckError: `method_not_allowed` for any method but POST; `route_not_found` if the SDK is missing.
        """
        if not self._installed:
            raise CoatcheckError(
                Code.ROUTE_NOT_FOUND,
                f"{MISSING} Without it the same tools are at /v1/tools and /v1/tools/call.",
            )
        if scope["method"] != "POST":
            raise CoatcheckError(Code.METHOD_NOT_ALLOWED, "MCP is served without sessions: POST every message.")

    async def serve(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        """Serves a request.

        Raises:
            CoatcheckError: `unsupported_media_type`, `body_too_large`; `invalid_request` for a batch; `overloaded`
                while the application starts or ends.
        """
        if not self._open:
            raise CoatcheckError(Code.OVERLOADED, "The service is starting or stopping. Retry the same call.")
        require_json(scope)
        # The SDK has the same limit, but its answer would not be a problem like all others.
        length = content_length(scope)
        if length is not None and length > _BODY:
            raise body_too_large(_BODY)
        receive = await _refuse_batch(receive)
        manager = await self._manager()
        await manager.handle_request(scope, receive, send)  # pyright: ignore[reportArgumentType] - the same ASGI

    async def _manager(self) -> "StreamableHTTPSessionManager":
        # If the start has failed, the next client repeats it, except while the application ends.
        if self._manager_task is None or (self._manager_task.done() and not self._stop.is_set()):
            self._ready = asyncio.get_running_loop().create_future()
            self._manager_task = asyncio.create_task(self._run_manager(self._ready))
        assert self._ready is not None  # noqa: S101 - made with the task
        # A client that leaves must not cancel the start, for which other clients may wait.
        return await asyncio.shield(self._ready)

    async def _run_manager(self, ready: "asyncio.Future[StreamableHTTPSessionManager]") -> None:
        """Runs the SDK's manager until the application ends. The same task must start and end the manager."""
        try:
            manager = await asyncio.to_thread(_build, self._tools)
            async with manager.run():
                ready.set_result(manager)
                await self._stop.wait()
        except Exception as error:
            # An error of the start goes to the clients that wait for it. A later error goes to the application.
            if ready.done():
                raise
            ready.set_exception(error)


async def _refuse_batch(receive: Receive) -> Receive:
    """Refuses a batch; for any other body, returns a `receive` that yields the body from its beginning.

    The SDK refuses batches as well, but its error does not say why.

    Raises:
        CoatcheckError: `invalid_request` for a batch.
    """
    messages: list[HTTPReceiveMessage | WebSocketReceiveMessage] = []
    start, more = b"", True
    # White space may precede the message. Read only as much as is needed to see how the message begins.
    while more and not start.strip() and len(start) < _MAX_LEADING_SPACE:
        message = await receive()
        messages.append(message)
        more = message["type"] == "http.request" and message["more_body"]
        start += message["body"] if message["type"] == "http.request" else b""
    if start.lstrip().startswith(b"["):
        raise invalid_request("Batches are not accepted: POST each message separately, as one JSON-RPC object.")

    async def again() -> HTTPReceiveMessage | WebSocketReceiveMessage:
        # First yield the messages that were read for the check.
        return messages.pop(0) if messages else await receive()

    return again


def _build(tools: Tools) -> "StreamableHTTPSessionManager":
    """Returns a new manager with a new MCP server. Neither of the two can be run twice."""
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager  # noqa: PLC0415 - see above
    from mcp.server.transport_security import TransportSecuritySettings  # noqa: PLC0415 - see above

    return StreamableHTTPSessionManager(
        tools.mcp(caller),
        json_response=True,
        stateless=True,
        security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        max_request_body_size=_BODY,
    )


def json_rpc(error: CoatcheckError, problem: Problem, request_id: str) -> Problem:
    """Returns a problem in the form that MCP clients expect: its body is a JSON-RPC error without an ID."""
    code = _INTERNAL_ERROR if problem.status >= _FIRST_SERVER_ERROR else _INVALID_REQUEST
    body: dict[str, Any] = {"code": code, "message": error.detail, "data": members(error, request_id)}
    headers = [(name, "application/json" if name == "content-type" else value) for name, value in problem.headers]
    return Problem(problem.status, headers, msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": body}))
