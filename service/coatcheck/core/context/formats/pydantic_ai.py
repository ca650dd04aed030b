"""Messages of pydantic-ai as its `ModelMessagesTypeAdapter` dumps them: requests and responses with parts.

Instructions are in every request; only those of the last one are sent. Outputs of its own typed tools (`tool_kind`)
stay, because a card would break their type.
"""

from typing import Final

from coatcheck.core.context.body.encoding import Object, Value, as_list, as_object, as_text, serialise_canonical
from coatcheck.core.context.body.model import (
    Format,
    HistoryCall,
    HistoryIndex,
    Item,
    Media,
    Opaque,
    Output,
    Role,
    add_item,
)
from coatcheck.core.context.body.splice import Pointer, get
from coatcheck.core.context.formats.content import index_messages, item_of, parts, say, show, site_of
from coatcheck.core.text.long_text import is_text

_CALLS: Final = frozenset({"tool-call", "builtin-tool-call"})
_OUTPUTS: Final = frozenset({"tool-return", "builtin-tool-return"})
_FILES: Final = frozenset({"image-url", "audio-url", "document-url", "video-url", "binary", "uploaded-file"})
_PINNED: Final = frozenset({"system-prompt", "compaction", "instruction-baseline"})
"""Parts that everything after them depends on, and so do those that end in `-delta`."""
_OTHERS: Final = frozenset(
    {"user-prompt", "text", "thinking", "file", "speech", "retry-prompt", "retry-feedback"}
    | {f"{name}-delta" for name in ("instruction", "tool-availability", "capability-load", "model-settings")}
)


def index(body: Value, list_at: Pointer) -> HistoryIndex:
    """Returns the index of a body with its messages at `list_at`."""
    messages = [as_object(one) for one in as_list(get(body, list_at))]
    instructions = [one["instructions"] for one in messages if one.get("kind") == "request" and one.get("instructions")]
    return index_messages(Format.PYDANTIC_AI, body, list_at, _item, (*instructions, None)[-2:][0])


def is_message(message: Object) -> bool:
    """Returns whether this is a request or a response."""
    return message.get("kind") in ("request", "response") and isinstance(message.get("parts"), list)


def _item(at: Pointer, message: Object) -> Item:
    item = item_of(at, Role.OTHER)
    if not is_message(message):
        return item
    kinds: set[str] = set()
    for number, part in enumerate(map(as_object, message["parts"])):
        kind = str(part.get("part_kind"))
        _part(item, (*at, "parts", number), part, kind)
        kinds.add("user-prompt" if kind == "speech" and part.get("speaker") == "user" else kind)
    if not kinds <= _CALLS | _OUTPUTS | _PINNED | _OTHERS:
        return item_of(at, Role.OTHER)
    item.model = message["kind"] == "response"
    item.prompt = "user-prompt" in kinds
    item.pinned = any(kind in _PINNED or kind.endswith("-delta") for kind in kinds)
    tools_only = bool(item.outputs) and not item.prompt
    item.role = Role.ASSISTANT if item.model else Role.TOOL if tools_only else Role.USER
    return item


def _part(item: Item, at: Pointer, part: Object, kind: str) -> None:
    content = part.get("content")
    if kind in _CALLS:
        call_id, name = as_text(part.get("tool_call_id")), as_text(part.get("tool_name"))
        args = part.get("args")
        # Arguments of its own typed tools must keep their type.
        sites = [] if part.get("tool_kind") else site_of((*at, "args"), args, "json")
        if args and not sites:
            item.data = add_item(item.data, args)
        call = HistoryCall(at=at, call_id=call_id, name=name, sites=sites)
        call.server = kind == "builtin-tool-call"
        item.calls = add_item(item.calls, call)
    elif kind in _OUTPUTS or (kind == "retry-prompt" and part.get("tool_name")):
        item.outputs = add_item(item.outputs, _output(at, part, content))
    elif kind in ("thinking", "compaction"):
        # Only Anthropic binds thinking to what precedes it, and only if it is signed.
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
    elif block.get("kind") in _FILES:
        item.media = add_item(item.media, _media(at, block))
    elif block.get("kind") != "cache-point":
        item.data = add_item(item.data, value)


def _output(at: Pointer, part: Object, content: Value) -> Output:
    call_id = as_text(part.get("tool_call_id"))
    output = Output(at=at, call_id=call_id, name=as_text(part.get("tool_name")))
    output.failed = part.get("outcome", "success") != "success" or part.get("part_kind") == "retry-prompt"
    output.server = part.get("part_kind") == "builtin-tool-return"
    at = (*at, "content")
    # A typed result or a request to try again has a form that a card would break.
    if part.get("tool_kind") or part.get("part_kind") == "retry-prompt":
        output.data = add_item(output.data, content)
    elif is_text(content):
        show(output, at, content)
    elif any(as_object(value).get("kind") in _FILES for value in as_list(content) or [content]):
        for place, value in parts(at, content) if isinstance(content, list) else [(at, content)]:
            if is_text(value):
                show(output, place, value)
            elif as_object(value).get("kind") in _FILES:
                output.media = add_item(output.media, _media(place, as_object(value)))
            else:
                show(output, place, serialise_canonical(value), structured=True)
    elif content is not None:
        show(output, at, serialise_canonical(content), structured=True)
    return output


def _media(at: Pointer, part: Object) -> Media:
    size = len(as_text(part.get("data")) or "") * 3 // 4
    return Media(at=at, part=part, type=as_text(part.get("media_type")) or "file", size=size)
