"""Routes of the tools for models: their declarations and their calls."""

from typing import Annotated, Any, Final, Literal

from litestar import Response
from msgspec import Meta, Struct

from coatcheck.api.http.access import READ
from coatcheck.api.http.json_body import decode_aside
from coatcheck.api.http.limits import MIB
from coatcheck.api.route import JSON, JSON_BODY, Answer, RouteCall, json_response, route
from coatcheck.api.tools.schemas import TOOL_SCHEMAS
from coatcheck.core.reads.read_bounds import MAX_TOKENS

_BODY: Final = MIB
"""Maximum bytes of a body with calls, which contains no payload."""
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

    Returns the declared tool, `read_artifact`, in the form each provider expects. It is the same for every request and
    session of a deployment, so it can be part of a cached prompt. Every call printed on a card is a valid call of it.
    MCP clients discover the tools themselves at `/mcp` (streamable HTTP).
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
