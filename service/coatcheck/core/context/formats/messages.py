"""Reads messages of Anthropic, OpenAI Chat, Gemini and Bedrock, each in its provider's wire format.

Anthropic: calls and their results are blocks of messages, and all results of a turn are in one user message. Thinking
is bound to everything before it. Blocks of server tools are in the assistant's own message; of these, only plain text
can be replaced, never ciphertext.

OpenAI Chat Completions and compatible servers: each tool result is one message. The legacy `function_call` of an
assistant and its `function` message are also read, and are paired by name. Images in tool messages, names, and fields
that only some servers add are accepted too.

Gemini generateContent, in the casing of REST or of Python's dumps: calls and responses may lack an ID (the SDK makes
responses without one). They are then paired by name, in order.

Amazon Bedrock's Converse: a block's type is its only key, and results are in user messages.

In the last two formats, a result has to stay an object. A card can therefore replace its values, each under its own
key, or the whole object as `{"output": card}` (`{"error": card}` if the call failed).
"""

from typing import Final

from coatcheck.core.context.body.encoding import Object, Value, as_list, as_object, as_text, kind_of
from coatcheck.core.context.body.model import HistoryCall, Item, Media, Opaque, Output, Role, add_item
from coatcheck.core.context.body.splice import Pointer, get
from coatcheck.core.context.formats.content import (
    find_arguments,
    is_foreign,
    is_untyped,
    item_of,
    media,
    parts,
    read_content_part,
    read_message,
    read_output,
    read_reasoning,
    read_values,
    say,
    show,
    tell_prompt,
    tool_message,
)
from coatcheck.core.text.long_text import Text, is_text

_ROLES: Final = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM}


def _role(message: Object, roles: dict[str, Role] = _ROLES) -> Role:
    return roles.get(as_text(message.get("role")) or "", Role.OTHER)


# ---------------------------------------------------------------------------------------------------------- Anthropic

_THINKING: Final = frozenset({"thinking", "redacted_thinking"})
_CALLS: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_FOREIGN: Final = frozenset({"type", "tool_calls", "tool_call_id", "function_call"})
"""Fields in which other formats keep their calls and outputs."""


def read_anthropic(at: Pointer, message: Object) -> Item:
    """Returns the item of one of Anthropic's messages."""
    fits = "content" in message and _FOREIGN.isdisjoint(message) and not is_untyped(message["content"])
    item = item_of(at, _role(message) if fits else Role.OTHER)
    for place, part in parts((*at, "content"), message.get("content")):
        read_anthropic_block(item, place, part)
    return tell_prompt(item)


def read_anthropic_block(item: Item, at: Pointer, part: Value) -> None:
    """Adds a content block of a message to the message's item."""
    block = as_object(part)
    kind = kind_of(block) or ""
    if kind in _CALLS:
        call_id, name = as_text(block.get("id")), as_text(block.get("name"))
        sites = find_arguments(at, block, ("input",))
        call = HistoryCall(at=at, call_id=call_id, name=name, sites=sites, server=kind != "tool_use")
        item.calls = add_item(item.calls, call)
    elif kind in _THINKING:
        item.opaque = add_item(item.opaque, read_reasoning(at, block, "thinking"))
    elif kind == "compaction":
        item.opaque = add_item(item.opaque, Opaque(at, "compaction", text=as_text(block.get("content")) or ""))
        item.pinned = True
    elif kind.endswith("tool_result"):
        item.outputs = add_item(item.outputs, _anthropic_output(at, block, kind))
    else:
        read_content_part(item, at, part)


def _anthropic_output(at: Pointer, block: Object, kind: str) -> Output:
    output = Output(at=at, call_id=as_text(block.get("tool_use_id")), failed=block.get("is_error") is True)
    output.server = kind != "tool_result"
    content = block.get("content")
    steps = ("content", "source", "data")
    text = get(content, steps)
    if kind in {"tool_result", "mcp_tool_result"}:
        read_output(output, (*at, "content"), content)
    elif kind == "web_fetch_tool_result" and get(content, (*steps[:2], "type")) == "text" and is_text(text):
        show(output, (*at, "content", *steps), text)
    else:
        output.data = add_item(output.data, content)
    return output


# -------------------------------------------------------------------------------------------------------- OpenAI Chat

_CHAT_ROLES: Final = {**_ROLES, "developer": Role.SYSTEM, "tool": Role.TOOL, "function": Role.TOOL}
_REASONING: Final = ("reasoning_content", "reasoning", "reasoning_details")
"""Fields for reasoning from other vendors. Some of these vendors refuse a turn without them."""
_SPOKEN: Final = frozenset({"tool_calls", "function_call", "refusal", "audio", *_REASONING})
"""A message of the model without content has at least one of these fields."""
_CHAT_ARGUMENTS: Final = ("function.arguments", "function.args", "arguments", "args")


def read_chat(at: Pointer, message: Object) -> Item:
    """Returns the item of a message of Chat Completions."""
    role = _role(message, _CHAT_ROLES)
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
        _read_assistant(item, at, message)
    return item


def _read_assistant(item: Item, at: Pointer, message: Object) -> None:
    if refusal := as_text(message.get("refusal")):
        say(item, (*at, "refusal"), refusal)
    for key in _REASONING:
        if message.get(key):
            text = message[key] if is_text(message[key]) else ""
            item.opaque = add_item(item.opaque, Opaque((*at, key), "reasoning", text=text))
    for number, call in enumerate(map(as_object, as_list(message.get("tool_calls")))):
        place, call_id = (*at, "tool_calls", number), as_text(call.get("id"))
        custom = as_object(call.get("custom"))
        name = as_text((custom or as_object(call.get("function"))).get("name")) or as_text(call.get("name"))
        form = (("custom.input",), "text") if custom else (_CHAT_ARGUMENTS, "json")
        sites = find_arguments(place, call, *form)
        item.calls = add_item(item.calls, HistoryCall(at=place, call_id=call_id, name=name, sites=sites))
    if legacy := as_object(message.get("function_call")):
        place, name = (*at, "function_call"), as_text(legacy.get("name"))
        sites = find_arguments(place, legacy, ("arguments",))
        item.calls = add_item(item.calls, HistoryCall(at=place, keys=(f"#function:{name}",), name=name, sites=sites))


# ------------------------------------------------------------------------------------------------------------- Gemini

_GEMINI_ROLES: Final = {"model": Role.ASSISTANT, "user": Role.USER, "function": Role.TOOL, "tool": Role.TOOL}


def is_gemini(content: Object) -> bool:
    """Returns whether an object is a content of Gemini, whose parts have no type."""
    untyped = all(kind_of(as_object(part)) is None for part in as_list(content.get("parts")))
    return isinstance(content.get("parts"), list) and untyped and content.keys().isdisjoint({"content", "kind"})


def read_gemini(at: Pointer, content: Object) -> Item:
    """Returns the item of a content of Gemini; a content without a role is the user's."""
    role = _role(content, _GEMINI_ROLES) if isinstance(content.get("role"), str) else Role.USER
    item = item_of(at, role if is_gemini(content) else Role.OTHER)
    for number, part in enumerate(as_list(content.get("parts"))):
        _read_gemini_part(item, (*at, "parts", number), as_object(part))
    return tell_prompt(item)


def _read_gemini_part(item: Item, at: Pointer, part: Object) -> None:
    members = {key.replace("_", "").casefold(): key for key in reversed(part)}
    if (key := members.get("thoughtsignature")) and part[key]:
        item.opaque = add_item(item.opaque, Opaque((*at, key), "signature"))
    if (key := members.get("functioncall")) and isinstance(part[key], dict):
        call = as_object(part[key])
        call_id, name = as_text(call.get("id")), as_text(call.get("name"))
        keys = (call_id, f"#{name}") if call_id else (f"#{name}", f"#{name} without an ID")
        sites = find_arguments((*at, key), call, ("args",))
        item.calls = add_item(
            item.calls, HistoryCall(at=(*at, key), keys=keys, call_id=call_id, name=name, sites=sites)
        )
    elif (key := members.get("functionresponse")) and isinstance(part[key], dict):
        item.outputs = add_item(item.outputs, _gemini_output((*at, key), as_object(part[key])))
    elif "toolcall" in members or "toolresponse" in members:
        item.opaque = add_item(item.opaque, Opaque(at, "reasoning"))
        item.data = add_item(item.data, part)
    else:
        read_content_part(item, at, {key: value for key, value in part.items() if "ignature" not in key})


def _gemini_output(at: Pointer, response: Object) -> Output:
    call_id, name = as_text(response.get("id")), as_text(response.get("name"))
    keys = (call_id, f"#{name} without an ID") if call_id else (f"#{name}",)
    result, place = as_object(response.get("response")), (*at, "response")
    output = Output(at=at, keys=keys, call_id=call_id, name=name, failed="error" in result, whole=place)
    read_values(output, place, result)
    for number, part in enumerate(as_list(response.get("parts"))):
        media_part = media((*at, "parts", number), as_object(part), None)
        if media_part is None:
            output.data = add_item(output.data, part)
        else:
            output.media = add_item(output.media, media_part)
    return output


# ------------------------------------------------------------------------------------------------------------ Bedrock

_MEDIA: Final = ("image", "document", "video", "audio")
_OWN: Final = frozenset(
    {"text", "toolUse", "toolResult", "cachePoint", "reasoningContent", "guardContent", "citationsContent", *_MEDIA}
)


def is_bedrock(message: Object) -> bool:
    """Returns whether a message has the blocks of Converse: none has a type, and each has one of Converse's keys."""
    blocks = [as_object(block) for block in as_list(message.get("content"))]
    return bool(blocks) and all("type" not in block and not _OWN.isdisjoint(block) for block in blocks)


def read_bedrock(at: Pointer, message: Object) -> Item:
    """Returns the item of a message of Converse."""
    fits = is_bedrock(message) or message.get("content") == []
    item = item_of(at, _role(message) if fits else Role.OTHER)
    for number, block in enumerate(map(as_object, as_list(message.get("content")))):
        _read_bedrock_block(item, (*at, "content", number), block)
    return tell_prompt(item)


def _read_bedrock_block(item: Item, at: Pointer, block: Object) -> None:
    call, result, reasoning = (as_object(block.get(key)) for key in ("toolUse", "toolResult", "reasoningContent"))
    if call:
        at, call_id, name = (*at, "toolUse"), as_text(call.get("toolUseId")), as_text(call.get("name"))
        sites = find_arguments(at, call, ("input",))
        item.calls = add_item(item.calls, HistoryCall(at=at, call_id=call_id, name=name, sites=sites))
    elif result:
        item.outputs = add_item(item.outputs, _bedrock_output((*at, "toolResult"), result))
    elif reasoning:
        text = as_object(reasoning.get("reasoningText")).get("text")
        blob = len(as_text(reasoning.get("redactedContent")) or "")
        item.opaque = add_item(item.opaque, Opaque(at, "reasoning", text if is_text(text) else "", blob))
    elif texts := _bedrock_texts(at, block):
        for place, text in texts:
            say(item, place, text, cited=len(place) > len(at) + 1)  # citations point into documents and searches
    elif (media_part := _bedrock_media(at, block)) is not None:
        item.media = add_item(item.media, media_part)
    elif "cachePoint" not in block:
        item.data = add_item(item.data, block)


def _bedrock_output(at: Pointer, result: Object) -> Output:
    output = Output(at=at, call_id=as_text(result.get("toolUseId")), failed=result.get("status") == "error")
    blocks = [as_object(block) for block in as_list(result.get("content"))]
    for number, block in enumerate(blocks):
        place = (*at, "content", number)
        if texts := _bedrock_texts(place, block):
            for text_at, text in texts:
                show(output, text_at, text)
        elif isinstance(block.get("json"), dict):
            read_values(output, (*place, "json"), as_object(block["json"]))
            output.whole = (*place, "json") if len(blocks) == 1 else None
        elif (media_part := _bedrock_media(place, block)) is not None:
            output.media = add_item(output.media, media_part)
        else:
            output.data = add_item(output.data, block)
    return output


def _bedrock_texts(at: Pointer, block: Object) -> list[tuple[Pointer, Text]]:
    """Returns the texts of a block with their pointers, including texts of a document or search result in the block."""
    texts: list[tuple[Pointer, Text]] = []
    for steps in ((), ("document", "source"), ("searchResult",)):
        holder = as_object(get(block, steps))
        if is_text(holder.get("text")):
            texts.append(((*at, *steps, "text"), holder["text"]))
        for number, part in enumerate(map(as_object, as_list(holder.get("content")))):
            if is_text(part.get("text")):
                texts.append(((*at, *steps, "content", number, "text"), part["text"]))
    return texts


def _bedrock_media(at: Pointer, block: Object) -> Media | None:
    for kind in _MEDIA:
        if source := as_object(as_object(block.get(kind)).get("source")):
            size = len(as_text(source.get("bytes")) or "") * 3 // 4
            return Media(at=at, part=block, type=f"{kind}/{as_object(block[kind]).get('format')}", size=size)
    return None
