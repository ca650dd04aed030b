"""Finds and replaces, in the agent's state, the message whose calls are being answered.

One message may call several tools, and a tool may answer while the others still run. Their answers are saved only when
all tools are done, so the answer of any of them can replace the message with all its calls.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.types import Command

from coatcheck_client.integrations.langchain.results import ResultPart


def caller(request: ToolCallRequest) -> AIMessage | None:
    """Returns the message that made a call; None if the state lacks it, or if it has no ID to replace it by."""
    kept: object = request.state
    messages = cast("Mapping[str, Any]", kept).get("messages") if isinstance(kept, Mapping) else kept
    for message in reversed(cast("list[object]", messages if isinstance(messages, list) else [])):
        if isinstance(message, AIMessage) and any(one["id"] == request.tool_call["id"] for one in message.tool_calls):
            return message if message.id is not None else None
    return None


def answered(message: AIMessage) -> list[BaseMessage]:
    """Returns a message followed by a placeholder result for each of its calls."""
    return [message, *(ToolMessage("done", tool_call_id=call["id"] or "") for call in message.tool_calls)]


def with_message(result: ResultPart, message: AIMessage) -> ResultPart:
    """Returns the result of a tool, with an added update that replaces a message in the state.

    A failed call replaces nothing, because the model needs its arguments to repair it. A command to another graph
    replaces nothing either, because that graph has a state of its own.
    """
    if isinstance(result, ToolMessage):
        return result if result.status == "error" else Command(update={"messages": [result, message]})
    update: object = result.update
    if result.graph is not None or not (update is None or isinstance(update, dict | list)):
        return result
    if isinstance(update, list):
        return dataclasses.replace(result, update=[*cast("list[object]", update), ("messages", [message])])
    changed = cast("dict[str, Any]", update or {})
    messages: object = changed.get("messages", [])
    many = cast("list[object]", messages) if isinstance(messages, list) else [messages]
    return dataclasses.replace(result, update={**changed, "messages": [*many, message]})
