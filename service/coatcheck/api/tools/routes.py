"""The tools for models: how to declare them, and what a call of them answers."""

from typing import Annotated, Any, Final, Literal

from litestar import Response
from msgspec import Meta, Struct

from coatcheck.api.http.access import READ
from coatcheck.api.http.json_body import decode_aside
from coatcheck.api.http.limits import MIB
from coatcheck.api.route import JSON, JSON_BODY, Answer, Call, json_response, route
from coatcheck.api.tools.schemas import TOOL_SCHEMAS
from coatcheck.usecases.read_bounds import MAX_TOKENS

_BODY: Final = MIB
"""Bytes of a body with calls: no payload is in it."""
ToolFormat = Annotated[
    Literal["openai-chat", "openai-responses", "anthropic", "gemini", "mcp", "json-schema"],
    Meta(description="Whose declarations.", examples=["anthropic"]),
]
ResultFormat = Annotated[
    Literal["text", "openai-chat", "openai-responses", "anthropic", "gemini", "mcp"],
    Meta(description="What a result looks like; recognised by the call when it is not given.", examples=["anthropic"]),
]


class ToolsQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of `GET /v1/tools`."""

    format: ToolFormat = "json-schema"
    strict: Annotated[
        bool, Meta(description="The variant for strict mode, where the provider has one: every property required.")
    ] = False
    listing: Annotated[
        bool, Meta(description="With `list_artifacts`, which MCP always has. Each tool costs tokens in every request.")
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
                description="Most tokens of one answer (4,000), which has 30,000 characters at most.",
            ),
        ]
        | None
    ) = None


class ToolsView(Struct, frozen=True):
    """Tools as a provider wants them declared."""

    tools: Annotated[tuple[dict[str, Any], ...], Meta(description="Exactly what to put into the `tools` of a request.")]


@route("GET /v1/tools", scope=None, tag="Tools", answers={200: "The declarations."})
async def get_tools(call: Call, query: ToolsQuery) -> ToolsView:
    """Declare the tools.

    The declared tool, `read_artifact`, as each provider wants it. The same for every request and session of a
    deployment: it can stand in a cached prompt. Every call on a card is a valid call of it. MCP clients find the
    tools at `/mcp` (streamable HTTP) themselves.
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
async def call_tool(call: Call, query: ToolCallQuery) -> Response[bytes]:
    """Execute calls of the tools.

    Takes a name and arguments, or the call object of any provider as it came, alone or in a list (or the message that
    holds them), and answers text or that provider's result object, with the call's ID; `format` asks for another
    form. Arguments are taken as they were meant; what was ignored is said in the answer. Whatever a call asks for is
    answered with 200: a failure is a sentence for the model that names the next step, marked as an error where the
    form has a mark for it.
    """
    with call.context.budget.room() as room:
        body, _ = await decode_aside(await call.json_bytes(_BODY, room), object)
        results = await call.services.tools.answer(call.caller, body, query.format, query.max_tokens)
    return json_response(results)
