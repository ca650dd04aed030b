"""How well each sentence or line answers a query: BM25 over the document itself, with what stands around it.

A whole word counts more than an inflected form, that more than a longer word, that more than the inside of one. A term
that only a neighbour has counts in part, so that an answer whose subject stands a sentence before is found, and so does
one that stands in the heading above. In markup only what a reader sees counts fully.
"""

import re
from bisect import bisect_right
from typing import Final, final

import regex
from msgspec import Struct

from coatcheck.core.window import Place
from coatcheck.core.windows.fold import fold
from coatcheck.core.windows.regions import Weights
from coatcheck.core.windows.scan import Finder
from coatcheck.core.windows.terms import Term
from coatcheck.core.windows.units import markup, units

_SATURATION: Final = 1.2
_LENGTH: Final = 0.6
"""BM25's k1 and b."""
_NEIGHBOURS: Final = (0.5, 0.3, 0.15)
"""What a term counts that is one unit away, or two, or three."""
_HEADING: Final = 0.25
"""What a heading's term counts in what follows it."""
_UNDER: Final = 12
"""Units that a heading reaches."""
_TOGETHER: Final = 0.2
"""How much more each further term makes of the sum."""
_INFLECTED: Final = 0.75
_LONGER: Final = 0.4
_INSIDE: Final = 0.25
_PREFIXED: Final = 0.6
"""For the inside of a word in Arabic and Hebrew, which write articles and prepositions in front of it."""
_HIDDEN: Final = 0.1
"""For what stands in a tag or a script."""
_LEAST_LENGTH: Final = 80
"""Bytes: shorter units are no better for being shorter."""
_MOST_HITS: Final = 64
"""Looked at in one unit; more of the same would change nothing."""
_WORD_BYTES: Final = 64
_CLITICS: Final = re.compile("[\u05d0-\u06ff]{3}")
_REST: Final = regex.compile(r"[\p{L}\p{M}\p{N}]*")
_ASCII_REST: Final = re.compile(rb"[A-Za-z0-9]*")
_ENDING: Final = 2
"""Letters by which an inflected form may be longer."""


class Part(Struct, frozen=True):
    """Some of a document's bytes, and where they begin."""

    place: Place
    data: bytes


class Rated(Struct, frozen=True):
    """A unit and how well it answers. `part` numbers what it was found in; `hit` is where its first term begins."""

    start: int
    end: int
    score: float
    part: int
    hit: int


@final
class Ranking:
    """Rates the units of parts of one document. Pure, but not for several threads at once."""

    def __init__(self, terms: tuple[Term, ...], weights: Weights) -> None:
        self._terms = terms
        self._weights = weights.each
        self._finder = Finder(terms, frozenset(weights.missing))

    def of_parts(self, parts: list[Part], *, page: bool) -> list[Rated]:
        """Every unit of the parts, in order. `page`: they are HTML, of which readers see the text."""
        return [
            rated
            for number, part in enumerate(parts)
            for rated in self._of_part(number, part, units(part.data, 0), markup(part.data) if page else [])
        ]

    def of_texts(self, texts: list[str]) -> list[float]:
        """How well each of some texts that follow each other answers."""
        datas = [text.encode("utf-8", "replace") for text in texts]
        places: list[tuple[int, int]] = []
        at = 0
        for data in datas:
            places.append((at, at + len(data) + 1))
            at += len(data) + 1
        return [rated.score for rated in self._of_part(0, Part(Place(0, 0, 0), b"\n".join(datas) + b"\n"), places, [])]

    def _of_part(
        self, number: int, part: Part, places: list[tuple[int, int]], hidden: list[tuple[int, int]]
    ) -> list[Rated]:
        if not places:
            return []
        own, first = self._found(part.data, places, hidden)
        scores = _with_neighbours(own, _headings(part.data, places))
        return [
            Rated(part.place.byte + start, part.place.byte + end, score, number, part.place.byte + hit)
            for (start, end), score, hit in zip(places, scores, first, strict=True)
        ]

    def _found(
        self, data: bytes, places: list[tuple[int, int]], hidden: list[tuple[int, int]]
    ) -> tuple[list[dict[int, float]], list[int]]:
        """What each term that stands in a unit is worth there; and where the unit's first is."""
        average = max(_LEAST_LENGTH, len(data) / len(places))
        own: list[dict[int, float]] = [{} for _ in places]
        first = [start for start, _ in places]
        at, unit, hits = 0, 0, 0
        while (found := self._finder.next(data, at)) is not None:
            place, numbers = found
            if place >= places[unit][1]:
                unit, hits = bisect_right(places, (place, len(data) + 1), unit) - 1, 0
            seen = 1.0 if not hidden or not _within(hidden, place) else _HIDDEN
            times = own[unit]
            for number in numbers:
                worth = seen * self._quality(data, place, self._terms[number])
                if worth:
                    first[unit] = first[unit] if times else place
                    times[number] = times.get(number, 0.0) + worth
            hits += 1
            at = place + 1 if hits < _MOST_HITS else places[unit][1]
        for times, (start, end) in zip(own, places, strict=True):
            length = 1 - _LENGTH + _LENGTH * max(end - start, _LEAST_LENGTH) / average
            for number, count in times.items():
                times[number] = self._weights[number] * count * (_SATURATION + 1) / (count + _SATURATION * length)
        return own, first

    def _quality(self, data: bytes, at: int, term: Term) -> float:
        """How surely a term is meant where its stem begins."""
        if term.role in {"gram", "sign", "whole"}:
            return 1.0
        before, word = _word(data, at)
        camel = not before.isupper() and word[:1].isupper()
        if before.isalpha() and not camel:
            if _CLITICS.match(term.stem):
                return _PREFIXED
            return 0.0 if term.bound else _INSIDE
        folded = word.lower() if word.isascii() else fold(word)
        if folded == term.text:
            return 1.0
        if len(folded) <= max(len(term.text), len(term.stem) + _ENDING) + _ENDING:
            return _INFLECTED
        return 0.0 if term.bound else _LONGER


def _word(data: bytes, at: int) -> tuple[str, str]:
    """The letter before a place, and the word that goes on from there."""
    near = data[max(0, at - 1) : at + _WORD_BYTES]
    if near.isascii():
        match = _ASCII_REST.match(data, at, at + _WORD_BYTES)
        return near[: min(at, 1)].decode(), match.group().decode() if match else ""
    rest = _REST.match(data[at : at + _WORD_BYTES].decode("utf-8", "ignore"))
    return data[max(0, at - 4) : at].decode("utf-8", "ignore")[-1:], rest.group() if rest else ""


def _within(ranges: list[tuple[int, int]], at: int) -> bool:
    place = bisect_right(ranges, (at, 1 << 62)) - 1
    return place >= 0 and at < ranges[place][1]


def _headings(data: bytes, places: list[tuple[int, int]]) -> list[int]:
    """For each unit the number of the heading above it, near enough; -1 without one."""
    out: list[int] = []
    last = -1
    for number, (start, _) in enumerate(places):
        if data.startswith(b"#", start) and (start == 0 or data.startswith(b"\n", start - 1)):
            last = number
        out.append(last if 0 < number - last <= _UNDER else -1)
    return out


def _with_neighbours(own: list[dict[int, float]], headings: list[int]) -> list[float]:
    """The sum of each unit's terms and its surroundings', higher the more there are together."""
    total = [0.0] * len(own)
    reach = len(_NEIGHBOURS)
    for place, mine in enumerate(own):
        above = own[headings[place]] if headings[place] >= 0 else {}
        if not (above or any(own[max(0, place - reach) : place + reach + 1])):
            continue
        best = dict(mine)
        around = [(place + step * far, share) for far, share in enumerate(_NEIGHBOURS, 1) for step in (-1, 1)]
        near = [(own[other], share) for other, share in around if 0 <= other < len(own)]
        for theirs, share in (*near, (above, _HEADING)):
            for number, score in theirs.items():
                if score * share > best.get(number, 0.0):
                    best[number] = score * share
        total[place] = sum(best[number] for number in sorted(best)) * (1 + _TOGETHER * (len(best) - 1))
    return total
