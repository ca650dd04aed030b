"""Takes payloads from LangChain's tool results, and puts cards in their place. Status, ID and name stay."""

import dataclasses
from collections.abc import Callable
from typing import Any, Final, TypeAlias, cast

from langchain_core.messages import ToolMessage
from langgraph.types import Command

from coatcheck_client import Receipt, is_card
from coatcheck_client.contract.json_values import is_among
from coatcheck_client.integrations.parts import text_of, with_card

ContentBlock: TypeAlias = str | dict[str, Any]
ResultPart: TypeAlias = ToolMessage | Command[Any]

_IMAGES: Final = frozenset({"image", "image_url", "input_image"})
"""Types of content blocks that are images, in the forms of several providers."""


def each(result: ResultPart, change: Callable[[ToolMessage], ToolMessage]) -> ResultPart:
    """Returns a result with every tool message in it changed; a command keeps everything else."""
    if isinstance(result, ToolMessage):
        return change(result)
    update: object = result.update
    if isinstance(update, dict):
        changed = cast("dict[str, Any]", update)
        if "messages" not in changed:
            return result
        return dataclasses.replace(result, update={**changed, "messages": _each_of(changed["messages"], change)})
    if isinstance(update, list | tuple):
        pairs = [
            (key, _each_of(value, change) if key == "messages" else value)
            for key, value in cast("list[tuple[str, Any]]", update)
        ]
        return dataclasses.replace(result, update=pairs)
    return result


def _each_of(messages: object, change: Callable[[ToolMessage], ToolMessage]) -> object:
    if isinstance(messages, ToolMessage):
        return change(messages)
    if not isinstance(messages, list):
        return messages
    return [change(one) if isinstance(one, ToolMessage) else one for one in cast("list[object]", messages)]


def payload(message: ToolMessage, least: int) -> str | list[dict[str, Any]] | None:
    """Returns the payload of a message: its texts, but not Coatcheck's own. None if they have at most `least` bytes."""
    content = cast("str | list[ContentBlock]", message.content)
    texts = [content] if isinstance(content, str) else [text for one in content if (text := text_of(one)) is not None]
    texts = [text for text in texts if not is_card(text)]
    if sum(len(text.encode("utf-8", "replace")) for text in texts) <= least:
        return None
    return content if isinstance(content, str) else [{"type": "text", "text": text} for text in texts]


def images(message: ToolMessage) -> list[dict[str, Any]]:
    """Returns the images whose bytes are in a message; images that are only a URL are left out."""
    content = cast("str | list[ContentBlock]", message.content)
    blocks: list[dict[str, Any]] = [] if isinstance(content, str) else [one for one in content if isinstance(one, dict)]
    return [one for one in blocks if is_among(one.get("type"), _IMAGES) and _has_bytes(one)]


def _has_bytes(block: dict[str, Any]) -> bool:
    """Returns whether an image's bytes are in the block: in a data URL, or in a member `base64` or `data`."""
    for name, value in block.items():
        inner: object = value
        if isinstance(inner, dict) and _has_bytes(cast("dict[str, Any]", inner)):
            return True
        if isinstance(inner, str) and (inner.startswith("data:") or name in {"base64", "data"}):
            return True
    return False


def replace_content(message: ToolMessage, receipt: Receipt | None, pictures: list[Receipt]) -> ToolMessage:
    """Returns the message with the receipt's text in place of its own; images stay.

    The message's `artifact`, which is not sent to the model, then names the stored artifacts, unless the tool has
    already set it.
    """
    update: dict[str, Any] = {}
    known: dict[str, Any] = {}
    if receipt is not None:
        content = cast("str | list[ContentBlock]", message.content)
        update["content"] = receipt.text if isinstance(content, str) else with_card(content, receipt.text)
        known = {"artifact_id": receipt.id or None, "stored": receipt.stored}
    if kept := [one.id for one in pictures if one.stored]:
        known["images"] = kept
    if known and message.artifact is None:
        update["artifact"] = known
    return message.model_copy(update=update) if update else message
