"""Anthropic Messages: calls and their results are blocks of messages, all results of a turn in one user message.

Thinking is bound to everything before it. Blocks of server tools are in the assistant's own message; only their plain
text can ever be replaced, never ciphertext.
"""

from typing import Final

from coatcheck.core.context.body.encoding import Object, Value, as_object, as_text, kind_of
from coatcheck.core.context.body.model import Format, HistoryCall, HistoryIndex, Item, Opaque, Output, Role, add_item
from coatcheck.core.context.body.splice import Pointer
from coatcheck.core.context.formats.content import (
    index_messages,
    is_untyped,
    item_of,
    parts,
    read_content_part,
    read_output,
    read_reasoning,
    show,
    site_of,
    tell_prompt,
)
from coatcheck.core.text.long_text import is_text

_ROLES: Final = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM}
_THINKING: Final = frozenset({"thinking", "redacted_thinking"})
_CALLS: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_FOREIGN: Final = frozenset({"type", "tool_calls", "tool_call_id", "function_call"})
"""Fields with which other formats keep their calls and outputs."""


def index(body: Value, list_at: Pointer) -> HistoryIndex:
    """Returns the index of a body with its messages at `list_at`."""
    return index_messages(Format.ANTHROPIC, body, list_at, _item, as_object(body).get("system"))


def _item(at: Pointer, message: Object) -> Item:
    role = _ROLES.get(str(message.get("role")), Role.OTHER)
    fits = "content" in message and _FOREIGN.isdisjoint(message) and not is_untyped(message["content"])
    item = item_of(at, role if fits else Role.OTHER)
    for place, part in parts((*at, "content"), message.get("content")):
        read_block(item, place, part)
    if role is Role.USER:
        tell_prompt(item)
    return item


def read_block(item: Item, at: Pointer, part: Value) -> None:
    """Adds one block of a message to its item."""
    block = as_object(part)
    kind = kind_of(block) or ""
    if kind in _CALLS:
        item.calls = add_item(item.calls, _call(at, block, kind))
    elif kind in _THINKING:
        item.opaque = add_item(item.opaque, read_reasoning(at, block, "thinking"))
    elif kind == "compaction":
        item.opaque = add_item(item.opaque, Opaque(at, "compaction", text=as_text(block.get("content")) or ""))
        item.pinned = True
    elif kind.endswith("tool_result"):
        item.outputs = add_item(item.outputs, _output(at, block, kind))
    else:
        read_content_part(item, at, part)


def _call(at: Pointer, block: Object, kind: str) -> HistoryCall:
    call_id = as_text(block.get("id"))
    return HistoryCall(
        at=at,
        call_id=call_id,
        name=as_text(block.get("name")),
        sites=site_of((*at, "input"), block.get("input"), "json"),
        server=kind != "tool_use",
    )


def _output(at: Pointer, block: Object, kind: str) -> Output:
    call_id = as_text(block.get("tool_use_id"))
    output = Output(
        at=at,
        call_id=call_id,
        failed=block.get("is_error") is True,
        server=kind != "tool_result",
    )
    content = block.get("content")
    if kind in {"tool_result", "mcp_tool_result"}:
        read_output(output, (*at, "content"), content)
        return output
    source = as_object(as_object(as_object(content).get("content")).get("source"))
    if kind == "web_fetch_tool_result" and source.get("type") == "text" and is_text(source.get("data")):
        place = (*at, "content", "content", "source", "data")
        show(output, place, source["data"])
    else:
        output.data = add_item(output.data, content)
    return output
