"""Heads and tails of a payload within a token budget.

The result is a true prefix or suffix, with complete UTF-8 sequences and graphemes, and never more tokens than requested
when counted by itself. Only bounded slices are encoded, however large the data: 100 MB cost as much as 10 KB.
"""

from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import Final

import regex

from coatcheck.core.text.cuts import align, align_up, first_safe, last_safe, safe_line
from coatcheck.core.tokens import Tokenizer

_GRAPHEME: Final = regex.compile(r"\X")
_BYTES_PER_TOKEN: Final = 5
_SLICE_CAP: Final = 600_000
"""Maximum bytes encoded: more than 8,000 tokens of anything but blanks need, less than what the encoder survives."""
_DENSEST: Final = 8
"""Bytes per token above which an excerpt stops growing: blanks and rules pack 128 into one, and nobody reads them."""
_LINE_SHARE: Final = 0.75
"""To end with a whole line, an excerpt gives up at most a quarter of what it could show."""
_NEAR: Final = 160
"""Bytes that are searched for a cut that changes no tokens: it saves a recount, and splits no word."""
_MOST: Final = 32
"""Maximum bytes per token in a text that is tried as a whole before it is clipped."""
_LF: Final = 0x0A
_LOOK: Final = 64
"""Bytes searched on either side of a cut for a grapheme's end; a longer cluster is cut."""


def head(data: bytes, budget_tokens: int, tokenizer: Tokenizer) -> bytes:
    """Returns as much of the start of `data` as fits into `budget_tokens`, up to a line's end if that costs little."""
    return fit_head(data, budget_tokens, tokenizer)[0]


def fit_head(data: bytes, budget: int, tokenizer: Tokenizer, *, lines: bool = True) -> tuple[bytes, int]:
    """Returns `head`, and its number of tokens.

    Args:
        data: bytes, UTF-8 or not.
        budget: maximum tokens.
        tokenizer: counts tokens.
        lines: whether to end with a whole line if that costs little.
    """

    def take(size: int) -> bytes:
        return data[: grapheme_before(data, size)]

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
    if data[end - 1] != _LF or not safe_line(data, end):
        safe = last_safe(data, max(0, end - max(1, min(_NEAR, end // 8))), end)
        if safe is None:
            return _recount_piece(data[:end], budget, take, tokenizer)
        end = safe
    return data[:end], bisect_right(tokenizer.ends(_decode(piece)), end)


def tail(data: bytes, budget_tokens: int, tokenizer: Tokenizer) -> bytes:
    """Returns as much of the end of `data` as fits into `budget_tokens`, from a line's start if that costs little."""

    def take(size: int) -> bytes:
        return data[grapheme_after(data, len(data) - size) :]

    piece, tokens = _encode_piece(data, budget_tokens, take, tokenizer)
    if len(piece) == len(data) and len(tokens) <= budget_tokens:
        return piece
    valid = _valid(piece)
    if len(tokens) > budget_tokens:
        tail_size = (
            len(tokenizer.decode(tokens[-budget_tokens:])) if valid else len(piece) * budget_tokens // len(tokens)
        )
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
    """Returns about how many tokens each of several texts has, by encoding all at once: off by one at either end."""
    full_text = "".join(texts)
    sizes = list(accumulate(map(len, texts if full_text.isascii() else map(str.encode, texts))))
    before: list[int] = tokenizer.ends(full_text).searchsorted(sizes, "right").tolist()
    return [max(1, after - at) for at, after in pairwise([0, *before])]


def fit_text(text: str, max_tokens: int, tokenizer: Tokenizer) -> str:
    """Returns `text` if it has at most `max_tokens`.

    Otherwise as much of its start as fits with `…`; possibly empty.
    """
    if max_tokens <= 0:
        return ""
    data = text.encode("utf-8", "replace")
    whole = len(data) <= min(_SLICE_CAP, max_tokens * _MOST)
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
    """Returns a piece of more than `budget` tokens with its tokens, or the largest one that may be shown."""
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
    """Returns the piece, reduced if necessary to fit when counted by itself: for cuts that may change tokens."""
    while piece:
        count = tokenizer.count(_decode(piece))
        if count <= budget:
            return piece, count
        piece = take(min(len(piece) - 1, len(piece) * budget // count))
    return b"", 0


def _edges(data: bytes, at: int) -> list[int]:
    """Returns grapheme boundaries around a place. Between two ASCII bytes (except CR LF) the place itself is one."""
    if at <= 0 or at >= len(data):
        return [min(max(at, 0), len(data))]
    if data[at - 1 : at + 1].isascii():
        return [at - 1, at + 1] if data[at - 1 : at + 1] == b"\r\n" else [at]
    start = align(data, max(0, at - _LOOK))
    end = align_up(data, min(len(data), at + _LOOK))
    text = data[start:end].decode("utf-8", "surrogateescape")
    edges = [start] if start == 0 else []
    place = start
    for match in _GRAPHEME.finditer(text):
        place += len(match.group().encode("utf-8", "surrogateescape"))
        edges.append(place)
    if end < len(data):
        edges.pop()  # the window's end is not a boundary that was seen
    return edges


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _valid(piece: bytes) -> bool:
    try:
        piece.decode()
    except UnicodeDecodeError:
        return False
    return True
