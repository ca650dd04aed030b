"""Amazon Bedrock's Converse: `messages` with blocks that are named by their only key, results in user messages.

A result's JSON has to stay an object: a card can replace each of its values, or all of it as `{"output": card}`.
"""

from typing import Final

from coatcheck.core.context.body.encoding import Object, Value, as_list, as_object, as_text
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
from coatcheck.core.context.formats.content import (
    index_messages,
    item_of,
    read_values,
    say,
    show,
    site_of,
    tell_prompt,
)
from coatcheck.core.text.long_text import Text, is_text

_ROLES: Final = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM}
_MEDIA: Final = ("image", "document", "video", "audio")
_OWN: Final = frozenset(
    {"text", "toolUse", "toolResult", "cachePoint", "reasoningContent", "guardContent", "citationsContent", *_MEDIA}
)


def index(body: Value, list_at: Pointer) -> HistoryIndex:
    """Returns the index of a body with its messages at `list_at`."""
    index = index_messages(Format.BEDROCK, body, list_at, _item, as_object(body).get("system"))
    index.tools = as_list(as_object(as_object(body).get("toolConfig")).get("tools"))
    return index


def is_message(message: Object) -> bool:
    """Returns whether a message has blocks as only Converse has them: without a type, each with one key of its own."""
    blocks = [as_object(block) for block in as_list(message.get("content"))]
    return bool(blocks) and all("type" not in block and not _OWN.isdisjoint(block) for block in blocks)


def _item(at: Pointer, message: Object) -> Item:
    fits = is_message(message) or message.get("content") == []
    item = item_of(at, _ROLES.get(str(message.get("role")), Role.OTHER) if fits else Role.OTHER)
    for number, block in enumerate(map(as_object, as_list(message.get("content")))):
        _block(item, (*at, "content", number), block)
    if item.role is Role.USER:
        tell_prompt(item)
    return item


def _block(item: Item, at: Pointer, block: Object) -> None:
    call, result, reasoning = (as_object(block.get(key)) for key in ("toolUse", "toolResult", "reasoningContent"))
    if call:
        call_id, at = as_text(call.get("toolUseId")), (*at, "toolUse")
        sites = site_of((*at, "input"), call.get("input"), "json")
        name = as_text(call.get("name"))
        item.calls = add_item(item.calls, HistoryCall(at=at, call_id=call_id, name=name, sites=sites))
    elif result:
        item.outputs = add_item(item.outputs, _output((*at, "toolResult"), result))
    elif reasoning:
        text = as_object(reasoning.get("reasoningText")).get("text")
        blob = len(as_text(reasoning.get("redactedContent")) or "")
        item.opaque = add_item(item.opaque, Opaque(at, "reasoning", text if is_text(text) else "", blob))
    elif texts := _texts(at, block):
        for place, text in texts:
            say(item, place, text, cited=len(place) > len(at) + 1)  # citations point into documents and searches
    elif (media := _media(at, block)) is not None:
        item.media = add_item(item.media, media)
    elif "cachePoint" not in block:
        item.data = add_item(item.data, block)


def _output(at: Pointer, result: Object) -> Output:
    call_id = as_text(result.get("toolUseId"))
    output = Output(at=at, call_id=call_id, failed=result.get("status") == "error")
    blocks = [as_object(block) for block in as_list(result.get("content"))]
    for number, block in enumerate(blocks):
        place = (*at, "content", number)
        if texts := _texts(place, block):
            for text_at, text in texts:
                show(output, text_at, text)
        elif isinstance(block.get("json"), dict):
            read_values(output, (*place, "json"), as_object(block["json"]))
            output.whole = (*place, "json") if len(blocks) == 1 else None
        elif (media := _media(place, block)) is not None:
            output.media = add_item(output.media, media)
        else:
            output.data = add_item(output.data, block)
    return output


def _texts(at: Pointer, block: Object) -> list[tuple[Pointer, Text]]:
    """Returns the texts of a block, also those of a document or a search result in it, and where each is."""
    texts: list[tuple[Pointer, Text]] = []
    for steps in ((), ("document", "source"), ("searchResult",)):
        holder = as_object(get(block, steps))
        if is_text(holder.get("text")):
            texts.append(((*at, *steps, "text"), holder["text"]))
        for number, part in enumerate(map(as_object, as_list(holder.get("content")))):
            if is_text(part.get("text")):
                texts.append(((*at, *steps, "content", number, "text"), part["text"]))
    return texts


def _media(at: Pointer, block: Object) -> Media | None:
    for kind in _MEDIA:
        if source := as_object(as_object(block.get(kind)).get("source")):
            size = len(as_text(source.get("bytes")) or "") * 3 // 4
            return Media(at=at, part=block, type=f"{kind}/{as_object(block[kind]).get('format')}", size=size)
    return None
