"""The parts of a text that say most different things: an order in which to show its lines, the most telling first.

Greedy coverage: each next line is the one that adds most words that were not shown yet for what it costs to show. The
answer depends on no budget; a prefix of it is good at every budget. It judges no words, knows no language, and counts
no tokens: four bytes are taken for one.
"""

import re
from collections.abc import Iterator
from itertools import accumulate, pairwise
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
"""How much more a word weighs that the text keeps coming back to: this, times the logarithm of its pieces' number."""
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


def telling(data: bytes, base: int = 0, *, block: int = 0, early: float = 0.0) -> Iterator[Spot]:
    """Pieces of whole lines, or of sentences where lines are long, most telling first; found as they are asked for.

    Args:
        data: the text, UTF-8 or not; its first 40 KB are looked at.
        base: where it begins in the payload.
        block: bytes up to which lines stay together that no blank line parts.
        early: how much more the first piece is worth than the last: what prose is about it says at its beginning.
    """
    data = data[:_LOOK]
    units = pieces(data, block)
    if len(units) > 1:
        worth = [1.0 + early * (1 - place / len(units)) for place in range(len(units))]
        yield from ordered(data, units, worth, base=base)


def ordered(
    data: bytes, units: list[tuple[int, int]], worth: list[float], own: list[float] | None = None, base: int = 0
) -> Iterator[Spot]:
    """The same of pieces that the caller chose, in the order of the text.

    Args:
        data: the text.
        units: the pieces; none overlaps another.
        worth: what a new word in each counts, beside 1.0 for an ordinary piece.
        own: what each is worth in words even if it says nothing new.
        base: where the text begins in the payload.
    """
    if units:
        order = _Order(data, units, worth, own or [0.0] * len(units))
        yield from (Spot(base + start, base + end) for start, end in order.run())


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
    lines = data.split(b"\n")
    ends = list(accumulate([len(line) + 1 for line in lines]))
    ends[-1] -= 1
    for line, end in zip(lines, ends, strict=True):
        size = len(line)
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
    """Greedy coverage. What a piece would add is kept up to date: a word that is shown counts for no other piece.

    A neighbour of what is shown costs no seam; its rate is renewed when that happens.
    """

    def __init__(self, data: bytes, units: list[tuple[int, int]], worth: list[float], own: list[float]) -> None:
        self._units = units
        self._worth = worth
        lowered = data.lower() if len(data) <= _LOOK else b""
        words = (_ASCII_WORD if lowered and lowered.isascii() else _WORD).findall
        self._words: list[dict[bytes, None]] = []  # in order: a sum of floats depends on it
        self._places: dict[bytes, list[int]] = {}
        """The pieces that have a word which is not shown yet."""
        for place, (start, end) in enumerate(units):
            found = dict.fromkeys(words(lowered, start, end) if lowered else words(data[start:end].lower()))
            self._words.append(found)
            for word in found:
                if word in self._places:
                    self._places[word].append(place)
                else:
                    self._places[word] = [place]
        self._gains = own.copy()
        for word, places in self._places.items():
            weight = _weight(word, places)
            for place in places:
                self._gains[place] += weight
        self._joined = [False, *(low[1] == high[0] for low, high in pairwise(units)), False]
        """Whether a piece begins where the one before ends."""
        self._rates = [
            much / ((end - start) / 4 + _SEAM) ** _COST for (start, end), much in zip(units, worth, strict=True)
        ]
        """What a word counts, after what its piece costs; 0 for one that is shown."""
        self._chosen = bytearray(len(units) + 2)
        """By place + 1: whether a piece is shown. The two ends are never."""

    def run(self) -> Iterator[tuple[int, int]]:
        """The order, to be asked for once."""
        scores = [gain * rate if gain >= _LEAST else 0.0 for gain, rate in zip(self._gains, self._rates, strict=True)]
        size = count = 0
        while size < _CHOSEN and count < _PIECES and (best := max(scores)) > 0.0:
            place = scores.index(best)
            yield self._units[place]
            count += 1
            size += self._units[place][1] - self._units[place][0]
            self._show(place, scores)

    def _show(self, shown: int, scores: list[float]) -> None:
        gains, rates = self._gains, self._rates
        self._chosen[shown + 1] = 1
        rates[shown] = 0.0
        for beside in (shown - 1, shown + 1):
            if 0 <= beside < len(rates) and not self._chosen[beside + 1]:
                rates[beside] = self._rate(beside)
                scores[beside] = gains[beside] * rates[beside] if gains[beside] >= _LEAST else 0.0
        scores[shown] = 0.0
        for word in self._words[shown]:
            places = self._places.pop(word, None)
            if places is None:
                continue
            weight = _weight(word, places)
            for place in places:
                gain = gains[place] = gains[place] - weight
                scores[place] = gain * rates[place] if gain >= _LEAST else 0.0

    def _rate(self, place: int) -> float:
        """What a word counts there where one neighbour or both are shown."""
        seams = (
            1 - (self._chosen[place] and self._joined[place]) - (self._chosen[place + 2] and self._joined[place + 1])
        )
        start, end = self._units[place]
        return self._worth[place] / max(1.0, (end - start) / 4 + _SEAM * seams) ** _COST


def _weight(word: bytes, places: list[int]) -> float:
    if len(word) < _NAME:
        return _SHORT
    return 1.0 + _TOPIC * log(len(places)) if len(places) > 1 else 1.0
