"""OpenAI Responses, and the body of its compact route: one flat list of items, which calls and outputs are too.

Calls and outputs are paired by ID over the whole list, not by proximity. Items of tools that the provider runs contain
their output themselves. Items of unknown types that are named like calls or outputs stay as they are, and are paired.
"""

from typing import Final

from coatcheck.core.context.body.encoding import Object, Value, as_list, as_object, as_text, kind_of
from coatcheck.core.context.body.model import Format, HistoryCall, HistoryIndex, Item, Output, Piece, Role, add_item
from coatcheck.core.context.body.splice import Pointer, get, parse_document
from coatcheck.core.context.formats.content import (
    is_foreign,
    item_of,
    keys_of,
    read_message,
    read_output,
    read_reasoning,
    show,
    site_of,
)
from coatcheck.core.text.long_text import is_text

_CALLS: Final = {
    "function_call": ("arguments", "json"),
    "custom_tool_call": ("input", "text"),
    "local_shell_call": ("action", "json"),
    "shell_call": ("action", "json"),
    "apply_patch_call": ("operation", "json"),
    "computer_call": ("action", "json"),
    "tool_search_call": ("arguments", "json"),
    "mcp_approval_request": ("arguments", "json"),
}
_HOSTED: Final = {
    "mcp_call": ("arguments", "json"),
    "code_interpreter_call": ("code", "text"),
    "web_search_call": ("action", "json"),
    "file_search_call": ("queries", "json"),
    "image_generation_call": ("", "text"),
}
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


def index(body: Value, list_at: Pointer) -> HistoryIndex:
    """Returns the index of a body with its input at `list_at`: text, or a list of items."""
    around, messages = as_object(body), get(body, list_at)
    tools, instructions = as_list(around.get("tools")), around.get("instructions")
    history = HistoryIndex(
        format=Format.OPENAI_RESPONSES, list_at=None, tools=tools, system=[instructions] if instructions else []
    )
    # What the provider keeps cannot be seen here: the report must say that it was not compacted.
    server_keys = [key for key in ("previous_response_id", "conversation") if around.get(key)]
    if is_text(messages):
        history.items.append(
            Item(at=list_at, role=Role.USER, prompt=True, pinned=True, pieces=[Piece(at=list_at, text=messages)])
        )
    if isinstance(messages, list):
        history.list_at = list_at
        for number, item in enumerate(as_list(messages)):
            history.items.append(_item((*list_at, number), as_object(item)))
        server_keys += ["item_reference"] * any(
            as_object(item).get("type") == "item_reference" for item in as_list(messages)
        )
    if server_keys:
        history.continues = True
        history.notes.append(_KEPT_BY_SERVER.format(", ".join(server_keys)))
    return history


def _item(at: Pointer, raw: Object) -> Item:
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
    """Returns a call or an output, even of an unknown type that is named like one."""
    if kind is None:
        return None
    if kind in _HOSTED:
        return _read_hosted(at, raw, kind)
    if kind.endswith("_output") or kind == "mcp_approval_response":
        return _result(at, raw, kind)
    return _read_call(at, raw, kind) if kind in _CALLS or kind == "program" or kind.endswith("_call") else None


def _message(at: Pointer, raw: Object) -> Item:
    thinks = any("thinking" in (kind_of(as_object(part)) or "") for part in as_list(raw.get("content")))
    fits = "content" in raw and not is_foreign(raw["content"]) and "tool_calls" not in raw and not thinks
    item = item_of(at, _ROLES.get(as_text(raw.get("role")) or "", Role.OTHER) if fits else Role.OTHER)
    read_message(item, (*at, "content"), raw.get("content"))
    return item


def _read_call(at: Pointer, raw: Object, kind: str) -> Item:
    field, form = _CALLS.get(kind, ("", "text"))
    name = as_text(raw.get("name")) or kind.removesuffix("_call")
    call = HistoryCall(
        at=at,
        keys=keys_of(raw.get("call_id"), raw.get("id")),
        call_id=as_text(raw.get("call_id")) or as_text(raw.get("id")),
        name=name,
        sites=site_of((*at, field), raw.get(field), form),
    )
    item = Item(at=at, role=Role.ASSISTANT, model=True, calls=[call])
    if not call.sites:
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
        _streams(output, (*at, "output"), raw.get("output"))
    else:
        content = raw.get("output")
        # A local shell's output is JSON in a string: only the text in it is replaced.
        inner = as_object(parse_document(content)) if kind == "local_shell_call_output" and is_text(content) else {}
        if is_text(inner.get("output")):
            output.pieces = add_item(output.pieces, Piece(at=(*at, "output"), inside=("output",), text=inner["output"]))
        else:
            read_output(output, (*at, "output"), content, "input_text")
    return Item(at=at, role=Role.TOOL, outputs=[output])


def _streams(output: Output, at: Pointer, content: Value) -> None:
    """Adds what the commands of a shell call printed."""
    for number, one in enumerate(as_list(content)):
        block = as_object(one)
        for key in ("stdout", "stderr"):
            if is_text(block.get(key)):
                show(output, (*at, number, key), block[key])


def _read_hosted(at: Pointer, raw: Object, kind: str) -> Item:
    """Returns a tool that the provider ran: call and output in one item."""
    keys = keys_of(raw.get("call_id"), raw.get("id"))
    name = as_text(raw.get("name")) or kind.removesuffix("_call")
    field, form = _HOSTED[kind]
    call = HistoryCall(
        at=at,
        keys=keys,
        call_id=(*keys, None)[0],
        name=name,
        sites=site_of((*at, field), raw.get(field), form),
        server=True,
    )
    output = Output(at=at, keys=keys, call_id=(*keys, None)[0], name=name, server=True)
    if kind == "mcp_call":
        read_output(output, (*at, "output"), raw.get("output"))
    # Results and logs of tools that the provider ran, as far as they are text.
    for list_, key in (("results", "text"), ("outputs", "logs")):
        for number, one in enumerate(as_list(raw.get(list_))):
            text = as_object(one).get(key)
            if is_text(text):
                show(output, (*at, list_, number, key), text)
    if not call.sites and not output.pieces and kind != "image_generation_call":
        output.data = add_item(output.data, raw)
    return Item(at=at, role=Role.ASSISTANT, model=True, calls=[call], outputs=[output])
