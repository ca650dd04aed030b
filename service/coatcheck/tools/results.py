"""Answers in each provider's form of a tool result.

Text only: a second, structured copy would be paid for twice.
"""

from typing import Any

from coatcheck.tools.answers import ToolAnswer
from coatcheck.tools.calls import Call, Form

Node = dict[str, Any]


def result(call: Call, got: ToolAnswer, form: Form) -> Node:
    """Returns the result object, with the call's ID."""
    match form:
        case "openai-chat":
            return {"role": "tool", "tool_call_id": call.id or "", "content": got.text}
        case "openai-responses":
            return {"type": "function_call_output", "call_id": call.id or "", "output": got.text}
        case "anthropic":
            return {
                "type": "tool_result",
                "tool_use_id": call.id or "",
                "content": got.text,
                "is_error": got.is_error,
            }
        case "gemini":
            return _gemini_result(call, got)
        case "mcp":
            return _mcp(call, got)
        case "text":
            id_member: Node = {} if call.id is None else {"id": call.id}
            return {**id_member, "text": got.text, "tokens": got.tokens, "is_error": got.is_error}


def _gemini_result(call: Call, got: ToolAnswer) -> Node:
    """Returns Gemini's form; `output` and `error` are the keys that the API itself knows."""
    inner: Node = {} if call.id is None else {"id": call.id}
    inner |= {"name": call.name, "response": {"error" if got.is_error else "output": got.text}}
    return {"function_response" if call.snake else "functionResponse": inner}


def _mcp(call: Call, got: ToolAnswer) -> Node:
    plain: Node = {"content": [{"type": "text", "text": got.text}], "isError": got.is_error}
    return {"jsonrpc": "2.0", "id": call.rpc_id, "result": plain} if call.rpc else plain
