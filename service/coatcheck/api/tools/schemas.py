"""Schemas of tool calls and their results in the OpenAPI document. Values only.

They are open: providers add members to their objects, and calls are accepted with all of them.
"""

from typing import Any, Final

from coatcheck.core.ids import EXAMPLE_ID

Node = dict[str, Any]
_REF: Final = "#/components/schemas/"
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
