"""Converts LangChain's messages to a request body, and the compacted body back to messages.

A message that compaction did not change stays the same object. In a changed message, only the differing fields are
replaced, so classes, IDs, artifacts and data of a provider's package survive. Messages that cannot be represented as
JSON are not compacted.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, messages_from_dict

from coatcheck_client.contract.cards import is_final

Raw = dict[str, Any]

_LEAST: Final = {"argument_tokens": 500, "inline_tokens": 1_000}
"""The service's default limits, in tokens. A token has at least one byte: a text of fewer bytes is not replaced."""
_CHANGED: Final = frozenset({"ai", "tool", "AIMessageChunk", "ToolMessageChunk"})
"""Types of messages that compaction may change. A message of another type that was not sent is an added notice."""


def is_worth_asking(messages: Sequence[BaseMessage], policy: Mapping[str, Any]) -> bool:
    """Returns whether a compaction with this policy could change anything."""
    if policy.get("max_tokens") is not None or policy.get("media") == "placeholder":
        return True
    least = {name: int(policy.get(name, default)) for name, default in _LEAST.items()}
    return any(_is_large(message, least["argument_tokens"], least["inline_tokens"]) for message in messages)


def _is_large(message: BaseMessage, argument: int, inline: int) -> bool:
    content: object = message.content
    if isinstance(message, ToolMessage):
        return _weight(content) > inline
    if not isinstance(message, AIMessage):
        return False
    return _weight([message.tool_calls, message.invalid_tool_calls, message.additional_kwargs, content]) > argument


def _weight(value: object) -> int:
    """Returns the bytes of the texts in a value; a card counts as 0."""
    if isinstance(value, str):
        return 0 if is_final(value) else len(value.encode("utf-8", "replace"))
    if isinstance(value, Mapping):
        return sum(map(_weight, cast("Mapping[str, object]", value).values()))
    if isinstance(value, list | tuple):
        return sum(map(_weight, cast("Sequence[object]", value)))
    return 0


def raws(messages: Sequence[BaseMessage]) -> list[Raw]:
    """Returns messages as `messages_to_dict` writes them, without artifacts, which models do not get.

    Raises:
        Exception: whatever pydantic raises for a message that JSON cannot represent.
    """
    return [{"type": one.type, "data": one.model_dump(mode="json", exclude={"artifact"})} for one in messages]


def restored(given: Sequence[BaseMessage], sent: Sequence[Raw], got: Sequence[Raw]) -> list[BaseMessage]:
    """Returns the messages of a compacted body, in its order.

    Args:
        given: the messages that were compacted.
        sent: the same messages in the form in which they were sent to the service.
        got: the messages that the service returned: unchanged, changed, or an added notice; some may be missing.
    """
    at = 0
    messages: list[BaseMessage] = []
    for raw in got:
        found = _same(raw, sent, at)
        if found is None:
            messages += messages_from_dict([raw])
            continue
        messages.append(_changed(given[found], sent[found], raw))
        at = found + 1
    return messages


def _same(raw: Raw, sent: Sequence[Raw], start: int) -> int | None:
    """Returns the index, from `start` on, of the sent message that became this raw message; None if it is new."""
    for number in range(start, len(sent)):
        if sent[number] == raw:
            return number
    if raw["type"] not in _CHANGED:
        return None
    skeleton = _skeleton(raw)
    return next((number for number in range(start, len(sent)) if _skeleton(sent[number]) == skeleton), None)


def _skeleton(raw: Raw) -> tuple[object, ...]:
    """Returns the parts of a message that compaction never changes."""
    data: Raw = raw["data"]
    calls = [call.get("id") for call in data.get("tool_calls") or ()]
    return raw["type"], data.get("id"), data.get("name"), data.get("tool_call_id"), calls


def _changed(message: BaseMessage, sent: Raw, got: Raw) -> BaseMessage:
    before, after = cast("Raw", sent["data"]), cast("Raw", got["data"])
    update = {name: value for name, value in after.items() if before.get(name) != value}
    return message.model_copy(update=update) if update else message
