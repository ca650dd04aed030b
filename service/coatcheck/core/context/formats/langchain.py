"""LangChain messages as `messages_to_dict` or `dumpd` write them: with three or more copies of a call's arguments.

Integrations differ in which copy reaches the provider, so every copy of a call is a site of that call. A tool message's
`artifact` never goes to a model and is not changed.
"""

from typing import Final

from coatcheck.core.context.body.model import Format, HistoryCall, HistoryIndex, Item, Role, added
from coatcheck.core.context.body.pointer import Pointer, get
from coatcheck.core.context.body.shape import Object, Value, as_list, as_object, as_text, kind_of
from coatcheck.core.context.formats import anthropic
from coatcheck.core.context.formats.content import (
    indexed,
    item_of,
    keys_of,
    parts,
    read_message,
    read_reasoning,
    read_said,
    site_of,
    tool_message,
)

_KINDS: Final = {
    "human": Role.USER,
    "ai": Role.ASSISTANT,
    "tool": Role.TOOL,
    "function": Role.TOOL,
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
}
_FORMS: Final = {
    "tool_use": (("input", "json"), ("partial_json", "json")),
    "tool_call": (("args", "json"),),
    "tool_call_chunk": (("args", "json"),),
    "function_call": (("arguments", "json"),),
    "custom_tool_call": (("input", "text"),),
}
"""Content blocks that are copies of a call, and the fields with its arguments."""
_RAW: Final = (("function.arguments", "json"), ("function.args", "json"), ("custom.input", "text"))
"""Fields with arguments in the provider's own calls in `additional_kwargs`."""

_ANTHROPIC: Final = frozenset({"thinking", "redacted_thinking", "compaction", "server_tool_use", "mcp_tool_use"})


def index(body: Value, list_at: Pointer) -> HistoryIndex:
    """Returns the index of a body with its messages at `list_at`."""
    return indexed(Format.LANGCHAIN, body, list_at, _item)


def is_message(raw: Value) -> bool:
    """Returns whether a value is a message in one of the two forms."""
    message = as_object(raw)
    wrapped = isinstance(message.get("type"), str) and isinstance(message.get("data"), dict)
    return wrapped or (message.get("lc") == 1 and isinstance(message.get("kwargs"), dict))


def _item(at: Pointer, raw: Object) -> Item:
    constructed = raw.get("lc") == 1
    at = (*at, "kwargs" if constructed else "data")
    message = as_object(raw.get(str(at[-1])))
    role = _KINDS.get(_kind(raw, message), Role.OTHER)
    item = item_of(at[:-1], role)
    if role is Role.TOOL:
        legacy = None if as_text(message.get("tool_call_id")) else f"#function:{as_text(message.get('name'))}"
        item.outputs = added(item.outputs, tool_message(at, message, legacy, failed=message.get("status") == "error"))
    elif role is Role.ASSISTANT:
        _assistant(item, at, message)
    elif role is Role.OTHER:
        item.data = added(item.data, raw)
    else:
        read_message(item, (*at, "content"), message.get("content"))
    return item


def _kind(raw: Object, message: Object) -> str:
    named = as_list(raw.get("id"))
    kind = message.get("type") if raw.get("lc") == 1 else raw.get("type")
    if not isinstance(kind, str) and named:
        kind = str(named[-1])
    return str(kind).removesuffix("Chunk").removesuffix("Message").lower()


def _assistant(item: Item, at: Pointer, message: Object) -> None:
    copies = _Copies()
    for key in ("tool_calls", "invalid_tool_calls", "tool_call_chunks"):
        for number, call in enumerate(as_list(message.get(key))):
            copies.add((*at, key, number), as_object(call), (("args", "json"),))
    extra = as_object(message.get("additional_kwargs"))
    for number, call in enumerate(as_list(extra.get("tool_calls"))):
        place = (*at, "additional_kwargs", "tool_calls", number)
        copies.add(place, as_object(call), _RAW)
    for place, part in parts((*at, "content"), message.get("content")):
        block = as_object(part)
        if (kind := kind_of(block)) in _FORMS:
            copies.add(place, block, _FORMS[kind])
        else:
            _block(item, place, part, block)
    legacy = as_object(extra.get("function_call"))
    if legacy:
        copies.add_legacy((*at, "additional_kwargs", "function_call"), legacy)
    item.calls = copies.calls


def _block(item: Item, at: Pointer, part: Value, block: Object) -> None:
    kind = kind_of(block) or ""
    if kind == "reasoning":
        item.opaque = added(item.opaque, read_reasoning(at, block, "reasoning"))
    elif kind in _ANTHROPIC or kind.endswith("tool_result"):
        anthropic.read_block(item, at, part)
    elif kind in {"server_tool_call", "server_tool_result", "non_standard"}:
        item.data = added(item.data, part)
    else:
        read_said(item, at, part)


class _Copies:
    """The calls of one message, each with all its copies."""

    def __init__(self) -> None:
        self.calls: list[HistoryCall] = []

    def add(self, at: Pointer, raw: Object, fields: tuple[tuple[str, str], ...]) -> None:
        call_id = as_text(raw.get("call_id")) or as_text(raw.get("id"))
        name = as_text(raw.get("name")) or as_text(as_object(raw.get("function")).get("name"))
        call = next((one for one in self.calls if call_id is not None and one.call_id == call_id), None)
        if call is None:
            call = HistoryCall(at=at, keys=keys_of(call_id), call_id=call_id, name=name)
            self.calls.append(call)
        call.name = call.name or name
        self._sites(call, at, raw, fields)

    def add_legacy(self, at: Pointer, raw: Object) -> None:
        """Adds the one call without an ID: another copy of a call with that name, or a call of its own."""
        name = as_text(raw.get("name"))
        call = next((one for one in reversed(self.calls) if one.name == name), None)
        if call is None:
            call = HistoryCall(at=at, keys=(f"#function:{name}",), name=name)
            self.calls.append(call)
        else:
            call.keys = (*call.keys, f"#function:{name}")
        self._sites(call, at, raw, (("arguments", "json"),))

    def _sites(self, call: HistoryCall, at: Pointer, raw: Object, fields: tuple[tuple[str, str], ...]) -> None:
        for field, form in fields:
            steps = tuple(field.split("."))
            call.sites += site_of((*at, *steps), get(raw, steps), form)
