"""Examines a request in any format: finds cards, results, and the author of a message. Pure functions."""

# pyright: basic

from collections.abc import Mapping
from typing import Any, Final

from coatcheck_client.citations import texts
from coatcheck_client.contract.cards import is_card
from coatcheck_client.contract.searches import payload_text

Raw = dict[str, Any]

_LEAST: Final = 500
"""The lowest of the service's default limits, in tokens. A token has at least one byte. A policy with higher limits
changes nothing here, since searches and reads are replaced whatever the limits are."""


def has_card(messages: list[Raw]) -> bool:
    """Returns whether a request contains a card, or an answer of `read_artifact`."""
    return any(is_card(text) for message in messages if _is_result(message) for text in texts(message))


def with_results(messages: list[Raw], changed: Mapping[str, str]) -> list[Raw]:
    """Returns the messages with changed results; `changed` has the new texts, by the IDs of their calls."""

    def result(holder: Raw) -> Raw:
        text = changed.get(_call_of(holder) or "")
        return holder if text is None else {**holder, _member(holder): text}

    def message(one: Raw) -> Raw:
        content = one.get("content")
        blocks = [result(b) if isinstance(b, dict) else b for b in content] if isinstance(content, list) else content
        return result({**one, "content": blocks} if blocks != content else one)

    return [message(one) for one in messages]


def results_of(messages: list[Raw]) -> list[tuple[str, str]]:
    """Returns the text of each result in a request, with the ID of its call."""
    found: list[tuple[str, str]] = []
    for one in messages:
        content = one.get("content")
        for holder in (one, *(content if isinstance(content, list) else ())):
            if isinstance(holder, dict) and (call := _call_of(holder)) is not None:
                text = payload_text(holder[_member(holder)])
                if text:
                    found.append((call, text))
    return found


def _call_of(holder: Raw) -> str | None:
    """Returns the ID of the call that a message, a block or an item is the result of; None if it is no result."""
    if not _kinds({**holder, "content": None}, "tool", "tool_result", "_output") or _member(holder) not in holder:
        return None
    ids = (holder.get(name) for name in ("tool_call_id", "tool_use_id", "call_id"))
    return next((call for call in ids if call and isinstance(call, str)), None)


def _member(holder: Raw) -> str:
    return "output" if "output" in holder else "content"


def is_worth_asking(messages: list[Raw], policy: Mapping[str, Any]) -> bool:
    """Returns whether a compaction with this policy could change anything.

    It can if the policy limits the whole request or replaces images, or if a call or a result is longer than a limit.
    """
    if policy.get("max_tokens") is not None or policy.get("media") == "placeholder":
        return True
    least = min(_LEAST, *(int(policy.get(name, _LEAST)) for name in ("argument_tokens", "inline_tokens")))
    weights = (
        sum(len(text.encode("utf-8", "replace")) for text in texts(one)) for one in messages if _is_of_tools(one)
    )
    return any(weight > least for weight in weights)


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
    """Returns whether the model wrote a message or an item."""
    kind = str(message.get("type") or "")
    return message.get("role") == "assistant" or kind == "reasoning" or kind.endswith("_call")
