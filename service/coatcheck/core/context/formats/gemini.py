"""Gemini generateContent: `contents` with roles and parts, in the casing of REST or of Python's dumps.

Calls and responses may each lack an ID (responses that the SDK makes have none): then they are paired by name, in
order. A response is an object: a card can replace its values, each under its own key, or all of it as `{"output":
card}` (`{"error": card}` if it failed).
"""

from typing import Final

from coatcheck.core.context.body.model import Format, HistoryCall, HistoryIndex, Item, Opaque, Output, Role, added
from coatcheck.core.context.body.pointer import Pointer
from coatcheck.core.context.body.shape import Object, Value, as_list, as_object, as_text, kind_of
from coatcheck.core.context.formats.content import media, read_said, read_values
from coatcheck.core.context.formats.items import indexed, item_of, site_of, tell_prompt

_ROLES: Final = {"model": Role.ASSISTANT, "user": Role.USER, "function": Role.TOOL, "tool": Role.TOOL}


def index(body: Value, list_at: Pointer) -> HistoryIndex:
    """Returns the index of a body with its contents at `list_at`."""
    around = as_object(body)
    around = {**as_object(around.get("config")), **around}
    found = indexed(
        Format.GEMINI, body, list_at, _item, around.get("systemInstruction", around.get("system_instruction"))
    )
    found.tools = as_list(around.get("tools"))
    return found


def is_message(content: Object) -> bool:
    """Returns whether this is one of Gemini's contents, whose parts have no type."""
    untyped = all(kind_of(as_object(part)) is None for part in as_list(content.get("parts")))
    return isinstance(content.get("parts"), list) and untyped and content.keys().isdisjoint({"content", "kind"})


def _item(at: Pointer, content: Object) -> Item:
    named = content.get("role")
    role = _ROLES.get(named, Role.OTHER) if isinstance(named, str) else Role.USER
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
            item.opaque = added(item.opaque, Opaque((*at, key), "signature"))
    for key in ("functionCall", "function_call"):
        if isinstance(part.get(key), dict):
            item.calls = added(item.calls, _call((*at, key), as_object(part[key])))
            return
    for key in ("functionResponse", "function_response"):
        if isinstance(part.get(key), dict):
            item.outputs = added(item.outputs, _output((*at, key), as_object(part[key])))
            return
    if "toolCall" in part or "tool_call" in part or "toolResponse" in part or "tool_response" in part:
        item.opaque = added(item.opaque, Opaque(at, "reasoning"))
        item.data = added(item.data, part)
        return
    read_said(item, at, {key: value for key, value in part.items() if "ignature" not in key})


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
    said = as_object(response.get("response"))
    output = Output(
        at=at,
        keys=(call_id, f"#{name} without an ID") if call_id else (f"#{name}",),
        call_id=call_id,
        name=name,
        failed="error" in said,
        whole=(*at, "response"),
    )
    read_values(output, (*at, "response"), said)
    for number, part in enumerate(as_list(response.get("parts"))):
        found = media((*at, "parts", number), as_object(part), None)
        if found is None:
            output.data = added(output.data, part)
        else:
            output.media = added(output.media, found)
    return output
