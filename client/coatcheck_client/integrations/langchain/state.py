"""Finds and replaces the message whose calls are being answered, in the agent's state.

A tool may answer while its agent's other tools are still running. All of them are done before any of their answers is
saved, so a message can be replaced with all its calls at once, by whichever of them answers.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.types import Command

from coatcheck_client.integrations.langchain.results import ResultPart


def caller(request: ToolCallRequest) -> AIMessage | None:
    """Returns the message that made a call; None if the state has none that can be replaced."""
    kept: object = request.state
    messages = cast("Mapping[str, Any]", kept).get("messages") if isinstance(kept, Mapping) else kept
    for message in reversed(cast("list[object]", messages if isinstance(messages, list) else [])):
        if isinstance(message, AIMessage) and any(one["id"] == request.tool_call["id"] for one in message.tool_calls):
            return message if message.id is not None else None
    return None


def answered(message: AIMessage) -> list[BaseMessage]:
    """Returns a conversation in which all calls of a message are done."""
    return [message, *(ToolMessage("done", tool_call_id=call["id"] or "") for call in message.tool_calls)]


def with_message(result: ResultPart, message: AIMessage) -> ResultPart:
    """Returns the result of a tool, with an update that replaces a message of the state.

    Failed calls and commands to another graph replace nothing: the model repairs the former, the latter has its own
    state.
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
