"""Examines a request of any format: cards, texts, the author of a message. Pure."""

# pyright: basic

from typing import Any, Final

from coatcheck_client.contract.cards import is_card

Raw = dict[str, Any]

_LEAST_ARGUMENTS: Final = 500
"""The service's limit for arguments of calls, in tokens; each has at least one byte."""


def has_card(messages: list[Raw]) -> bool:
    """Returns whether a request contains a card, or an answer of `read_artifact`."""
    return any(is_card(text) for message in messages if _is_result(message) for text in texts(message))


def is_worth_asking(messages: list[Raw], least: int) -> bool:
    """Returns whether compaction could change anything: calls or results with more bytes than a card saves."""
    weights = (
        sum(len(text.encode("utf-8", "replace")) for text in texts(one)) for one in messages if _is_of_tools(one)
    )
    return any(weight > min(least, _LEAST_ARGUMENTS) for weight in weights)


def texts(value: object) -> list[str]:
    """Returns all texts in a message, except where caches begin."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for name, one in value.items() if name != "cache_control" for text in texts(one)]
    return [text for one in value for text in texts(one)] if isinstance(value, list) else []


def _is_result(message: Raw) -> bool:
    return _kinds(message, "tool", "tool_result", "_output")


def _is_of_tools(message: Raw) -> bool:
    return bool(message.get("tool_calls")) or _is_result(message) or _kinds(message, "tool_use", "_call")


def _kinds(message: Raw, *ends: str) -> bool:
    content = message.get("content")
    blocks = [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []
    kinds = [message.get("role"), message.get("type"), *(one.get("type") for one in blocks)]
    return any(isinstance(kind, str) and kind.endswith(ends) for kind in kinds)


def is_models(message: Raw) -> bool:
    """Returns whether a message, or an item, is the model's."""
    kind = str(message.get("type") or "")
    return message.get("role") == "assistant" or kind == "reasoning" or kind.endswith("_call")
