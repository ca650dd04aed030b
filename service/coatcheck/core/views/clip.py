"""Cut a text to a budget of tokens and characters without losing a byte: what is cut is the start of what follows.

A cut falls at a line's end if one fits, otherwise between graphemes, otherwise between characters. Works on bytes,
valid UTF-8 or not, and reports exactly how many of them the text stands for.
"""

from collections.abc import Callable
from typing import Final, Literal, Protocol, final

import regex
from msgspec import Struct

from coatcheck.core.tokens import Tokenizer
from coatcheck.core.views.window import decode, raw_length, whole_chars

Cut = Literal["max_tokens", "max_characters"]

_GRAPHEME: Final = regex.compile(r"\X")
_LOOK: Final = 64
"""Characters looked back for the end of a grapheme; longer ones are cut inside."""


class Clip(Struct, frozen=True):
    """The start of some bytes, as text within a budget."""

    end: int
    """Bytes that the text stands for: it is exactly these, as they are shown."""
    text: str
    tokens: int
    """Of `text` by itself."""
    cut: Cut | None
    """Which budget ended it; None when nothing was cut."""


class ClipBudget(Struct, frozen=True):
    """How much text may be given, counted as a string by itself."""

    tokens: int
    chars: int


class TextForm(Protocol):
    """How bytes are shown, and which of them a part of that stands for."""

    @property
    def text(self) -> str:
        """All of it."""
        ...

    def cut(self, keep: int) -> tuple[int, str]:
        """Returns how many bytes the first `keep` characters stand for, at most, and the text of exactly these."""
        ...


@final
class Verbatim:
    """Bytes decoded as they are."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.text = decode(data)

    def cut(self, keep: int) -> tuple[int, str]:
        """See Text."""
        end = raw_length(self._data, self.text, keep)
        return end, decode(self._data[:end])


def clip(
    data: bytes,
    budget: ClipBudget,
    tokenizer: Tokenizer,
    *,
    whole: bool,
    by_line: bool,
    show: Callable[[bytes], TextForm] = Verbatim,
) -> Clip | None:
    """The longest start of `data` within the budget; None when it all fits and there is more to fetch.

    Never over the budget and never empty unless `data` is: where a single character is over it, a byte of it is
    given, which shows as U+FFFD.

    Args:
        data: what may be given.
        budget: both bounds; `tokens` is at least 1.
        tokenizer: counts.
        whole: nothing that was asked lies beyond `data`. Otherwise its last few bytes may be half a character.
        by_line: prefer to end after an LF.
        show: how the bytes are shown.
    """
    settled = len(data) if whole or not data else whole_chars(data, len(data) - 1)
    shown_whole = show(data[:settled])
    text = shown_whole.text
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
        line = text.rfind("\n", 0, keep) + 1 if by_line else 0
        end, shown = shown_whole.cut(line or _grapheme_end(text, keep))
        tokens = tokenizer.count(shown)
        if end and tokens <= budget.tokens:
            return Clip(end, shown, tokens, cut)
        keep = min(keep, len(shown)) - max(1, tokens - budget.tokens)
    shown = decode(data[:1])
    return Clip(1, shown, tokenizer.count(shown), cut)


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
