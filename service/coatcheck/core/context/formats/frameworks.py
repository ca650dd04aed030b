"""Reads messages of agent frameworks, LangChain and pydantic-ai, in the forms in which these dump them.

LangChain: in the form of `messages_to_dict` or `dumpd`, or flat as `model_dump` and LangGraph's servers write them. A
message has three or more copies of a call's arguments, and it depends on the integration which copy reaches the
provider; therefore every copy is a site of the call. A tool message's `artifact` never goes to a model and is not
changed.

pydantic-ai: in the form of its `ModelMessagesTypeAdapter`, requests and responses with parts. Outputs of its own typed
tools (`tool_kind`) stay, because a card would break their type.
"""

from typing import Final

from coatcheck.core.context.body.encoding import (
    Object,
    Value,
    as_list,
    as_object,
    as_text,
    kind_of,
    serialise_canonical,
)
from coatcheck.core.context.body.model import HistoryCall, Item, Media, Opaque, Output, Role, add_item
from coatcheck.core.context.body.splice import Pointer, get
from coatcheck.core.context.formats.content import (
    find_arguments,
    item_of,
    parts,
    read_content_part,
    read_message,
    read_reasoning,
    say,
    show,
    tool_message,
)
from coatcheck.core.context.formats.messages import read_anthropic_block
from coatcheck.core.text.long_text import is_text
from coatcheck_client.contract.json_values import is_among

_KINDS: Final = {
    "human": Role.USER,
    "ai": Role.ASSISTANT,
    "tool": Role.TOOL,
    "function": Role.TOOL,
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "chat": None,
}
"""Types of LangChain's messages, with their roles; a `chat` message names its role itself."""
_ROLES: Final = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM, "developer": Role.SYSTEM}
_BLOCKS: Final = frozenset({"tool_use", "tool_call", "tool_call_chunk", "function_call", "custom_tool_call"})
"""Types of content blocks that are copies of a call."""
_LISTS: Final = (("tool_calls",), ("invalid_tool_calls",), ("tool_call_chunks",), ("additional_kwargs", "tool_calls"))
_FIELDS: Final = ("args", "arguments", "input", "partial_json", "function.arguments", "function.args", "custom.input")
"""Fields in which a copy may have its arguments, as an object or as text."""
_METADATA_DEPTH: Final = 8
"""Depth to which metadata are searched for further copies of calls."""
_ANTHROPIC: Final = frozenset({"thinking", "redacted_thinking", "compaction", "server_tool_use", "mcp_tool_use"})


def is_langchain(raw: Value) -> bool:
    """Returns whether a value is a message of LangChain in one of the three forms."""
    return _fields(as_object(raw)) is not None


def _fields(raw: Object) -> tuple[Pointer, str] | None:
    """Returns the pointer to a message's fields, and the message's type; None if it has none of the three forms."""
    for key in ("kwargs", "data"):
        if isinstance(raw.get(key), dict) and (raw.get("lc") == 1 or (key == "data" and kind_of(raw))):
            constructed = raw[key].get("type") or str((as_list(raw.get("id")) or [""])[-1])
            return (key,), _kind(constructed if key == "kwargs" else raw["type"])
    kind = _kind(raw.get("type"))
    return ((), kind) if "content" in raw and kind in _KINDS and ("role" not in raw or kind == "chat") else None


def _kind(name: Value) -> str:
    return str(name).removesuffix("Chunk").removesuffix("Message").lower()


def read_langchain(at: Pointer, raw: Object) -> Item:
    """Returns the item of a LangChain message."""
    inner, kind = _fields(raw) or ((), "")
    message = as_object(get(raw, inner))
    role = _KINDS.get(kind) or _ROLES.get(as_text(message.get("role")) or "", Role.OTHER)
    item, at = item_of(at, role if kind else Role.OTHER), (*at, *inner)
    if role is Role.TOOL:
        legacy = None if as_text(message.get("tool_call_id")) else f"#function:{as_text(message.get('name'))}"
        output = tool_message(at, message, legacy, failed=message.get("status") == "error")
        item.outputs = add_item(item.outputs, output)
    elif role is Role.ASSISTANT:
        _read_assistant(item, at, message)
    else:
        read_message(item, (*at, "content"), message.get("content"))
    return item


def _read_assistant(item: Item, at: Pointer, message: Object) -> None:
    copies = _Copies()
    # Copies of one call have the same ID in all places.
    for steps in _LISTS:
        for number, call in enumerate(as_list(get(message, steps))):
            copies.add((*at, *steps, number), as_object(call))
    for place, part in parts((*at, "content"), message.get("content")):
        block = as_object(part)
        if kind_of(block) in _BLOCKS:
            copies.add(place, block)
        else:
            _read_block(item, place, part, block)
    if legacy := as_object(as_object(message.get("additional_kwargs")).get("function_call")):
        copies.add((*at, "additional_kwargs", "function_call"), legacy, legacy=True)
    # Packages of providers keep more copies in the metadata. In a message without a call there is nothing to copy.
    for key in ("additional_kwargs", "response_metadata") if copies.calls else ():
        copies.search((*at, key), as_object(message.get(key)))
    item.calls = copies.calls


def _read_block(item: Item, at: Pointer, part: Value, block: Object) -> None:
    kind = kind_of(block) or ""
    if kind == "reasoning":
        item.opaque = add_item(item.opaque, read_reasoning(at, block, "reasoning"))
    elif kind in _ANTHROPIC or kind.endswith("tool_result"):
        read_anthropic_block(item, at, part)
    elif kind in {"server_tool_call", "server_tool_result", "non_standard"}:
        item.data = add_item(item.data, part)
    else:
        read_content_part(item, at, part)


class _Copies:
    """The calls of one message, each with the places of all its copies."""

    def __init__(self) -> None:
        self.calls: list[HistoryCall] = []

    def add(self, at: Pointer, raw: Object, *, legacy: bool = False) -> None:
        """Adds a copy to the call with its ID, or with its name if `legacy`; if there is none, to a new call."""
        call_id, name = (None, as_text(raw.get("name"))) if legacy else _identity(raw)
        call = self._find(call_id, name if legacy else None)
        if call is None:
            call = HistoryCall(at=at, call_id=call_id, name=name)
            self.calls.append(call)
        if legacy:
            call.keys = (*call.keys, f"#function:{name}")
        call.name = call.name or name
        self._add_sites(call, at, raw)

    def _find(self, call_id: str | None, name: str | None) -> HistoryCall | None:
        """Returns the newest call with an ID or, if the ID is None, with a name; None if there is none."""
        matches = (one for one in reversed(self.calls) if (one.call_id == call_id if call_id else one.name == name))
        return next(matches, None) if call_id or name else None

    def search(self, at: Pointer, value: Value, depth: int = _METADATA_DEPTH) -> None:
        """Adds further copies of the calls from anywhere in a value to a depth of `depth`."""
        call = self._find(*_identity(as_object(value)))
        if call is not None:
            self._add_sites(call, at, as_object(value))
        items: list[tuple[str | int, Value]] = [*as_object(value).items(), *enumerate(as_list(value))]
        for step, one in items if depth else ():
            self.search((*at, step), one, depth - 1)

    def _add_sites(self, call: HistoryCall, at: Pointer, raw: Object) -> None:
        pointers = {site.at for site in call.sites}
        custom = kind_of(raw) == "custom_tool_call" or "custom" in raw
        sites = find_arguments(at, raw, _FIELDS, "text" if custom else "json")
        call.sites += [site for site in sites if site.at not in pointers]


def _identity(raw: Object) -> tuple[str | None, str | None]:
    """Returns the ID and the name in a copy of a call."""
    name = as_text(raw.get("name")) or as_text(as_object(raw.get("function")).get("name"))
    return as_text(raw.get("call_id")) or as_text(raw.get("id")), name


# -------------------------------------------------------------------------------------------------------- pydantic-ai

_CALLS: Final = frozenset({"tool-call", "builtin-tool-call"})
_OUTPUTS: Final = frozenset({"tool-return", "builtin-tool-return"})
_FILES: Final = frozenset({"image-url", "audio-url", "document-url", "video-url", "binary", "uploaded-file"})
_PINNED: Final = frozenset({"system-prompt", "compaction", "instruction-baseline"})
"""Kinds of parts on which everything after them depends. Kinds that end in `-delta` are treated alike."""
_OTHERS: Final = frozenset(
    {"user-prompt", "text", "thinking", "file", "speech", "retry-prompt", "retry-feedback"}
    | {f"{name}-delta" for name in ("instruction", "tool-availability", "capability-load", "model-settings")}
)


def last_instructions(messages: list[Value]) -> list[Value]:
    """Returns a list with the instructions that pydantic-ai sends: those of the last request that has some."""
    requests = (one for one in map(as_object, messages) if one.get("kind") == "request")
    return [one["instructions"] for one in requests if one.get("instructions")][-1:]


def is_pydantic_ai(message: Object) -> bool:
    """Returns whether an object is a request or a response of pydantic-ai."""
    return message.get("kind") in ("request", "response") and isinstance(message.get("parts"), list)


def read_pydantic_ai(at: Pointer, message: Object) -> Item:
    """Returns the item of a request or a response; its author is unknown if it has a part of an unknown kind."""
    item = item_of(at, Role.OTHER)
    if not is_pydantic_ai(message):
        return item
    kinds: set[str] = set()
    for number, part in enumerate(map(as_object, message["parts"])):
        kind = str(part.get("part_kind"))
        _read_part(item, (*at, "parts", number), part, kind)
        kinds.add("user-prompt" if kind == "speech" and part.get("speaker") == "user" else kind)
    if not kinds <= _CALLS | _OUTPUTS | _PINNED | _OTHERS:
        return item_of(at, Role.OTHER)
    item.model = message["kind"] == "response"
    item.prompt = "user-prompt" in kinds
    item.pinned = any(kind in _PINNED or kind.endswith("-delta") for kind in kinds)
    tools_only = bool(item.outputs) and not item.prompt
    item.role = Role.ASSISTANT if item.model else Role.TOOL if tools_only else Role.USER
    return item


def _read_part(item: Item, at: Pointer, part: Object, kind: str) -> None:
    content = part.get("content")
    call_id, name = as_text(part.get("tool_call_id")), as_text(part.get("tool_name"))
    if kind in _CALLS:
        # The arguments of pydantic-ai's own typed tools must keep their type.
        sites = [] if part.get("tool_kind") else find_arguments(at, part, ("args",))
        if part.get("args") and not sites:
            item.data = add_item(item.data, part["args"])
        call = HistoryCall(at=at, call_id=call_id, name=name, sites=sites, server=kind == "builtin-tool-call")
        item.calls = add_item(item.calls, call)
    elif kind in _OUTPUTS or (kind == "retry-prompt" and part.get("tool_name")):
        output = Output(at=at, call_id=call_id, name=name, server=kind == "builtin-tool-return")
        output.failed = part.get("outcome", "success") != "success" or kind == "retry-prompt"
        # A card would break the form of a typed result, or of a request to try again.
        if part.get("tool_kind") or kind == "retry-prompt":
            output.data = add_item(output.data, content)
        else:
            _read_output(output, (*at, "content"), content)
        item.outputs = add_item(item.outputs, output)
    elif kind in ("thinking", "compaction"):
        # Only Anthropic binds thinking to the content before it, and only if the thinking is signed.
        kind = "reasoning" if part.get("provider_name") != "anthropic" or not part.get("signature") else kind
        item.opaque = add_item(item.opaque, Opaque(at, kind, content if is_text(content) else ""))
    elif kind in ("file", "speech"):
        key = "content" if kind == "file" else "audio"
        item.media = add_item(item.media, _media((*at, key), as_object(part.get(key))))
        if is_text(part.get("transcript")):
            say(item, (*at, "transcript"), part["transcript"])
    else:
        if not is_text(content) and not isinstance(content, list):
            item.data = add_item(item.data, part)
        for place, value in parts((*at, "content"), content):
            _read_content_part(item, place, value, cited=bool(part.get("citations")))


def _read_content_part(item: Item, at: Pointer, value: Value, *, cited: bool) -> None:
    block = as_object(value)
    if is_text(value):
        say(item, at, value, cited=cited)
    elif block.get("kind") == "text-content" and is_text(block.get("content")):
        say(item, (*at, "content"), block["content"])
    elif is_among(block.get("kind"), _FILES):
        item.media = add_item(item.media, _media(at, block))
    elif block.get("kind") != "cache-point":
        item.data = add_item(item.data, value)


def _read_output(output: Output, at: Pointer, content: Value) -> None:
    """Adds the content of an output: as one text, unless it is a file or a list that contains a file."""
    has_file = any(is_among(as_object(value).get("kind"), _FILES) for value in as_list(content) or [content])
    for place, value in parts(at, content) if has_file and isinstance(content, list) else [(at, content)]:
        if is_text(value):
            show(output, place, value)
        elif is_among(as_object(value).get("kind"), _FILES):
            output.media = add_item(output.media, _media(place, as_object(value)))
        elif has_file or value is not None:
            show(output, place, serialise_canonical(value), structured=True)


def _media(at: Pointer, part: Object) -> Media:
    size = len(as_text(part.get("data")) or "") * 3 // 4
    return Media(at=at, part=part, type=as_text(part.get("media_type")) or "file", size=size)
