"""Heads and tails of a payload under a token budget.

What comes back is a true prefix or suffix, whole in its UTF-8 sequences and graphemes, and never more tokens than
asked when counted by itself. Encodes bounded slices only, however large the data: 100 MB cost what 10 KB cost.
"""

from collections.abc import Callable
from typing import Final

import regex

from coatcheck.core.text.cuts import align
from coatcheck.core.tokens import Tokenizer

_GRAPHEME: Final = regex.compile(r"\X")
_BYTES_PER_TOKEN: Final = 5
_SLICE_CAP: Final = 600_000
"""Bytes encoded at most: more than 8,000 tokens of anything but blanks need, less than what the encoder survives."""
_DENSEST: Final = 8
"""Bytes a token may stand for before an excerpt stops growing: blanks and rules pack 128 into one, and nobody reads
them."""
_LINE_SHARE: Final = 0.75
"""To end with a whole line an excerpt gives up at most a quarter of what it could show."""
_INSIDE: Final = 0x80
_LOOK: Final = 64
"""Bytes searched on either side of a cut for a grapheme's end; a longer cluster is cut."""


def head(data: bytes, budget_tokens: int, tokenizer: Tokenizer) -> bytes:
    """As much of the start of `data` as fits into `budget_tokens`, at a line's end where that costs little."""

    def take(size: int) -> bytes:
        return data[: grapheme_before(data, size)]

    piece = _fit(data, budget_tokens, take, tokenizer, first=True)
    line = piece.rfind(b"\n") + 1
    return piece if len(piece) == len(data) or line < len(piece) * _LINE_SHARE else piece[:line]


def tail(data: bytes, budget_tokens: int, tokenizer: Tokenizer) -> bytes:
    """As much of the end of `data` as fits into `budget_tokens`, at a line's start where that costs little."""

    def take(size: int) -> bytes:
        return data[grapheme_after(data, len(data) - size) :]

    piece = _fit(data, budget_tokens, take, tokenizer, first=False)
    start = len(data) - len(piece)
    if not piece or start == 0 or data[start - 1 : start] == b"\n":
        return piece
    line = data.find(b"\n", start) + 1
    return data[line:] if line > 0 and len(data) - line >= len(piece) * _LINE_SHARE else piece


def fit_text(text: str, max_tokens: int, tokenizer: Tokenizer) -> str:
    """`text` if it is at most `max_tokens`; otherwise as much of its start as fits with `…` after it; perhaps empty."""
    if max_tokens <= 0:
        return ""
    data = text.encode("utf-8", "replace")
    if len(data) <= _SLICE_CAP and tokenizer.count(text) <= max_tokens:
        return text
    for room in range(max_tokens - 1, 0, -1):
        clipped = _plain_head(data, room, tokenizer).decode("utf-8", "replace").rstrip() + "…"
        if tokenizer.count(clipped) <= max_tokens:
            return clipped
    return "…" if tokenizer.count("…") <= max_tokens else ""


def grapheme_before(data: bytes, at: int) -> int:
    """The last grapheme boundary at or before `at`."""
    return max((edge for edge in _edges(data, at) if edge <= at), default=align(data, at))


def grapheme_after(data: bytes, at: int) -> int:
    """The first grapheme boundary at or after `at`."""
    return min((edge for edge in _edges(data, at) if edge >= at), default=_align_up(data, at))


def _plain_head(data: bytes, budget: int, tokenizer: Tokenizer) -> bytes:
    def take(size: int) -> bytes:
        return data[: grapheme_before(data, size)]

    return _fit(data, budget, take, tokenizer, first=True)


def _fit(data: bytes, budget: int, take: Callable[[int], bytes], tokenizer: Tokenizer, *, first: bool) -> bytes:
    """The largest piece that `take` gives within the budget, found from one encoding and a recount."""
    if budget <= 0 or not data:
        return b""
    size = budget * _BYTES_PER_TOKEN + 64
    cap = min(_SLICE_CAP, len(data), budget * _DENSEST + 64)
    while True:
        size = min(size, cap)
        piece = take(size)
        tokens = tokenizer.encode(_decode(piece))
        if len(tokens) > budget:
            break
        if size >= cap:
            return piece
        size *= min(32, max(2, 2 * budget // max(len(tokens), 1)))
    kept = len(tokenizer.decode(tokens[:budget] if first else tokens[-budget:]))
    if not _valid(piece):  # what was encoded is longer than what it stands for
        kept = len(piece) * budget // len(tokens)
    while kept > 0:
        piece = take(kept)
        count = tokenizer.count(_decode(piece))
        if count <= budget:
            return piece
        kept = min(len(piece) - 1, len(piece) * budget // count)
    return b""


def _edges(data: bytes, at: int) -> list[int]:
    """Grapheme boundaries around a place. Between two ASCII bytes (but CR LF) the place itself is one."""
    if at <= 0 or at >= len(data):
        return [min(max(at, 0), len(data))]
    if data[at - 1 : at + 1].isascii():
        return [at - 1, at + 1] if data[at - 1 : at + 1] == b"\r\n" else [at]
    start = align(data, max(0, at - _LOOK))
    end = _align_up(data, min(len(data), at + _LOOK))
    text = data[start:end].decode("utf-8", "surrogateescape")
    edges = [start] if start == 0 else []
    place = start
    for match in _GRAPHEME.finditer(text):
        place += len(match.group().encode("utf-8", "surrogateescape"))
        edges.append(place)
    if end < len(data):
        edges.pop()  # where the window ends is no boundary that was seen
    return edges


def _align_up(data: bytes, at: int) -> int:
    for forward in range(4):
        if at + forward >= len(data) or data[at + forward] & 0xC0 != _INSIDE:
            return min(at + forward, len(data))
    return at


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _valid(piece: bytes) -> bool:
    try:
        piece.decode()
    except UnicodeDecodeError:
        return False
    return True
