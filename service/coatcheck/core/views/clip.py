"""Cuts a text to a budget of tokens and characters. No byte is lost: the next part begins exactly at the cut.

A cut falls at the end of a line if a whole line fits, otherwise between graphemes, otherwise between characters. The
input is bytes, valid UTF-8 or not; the result says exactly how many bytes its text represents. A window at token
positions begins exactly where requested and ends with a whole character; its caller provides bytes that begin at a
checkpoint. Binary data is shown in rows of 16 bytes with their offset and their ASCII, as by `xxd -g1`. Pure.
"""

from collections.abc import Callable
from typing import Final, Literal, Protocol, final

import regex
from msgspec import Struct

from coatcheck.core.tokens import Tokenizer
from coatcheck.core.views.window import decode, raw_length, whole_chars

Cut = Literal["max_tokens", "max_characters"]

_GRAPHEME: Final = regex.compile(r"\X")
_GRAPHEME_CHARS: Final = 64
"""Characters before a cut that are searched for the end of a grapheme; a longer grapheme may be split."""


class Clip(Struct, frozen=True):
    """The beginning of some bytes, as text within a budget."""

    end: int
    """The exact number of bytes that the text represents."""
    text: str
    tokens: int
    """Tokens of `text` by itself."""
    limited_by: Cut | None
    """The limit that ended the text; None if nothing was cut."""


class ClipBudget(Struct, frozen=True):
    """Maximum size of a text, whose tokens are counted by itself."""

    tokens: int
    chars: int


class TextForm(Protocol):
    """Bytes as a text, with a way to cut both."""

    @property
    def text(self) -> str:
        """The whole text."""
        ...

    def cut(self, keep: int) -> tuple[int, str]:
        """Returns the number of bytes that the first `keep` characters, or fewer, represent, and the bytes' text."""
        ...


@final
class Verbatim:
    """Bytes as a text without any change but decoding."""

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
    """Returns the longest beginning of `data` within the budget; None if all of `data` fits and there is more to fetch.

    The text never exceeds the budget, and is never empty unless `data` is. If even the first character exceeds the
    budget, one byte of the character is returned, which is shown as U+FFFD.

    Args:
        data: the bytes to cut.
        budget: maximum tokens, at least 1, and maximum characters.
        tokenizer: counts tokens.
        whole: whether `data` contains everything that was requested. If not, it may end inside a character.
        by_line: whether to prefer a cut after an LF.
        show: turns bytes into a text.
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
    start = max(0, keep - _GRAPHEME_CHARS)
    best = 0
    for match in _GRAPHEME.finditer(text, start, min(len(text), keep + _GRAPHEME_CHARS)):
        if match.end() > keep:
            break
        best = match.end()
    return best or keep


class TokenClip(Struct, frozen=True):
    """A part of the given bytes, from byte `start` to before byte `end`, with `count` tokens of the document."""

    start: int
    end: int
    count: int
    text: str
    tokens: int
    """Tokens of `text` by itself. They may differ from `count`, because words may be cut at both ends."""
    limited_by: Cut | None
    """The limit that ended the text; None if no limit did."""


def clip_tokens(
    pieces: list[bytes], skip: int, want: int, budget: ClipBudget, tokenizer: Tokenizer
) -> TokenClip | None:
    """Returns up to `want` tokens of the pieces, after the first `skip` tokens, within the budget.

    Returns None if the pieces have no more than `skip` tokens. The pieces are consecutive. Each is tokenized
    separately, as when the tokens of the document were counted. At least one token is returned; if that is a part of a
    character, it is shown as U+FFFD.
    """
    data = b"".join(pieces)
    text = decode(data)
    ids = [token for piece in pieces for token in tokenizer.encode(decode(piece))]
    if skip >= len(ids):
        return None
    map_ = _Positions(data, text, ids, tokenizer)
    start = map_.byte(skip)
    last = min(skip + want, len(ids))
    end, limited_by = map_.whole(skip, last), None
    while True:
        clip_text = decode(data[start : map_.byte(end)])
        tokens = tokenizer.count(clip_text)
        over_tokens, over_chars = tokens - budget.tokens, len(clip_text) - budget.chars
        if (over_tokens <= 0 and over_chars <= 0) or end <= skip + 1:
            return TokenClip(start, map_.byte(end), end - skip, clip_text, tokens, limited_by)
        limited_by = "max_tokens" if over_tokens > 0 else "max_characters"
        fewer = max(1, over_tokens if over_tokens > 0 else (end - skip) * over_chars // len(clip_text))
        shorter = map_.whole(skip, max(skip + 1, end - fewer))
        if shorter >= end:
            return TokenClip(start, map_.byte(end), end - skip, clip_text, tokens, limited_by)
        end = shorter


class _Positions:
    """Offsets of tokens in bytes that need not be UTF-8."""

    def __init__(self, data: bytes, text: str, ids: list[int], tokenizer: Tokenizer) -> None:
        self._data = data
        self._text = text
        self._encoded = text.encode()
        self._ids = ids
        self._tokenizer = tokenizer
        self._valid = self._encoded == data

    def byte(self, token: int) -> int:
        """Returns the offset of the byte at which token number `token` begins."""
        at = self._at(token)
        if self._valid:
            return at
        keep = len(self._encoded[:at].decode("utf-8", "ignore"))
        return raw_length(self._data, self._text, keep)

    def whole(self, low: int, high: int) -> int:
        """Returns the largest token number in (low, high] at which a cut splits no character.

        If there is none, returns the next larger token number with that property, or the number of all tokens.
        """
        for token in range(high, low, -1):
            if self._ends_character(token) and (self._valid or self.byte(token) > self.byte(low)):
                return token
        if self._valid:
            return low + 1
        above = high
        while above < len(self._ids) and not (self._ends_character(above) and self.byte(above) > self.byte(low)):
            above += 1
        return above

    def _at(self, token: int) -> int:
        return len(self._tokenizer.decode(self._ids[:token]))

    def _ends_character(self, token: int) -> bool:
        at = self._at(token)
        return at >= len(self._encoded) or self._encoded[at] & 0xC0 != 0x80  # noqa: PLR2004 - UTF-8 continuation


ROW = 16
"""Bytes per line of a dump, as in the output of `xxd` and `hexdump -C`."""
MIN_TOKENS = 64
"""Minimum token budget of a dump. Every row has fewer tokens, so that at least one row fits."""


def hex_row(piece: bytes, offset: int) -> str:
    """Returns a row of a dump: up to 16 bytes with their offset and their ASCII, and a line end."""
    ascii_text = "".join(chr(b) if 0x20 <= b <= 0x7E else "." for b in piece)  # noqa: PLR2004 - visible ASCII
    return f"{offset:08x}: {piece.hex(' '):<47}  {ascii_text}\n"


def clip_dump(data: bytes, offset: int, budget: ClipBudget, tokenizer: Tokenizer) -> tuple[int, str, int, Cut | None]:
    """Returns as many whole rows of a dump as the budget allows.

    Returns the number of bytes shown, the text, the text's tokens, and the limit that ended the text, or None. At least
    one row is shown, because `budget.tokens` is at least MIN_TOKENS and `budget.chars` at least a row.
    """
    rows = [hex_row(data[n : n + ROW], offset + n) for n in range(0, len(data), ROW)]
    limited_by: Cut | None = None
    fitting, length = 0, 0
    for row in rows:
        length += len(row)
        if length > budget.chars:
            limited_by = "max_characters"
            break
        fitting += 1
    while True:
        text = "".join(rows[:fitting])
        tokens = tokenizer.count(text)
        if tokens <= budget.tokens or fitting <= 1:
            return min(len(data), fitting * ROW), text, tokens, limited_by
        limited_by = "max_tokens"
        fitting = max(1, min(fitting - 1, fitting * budget.tokens // tokens))
