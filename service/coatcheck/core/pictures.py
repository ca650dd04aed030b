"""Pictures among the parts of a tool result: which parts they are, what they cost, and how they stand beside a text.

A card says that there is a picture; only the picture shows it. So it goes back into the tool result as the very part
that came, next to the text that takes the place of everything else.
"""

import base64
from collections.abc import Sequence
from typing import Any, Final, cast

from msgspec import Struct, json

from coatcheck.core.media.image_tokens import Provider, image_tokens, sides

Value = Any
Object = dict[str, Any]

UNKNOWN: Final = 1_000
"""Tokens of a picture whose sides are not known: one that is only referred to, or in a rare format."""
_KINDS: Final = frozenset({"image", "image_url", "input_image"})
_MIMES: Final = ("media_type", "mimeType", "mime_type")
_HEADER: Final = 256 * 1024
"""Characters of base64 in which a header states the sides: previews and colour profiles may stand before them."""
_LINKS: Final = ("fileData", "file_data")


class Pictures(Struct, frozen=True, kw_only=True):
    """The pictures of a tool result, in the shape in which they came."""

    parts: tuple[Value, ...]
    before: int
    """How many of them stand before the first text."""
    text: Object
    """A part for text in the same shape, without its text."""
    said: bool
    """Whether other parts came with them."""
    tokens: int
    """Estimated by the rule of the provider whose shape it is."""

    def beside(self, text: str, *, inline: bool = False) -> list[Value]:
        """The parts of a tool result that says `text` and shows the pictures.

        Where the text is the payload itself (`inline`), that is all the parts as JSON, unless a picture is text.
        """
        if inline and self.said:
            whole: Value = json.decode(text)
            return cast("list[Value]", whole["content"] if isinstance(whole, dict) else whole)
        return [*self.parts[: self.before], {**self.text, "text": text}, *self.parts[self.before :]]


def pictures_of(parts: Sequence[Value]) -> Pictures | None:
    """The pictures among the parts of a tool result; None where there are none."""
    found = [number for number, part in enumerate(parts) if is_picture(part)]
    if not found:
        return None
    first = next((number for number, part in enumerate(parts) if _says(part)), -1)
    shown = tuple(parts[number] for number in found)
    return Pictures(
        parts=shown,
        before=sum(number < first for number in found),
        text=_text_part(parts[first] if first >= 0 else None, cast("Object", shown[0])),
        said=len(parts) > 1,
        tokens=sum(picture_tokens(cast("Object", part)) or UNKNOWN for part in shown),
    )


def is_picture(part: Value) -> bool:
    """Whether a part is an image, in the part itself or referred to."""
    kind = _member(part, "type")
    if kind is not None or not isinstance(part, dict):
        return isinstance(kind, str) and kind in _KINDS
    block = cast("Object", part)
    held = _inline(block) or next((block[name] for name in _LINKS if name in block), None)
    mime = _member(held, "mimeType") or _member(held, "mime_type")
    return isinstance(mime, str) and mime.startswith("image/")


def picture_tokens(part: Object, model: str = "") -> int | None:
    """Tokens of a picture by its provider's rule; None where its sides are not known. Reads its header alone."""
    found = sides(*_beginning(part))
    if found is None:
        return None
    detail = part.get("detail", _member(part.get("image_url"), "detail"))
    return image_tokens(provider_of(part, model), *found, model=model, low=detail == "low")


def provider_of(part: Object, model: str = "") -> Provider:
    """Whose rule a picture is counted by: its model's, else that of the provider whose shape it has."""
    if _inline(part) is not None or "gemini" in model:
        return "gemini"
    return "anthropic" if isinstance(part.get("source"), dict) or "claude" in model else "openai"


def _beginning(part: Object) -> tuple[str | None, bytes]:
    """The media type and the first bytes of a picture; none of one that is only referred to."""
    url = part.get("image_url")
    url = _member(url, "url") if isinstance(url, dict) else url
    if isinstance(url, str):
        head, _, data = url.partition(";base64,") if url.startswith("data:") else ("", "", "")
        return head.removeprefix("data:").partition(";")[0].lower(), _decoded(data)
    for holder in (_inline(part), part.get("source"), part):
        data = _member(holder, "data") or _member(holder, "base64")
        if isinstance(data, str):
            mime = next((found for name in _MIMES if isinstance(found := _member(holder, name), str)), None)
            return mime, _decoded(data)
    return None, b""


def _decoded(text: str) -> bytes:
    """The first bytes of base64, standard or URL-safe, in one piece or in lines; none of what is no base64."""
    compact = "".join(text[:_HEADER].split()).rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(compact[: len(compact) // 4 * 4])
    except ValueError:
        return b""


def _says(part: Value) -> bool:
    return isinstance(part, str) or isinstance(_member(part, "text"), str)


def _text_part(text: Value, picture: Object) -> Object:
    """A part for text: as the first one that came, else as the picture's provider writes it."""
    if isinstance(text, dict):
        return {key: value for key, value in cast("Object", text).items() if key not in {"text", "citations"}}
    if picture.get("type") == "input_image":
        return {"type": "input_text"}
    return {"type": "text"} if "type" in picture else {}


def _inline(block: Object) -> Value:
    return block.get("inlineData", block.get("inline_data"))


def _member(value: Value, name: str) -> Value:
    return cast("Object", value).get(name) if isinstance(value, dict) else None
