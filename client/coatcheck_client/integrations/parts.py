"""Handles tool results that are lists of parts: finds texts and embedded resources, and puts a card in their place.

A part is a dictionary in a provider's form, or an object of a framework's type that has its text in `text`. Pure
functions.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from coatcheck_client.contract.blobs import decode
from coatcheck_client.contract.cards import is_card
from coatcheck_client.results import Receipt

Block = Mapping[str, Any]
"""A block of an MCP result, as JSON."""

_MEDIA: Final = frozenset({"image", "image_url", "input_image", "audio", "input_audio", "video"})
"""Types of parts with pictures or sound. `file` is not one: entries of a folder also state that they are files."""
_CONTENTS: Final = ("data", "source", "image_url", "url", "uri", "base64", "file_id")
"""Members of a part with pictures or sound that contain or name them; so may a member with the name of its type."""


def texts_of(result: object) -> list[str] | None:
    """Returns the texts of a result that is a list of parts; None for any other result, or if no part has text."""
    if not isinstance(result, list | tuple):
        return None
    parts = cast("Sequence[object]", result)
    kinds = [_kind(part) for part in parts]
    if not any(kinds) or not all(kind or isinstance(part, str) for kind, part in zip(kinds, parts, strict=True)):
        return None
    return [text for part in parts if (text := text_of(part)) is not None] or None


def is_media(result: object) -> bool:
    """Returns whether a result is a picture, a video or sound, or a list of nothing but such parts."""
    parts = cast("Sequence[object]", result) if isinstance(result, list | tuple) else [result]
    return bool(parts) and all(map(_has_media, parts))


def text_of(part: object) -> str | None:
    """Returns the text of one part; None if it is something else, such as an image."""
    if isinstance(part, str):
        return part
    if "text" not in _kind(part):
        return None
    text = cast("dict[str, Any]", part).get("text") if isinstance(part, dict) else getattr(part, "text", None)
    return text if isinstance(text, str) else None


def with_card(parts: Sequence[Any], card: str) -> list[Any]:
    """Returns the parts with the card in place of the first text and without the other texts.

    Other parts stay, and so do texts that Coatcheck wrote.
    """
    kept: list[Any] = []
    has_card = False
    for part in parts:
        text = text_of(part)
        if text is None or is_card(text):
            kept.append(part)
        elif not has_card:
            kept.append(_with_text(part, card))
            has_card = True
    return kept


class Resource(NamedTuple):
    """An embedded resource that is stored as an artifact of its own."""

    data: str | bytes
    declared: dict[str, Any]
    """What a put declares about it: its media type, and its URI as `url` or as `title`."""

    def text_in(self, receipt: Receipt) -> str | None:
        """Returns what a model reads in place of the resource; None if the resource stays as it is.

        The model never sees binary data: if the data could not be stored, the returned text says so.
        """
        return None if receipt.inline and isinstance(self.data, str) else receipt.text


def resource_of(block: Block, most: int) -> Resource | None:
    """Returns the embedded resource in a block.

    Returns None if the block has none, if the resource's text or base64 has at most `most` characters, or if the text
    is a card.
    """
    resource: object = block.get("resource")
    if block.get("type") != "resource" or not isinstance(resource, Mapping):
        return None
    held = cast("Block", resource)
    text, code, uri, kind = (held.get(name) for name in ("text", "blob", "uri", "mimeType"))
    content = text if isinstance(text, str) else code if isinstance(code, str) else ""
    if len(content) <= most or is_card(content):
        return None
    data = content if content is text else decode(content.encode("ascii", "replace"))
    where = {"url" if uri.startswith(("http://", "https://")) else "title": uri} if isinstance(uri, str) else {}
    return Resource(data, {**where, **({"media_type": kind} if isinstance(kind, str) else {})})


def _kind(part: object) -> str:
    """Returns a part's type; empty for anything that is not a part.

    Parts of Bedrock and of Google have no `type`: the member that they have tells their type.
    """
    if isinstance(part, dict):
        block = cast("dict[Any, Any]", part)
        kind: object = block.get("type", next(iter(block)) if len(block) == 1 else None)
    elif hasattr(part, "inline_data"):
        kind = "text" if getattr(part, "text", None) is not None else "data"
    else:
        kind = getattr(part, "type", None) or getattr(part, "block_type", None)
    return kind if isinstance(kind, str) else ""


def _has_media(part: object) -> bool:
    """Returns whether a part is a picture, a video or sound.

    Any tool may return a dictionary with a member `data` or `video`, so a dictionary is a part only if it also has what
    every provider's form has.
    """
    kind = _kind(part)
    if not isinstance(part, dict):
        return kind in _MEDIA or kind == "data"  # the frameworks' own types
    block = cast("dict[Any, Any]", part)
    if "type" not in block:
        return kind in _MEDIA and isinstance(block[kind], dict)
    return kind in _MEDIA and any(isinstance(block.get(name), str | bytes | dict) for name in (kind, *_CONTENTS))


def _with_text(part: object, text: str) -> object:
    if isinstance(part, str):
        return text
    if isinstance(part, dict):
        return {**cast("dict[str, Any]", part), "text": text}
    changed: Any = copy.copy(part)
    changed.text = text
    return changed
