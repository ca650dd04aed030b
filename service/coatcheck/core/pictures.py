"""Images among the parts of a tool result: how to find them, their cost in tokens, and how to put them beside a text.

A card can only mention an image, and not show it. So the image stays in the tool result as the same part, next to the
text that replaces everything else.
"""

import base64
from collections.abc import Sequence
from typing import Any, Final, cast

from msgspec import Struct, json

from coatcheck.core.media.headers import sides
from coatcheck.core.media.image_tokens import Provider, image_tokens

Value = Any
Object = dict[str, Any]

UNKNOWN: Final = 1_000
"""Assumed tokens of an image of unknown size. The size is unknown if the part only refers to the image, or if its
format is rare."""
_KINDS: Final = frozenset({"image", "image_url", "input_image"})
_MIMES: Final = ("media_type", "mimeType", "mime_type")
_HEADER: Final = 256 * 1024
"""Characters of base64 in which an image must state its size. Previews and colour profiles may come before it."""
_LINKS: Final = ("fileData", "file_data")


class Pictures(Struct, frozen=True, kw_only=True):
    """The images of a tool result, as its parts."""

    parts: tuple[Value, ...]
    before: int
    """Number of images before the first text."""
    text: Object
    """A text part in the format of the tool result, without its text."""
    has_others: bool
    """Whether the tool result has several parts."""
    tokens: int
    """Estimated tokens of all images, by the rule of the provider whose format the parts have."""

    def beside(self, text: str, *, inline: bool = False) -> list[Value]:
        """Returns the parts of a tool result with `text` and the images.

        `inline` says that the text is the payload itself. If the tool result has several parts, that payload is the
        JSON of all parts, and these parts are returned.
        """
        if inline and self.has_others:
            whole: Value = json.decode(text)
            return cast("list[Value]", whole["content"] if isinstance(whole, dict) else whole)
        return [*self.parts[: self.before], {**self.text, "text": text}, *self.parts[self.before :]]


def pictures_of(parts: Sequence[Value]) -> Pictures | None:
    """Returns the images among the parts of a tool result; None if there are none."""
    numbers = [number for number, part in enumerate(parts) if is_picture(part)]
    if not numbers:
        return None
    first = next((number for number, part in enumerate(parts) if _says(part)), -1)
    pictures = tuple(parts[number] for number in numbers)
    return Pictures(
        parts=pictures,
        before=sum(number < first for number in numbers),
        text=_text_part(parts[first] if first >= 0 else None, cast("Object", pictures[0])),
        has_others=len(parts) > 1,
        tokens=sum(picture_tokens(cast("Object", part)) or UNKNOWN for part in pictures),
    )


def is_picture(part: Value) -> bool:
    """Returns whether a part is an image, or refers to one."""
    kind = _member(part, "type")
    if kind is not None or not isinstance(part, dict):
        return isinstance(kind, str) and kind in _KINDS
    block = cast("Object", part)
    content = _inline(block) or next((block[name] for name in _LINKS if name in block), None)
    mime = _member(content, "mimeType") or _member(content, "mime_type")
    return isinstance(mime, str) and mime.startswith("image/")


def picture_tokens(part: Object, model: str = "") -> int | None:
    """Returns the tokens of an image by its provider's rule, for the size in its header; None if it is unknown."""
    dimensions = sides(*_beginning(part))
    if dimensions is None:
        return None
    detail = part.get("detail", _member(part.get("image_url"), "detail"))
    return image_tokens(provider_of(part, model), *dimensions, model=model, low=detail == "low")


def provider_of(part: Object, model: str = "") -> Provider:
    """Returns the provider whose rule applies to an image: by the format of the part, or by the name of the model."""
    if _inline(part) is not None or "gemini" in model:
        return "gemini"
    return "anthropic" if isinstance(part.get("source"), dict) or "claude" in model else "openai"


def _beginning(part: Object) -> tuple[str | None, bytes]:
    """Returns the media type and the first bytes of an image; no bytes if the part only refers to the image."""
    url = part.get("image_url")
    url = _member(url, "url") if isinstance(url, dict) else url
    if isinstance(url, str):
        head, _, data = url.partition(";base64,") if url.startswith("data:") else ("", "", "")
        return head.removeprefix("data:").partition(";")[0].lower(), _decode_base64(data)
    for holder in (_inline(part), part.get("source"), part):
        data = _member(holder, "data") or _member(holder, "base64")
        if isinstance(data, str):
            mime = next((value for name in _MIMES if isinstance(value := _member(holder, name), str)), None)
            return mime, _decode_base64(data)
    return None, b""


def _decode_base64(text: str) -> bytes:
    """Returns the first bytes that base64 encodes, standard or URL-safe, in one piece or in lines; empty if invalid."""
    compact = "".join(text[:_HEADER].split()).rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(compact[: len(compact) // 4 * 4])
    except ValueError:
        return b""


def _says(part: Value) -> bool:
    return isinstance(part, str) or isinstance(_member(part, "text"), str)


def _text_part(text: Value, picture: Object) -> Object:
    """Returns a text part without its text: like the first given text part, or else in the format of the picture."""
    if isinstance(text, dict):
        return {key: value for key, value in cast("Object", text).items() if key not in {"text", "citations"}}
    if picture.get("type") == "input_image":
        return {"type": "input_text"}
    return {"type": "text"} if "type" in picture else {}


def _inline(block: Object) -> Value:
    return block.get("inlineData", block.get("inline_data"))


def _member(value: Value, name: str) -> Value:
    return cast("Object", value).get(name) if isinstance(value, dict) else None
