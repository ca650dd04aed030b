"""The parts of a text that say most different things: an order in which to show its lines, the most telling first.

Greedy coverage: each next line is the one that adds most words that were not shown yet for what it costs to show. The
answer depends on no budget; a prefix of it is good at every budget. It judges no words, knows no language, and counts
no tokens: four bytes are taken for one.
"""

import re
from collections import Counter
from heapq import heapify, heappop, heappush, heapreplace
from itertools import chain, pairwise
from math import log
from typing import Final, final

from coatcheck.core.kinds.cutter import Spot

_ASCII_WORD: Final = re.compile(rb"[a-z_][a-z0-9_]{3,39}")
_WORD: Final = re.compile(
    rb"(?:[a-z_]|[\xc3-\xdf][\x80-\xbf])(?:[a-z0-9_]|[\xc3-\xdf][\x80-\xbf]){3,39}|(?:[\xe0-\xef][\x80-\xbf]{2}){2}"
)
"""Words of four letters and more; of scripts that take three bytes a character, pairs of characters."""
_NAME: Final = 6
"""Bytes from which a word is likely to be a name or a notion; shorter ones mostly tie those together."""
_SHORT: Final = 0.3
"""What a shorter word weighs."""
_TOPIC: Final = 0.35
"""How much more a word weighs that the text keeps coming back to: this, times the logarithm of its count."""
_SEAM: Final = 9
"""Tokens that it costs to begin another excerpt."""
_COST: Final = 0.7
"""Exponent of the cost. Below 1 it prefers longer pieces to scattered scraps."""
_LONG_LINE: Final = 320
"""Bytes from which a line is taken apart at ends of sentences."""
_SENTENCE: Final = re.compile(rb"[.!?;](?:[\"')\]]{0,2})[ \t]+|\xe3\x80\x82|\xef\xbc[\x81\x9f]|\\n")
_BLANK: Final = re.compile(rb"[ \t]*(?:\d{1,6}[:|]?)?\s*")
"""A blank line, with its number where lines are numbered."""
_NUMBERED: Final = 9
_SHORTEST: Final = 80
_LONGEST: Final = 480
_LOOK: Final = 40 * 1024
"""Bytes that are looked at."""
_UNITS: Final = 700
_CHOSEN: Final = 14 * 1024
"""Bytes that are put into order: more than most cards show."""
_PIECES: Final = 120
"""Pieces that are put into order."""
_OPENING: Final = 160
"""Bytes of the first lines, and of the last."""
_LEAST: Final = 0.8
"""Weight of new words under which a piece adds nothing worth a place."""


def telling(data: bytes, base: int = 0, *, block: int = 0, early: float = 0.0) -> list[Spot]:
    """Pieces of whole lines, or of sentences where lines are long, most telling first.

    Args:
        data: the text, UTF-8 or not; its first 40 KB are looked at.
        base: where it begins in the payload.
        block: bytes up to which lines stay together that no blank line parts.
        early: how much more the first piece is worth than the last: what prose is about it says at its beginning.
    """
    data = data[:_LOOK]
    units = pieces(data, block)
    worth = [1.0 + early * (1 - place / len(units)) for place in range(len(units))]
    return ordered(data, units, worth, base=base) if len(units) > 1 else []


def ordered(
    data: bytes, units: list[tuple[int, int]], worth: list[float], own: list[float] | None = None, base: int = 0
) -> list[Spot]:
    """The same of pieces that the caller chose, in the order of the text.

    Args:
        data: the text.
        units: the pieces; none overlaps another.
        worth: what a new word in each counts, beside 1.0 for an ordinary piece.
        own: what each is worth in words even if it says nothing new.
        base: where the text begins in the payload.
    """
    order = _Order(data, units, worth, own or [0.0] * len(units))
    return [Spot(base + start, base + end) for start, end in order.run()]


def opening(data: bytes, most: int = _OPENING) -> Spot:
    """The first lines, as many as `most` bytes hold; of one that is longer, its beginning."""
    end = data.rfind(b"\n", 0, most) + 1 if len(data) > most else len(data)
    return Spot(0, end or data.find(b"\n", 0, 2 * most) + 1 or _before(data, most))


def closing(data: bytes, base: int = 0, most: int = _OPENING) -> Spot:
    """The last lines that say something, as many as `most` bytes hold, and the blanks after them."""
    last = len(data.rstrip())
    low = max(0, last - most)
    start = data.find(b"\n", low, last) + 1 if low else 0
    return Spot(base + (start or low), base + len(data))


def _before(data: bytes, at: int) -> int:
    """A place at or before `at` that is not inside a character."""
    while 0 < at < len(data) and data[at] & 0xC0 == 0x80:  # noqa: PLR2004 - continues a UTF-8 sequence
        at -= 1
    return at


def pieces(data: bytes, block: int) -> list[tuple[int, int]]:
    """Lines with the blank lines after them, or blocks of lines; sentences of long lines. Of the first 40 KB."""
    units: list[tuple[int, int]] = []
    at = begin = 0
    parted = True
    data = data[:_LOOK]
    last = len(data)
    for line in data.split(b"\n"):
        size = len(line)
        end = min(at + size + 1, last)
        if not line or line.isspace() or (size <= _NUMBERED and _BLANK.fullmatch(line)):
            if units:
                units[-1] = (begin, end)
            parted = True
        elif size >= _LONG_LINE:
            units += _sentences(data, at, end)
            begin = units[-1][0]
            parted = True
        elif not parted and end - begin <= block:
            units[-1] = (begin, end)
        else:
            if len(units) >= _UNITS:
                break
            units.append((at, end))
            begin = at
            parted = False
        at = end
    return units


def _sentences(data: bytes, at: int, end: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for match in _SENTENCE.finditer(data, at, end):
        if match.end() - at >= _SHORTEST:
            found += _short(data, at, match.end())
            at = match.end()
    return found + (_short(data, at, end) if at < end else [])


def _short(data: bytes, at: int, end: int) -> list[tuple[int, int]]:
    """A sentence, in pieces if it is longer than a reader would call one; never cut inside a character."""
    found: list[tuple[int, int]] = []
    while end - at > _LONGEST:
        cut = data.rfind(b" ", at + _LONGEST // 2, at + _LONGEST) + 1 or _before(data, at + _LONGEST)
        cut = max(cut, at + 1)
        found.append((at, cut))
        at = cut
    return [*found, (at, end)]


@final
class _Order:
    """Lazy greedy coverage: what a piece adds only shrinks, so that a stale score is an upper bound.

    But for one thing: a neighbour of what is shown costs no seam. Its score is renewed when that happens.
    """

    def __init__(self, data: bytes, units: list[tuple[int, int]], worth: list[float], own: list[float]) -> None:
        self._units = units
        self._own = own
        lowered = data.lower() if len(data) <= _LOOK else b""
        found: list[list[bytes]] = []
        for start, end in units:
            piece = lowered[start:end] or data[start:end].lower()
            found.append((_ASCII_WORD if piece.isascii() else _WORD).findall(piece))
        self._words = [dict.fromkeys(words) for words in found]  # in order: a sum of floats depends on it
        self._weights = {
            word: _SHORT if len(word) < _NAME else 1.0 + _TOPIC * log(count)
            for word, count in Counter(chain.from_iterable(found)).items()
        }
        self._joined = [False, *(low[1] == high[0] for low, high in pairwise(units)), False]
        """Whether a piece begins where the one before ends."""
        sizes = [(end - start) / 4 for start, end in units]
        self._rates = {
            seams: [much / max(1.0, size + _SEAM * seams) ** _COST for size, much in zip(sizes, worth, strict=True)]
            for seams in (-1, 0, 1)
        }
        """What a word counts, after what its piece costs, by how many lines of ours it takes more."""
        self._chosen = bytearray(len(units) + 2)
        """By place + 1: whether a piece is shown. The two ends are never."""

    def run(self) -> list[tuple[int, int]]:
        """The order."""
        units, chosen = self._units, self._chosen
        heap = [(-score, place) for place in range(len(units)) if (score := self._score(place)) > 0]
        heapify(heap)
        order: list[tuple[int, int]] = []
        size = 0
        while heap and size < _CHOSEN and len(order) < _PIECES:
            score, place = heap[0]
            now = 0.0 if chosen[place + 1] else -self._score(place)
            if now == 0.0:
                heappop(heap)
            elif now > score:
                heapreplace(heap, (now, place))
            else:
                heappop(heap)
                order.append(units[place])
                size += units[place][1] - units[place][0]
                self._show(place, heap)
        return order

    def _show(self, place: int, heap: list[tuple[float, int]]) -> None:
        self._chosen[place + 1] = 1
        self._weights.update(dict.fromkeys(self._words[place], 0.0))
        for beside in (place - 1, place + 1):
            if 0 <= beside < len(self._units) and not self._chosen[beside + 1]:
                score = self._score(beside)
                if score > 0:
                    heappush(heap, (-score, beside))

    def _score(self, place: int) -> float:
        gain = self._own[place] + sum(map(self._weights.__getitem__, self._words[place]))
        if gain < _LEAST:
            return 0.0
        seams = 1
        if self._chosen[place] and self._joined[place]:
            seams -= 1
        if self._chosen[place + 2] and self._joined[place + 1]:
            seams -= 1
        return gain * self._rates[seams][place]
