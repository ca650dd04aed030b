"""Reads bodies of OpenAI Responses and of its compact route: one flat list of items, including calls and outputs.

Calls and outputs are paired by ID over the whole list, not by proximity. An item of a tool that the provider ran
contains its output as well. Items of unknown types whose names are like those of calls or outputs stay as they are, and
are paired.
"""

from typing import Final

from coatcheck.core.context.body.encoding import Object, Value, as_list, as_object, as_text, kind_of
from coatcheck.core.context.body.model import HistoryCall, HistoryIndex, Item, Output, Piece, Role, add_item
from coatcheck.core.context.body.splice import Pointer, get, parse_document
from coatcheck.core.context.formats.content import (
    find_arguments,
    is_foreign,
    item_of,
    keys_of,
    read_message,
    read_output,
    read_reasoning,
    show,
)
from coatcheck.core.text.long_text import is_text

_CALLS: Final = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "local_shell_call": "action",
    "shell_call": "action",
    "apply_patch_call": "operation",
    "computer_call": "action",
    "tool_search_call": "arguments",
    "mcp_approval_request": "arguments",
}
"""The member with a call's arguments, by the type of the call."""
_HOSTED: Final = {
    "mcp_call": "arguments",
    "code_interpreter_call": "code",
    "web_search_call": "action",
    "file_search_call": "queries",
    "image_generation_call": "",
}
"""The member with the arguments, for calls of tools that the provider runs."""
_SCHEMATIC: Final = frozenset({"action", "operation"})
"""Members with arguments whose members OpenAI defines, with their types."""
_FREE_TEXT: Final = frozenset({"input", "code"})
"""Members with arguments that are not JSON."""
_PINNED: Final = frozenset(
    {
        "compaction",
        "compaction_trigger",
        "item_reference",
        "additional_tools",
        "configuration_update",
        "mcp_list_tools",
        "context_compaction",
    }
)
_ROLES: Final = {"user": Role.USER, "system": Role.SYSTEM, "developer": Role.SYSTEM, "assistant": Role.ASSISTANT}
_NOT_TEXT: Final = frozenset({"tool_search_output", "computer_call_output", "program_output", "mcp_approval_response"})
_KEPT_BY_SERVER: Final = (
    "The history before this input is kept by the provider ({}) and cannot be seen or compacted from here; only the "
    "items of this request were."
)


def note_server_history(index: HistoryIndex, body: Value) -> None:
    """Notes in the index that the provider keeps a part of the history, which was neither read nor compacted here."""
    server_keys = [key for key in ("previous_response_id", "conversation") if as_object(body).get(key)]
    items = as_list(get(body, index.list_at or ()))
    server_keys += ["item_reference"] * any(as_object(item).get("type") == "item_reference" for item in items)
    if server_keys:
        index.continues = True
        index.notes.append(_KEPT_BY_SERVER.format(", ".join(server_keys)))


def read_response_item(at: Pointer, raw: Object) -> Item:
    """Returns the history item of one element of a request's input."""
    kind = raw.get("type")
    kind = kind if isinstance(kind, str) else None
    if kind == "message" or (kind is None and "role" in raw):
        return _message(at, raw)
    if kind == "reasoning":
        opaque = [read_reasoning(at, raw, "reasoning")]
        return Item(at=at, role=Role.ASSISTANT, model=True, opaque=opaque)
    if kind in _PINNED:
        opaque = [read_reasoning(at, raw, "compaction")] if kind == "compaction" else []
        return Item(at=at, role=Role.OTHER, pinned=True, opaque=opaque, data=[] if opaque else [raw])
    return _tool(at, raw, kind) or item_of(at, Role.OTHER)


def _tool(at: Pointer, raw: Object, kind: str | None) -> Item | None:
    """Returns the item of a call or an output, even of an unknown type with such a name; None for any other type."""
    if kind is None:
        return None
    if kind.endswith("_output") or kind == "mcp_approval_response":
        return _result(at, raw, kind)
    is_call = kind in _CALLS or kind in _HOSTED or kind == "program" or kind.endswith("_call")
    return _read_call(at, raw, kind) if is_call else None


def _message(at: Pointer, raw: Object) -> Item:
    thinks = any("thinking" in (kind_of(as_object(part)) or "") for part in as_list(raw.get("content")))
    fits = "content" in raw and not is_foreign(raw["content"]) and "tool_calls" not in raw and not thinks
    item = item_of(at, _ROLES.get(as_text(raw.get("role")) or "", Role.OTHER) if fits else Role.OTHER)
    read_message(item, (*at, "content"), raw.get("content"))
    return item


def _read_call(at: Pointer, raw: Object, kind: str) -> Item:
    """Returns the item of a call; if the provider ran the tool, the item contains the output as well."""
    hosted = kind in _HOSTED
    keys = keys_of(raw.get("call_id"), raw.get("id"))
    call_id, name = next(iter(keys), None), as_text(raw.get("name")) or kind.removesuffix("_call")
    field = (_HOSTED if hosted else _CALLS).get(kind, "")
    sites = find_arguments(at, raw, (field,), "text" if field in _FREE_TEXT else "json")
    call = HistoryCall(
        at=at, keys=keys, call_id=call_id, name=name, sites=sites, server=hosted, has_schema=field in _SCHEMATIC
    )
    item = Item(at=at, role=Role.ASSISTANT, model=True, calls=[call])
    if hosted:
        output = Output(at=at, keys=keys, call_id=call_id, name=name, server=True)
        item.outputs = [output]
        if kind == "mcp_call":
            read_output(output, (*at, "output"), raw.get("output"))
        # Results and logs are outputs if they are text.
        _show_members(output, (*at, "results"), raw.get("results"), ("text",))
        _show_members(output, (*at, "outputs"), raw.get("outputs"), ("logs",))
        if not sites and not output.pieces and kind != "image_generation_call":
            output.data = add_item(output.data, raw)
    elif not sites:
        item.data = add_item(item.data, raw)
    return item


def _result(at: Pointer, raw: Object, kind: str) -> Item:
    by = keys_of(raw.get("call_id"), raw.get("approval_request_id")) or keys_of(raw.get("id"))
    output = Output(
        at=at,
        keys=by,
        call_id=as_text(raw.get("call_id")) or as_text(raw.get("id")),
        name=as_text(raw.get("name")),
    )
    if kind in _NOT_TEXT:
        output.data = add_item(output.data, raw)
    elif kind == "shell_call_output":
        _show_members(output, (*at, "output"), raw.get("output"), ("stdout", "stderr"))
    else:
        content = raw.get("output")
        # The output of a local shell is JSON in a string: only the text inside is replaced.
        inner = as_object(parse_document(content)) if kind == "local_shell_call_output" and is_text(content) else {}
        if is_text(inner.get("output")):
            output.pieces = add_item(output.pieces, Piece(at=(*at, "output"), inside=("output",), text=inner["output"]))
        else:
            read_output(output, (*at, "output"), content, "input_text")
    return Item(at=at, role=Role.TOOL, outputs=[output])


def _show_members(output: Output, at: Pointer, content: Value, keys: tuple[str, ...]) -> None:
    """Adds the members with these names to the output, from each object in a list, if they are text."""
    for number, block in enumerate(map(as_object, as_list(content))):
        for key in keys:
            if is_text(block.get(key)):
                show(output, (*at, number, key), block[key])
