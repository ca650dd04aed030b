"""Functions that the readers of all formats use: for items, for the places of a call's arguments, and for content.

Content is a text or a list of parts, and is read into texts, media and unknown parts. The part types of OpenAI,
Anthropic, MCP and LangChain do not contradict each other, so one reader handles all of them. Base64 is not decoded;
only the size of the data is computed.
"""

from collections.abc import Iterable, Iterator
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
from coatcheck.core.context.body.model import Item, Media, Opaque, Output, Piece, Role, Site, add_item
from coatcheck.core.context.body.splice import Pointer, get
from coatcheck.core.text.long_text import Text, is_text


def item_of(at: Pointer, role: Role) -> Item:
    """Returns an empty item of a role. Pass `Role.OTHER` for a message that does not fit the format."""
    return Item(at=at, role=role, model=role is Role.ASSISTANT, prompt=role is Role.USER, pinned=role is Role.SYSTEM)


def say(item: Item, at: Pointer, text: Text, *, cited: bool = False) -> None:
    """Adds a text of a message's author to an item."""
    item.pieces = add_item(item.pieces, Piece(at=at, text=text, cited=cited))


def show(output: Output, at: Pointer, text: Text, *, structured: bool = False) -> None:
    """Adds a text to an output."""
    output.pieces = add_item(output.pieces, Piece(at=at, text=text, structured=structured))


def keys_of(*values: Value) -> tuple[str, ...]:
    """Returns the keys by which a call or an output may be paired: the values that are texts, without duplicates."""
    return tuple(dict.fromkeys(text for value in values if (text := as_text(value)) is not None))


def find_arguments(at: Pointer, call: Object, fields: Iterable[str], form: str = "json") -> list[Site]:
    """Returns every place in `call` at which its arguments are written.

    Clients write an object even if the provider wants a text, and the other way round.

    Args:
        at: pointer to the call.
        call: the call.
        fields: the paths to try, each of names joined by dots. A format may write the same arguments at several.
        form: how to read arguments that are a text: as `json`, or as plain `text`.
    """
    sites: list[Site] = []
    for steps in (tuple(path.split(".")) for path in fields):
        value = get(call, steps)
        if is_text(value):
            sites.append(Site((*at, *steps), form))
        elif isinstance(value, dict):
            sites.append(Site((*at, *steps), "object"))
    return sites


def tell_prompt(item: Item) -> Item:
    """Returns a user's message after recording whether a user speaks in it or only tools do; other items unchanged."""
    if item.role is Role.USER:
        item.prompt = bool(item.pieces or item.media or item.data) or not item.outputs
        item.role = Role.USER if item.prompt else Role.TOOL
    return item


TEXTS: Final = frozenset(
    {"text", "input_text", "output_text", "text-plain", "summary_text", "reasoning_text", "refusal"}
)
MEDIA: Final = frozenset(
    {"image", "image_url", "input_image", "input_file", "input_audio", "file", "audio", "video", "document", "media"}
)
_BASE64: Final = ";base64,"


def tool_message(at: Pointer, message: Object, legacy: str | None, *, failed: bool = False) -> Output:
    """Returns the output in a tool's message.

    `legacy` is a further key that pairs it with its call, for messages without a call ID; None if there is none.
    """
    call_id, name = as_text(message.get("tool_call_id")), as_text(message.get("name"))
    output = Output(at=at, keys=keys_of(call_id, legacy), call_id=call_id, name=name, failed=failed)
    read_output(output, (*at, "content"), message.get("content"))
    return output


def parts(at: Pointer, content: Value) -> Iterator[tuple[Pointer, Value]]:
    """Yields the parts of a content with their pointers; a content that is a text is one part."""
    if is_text(content):
        yield at, content
    for number, part in enumerate(as_list(content)):
        yield (*at, number), part


def read_output(output: Output, at: Pointer, content: Value, text_type: str | None = "text") -> None:
    """Adds a tool's content to an output.

    An object becomes one text, and so does a list of values that are no parts.
    """
    values = as_list(content)
    if isinstance(content, dict) or (values and not any(map(_is_part, values))):
        show(output, at, serialise_canonical(content), structured=True)
        return
    for place, part in parts(at, content):
        if is_text(part):
            show(output, place, part)
        elif not _read_part(output, place, as_object(part), text_type):
            output.data = add_item(output.data, part)


def read_values(output: Output, at: Pointer, response: Object) -> None:
    """Adds each value of an object that is a text, an object or a list to an output, as its own text.

    So the values can be replaced one by one, and the response remains an object.
    """
    for key, value in response.items():
        if is_text(value):
            show(output, (*at, key), value)
        elif isinstance(value, dict | list):
            show(output, (*at, key), serialise_canonical(value), structured=True)


def _is_part(value: Value) -> bool:
    """Returns whether a value in a list of content is a text or a part, of a known or an unknown type."""
    part = as_object(value)
    return is_text(value) or any(is_text(part.get(key)) for key in ("type", "text"))


def _read_part(output: Output, at: Pointer, part: Object, text_type: str | None) -> bool:
    kind, source = kind_of(part), as_object(part.get("source"))
    # Only the texts inside a block are replaced; the block itself stays.
    if is_text(part.get("text")) and (kind is None or kind in TEXTS):
        steps: Pointer = ("text",)
    elif kind == "resource" and is_text(as_object(part.get("resource")).get("text")):
        steps = ("resource", "text")
    elif kind == "document" and is_text(source.get("data")) and source.get("type") == "text":
        steps = ("source", "data")
    elif kind == "search_result":
        steps = ("content",)
        output.data = add_item(output.data, {key: part[key] for key in ("source", "title") if key in part})
    elif kind == "document" and source.get("type") == "content":
        steps = ("source", "content")
    else:
        steps = ()
    if steps:
        _read_texts(output, (*at, *steps), get(part, steps))
        return True
    # Any other part with bytes, or with a link to them, is media. A part of unknown form stays.
    media_part = media(at, part, text_type)
    if media_part is not None:
        output.media = add_item(output.media, media_part)
    return media_part is not None


def _read_texts(output: Output, at: Pointer, content: Value) -> None:
    """Adds the texts in a part's content, a text or a list of blocks. Other blocks stay, and are only counted."""
    for place, part in parts(at, content):
        block = as_object(part)
        if is_text(part):
            show(output, place, part)
        elif is_text(block.get("text")) and block.get("type") == "text":
            show(output, (*place, "text"), block["text"])
        else:
            output.data = add_item(output.data, part)


def is_foreign(content: Value) -> bool:
    """Returns whether a content has parts that OpenAI's formats do not have: calls, outputs, parts without a type."""
    parts_of = map(as_object, as_list(content))
    return is_untyped(content) or any("tool" in (kind_of(part) or "").casefold() for part in parts_of)


def is_untyped(content: Value) -> bool:
    """Returns whether a part of a content has neither a type nor a text; only formats without types have such parts."""
    return any(isinstance(part, dict) and "type" not in part and "text" not in part for part in as_list(content))


def read_message(item: Item, at: Pointer, content: Value) -> None:
    """Adds what a message's author wrote to an item."""
    if isinstance(content, dict):
        item.data = add_item(item.data, as_object(content))
    for place, part in parts(at, content):
        read_content_part(item, place, part)


def read_content_part(item: Item, at: Pointer, part: Value) -> None:
    """Adds one part of what a message's author wrote to an item."""
    if is_text(part):
        say(item, at, part)
        return
    block = as_object(part)
    text, kind = block.get("text"), kind_of(block)
    if is_text(text) and (kind is None or kind in TEXTS):
        cited = bool(block.get("annotations") or block.get("citations"))
        say(item, (*at, "text"), text, cited=cited)
    elif (media_part := media(at, block, None)) is not None:
        item.media = add_item(item.media, media_part)
    else:
        item.data = add_item(item.data, part)


def media(at: Pointer, part: Object, text_type: str | None) -> Media | None:
    """Returns a part as an image, a recording or a file; None if it is none of these."""
    kind = kind_of(part)
    inline = as_object(part.get("inlineData", part.get("inline_data")))
    linked = as_object(part.get("fileData", part.get("file_data")))
    is_embedded = as_text(as_object(part.get("resource")).get("blob")) is not None
    if kind not in MEDIA and not inline and not linked and not is_embedded:
        return None
    size, mime = _measure_inline(part, inline)
    return Media(at=at, part=part, type=mime or str(kind or "file"), size=size, text_type=text_type)


def _measure_inline(part: Object, inline: Object) -> tuple[int, str | None]:
    """Returns about how many bytes a part itself contains, and their declared type; None if it has no type.

    The number is that of base64 without padding, also for the rare part whose data is plain text.
    """
    source = as_object(part.get("source"))
    audio = as_object(part.get("input_audio"))
    file = as_object(part.get("file"))
    # Each provider has its own place for the bytes and their type.
    for holder in (inline, source, audio, file, as_object(part.get("resource")), part):
        mime = next((holder[key] for key in ("mimeType", "mime_type", "media_type") if as_text(holder.get(key))), None)
        data = next((text for key in ("data", "base64", "blob") if (text := as_text(holder.get(key)))), None)
        if data is not None:
            return len(data) * 3 // 4, mime
    url = part.get("image_url", part.get("file_data", file.get("file_data", part.get("url"))))
    url = as_object(url).get("url", url)
    if isinstance(url, str) and url.startswith("data:") and _BASE64 in url[:200]:
        head, _, data = url.partition(_BASE64)
        return len(data) * 3 // 4, head[len("data:") :].split(";")[0] or None
    return 0, None


def read_reasoning(at: Pointer, block: Object, kind: str) -> Opaque:
    """Returns the reasoning of any provider: its text, to be counted, and the length of its encrypted part."""
    texts = [block.get(key) for key in ("thinking", "reasoning", "text")]
    for key in ("summary", "content"):
        texts += [as_object(one).get("text") for one in as_list(block.get(key))]
    words: list[Text] = [text for text in texts if is_text(text) and text]
    blob = sum(len(text) for key in ("encrypted_content", "data") if (text := as_text(block.get(key))))
    return Opaque(at=at, kind=kind, text=words[0] if len(words) == 1 else "\n".join(map(str, words)), blob=blob)
