"""What replaces a payload: a card, a marker, a placeholder; a cut if storing failed.

Only the value that contained the payload changes; its type, its neighbours, cache marks and the tool's failure stay.
"""

import json
from typing import Final

from msgspec import Struct

from coatcheck.core.context import signs
from coatcheck.core.context.arguments import short_members, without
from coatcheck.core.context.body.encoding import dumped
from coatcheck.core.context.body.inner import parsed, spliced
from coatcheck.core.context.body.model import Media
from coatcheck.core.context.body.pointer import Pointer, get
from coatcheck.core.context.body.shape import Value, as_object
from coatcheck.core.context.plan import PlannedPayload
from coatcheck.core.context.replaceable import ReplacementSite
from coatcheck.core.text.excerpt import head, tail
from coatcheck.core.text.long_text import Text, encoded, is_text
from coatcheck.core.tokens import Tokenizer

_MARKS: Final = ("cache_control", "prompt_cache_breakpoint")
_UNSTORED: Final = (
    "left out here: they could not be stored and cannot be read back. Run the tool again if you need them."
)
_OUR_WORDS: Final = 64
"""Tokens of the line between the two ends of a cut, including what joining them may cost."""


class StoredPayload(Struct, frozen=True):
    """The result of storing a payload. Leave it out, or without an ID, if it could not be stored.

    A card without an ID replaces an output that is withheld.
    """

    artifact_id: str | None
    card: str | None = None
    stored: bool = True
    """False for the card of a payload that storage refused: it says so itself, and its ID promises nothing."""


class Swap(Struct, frozen=True):
    """One value that changes: at a place in the body, or inside the JSON document in the string there."""

    place: ReplacementSite
    new: Value
    text: str
    """The new text, for counting."""
    to: str


def swaps(
    body: Value, payload: PlannedPayload, stored: StoredPayload | None, budget: int, tokenizer: Tokenizer
) -> list[Swap]:
    """Returns the changes for one payload; none if it could not be stored and must stay."""
    kept = stored.artifact_id if stored is not None and stored.stored else None
    match payload.kind:
        case "media":
            if kept is None or payload.media is None:
                return []
            return [_placeholder(payload.places[0], payload.media, kept)]
        case "arguments":
            return [] if kept is None else [_marked(body, place, kept) for place in payload.places]
        case "message":
            return [] if kept is None else [_ends(body, place, kept, budget, tokenizer) for place in payload.places]
        case "read" | "search":
            return [_given(place, payload) for place in payload.places]
        case "output":
            card = stored.card if stored is not None else None
            return [_output(body, place, kept, card, budget, tokenizer) for place in payload.places]


def _given(place: ReplacementSite, payload: PlannedPayload) -> Swap:
    text = signs.PASSAGE if place.shows == "passage" else payload.shown or ""
    return Swap(place, text, text, "line" if payload.kind == "read" else "summary")


def _output(
    body: Value, place: ReplacementSite, kept: str | None, card: str | None, budget: int, tokenizer: Tokenizer
) -> Swap:
    if place.shows == "marker":
        return _marked(body, place, kept)
    if card is not None:
        return _carded(body, place, card, "card")
    text = _text(body, place)
    line = f"[… {{:,}} bytes {_UNSTORED}]"
    return _carded(body, place, _cut(text, line, budget, tokenizer), "cut")


def _ends(body: Value, place: ReplacementSite, kept: str, budget: int, tokenizer: Tokenizer) -> Swap:
    text = _text(body, place)
    new = _cut(text, signs.shortened(kept), budget, tokenizer)
    return Swap(place, new, new, "ends")


def _marked(body: Value, place: ReplacementSite, artifact_id: str | None) -> Swap:
    if artifact_id is None:
        text = f"[… {place.characters:,} characters could not be stored and cannot be read back]"
        return Swap(place, text, text, "cut")
    marker = signs.marker(place.characters, artifact_id)
    value = get(body, place.at)
    if place.shows == "whole":
        document = as_object(parsed(value) if is_text(value) else value)
        new = without(document, marker, short_members(document))
        written = json.dumps(new, ensure_ascii=False)
        return Swap(place, written if is_text(value) else new, written, "marker")
    return Swap(place, without(get(parsed(value), place.inside) if place.inside else value, marker), marker, "marker")


def _carded(body: Value, place: ReplacementSite, text: str, to: str) -> Swap:
    if place.shows != "whole":
        return Swap(place, text, text, to)
    failed = "error" in as_object(get(body, place.at))
    return Swap(place, {"error" if failed else "output": text}, text, to)


def _placeholder(place: ReplacementSite, media: Media, artifact_id: str) -> Swap:
    text = signs.placeholder(media.type, media.size, artifact_id)
    part = as_object(media.part)
    marks = {key: part[key] for key in _MARKS if key in part}
    return Swap(place, {"type": media.text_type, "text": text, **marks}, text, "placeholder")


def _text(body: Value, place: ReplacementSite) -> Text:
    value = get(body, place.at)
    if place.inside and is_text(value):
        found = get(parsed(value), place.inside)
        return found if is_text(found) else ""
    return value if is_text(value) else dumped(value)


def _cut(text: Text, line: str, budget: int, tokenizer: Tokenizer) -> str:
    """Returns head and tail of a text within a card's budget, and a line between them on how much is missing."""
    data = encoded(text)
    room = max(budget - _OUR_WORDS, 2) // 2
    first, last = head(data, room, tokenizer), tail(data, room, tokenizer)
    between = line.format(len(data) - len(first) - len(last))
    return f"{first.decode('utf-8', 'replace')}\n{between}\n{last.decode('utf-8', 'replace')}"


def edits(body: Value, changes: list[Swap]) -> dict[Pointer, Value]:
    """Returns the values to set, by pointer; several changes inside one JSON string become one."""
    found: dict[Pointer, Value] = {}
    within: dict[Pointer, dict[Pointer, Value]] = {}
    for swap in changes:
        if swap.place.inside:
            within.setdefault(swap.place.at, {})[swap.place.inside] = swap.new
        else:
            found[swap.place.at] = swap.new
    return found | {at: spliced(get(body, at), inside) for at, inside in within.items()}
