"""Cuts a window at token positions of the document, within a budget that counts the text by itself.

A window begins exactly where requested; it ends at the last requested position that is also a character's end. Pure;
the caller provides bytes that begin at a checkpoint.
"""

from msgspec import Struct

from coatcheck.core.tokens import Tokenizer
from coatcheck.core.views.clip import ClipBudget, Cut
from coatcheck.core.views.window import decode, raw_length


class TokenClip(Struct, frozen=True):
    """A part of the given bytes. `start` and `end` are byte positions in them, `count` document tokens."""

    start: int
    end: int
    count: int
    text: str
    tokens: int
    """Tokens of `text` by itself, which may differ from `count` because of words cut at its ends."""
    limited_by: Cut | None


def clip_tokens(
    pieces: list[bytes], skip: int, want: int, budget: ClipBudget, tokenizer: Tokenizer
) -> TokenClip | None:
    """Returns up to `want` tokens of the pieces, after the first `skip`, within the budget.

    None if there is no such token.

    The pieces are consecutive and tokenized separately, as they were counted. At least one token is returned: if that
    is a part of a character, it shows as U+FFFD.
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
    """Byte positions of the ends of tokens, in data that need not be UTF-8."""

    def __init__(self, data: bytes, text: str, ids: list[int], tokenizer: Tokenizer) -> None:
        self._data = data
        self._text = text
        self._encoded = text.encode()
        self._ids = ids
        self._tokenizer = tokenizer
        self._valid = self._encoded == data

    def byte(self, token: int) -> int:
        """Returns where token number `token` begins."""
        at = self._at(token)
        if self._valid:
            return at
        keep = len(self._encoded[:at].decode("utf-8", "ignore"))
        return raw_length(self._data, self._text, keep)

    def whole(self, low: int, high: int) -> int:
        """Returns the last position in (low, high] that splits no character; the next one above if there is none."""
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
