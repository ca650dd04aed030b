"""LangChain messages as `messages_to_dict` or `dumpd` write them, or flat as `model_dump` and LangGraph's servers do.

They have three or more copies of a call's arguments, and integrations differ in which copy reaches the provider, so
every copy is a site of the call. A tool message's `artifact` never goes to a model and is not changed.
"""

from typing import Final

from coatcheck.core.context.body.encoding import Object, Value, as_list, as_object, as_text, kind_of
from coatcheck.core.context.body.model import Format, HistoryCall, HistoryIndex, Item, Role, add_item
from coatcheck.core.context.body.splice import Pointer, get
from coatcheck.core.context.formats import anthropic
from coatcheck.core.context.formats.content import (
    index_messages,
    item_of,
    parts,
    read_content_part,
    read_message,
    read_reasoning,
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
    "chat": None,
}
"""Types of messages; a `chat` message has a role."""
_ROLES: Final = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM, "developer": Role.SYSTEM}
_BLOCKS: Final = frozenset({"tool_use", "tool_call", "tool_call_chunk", "function_call", "custom_tool_call"})
"""Content blocks that are copies of a call."""
_LISTS: Final = (("tool_calls",), ("invalid_tool_calls",), ("tool_call_chunks",), ("additional_kwargs", "tool_calls"))
_FIELDS: Final = ("args", "arguments", "input", "partial_json", "function.arguments", "function.args", "custom.input")
"""Where a copy may have its arguments, as an object or as text."""
_METADATA_DEPTH: Final = 8
"""Depth to which metadata are searched for further copies."""
_ANTHROPIC: Final = frozenset({"thinking", "redacted_thinking", "compaction", "server_tool_use", "mcp_tool_use"})


def index(body: Value, list_at: Pointer) -> HistoryIndex:
    """Returns the index of a body with its messages at `list_at`."""
    return index_messages(Format.LANGCHAIN, body, list_at, _item)


def is_message(raw: Value) -> bool:
    """Returns whether a value is a message in one of the three forms."""
    return _fields(as_object(raw)) is not None


def _fields(raw: Object) -> tuple[Pointer, str] | None:
    """Returns where the fields of a message are, and its type; None if it is in none of the three forms."""
    for key in ("kwargs", "data"):
        if isinstance(raw.get(key), dict) and (raw.get("lc") == 1 or (key == "data" and kind_of(raw))):
            constructed = raw[key].get("type") or str((as_list(raw.get("id")) or [""])[-1])
            return (key,), _kind(constructed if key == "kwargs" else raw["type"])
    kind = _kind(raw.get("type"))
    return ((), kind) if "content" in raw and kind in _KINDS and ("role" not in raw or kind == "chat") else None


def _kind(name: Value) -> str:
    return str(name).removesuffix("Chunk").removesuffix("Message").lower()


def _item(at: Pointer, raw: Object) -> Item:
    inner, kind = _fields(raw) or ((), "")
    message = as_object(get(raw, inner))
    role = _KINDS.get(kind) or _ROLES.get(as_text(message.get("role")) or "", Role.OTHER)
    item, at = item_of(at, role if kind else Role.OTHER), (*at, *inner)
    if role is Role.TOOL:
        legacy = None if as_text(message.get("tool_call_id")) else f"#function:{as_text(message.get('name'))}"
        item.outputs = add_item(
            item.outputs, tool_message(at, message, legacy, failed=message.get("status") == "error")
        )
    elif role is Role.ASSISTANT:
        _assistant(item, at, message)
    else:
        read_message(item, (*at, "content"), message.get("content"))
    return item


def _assistant(item: Item, at: Pointer, message: Object) -> None:
    copies = _Copies()
    # Copies of one call have the same ID wherever they are.
    for steps in _LISTS:
        for number, call in enumerate(as_list(get(message, steps))):
            copies.add((*at, *steps, number), as_object(call))
    for place, part in parts((*at, "content"), message.get("content")):
        block = as_object(part)
        if kind_of(block) in _BLOCKS:
            copies.add(place, block)
        else:
            _block(item, place, part, block)
    legacy = as_object(as_object(message.get("additional_kwargs")).get("function_call"))
    if legacy:
        copies.add_legacy((*at, "additional_kwargs", "function_call"), legacy)
    # Packages of providers keep more copies in the metadata; without a call there is nothing to copy.
    for key in ("additional_kwargs", "response_metadata") if copies.calls else ():
        copies.search((*at, key), as_object(message.get(key)))
    item.calls = copies.calls


def _block(item: Item, at: Pointer, part: Value, block: Object) -> None:
    kind = kind_of(block) or ""
    if kind == "reasoning":
        item.opaque = add_item(item.opaque, read_reasoning(at, block, "reasoning"))
    elif kind in _ANTHROPIC or kind.endswith("tool_result"):
        anthropic.read_block(item, at, part)
    elif kind in {"server_tool_call", "server_tool_result", "non_standard"}:
        item.data = add_item(item.data, part)
    else:
        read_content_part(item, at, part)


class _Copies:
    """The calls of one message, each with all its copies."""

    def __init__(self) -> None:
        self.calls: list[HistoryCall] = []

    def add(self, at: Pointer, raw: Object) -> None:
        """Adds a copy: of the call with its ID, or of a new one."""
        call_id, name = _identity(raw)
        call = next((one for one in self.calls if call_id is not None and one.call_id == call_id), None)
        if call is None:
            call = HistoryCall(at=at, call_id=call_id, name=name)
            self.calls.append(call)
        call.name = call.name or name
        self._sites(call, at, raw)

    def add_legacy(self, at: Pointer, raw: Object) -> None:
        """Adds the one call without an ID: another copy of a call with that name, or a call of its own."""
        name = as_text(raw.get("name"))
        call = next((one for one in reversed(self.calls) if one.name == name), None)
        if call is None:
            call = HistoryCall(at=at, keys=(f"#function:{name}",), name=name)
            self.calls.append(call)
        else:
            call.keys = (*call.keys, f"#function:{name}")
        self._sites(call, at, raw)

    def search(self, at: Pointer, value: Value, depth: int = _METADATA_DEPTH) -> None:
        """Adds further copies of the calls, wherever a provider's package keeps them."""
        call_id, name = _identity(as_object(value))
        matches = [one for one in self.calls if (one.call_id == call_id if call_id is not None else one.name == name)]
        if matches and (call_id or name):
            self._sites(matches[-1], at, as_object(value))
        items: list[tuple[str | int, Value]] = [*as_object(value).items(), *enumerate(as_list(value))]
        for step, one in items if depth else ():
            self.search((*at, step), one, depth - 1)

    def _sites(self, call: HistoryCall, at: Pointer, raw: Object) -> None:
        pointers = {site.at for site in call.sites}
        custom = kind_of(raw) == "custom_tool_call" or "custom" in raw
        for field in _FIELDS:
            steps = tuple(field.split("."))
            sites = site_of((*at, *steps), get(raw, steps), "text" if custom else "json")
            call.sites += [site for site in sites if site.at not in pointers]


def _identity(raw: Object) -> tuple[str | None, str | None]:
    """Returns the ID and the name of a copy of a call."""
    name = as_text(raw.get("name")) or as_text(as_object(raw.get("function")).get("name"))
    return as_text(raw.get("call_id")) or as_text(raw.get("id")), name
