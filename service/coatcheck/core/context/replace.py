"""Makes the text that replaces a payload, and counts its tokens: a card, a marker, a placeholder, or a cut.

A cut replaces a payload that could not be stored. Only the value with the payload changes; its type, the values beside
it, cache marks and the mark of a failed tool stay.
"""

import json
from collections.abc import Mapping
from typing import Final, final

from msgspec import Struct, structs

from coatcheck.core.context import signs
from coatcheck.core.context.arguments import short_members, without
from coatcheck.core.context.body.encoding import Value, as_object, dump_value
from coatcheck.core.context.body.model import Media
from coatcheck.core.context.body.splice import Pointer, apply_edits, dump_like, get, parse_document, splice_inner
from coatcheck.core.context.command import file_of
from coatcheck.core.context.counting import Counter, estimate_escaped
from coatcheck.core.context.notice import about
from coatcheck.core.context.replaceable import (
    PlannedPayload,
    ReplaceablePayload,
    Replacement,
    ReplacementCandidate,
    ReplacementSite,
)
from coatcheck.core.text.excerpt import head, tail
from coatcheck.core.text.long_text import Text, encode_text, is_text
from coatcheck.core.tokens import Tokenizer

_CACHE_KEYS: Final = ("cache_control", "prompt_cache_breakpoint")
"""Members by which a part marks a breakpoint of the prompt cache; they are kept."""
_UNSTORED: Final = (
    "left out here: they could not be stored and cannot be read back. Run the tool again if you need them."
)
_SEAM_TOKENS: Final = 64
"""Tokens reserved for the line between the two ends of a cut, and for the effect of joining them."""
_ABOUT_CHARS: Final = 48
"""Maximum characters of the tool and command in an output's marker, or of a file's path: about a dozen tokens."""
_SOME_ID: Final = f"art_{'0' * 18}"
"""Stands for an ID that is not known yet: all IDs have equally many tokens."""


class StoredPayload(Struct, frozen=True):
    """The result of storing a payload.

    If the payload could not be stored, the result has no ID, or there is no result at all. A card without an ID
    replaces an output that is withheld.
    """

    artifact_id: str | None
    card: str | None = None
    is_stored: bool = True
    """Whether the payload is stored. False if storage refused it: the card then says so, and the store perhaps does not
    know the ID."""


class Swap(Struct, frozen=True):
    """One value that changes: at a place in the body, or inside the JSON document that is the string at that place."""

    place: ReplacementSite
    new: Value
    text: str
    """The new text, as its tokens are counted."""
    to: str


def swaps(
    body: Value, payload: ReplaceablePayload, stored_payload: StoredPayload | None, budget: int, tokenizer: Tokenizer
) -> list[Swap]:
    """Returns the changes for one payload; none if the payload could not be stored and therefore stays."""
    artifact_id = stored_payload.artifact_id if stored_payload is not None and stored_payload.is_stored else None
    if payload.becomes_card:
        card = stored_payload.card if stored_payload is not None else None
        if card is None:
            return _cut_output(body, payload.sites, budget, tokenizer)
        return [_swap_output(body, place, artifact_id, card) for place in payload.sites]
    sites = payload.sites
    if artifact_id is None and payload.kind not in {"read", "search"}:
        return []
    match payload.kind:
        case "media" if payload.media is not None:
            return [_placeholder(sites[0], payload.media, str(artifact_id))]
        case "arguments":
            path = None if payload.call_at is None else file_of(get(body, payload.call_at))
            return [_make_marker_swap(body, place, artifact_id, path) for place in sites]
        case "read" | "search":
            to = "line" if payload.kind == "read" else "summary"
            texts = [signs.PASSAGE if place.shows == "passage" else payload.replacement_text or "" for place in sites]
        case "message":
            to, line = "ends", signs.make_cut_line(str(artifact_id))
            texts = [_cut(_text(body, place), line, budget, tokenizer) for place in sites]
        case _:
            description = about(payload.tool, payload.command, "")[:_ABOUT_CHARS]
            to, texts = "marker", [signs.marker(sites[0].characters, str(artifact_id), description)]
    return [Swap(place, text, text, to) for place, text in zip(sites, texts, strict=True)]


def _swap_output(body: Value, place: ReplacementSite, artifact_id: str | None, card: str) -> Swap:
    """Returns the change of one part of an output: its card, or a marker beside the card."""
    if place.shows == "marker":
        return _make_marker_swap(body, place, artifact_id)
    return _swap_text(body, place, card, "card")


def _swap_text(body: Value, place: ReplacementSite, text: str, to: str) -> Swap:
    if place.shows != "whole":
        return Swap(place, text, text, to)
    return Swap(place, {"error" if "error" in as_object(get(body, place.at)) else "output": text}, text, to)


def _cut_output(body: Value, sites: tuple[ReplacementSite, ...], budget: int, tokenizer: Tokenizer) -> list[Swap]:
    """Returns the changes of an output without a card: its first and last part are cut, the parts between are removed.

    A part that a cut would not make shorter stays whole.
    """
    ends = {0, len(sites) - 1}
    changes: list[Swap] = []
    for number, place in enumerate(sites):
        if number not in ends:
            changes.append(_make_marker_swap(body, place, None))
            continue
        text = _text(body, place)
        cut = _cut(text, f"[… {{:,}} bytes {_UNSTORED}]", budget // len(ends), tokenizer)
        if cut != str(text):
            changes.append(_swap_text(body, place, cut, "cut"))
    return changes


def _make_marker_swap(body: Value, place: ReplacementSite, artifact_id: str | None, path: str | None = None) -> Swap:
    if artifact_id is None:
        text = f"[… {place.characters:,} characters could not be stored and cannot be read back]"
        return Swap(place, text, text, "cut")
    marker = signs.marker(place.characters, artifact_id, about(None, path, "")[-_ABOUT_CHARS:].lstrip())
    value = get(body, place.at)
    if place.shows == "whole":
        document = as_object(parse_document(value) if is_text(value) else value)
        new = without(document, marker, short_members(document))
        if is_text(value):
            json_text = dump_like(value, new)
            return Swap(place, json_text, json_text, "marker")
        return Swap(place, new, json.dumps(new, ensure_ascii=False), "marker")
    inner = get(parse_document(value), place.inside) if place.inside else value
    return Swap(place, without(inner, marker), marker, "marker")


def _placeholder(place: ReplacementSite, media: Media, artifact_id: str) -> Swap:
    text = signs.placeholder(media.type, media.size, artifact_id)
    part = as_object(media.part)
    cache_markers = {key: part[key] for key in _CACHE_KEYS if key in part}
    return Swap(place, {"type": media.text_type, "text": text, **cache_markers}, text, "placeholder")


def _text(body: Value, place: ReplacementSite) -> Text:
    value = get(body, place.at)
    if place.inside and is_text(value):
        inner = get(parse_document(value), place.inside)
        return inner if is_text(inner) else ""
    return value if is_text(value) else dump_value(value)


def _cut(text: Text, line: str, budget: int, tokenizer: Tokenizer) -> str:
    """Returns head and tail of a text within a card's budget, with a line on the missing bytes between them.

    Returns the whole text if that is not longer.
    """
    data = encode_text(text)
    room = max(budget - _SEAM_TOKENS, 2) // 2
    first, last = head(data, room, tokenizer), tail(data, room, tokenizer)
    missing = len(data) - len(first) - len(last)
    between = line.format(missing)
    if missing <= len(between.encode()):
        return str(text)
    return f"{first.decode('utf-8', 'replace')}\n{between}\n{last.decode('utf-8', 'replace')}"


@final
class TrueLengths:
    """The tokens that replacements save, as far as they are known. Only the length of a card is not known at once."""

    def __init__(self, body: Value, candidates: list[ReplacementCandidate], counter: Counter, card_tokens: int) -> None:
        self._body = body
        self._all = candidates
        self._counter = counter
        self._card_tokens = card_tokens
        self._arguments: dict[Pointer, Value] = {}
        """Arguments of calls as they are after the replacements that were counted so far."""
        self._savings: dict[Replacement, int] = {}

    def learn(self, replacement: Replacement, stored_payload: StoredPayload | None) -> None:
        """Counts the saving of a replacement; `stored_payload` must come from `with_same`.

        The card of a payload that could not be stored counts like any other, and an output without a card counts as if
        it had a card of maximum length. So no decision depends on whether storing succeeds.
        """
        card = None if stored_payload is None else stored_payload.card
        one = self._all[replacement.candidate]
        self._savings[replacement] = (
            one.tokens - self._card_tokens if card is None else self._saving(one, StoredPayload(_SOME_ID, card))
        )

    def saving(self, replacement: Replacement) -> int | None:
        """Returns the tokens that a replacement saves; None while the length of its card is not known."""
        one = self._all[replacement.candidate]
        if replacement not in self._savings and not one.becomes_card:
            self._savings[replacement] = self._saving(one, StoredPayload(_SOME_ID))
        return self._savings.get(replacement)

    def _saving(self, one: ReplacementCandidate, stored_payload: StoredPayload) -> int:
        changes = swaps(self._body, one, stored_payload, self._card_tokens, self._counter.tokenizer)
        if one.call_at is not None:
            return self._saving_in_call(one.call_at, [swap for swap in changes if swap.place.is_counted])
        count = self._counter.text if one.kind == "message" else self._counter.piece
        return one.tokens - sum(count(swap.text) for swap in changes)

    def _saving_in_call(self, at: Pointer, changes: list[Swap]) -> int:
        """Returns the saving of changes in a call's arguments, in addition to the changes that were counted before."""
        before = after = self._arguments.get(at, get(self._body, at))
        is_json = any(swap.place.inside or swap.place.shows == "whole" for swap in changes) and is_text(before)
        for swap in changes:
            place = swap.place
            if place.inside:
                after = splice_inner(after, {place.inside: swap.new})
            else:
                steps = place.at[len(at) :]
                after = apply_edits(after, {steps: swap.new}) if steps else swap.new
        self._arguments[at] = after
        sizes = self._counter.json(before), self._counter.json(after)
        return estimate_escaped(sizes[0]) - estimate_escaped(sizes[1]) if is_json else sizes[0] - sizes[1]


def with_same(payload: PlannedPayload, stored_payloads: Mapping[str, StoredPayload]) -> StoredPayload | None:
    """Returns the result of storing a payload; None if there is none.

    The card of a payload that equals an earlier one names the earlier one's ID instead of showing excerpts. For a
    payload that is not to be stored, returns a result with the ID of the artifact that was read.
    """
    stored_payload = stored_payloads.get(payload.key)
    if not payload.is_stored:
        return StoredPayload(payload.artifact_id)
    first = stored_payloads.get(payload.same_as or "")
    if (
        stored_payload is None
        or stored_payload.card is None
        or first is None
        or first.artifact_id in {None, stored_payload.artifact_id}
    ):
        return stored_payload
    if not (stored_payload.is_stored and first.is_stored):
        return stored_payload
    return structs.replace(
        stored_payload, card=f"{stored_payload.card.splitlines()[0]}\nThe same as {first.artifact_id}, byte for byte."
    )


def edits(body: Value, changes: list[Swap]) -> dict[Pointer, Value]:
    """Returns the values to set, by pointer; several changes inside one JSON string become one."""
    values: dict[Pointer, Value] = {}
    within: dict[Pointer, dict[Pointer, Value]] = {}
    for swap in changes:
        if swap.place.inside:
            within.setdefault(swap.place.at, {})[swap.place.inside] = swap.new
        else:
            values[swap.place.at] = swap.new
    return values | {at: splice_inner(get(body, at), inside) for at, inside in within.items()}
