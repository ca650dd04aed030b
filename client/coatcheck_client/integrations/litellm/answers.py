"""Extracts the text of a final answer, and the texts that its model was shown before. Pure functions."""

# ruff: noqa: ANN401 - LiteLLM's answers are of many types
# pyright: basic

from typing import Any, Final

from coatcheck_client.citations import texts
from coatcheck_client.contract.json_values import is_among
from coatcheck_client.integrations.litellm.messages import is_models
from coatcheck_client.integrations.litellm.usage import plain

_CALLS: Final = frozenset({"function_call", "custom_tool_call", "tool_use"})
"""Types of items and blocks that are calls of the client's tools."""
_FOUND: Final = ("_result", "_citation", "_location", "search_call")
"""Endings of the types of blocks and items with which a provider's own tools add to the model's messages."""


def answer_text(response: Any) -> str:
    """Returns the text of a final answer in any format; empty if the model calls tools, or if it is no answer."""
    if not isinstance(response, dict) and not hasattr(response, "model_dump"):
        return ""
    whole, message_texts = plain(response), []
    choices = [one.get("message") or {} for one in whole.get("choices") or ()]
    for message in (*choices, *(whole.get("output") or ()), whole):
        content = message.get("content")
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        if message.get("tool_calls") or any(is_among(one.get("type"), _CALLS) for one in (message, *blocks)):
            return ""
        message_texts.append(
            "".join(one.get("text") or "" for one in blocks if is_among(one.get("type"), {"text", "output_text"}))
        )
    return "\n\n".join(filter(None, message_texts))


def shown_texts(value: Any) -> list[str]:
    """Returns the texts in messages that came from tools, from the provider's own tools, or from people."""
    if isinstance(value, list | tuple):
        return [text for one in value for text in shown_texts(one)]
    return _found(value) if isinstance(value, dict) and is_models(value) else texts(value)


def found_texts(response: Any) -> list[str]:
    """Returns what the provider's own tools found for an answer."""
    return _found(plain(response))


def _found(value: Any) -> list[str]:
    if isinstance(value, dict):
        if str(value.get("type") or "").endswith(_FOUND):
            return texts(value)
        value = list(value.values())
    return [text for one in value for text in _found(one)] if isinstance(value, list) else []
