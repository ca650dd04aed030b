"""OpenAI Chat Completions and compatible servers: `messages` with roles, one message per tool result.

Also the legacy `function_call` of an assistant and its `function` message, which are paired by name. Images in tool
messages, names, and fields of servers' own are accepted too.
"""

from typing import Final

from coatcheck.core.context.body.encoding import Object, Value, as_list, as_object, as_text
from coatcheck.core.context.body.model import Format, HistoryCall, HistoryIndex, Item, Opaque, Role, add_item
from coatcheck.core.context.body.splice import Pointer, get
from coatcheck.core.context.formats.content import (
    index_messages,
    is_foreign,
    item_of,
    read_message,
    say,
    site_of,
    tool_message,
)
from coatcheck.core.text.long_text import is_text

_ROLES: Final = {
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "tool": Role.TOOL,
    "function": Role.TOOL,
}
_REASONING: Final = ("reasoning_content", "reasoning", "reasoning_details")
"""Fields of other vendors, some of which refuse a turn without them."""
_SPOKEN: Final = frozenset({"tool_calls", "function_call", "refusal", "audio", *_REASONING})
"""Fields of which a message of the model has at least one, if it has no content."""


def index(body: Value, list_at: Pointer) -> HistoryIndex:
    """Returns the index of a body with its messages at `list_at`."""
    history = index_messages(Format.OPENAI_CHAT, body, list_at, _item)
    functions = as_list(as_object(body).get("functions"))
    history.tools = [*history.tools, *functions] if functions else history.tools
    return history


def _item(at: Pointer, message: Object) -> Item:
    role = _ROLES.get(as_text(message.get("role")) or "", Role.OTHER)
    fits = "content" in message or (role is Role.ASSISTANT and not _SPOKEN.isdisjoint(message))
    if "type" in message or not fits or (role is not Role.TOOL and is_foreign(message.get("content"))):
        role = Role.OTHER
    item = item_of(at, role)
    if role is Role.TOOL:
        legacy = f"#function:{as_text(message.get('name'))}" if message.get("role") == "function" else None
        item.outputs = add_item(item.outputs, tool_message(at, message, legacy))
        return item
    read_message(item, (*at, "content"), message.get("content"))
    if role is Role.ASSISTANT:
        _assistant(item, at, message)
    return item


def _assistant(item: Item, at: Pointer, message: Object) -> None:
    refusal = as_text(message.get("refusal"))
    if refusal:
        say(item, (*at, "refusal"), refusal)
    for key in _REASONING:
        if message.get(key):
            text = message[key] if is_text(message[key]) else ""
            item.opaque = add_item(item.opaque, Opaque((*at, key), "reasoning", text=text))
    for number, call in enumerate(as_list(message.get("tool_calls"))):
        item.calls = add_item(item.calls, _call((*at, "tool_calls", number), as_object(call)))
    legacy = as_object(message.get("function_call"))
    if legacy:
        name = as_text(legacy.get("name"))
        sites = site_of((*at, "function_call", "arguments"), legacy.get("arguments"), "json")
        item.calls = add_item(
            item.calls, HistoryCall(at=(*at, "function_call"), keys=(f"#function:{name}",), name=name, sites=sites)
        )


def _call(at: Pointer, call: Object) -> HistoryCall:
    call_id = as_text(call.get("id"))
    custom = as_object(call.get("custom"))
    function = custom or as_object(call.get("function"))
    if custom:
        sites = site_of((*at, "custom", "input"), custom.get("input"), "text")
    else:
        copies = (("function", "arguments"), ("function", "args"), ("arguments",), ("args",))
        sites = [site for steps in copies for site in site_of((*at, *steps), get(call, steps), "json")]
    return HistoryCall(
        at=at,
        call_id=call_id,
        name=as_text(function.get("name")) or as_text(call.get("name")),
        sites=sites,
    )
