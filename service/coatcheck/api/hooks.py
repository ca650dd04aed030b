"""Routes for hooks of agent hosts: they take the event after a tool call, and return the output for the model."""

from typing import Annotated, Any, ClassVar, Final

import msgspec
from litestar import Response
from msgspec import UNSET, Meta, Struct, UnsetType

from coatcheck.api.http.access import INGEST
from coatcheck.api.http.json_body import decode_aside
from coatcheck.api.http.request_parts import require_json
from coatcheck.api.parameters import CardTokens, InlineTokens, LabelList, Ttl, seconds_or_unset
from coatcheck.api.route import BODY, JSON, RouteCall, route
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.metadata_bounds import adjust_metadata
from coatcheck.usecases.context.answer_hook import HookRequest, answer_hook

_UNTAKEN: Final = frozenset({Code.BODY_TOO_LARGE, Code.OVERLOADED, Code.INVALID_CONTENT})
"""Errors for a valid event whose output cannot be stored. The host then keeps the original output."""


class HookQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of a hook's address."""

    card_tokens: CardTokens | None = None
    inline_tokens: InlineTokens | None = None
    labels: LabelList = ()
    """Labels of everything that the hook stores."""
    ttl: Ttl | UnsetType = UNSET


class ClaudeCodeEvent(Struct, kw_only=True):
    """The members of a PostToolUse event that are used; others that a host sends are ignored."""

    EXAMPLES: ClassVar = [
        {"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_response": {"stdout": "exit code 1"}}
    ]

    hook_event_name: Annotated[str, Meta(examples=["PostToolUse"])]
    tool_name: Annotated[str, Meta(examples=["Bash"])]
    tool_response: Any
    tool_input: Any = None
    session_id: str | None = None
    tool_use_id: str | None = None


class HookOutput(Struct, kw_only=True, rename="camel", omit_defaults=True):
    """What replaces the tool's output."""

    hook_event_name: Annotated[str, Meta(examples=["PostToolUse"])]
    updated_tool_output: Annotated[Any, Meta(description="The response with cards, in the tool's own shape.")]
    updated_mcp_tool_output: Annotated[
        Any | UnsetType,
        Meta(description="`updatedToolOutput` of an MCP tool, under the name that earlier releases use."),
    ] = UNSET


class HookAnswer(Struct, kw_only=True, rename="camel", omit_defaults=True):
    """A hook's output; an empty object changes nothing."""

    hook_specific_output: HookOutput | UnsetType = UNSET


@route(
    "POST /v1/hooks/claude-code",
    scope=INGEST,
    tag="Hooks",
    body={JSON: ClaudeCodeEvent},
    answers={200: "The hook's output."},
    problems=(*BODY, Code.INVALID_JSON),
)
async def answer_claude_code_hook(call: RouteCall, query: HookQuery) -> HookAnswer | Response[bytes]:
    """Replace a tool's output with a card for Claude Code.

    The address for a PostToolUse hook of type `http`. Takes the event as the host sends it, stores the bulky texts of
    `tool_response`, and returns `updatedToolOutput`: the same response, in the tool's own shape, with cards in place of
    texts. It replaces texts of MCP tools and agents, `stdout` and `stderr` of shells, `content` of Grep and `result` of
    WebFetch. Results of WebSearch, and of MCP tools that search the web, become the search's summary with its sources.
    It does not change files that were read or written, images, answers of `read_artifact`, or output that the host has
    cut and keeps in a file itself, since the hook sees only its beginning.

    If storing fails or takes longer than 5 seconds, the answer is 200 with `{}`, and nothing changes; only a text that
    the policy refuses because of a secret in it is replaced by a sentence. Every other event gets `{}` too.
    """
    request = HookRequest(
        card_tokens=query.card_tokens,
        inline_tokens=query.inline_tokens,
        labels=adjust_metadata({"labels": query.labels})[0]["labels"],
        ttl=seconds_or_unset(query.ttl, "ttl"),
    )
    require_json(call.scope)
    # An empty object leaves the tool's output unchanged. It is the answer if the output cannot be stored.
    answer = b"{}"
    try:
        with call.context.budget.reserve() as reservation:
            data = await call.whole_body(call.limits.json_body, reservation)
            event, _ = await decode_aside(data, object)
            output = await answer_hook(
                call.services.ingest, call.caller, event, request, searches=call.services.search_results
            )
            answer = _encode_output(output)
    except CoatcheckError as e:
        if e.code not in _UNTAKEN:
            raise
        call.context.log.log_failure(e, call.scope["state"]["request_id"], call.scope["path"])
    return Response(content=answer, media_type=JSON)


def _encode_output(output: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(output)
    except RecursionError as e:  # the thread that decoded the value had more of its stack left than this one has
        raise CoatcheckError(Code.INVALID_CONTENT, "The response is nested too deeply.") from e
