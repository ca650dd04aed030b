"""Cuts a text to a budget of tokens and characters without losing a byte: what is cut begins what follows.

A cut falls at a line's end if one fits, otherwise between graphemes, otherwise between characters. Works on bytes,
valid UTF-8 or not, and reports exactly how many of them the text represents.
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
"""Characters searched backwards for the end of a grapheme; longer ones are cut inside."""


class Clip(Struct, frozen=True):
    """The beginning of some bytes, as text within a budget."""

    end: int
    """Number of bytes that the text represents, exactly."""
    text: str
    tokens: int
    """Tokens of `text` by itself."""
    limited_by: Cut | None
    """Which limit ended it; None if nothing was cut."""


class ClipBudget(Struct, frozen=True):
    """Maximum size of a text, counted as a string by itself."""

    tokens: int
    chars: int


class TextForm(Protocol):
    """How bytes are shown, and which bytes a part of the text represents."""

    @property
    def text(self) -> str:
        """The whole text."""
        ...

    def cut(self, keep: int) -> tuple[int, str]:
        """Returns how many bytes the first `keep` characters represent, at most, and the text of exactly these."""
        ...


@final
class Verbatim:
    """Bytes decoded as they are."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.text = decode(data)

    def cut(self, keep: int) -> tuple[int, str]:
        """See TextForm."""
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
    """Returns the longest beginning of `data` within the budget; None if it all fits and there is more to fetch.

    Never exceeds the budget, and is never empty unless `data` is: if a single character exceeds it, one byte of it is
    returned, which shows as U+FFFD.

    Args:
        data: what may be returned.
        budget: both limits; `tokens` is at least 1.
        tokenizer: counts tokens.
        whole: whether nothing that was requested is beyond `data`. Otherwise its last few bytes may be half a
            character.
        by_line: whether to prefer ending after an LF.
        show: how the bytes are shown.
    """
    text_end = len(data) if whole or not data else whole_chars(data, len(data) - 1)
    shown_whole = show(data[:text_end])
    text = shown_whole.text
    limited_by: Cut = "max_characters"
    within = text[: budget.chars]
    ids = tokenizer.encode(within)
    keep = len(within)
    if len(ids) > budget.tokens:
        limited_by = "max_tokens"
        keep = len(tokenizer.decode(ids[: budget.tokens]).decode("utf-8", "ignore"))
    elif len(within) == len(text):
        return Clip(text_end, text, len(ids), None) if whole else None
    while keep > 0:
        line = text.rfind("\n", 0, keep) + 1 if by_line else 0
        end, clip_text = shown_whole.cut(line or _grapheme_end(text, keep))
        tokens = tokenizer.count(clip_text)
        if end and tokens <= budget.tokens:
            return Clip(end, clip_text, tokens, limited_by)
        keep = min(keep, len(clip_text)) - max(1, tokens - budget.tokens)
    clip_text = decode(data[:1])
    return Clip(1, clip_text, tokenizer.count(clip_text), limited_by)


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
