"""Cut a text to a budget of tokens and characters without losing a byte: what is cut is the start of what follows.

A cut falls at a line's end if one fits, otherwise between graphemes, otherwise between characters. Works on bytes,
valid UTF-8 or not, and reports exactly how many of them the text stands for.
"""

from bisect import bisect_right
from typing import Final, Literal

import regex
from msgspec import Struct

from coatcheck.core.tokens import Tokenizer
from coatcheck.core.window import decode, separates

Cut = Literal["max_tokens", "max_characters"]

_GRAPHEME: Final = regex.compile(r"\X")
_LOOK: Final = 64
"""Characters looked back for the end of a grapheme; longer ones are cut inside."""


class Clip(Struct, frozen=True):
    """The start of some bytes, as text within a budget."""

    end: int
    """Bytes that the text stands for: it is exactly these, decoded."""
    text: str
    tokens: int
    """Of `text` by itself."""
    cut: Cut | None
    """Which budget ended it; None when nothing was cut."""


class Budget(Struct, frozen=True):
    """How much text may be given, counted as a string by itself."""

    tokens: int
    chars: int


def clip(data: bytes, budget: Budget, tokenizer: Tokenizer, *, whole: bool, by_line: bool) -> Clip | None:
    """The longest start of `data` within the budget; None when it all fits and there is more to fetch.

    Never over the budget and never empty unless `data` is: where a single character is over it, a byte of it is
    given, which shows as U+FFFD.

    Args:
        data: what may be given.
        budget: both bounds; `tokens` is at least 1.
        tokenizer: counts.
        whole: nothing that was asked lies beyond `data`. Otherwise its last few bytes may be half a character.
        by_line: prefer to end after an LF.
    """
    settled = len(data) if whole else _settled(data)
    text = decode(data[:settled])
    cut: Cut = "max_characters"
    within = text[: budget.chars]
    ids = tokenizer.encode(within)
    keep = len(within)
    if len(ids) > budget.tokens:
        cut = "max_tokens"
        keep = len(tokenizer.decode(ids[: budget.tokens]).decode("utf-8", "ignore"))
    elif len(within) == len(text):
        return Clip(settled, text, len(ids), None) if whole else None
    while keep > 0:
        end = raw_length(data[:settled], text, _choose(text, keep, by_line=by_line))
        shown = decode(data[:end])
        tokens = tokenizer.count(shown)
        if end and tokens <= budget.tokens:
            return Clip(end, shown, tokens, cut)
        keep = min(keep, len(shown)) - max(1, tokens - budget.tokens)
    shown = decode(data[:1])
    return Clip(1, shown, tokenizer.count(shown), cut)


def raw_length(data: bytes, text: str, keep: int) -> int:
    """How many bytes of `data` the first `keep` characters of `text` (`data` decoded) stand for.

    Where bytes are not UTF-8, the nearest place below that `separates`.
    """
    if keep >= len(text):
        return len(data)
    if len(text) == len(data):  # one character a byte: ASCII, or nothing but single invalid bytes
        return _down(data, keep)
    if text.encode() == data:
        return len(text[:keep].encode())
    places = range(len(data) + 1)
    return _down(data, bisect_right(places, keep, key=lambda at: len(decode(data[: _down(data, at)]))) - 1)


def _down(data: bytes, at: int) -> int:
    while not separates(data, at):
        at -= 1
    return at


def _settled(data: bytes) -> int:
    return _down(data, len(data) - 1) if data else 0


def _choose(text: str, keep: int, *, by_line: bool) -> int:
    line = text.rfind("\n", 0, keep) + 1 if by_line else 0
    return line or _grapheme_end(text, keep)


def _grapheme_end(text: str, keep: int) -> int:
    if keep >= len(text):
        return keep
    start = max(0, keep - _LOOK)
    best = 0
    for match in _GRAPHEME.finditer(text, start, min(len(text), keep + _LOOK)):
        if match.end() > keep:
            break
        best = match.end()
    return best or keep
