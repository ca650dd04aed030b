"""Heads and tails of a payload within a token budget, and positions at which a text may be cut.

An excerpt is a true prefix or suffix of the payload. It has complete UTF-8 sequences and graphemes, and counted by
itself never more tokens than requested. Only bounded slices are encoded, however large the data is: 100 MB cost as much
as 10 KB.

A safe cut is always a boundary between pre-tokens, in o200k_base and in cl100k_base. The token counts of the pieces
therefore add up to the count of the whole: a long text is counted once, and if other text is put around it, only the
stretches between its ends and the nearest safe cuts are counted again. Works on bytes, valid UTF-8 or not; a cut never
falls inside a character.
"""

import re
from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import Final

import regex

from coatcheck.core.tokens import Tokenizer

_SAFE = re.compile(
    rb"(?<=[!-~])(?=[ \t])"  # visible ASCII, then a blank
    rb"|(?<=\n)(?=[!-.0-~\xc3-\xdf\xe4-\xf4]|\xe3(?!\x80\x80))"  # start of a line without space or slash
)
"""Preferred safe cuts. The lead bytes of U+3000 and of the Latin-1 spaces are excluded, because these are whitespace
too; so is a slash, because o200k_base joins it to the line end before it."""

_TIGHT = re.compile(
    rb"(?<=[A-Za-z])(?=[0-9!-&(-/:-@\[-`{-~])"  # letter, then a digit or punctuation other than an apostrophe
    rb"|(?<=[\xe5-\xe8][\x80-\xbf][\x80-\xbf])(?=\xef\xbc[\x81\x88\x89\x8c\x9a\x9b\x9f]|\xe3\x80[\x81\x82])"
)
"""Safe cuts in text without blanks: base64, minified code, Chinese and Japanese (ideograph, then punctuation)."""

_LINE = re.compile(rb"[!-.0-~]|[ \t]{1,200}[!-~]")
"""Matches the start of a line that begins at a safe cut. Tokens join blanks at the end of a line to its LF, but not
blanks at the start of a line."""

_INSIDE = 0x80
"""Value of the two high bits of a byte that continues a UTF-8 sequence."""

_WINDOW_BYTES = 64
"""Size in bytes of the first window that is searched for a cut; mostly it has one."""


def last_safe(data: bytes, low: int, high: int) -> int | None:
    """Returns the last safe cut in `(low, high]`, or None. Searches back from `high` in growing windows.

    As in `first_safe`, a cut at a blank or at the start of a line is preferred.

    `data` should extend a few bytes past `high`, so that the bytes after a cut can be checked.
    """
    for pattern in (_SAFE, _TIGHT):
        window = _WINDOW_BYTES
        while True:
            start = max(low + 1, high - window)
            best = None
            for match in pattern.finditer(data, start, min(len(data), high + 4)):
                if match.start() > high:
                    break
                best = match.start()
            if best is not None:
                return best
            if start <= low + 1:
                break
            window *= 8
    return None


def first_safe(data: bytes, low: int, high: int) -> int | None:
    """Returns the first safe cut in `[low, high)`, or None.

    A cut at a blank or at the start of a line is preferred to one between a letter and punctuation.
    """
    for pattern in (_SAFE, _TIGHT):
        match = pattern.search(data, low, min(len(data), high + 4))
        if match is not None and match.start() < high:
            return match.start()
    return None


def safe_line(data: bytes, at: int) -> bool:
    """Returns whether the line at `at` begins at a safe cut: a blank line and one that begins with a slash do not."""
    return _LINE.match(data, at) is not None


def align(data: bytes, at: int) -> int:
    """Returns the last position at or before `at` that is not inside a UTF-8 sequence; gives up after four bytes."""
    place = min(at, len(data))
    for back in range(4):
        if place - back <= 0 or place - back >= len(data) or data[place - back] & 0xC0 != _INSIDE:
            return max(place - back, 0)
    return place


def align_up(data: bytes, at: int) -> int:
    """Returns the first position at or after `at` that is not inside a UTF-8 sequence; gives up after four bytes."""
    for forward in range(4):
        if at + forward >= len(data) or data[at + forward] & 0xC0 != _INSIDE:
            return min(at + forward, len(data))
    return at


_GRAPHEME: Final = regex.compile(r"\X")
_BYTES_PER_TOKEN: Final = 5
"""Bytes that are encoded per token of the budget: more than nearly all tokens have, so that one count mostly
suffices."""
_SLICE_CAP: Final = 600_000
"""Maximum bytes that are encoded at once: enough for 8,000 tokens of anything except blanks, and few enough for the
encoder to survive."""
_DENSEST: Final = 8
"""Maximum bytes of an excerpt per token of the budget. A token of blanks or of a ruled line may have 128 bytes, but
nobody reads that much of them."""
_LINE_SHARE: Final = 0.75
"""Share of an excerpt that must remain if it is shortened to end with a whole line: it gives up at most a quarter."""
_NEAR: Final = 160
"""Maximum bytes that are searched for a safe cut. A safe cut saves counting again, and splits no word."""
_MAX_BYTES_PER_TOKEN: Final = 32
"""Maximum bytes, per token of the budget, of a text that is tried as a whole before it is clipped."""
_LF: Final = 0x0A
"""Code of a line feed: indexing `bytes` returns integers."""
_GRAPHEME_BYTES: Final = 64
"""Bytes searched on either side of a cut for the end of a grapheme; a longer grapheme may be cut."""


def head(data: bytes, budget_tokens: int, tokenizer: Tokenizer) -> bytes:
    """Returns as much of the start of `data` as fits into `budget_tokens`, ending with a line if that costs little."""
    return fit_head(data, budget_tokens, tokenizer)[0]


def fit_head(data: bytes, budget: int, tokenizer: Tokenizer, *, lines: bool = True) -> tuple[bytes, int]:
    """Returns the same as `head`, and its number of tokens.

    Args:
        data: bytes, UTF-8 or not.
        budget: maximum tokens.
        tokenizer: counts tokens.
        lines: whether to end with a whole line if that costs little.
    """

    def take(size: int) -> bytes:
        return data[: grapheme_before(data, size)]

    # A piece that is probably too long is encoded once, and its tokens say where to cut.
    piece, tokens = _encode_piece(data, budget, take, tokenizer)
    if len(tokens) <= budget:
        line = piece.rfind(b"\n") + 1 if lines and len(piece) < len(data) else 0
        if line < max(1, len(piece) * _LINE_SHARE) or line == len(piece):
            return piece, len(tokens)
        end = line
    elif not _valid(piece):
        return _recount_piece(take(len(piece) * budget // len(tokens)), budget, take, tokenizer)
    else:
        end = len(take(len(tokenizer.decode(tokens[:budget]))))
        line = data.rfind(b"\n", 0, end) + 1 if lines else 0
        end = line if line >= end * _LINE_SHARE else end
    if end == 0:
        return b"", 0
    # At a cut that is not safe, the last token may differ from the one in the longer piece. A safe cut nearby saves
    # counting again.
    if data[end - 1] != _LF or not safe_line(data, end):
        safe = last_safe(data, max(0, end - max(1, min(_NEAR, end // 8))), end)
        if safe is None:
            return _recount_piece(data[:end], budget, take, tokenizer)
        end = safe
    return data[:end], bisect_right(tokenizer.ends(_decode(piece)), end)


def tail(data: bytes, budget_tokens: int, tokenizer: Tokenizer) -> bytes:
    """Returns as much of the end of `data` as fits into `budget_tokens`, beginning with a line if that costs little."""

    def take(size: int) -> bytes:
        return data[grapheme_after(data, len(data) - size) :]

    # The same steps as in `fit_head`, from the other end.
    piece, tokens = _encode_piece(data, budget_tokens, take, tokenizer)
    if len(piece) == len(data) and len(tokens) <= budget_tokens:
        return piece
    valid = _valid(piece)
    if len(tokens) > budget_tokens:
        estimate = len(piece) * budget_tokens // len(tokens)
        tail_size = len(tokenizer.decode(tokens[-budget_tokens:])) if valid else estimate
    else:
        tail_size = len(piece)
    start = grapheme_after(data, len(data) - tail_size)
    if data[start - 1] != _LF:
        line = data.find(b"\n", start) + 1
        start = line if line > 0 and len(data) - line >= (len(data) - start) * _LINE_SHARE else start
    if start >= len(data):
        return b""
    if valid and (data[start - 1] != _LF or not safe_line(data, start)):
        safe = first_safe(data, start, start + min(_NEAR, (len(data) - start) // 8))
        valid = safe is not None
        start = start if safe is None else safe
    return data[start:] if valid else _recount_piece(data[start:], budget_tokens, take, tokenizer)[0]


def counts(texts: list[str], tokenizer: Tokenizer) -> list[int]:
    """Returns about how many tokens each text has, by encoding all texts at once. Each end may add an error of one."""
    full_text = "".join(texts)
    sizes = list(accumulate(map(len, texts if full_text.isascii() else map(str.encode, texts))))
    before: list[int] = tokenizer.ends(full_text).searchsorted(sizes, "right").tolist()
    return [max(1, after - at) for at, after in pairwise([0, *before])]


def fit_text(text: str, max_tokens: int, tokenizer: Tokenizer) -> str:
    """Returns `text` if it has at most `max_tokens` tokens.

    Otherwise returns as much of its start as fits, followed by `…`; possibly an empty text.
    """
    if max_tokens <= 0:
        return ""
    data = text.encode("utf-8", "replace")
    whole = len(data) <= min(_SLICE_CAP, max_tokens * _MAX_BYTES_PER_TOKEN)
    if whole and (len(data) <= max_tokens or tokenizer.count(text) <= max_tokens):
        return text
    for room in range(max_tokens - 1, 0, -1):
        piece, _ = fit_head(data, room, tokenizer, lines=False)
        clipped = piece.decode("utf-8", "replace").rstrip() + "…"
        if tokenizer.count(clipped) <= max_tokens:
            return clipped
    return "…" if tokenizer.count("…") <= max_tokens else ""


def grapheme_before(data: bytes, at: int) -> int:
    """Returns the last grapheme boundary at or before `at`."""
    return max((edge for edge in _edges(data, at) if edge <= at), default=align(data, at))


def grapheme_after(data: bytes, at: int) -> int:
    """Returns the first grapheme boundary at or after `at`."""
    return min((edge for edge in _edges(data, at) if edge >= at), default=align_up(data, at))


def _encode_piece(
    data: bytes, budget: int, take: Callable[[int], bytes], tokenizer: Tokenizer
) -> tuple[bytes, list[int]]:
    """Returns a piece of more than `budget` tokens with its tokens, or the largest piece that an excerpt may have."""
    if budget <= 0 or not data:
        return b"", []
    size = budget * _BYTES_PER_TOKEN + 64
    cap = min(_SLICE_CAP, len(data), budget * _DENSEST + 64)
    while True:
        size = min(size, cap)
        piece = take(size)
        tokens = tokenizer.encode(_decode(piece))
        if len(tokens) > budget or size >= cap:
            return piece, tokens
        size = max(size + size // 4, size * min(32 * len(tokens), budget) // max(len(tokens), 1) + 64)


def _recount_piece(piece: bytes, budget: int, take: Callable[[int], bytes], tokenizer: Tokenizer) -> tuple[bytes, int]:
    """Returns the piece, shortened until it fits when counted by itself. For cuts that may change tokens."""
    while piece:
        count = tokenizer.count(_decode(piece))
        if count <= budget:
            return piece, count
        piece = take(min(len(piece) - 1, len(piece) * budget // count))
    return b"", 0


def _edges(data: bytes, at: int) -> list[int]:
    """Returns grapheme boundaries around `at`. Between two ASCII bytes (except CR LF), `at` itself is a boundary."""
    if at <= 0 or at >= len(data):
        return [min(max(at, 0), len(data))]
    if data[at - 1 : at + 1].isascii():
        return [at - 1, at + 1] if data[at - 1 : at + 1] == b"\r\n" else [at]
    start = align(data, max(0, at - _GRAPHEME_BYTES))
    end = align_up(data, min(len(data), at + _GRAPHEME_BYTES))
    text = data[start:end].decode("utf-8", "surrogateescape")
    edges = [start] if start == 0 else []
    place = start
    for match in _GRAPHEME.finditer(text):
        place += len(match.group().encode("utf-8", "surrogateescape"))
        edges.append(place)
    if end < len(data):
        edges.pop()  # the end of the window need not be a grapheme boundary
    return edges


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _valid(piece: bytes) -> bool:
    try:
        piece.decode()
    except UnicodeDecodeError:
        return False
    return True


_AROUND_CHARS: Final = 400
"""Characters at either end of a text that are searched for a safe cut; most lines have several."""


def count_around(before: str, text: str, tokens: int, after: str, tokenizer: Tokenizer) -> int | None:
    """Returns exactly how many tokens `before + text + after` has, given that `text` by itself has `tokens` tokens.

    Takes as long as counting `before`, `after` and some hundred characters. Returns None if `text` is short, or has no
    safe cut near one of its ends: then the number cannot be computed in this way.
    """
    cuts = _cuts(text)
    if cuts is None:
        return None
    head, tail = text[: cuts[0]], text[cuts[1] :]
    began = tokenizer.count(before + head) - tokenizer.count(head)
    ended = tokenizer.count(tail + after) - tokenizer.count(tail)
    return tokens + began + ended


def _cuts(text: str) -> tuple[int, int] | None:
    """Returns a safe cut near each end of a text, in characters; None if one of them is missing."""
    if len(text) <= 2 * _AROUND_CHARS:
        return None
    try:
        head, tail = text[:_AROUND_CHARS].encode(), text[-_AROUND_CHARS:].encode()
    except UnicodeEncodeError:
        return None
    first, last = first_safe(head, 1, len(head)), last_safe(tail, 0, len(tail) - 1)
    if first is None or last is None:
        return None
    return len(head[:first].decode()), len(text) - len(tail[last:].decode())
