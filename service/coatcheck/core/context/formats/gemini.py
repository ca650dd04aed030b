"""Gemini generateContent: `contents` with roles and parts, in the casing of REST or of Python's dumps.

Calls and responses may each lack an ID (responses that the SDK makes have none): then they are paired by name, in
order. A response is an object: a card can replace its values, each under its own key, or all of it as `{"output":
card}` (`{"error": card}` if it failed).
"""

from typing import Final

from coatcheck.core.context.body.encoding import Object, Value, as_list, as_object, as_text, kind_of
from coatcheck.core.context.body.model import Format, HistoryCall, HistoryIndex, Item, Opaque, Output, Role, add_item
from coatcheck.core.context.body.splice import Pointer
from coatcheck.core.context.formats.content import (
    index_messages,
    item_of,
    media,
    read_content_part,
    read_values,
    site_of,
    tell_prompt,
)

_ROLES: Final = {"model": Role.ASSISTANT, "user": Role.USER, "function": Role.TOOL, "tool": Role.TOOL}


def index(body: Value, list_at: Pointer) -> HistoryIndex:
    """Returns the index of a body with its contents at `list_at`."""
    around = as_object(body)
    around = {**as_object(around.get("config")), **around}
    history = index_messages(
        Format.GEMINI, body, list_at, _item, around.get("systemInstruction", around.get("system_instruction"))
    )
    history.tools = as_list(around.get("tools"))
    return history


def is_message(content: Object) -> bool:
    """Returns whether this is one of Gemini's contents, whose parts have no type."""
    untyped = all(kind_of(as_object(part)) is None for part in as_list(content.get("parts")))
    return isinstance(content.get("parts"), list) and untyped and content.keys().isdisjoint({"content", "kind"})


def _item(at: Pointer, content: Object) -> Item:
    role_name = content.get("role")
    role = _ROLES.get(role_name, Role.OTHER) if isinstance(role_name, str) else Role.USER
    role = role if is_message(content) else Role.OTHER
    item = item_of(at, role)
    for number, part in enumerate(as_list(content.get("parts"))):
        _part(item, (*at, "parts", number), as_object(part))
    if role is Role.USER:
        tell_prompt(item)
    return item


def _part(item: Item, at: Pointer, part: Object) -> None:
    for key in ("thoughtSignature", "thought_signature"):
        if part.get(key):
            item.opaque = add_item(item.opaque, Opaque((*at, key), "signature"))
    for key in ("functionCall", "function_call"):
        if isinstance(part.get(key), dict):
            item.calls = add_item(item.calls, _call((*at, key), as_object(part[key])))
            return
    for key in ("functionResponse", "function_response"):
        if isinstance(part.get(key), dict):
            item.outputs = add_item(item.outputs, _output((*at, key), as_object(part[key])))
            return
    if "toolCall" in part or "tool_call" in part or "toolResponse" in part or "tool_response" in part:
        item.opaque = add_item(item.opaque, Opaque(at, "reasoning"))
        item.data = add_item(item.data, part)
        return
    read_content_part(item, at, {key: value for key, value in part.items() if "ignature" not in key})


def _call(at: Pointer, call: Object) -> HistoryCall:
    call_id, name = as_text(call.get("id")), as_text(call.get("name"))
    return HistoryCall(
        at=at,
        keys=(call_id, f"#{name}") if call_id else (f"#{name}", f"#{name} without an ID"),
        call_id=call_id,
        name=name,
        sites=site_of((*at, "args"), call.get("args"), "json"),
    )


def _output(at: Pointer, response: Object) -> Output:
    call_id, name = as_text(response.get("id")), as_text(response.get("name"))
    result = as_object(response.get("response"))
    output = Output(
        at=at,
        keys=(call_id, f"#{name} without an ID") if call_id else (f"#{name}",),
        call_id=call_id,
        name=name,
        failed="error" in result,
        whole=(*at, "response"),
    )
    read_values(output, (*at, "response"), result)
    for number, part in enumerate(as_list(response.get("parts"))):
        media_part = media((*at, "parts", number), as_object(part), None)
        if media_part is None:
            output.data = add_item(output.data, part)
        else:
            output.media = add_item(output.media, media_part)
    return output
