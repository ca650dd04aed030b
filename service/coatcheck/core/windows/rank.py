"""How well each sentence or line answers a query: BM25 over the document itself, with what stands around it.

A whole word counts more than an inflected form, that more than a longer word, that more than the inside of one. A term
that only a neighbour has counts in part, so that an answer whose subject stands a sentence before is found, and so does
one that stands in the heading above. In markup only what a reader sees counts fully. What says the whole query word for
word comes before everything else.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, final

import numpy as np
import regex
from msgspec import Struct, structs

from coatcheck.core.kinds.scan import Scan
from coatcheck.core.window import Place
from coatcheck.core.windows.fold import fold
from coatcheck.core.windows.regions import Weights
from coatcheck.core.windows.scan import Finder
from coatcheck.core.windows.terms import PHRASE_CHARS, Term
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
_OTHERS: Final = 0.9
"""What other forms count together, however many: less than the word itself."""
_LONGER: Final = 0.4
_INSIDE: Final = 0.25
_PREFIXED: Final = 0.6
"""For the inside of a word in Arabic and Hebrew, which write articles and prepositions in front of it."""
_HIDDEN: Final = 0.1
"""For what stands in a tag or a script."""
_APART: Final = 2
"""Ends of lines between texts that have nothing to do with each other: no word and no pair of words goes on there."""
_LEAST_LENGTH: Final = 80
"""Bytes: shorter units are no better for being shorter."""
_MOST_HITS: Final = 64
"""Looked at in one unit; more of the same would change nothing."""
_WORD_BYTES: Final = 64
_PHRASE_BYTES: Final = 4 * PHRASE_CHARS
_CLITICS: Final = re.compile("[\u05d0-\u06ff]{3}")
_REST: Final = regex.compile(r"[\p{L}\p{M}\p{N}]*")
_ASCII_REST: Final = re.compile(rb"[A-Za-z0-9]*")
_REMEMBERED: Final = 4_096
"""Words whose worth is remembered."""
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
        self._known: dict[tuple[bytes, int, bool], float] = {}
        phrases = {number for number, term in enumerate(terms) if term.role == "phrase"}
        self._finder = Finder(terms, frozenset(weights.missing) | phrases)
        there = phrases - set(weights.missing)
        self._phrase = Scan(terms[min(there)].pattern, ignore_case=True).find if there else None

    def of_parts(self, parts: list[Part], *, page: bool) -> list[Rated]:
        """Every unit of the parts, in order. `page`: they are HTML, of which readers see the text."""
        rated = [
            rated
            for number, part in enumerate(parts)
            for rated in self._of_part(number, part, units(part.data, 0), markup(part.data) if page else [])
        ]
        return rated if self._phrase is None else self._phrases_first(rated, parts)

    def _phrases_first(self, rated: list[Rated], parts: list[Part]) -> list[Rated]:
        """Units in which the phrase begins, rated above all others: not so far above that these are not shown."""
        best = max((unit.score for unit in rated), default=0.0)
        return [self._with_phrase(unit, parts[unit.part], best) for unit in rated]

    def _with_phrase(self, unit: Rated, part: Part, best: float) -> Rated:
        if self._phrase is None or unit.score <= 0:
            return unit
        start = unit.start - part.place.byte
        found = self._phrase(part.data, start, min(len(part.data), unit.end - part.place.byte + _PHRASE_BYTES))
        if found is None or found[0] >= unit.end - part.place.byte:
            return unit
        return structs.replace(unit, score=unit.score + best, hit=part.place.byte + found[0])

    def of_texts(self, texts: list[str]) -> list[float]:
        """How well each of some texts that follow each other answers."""
        datas = [text.encode("utf-8", "replace") for text in texts]
        places: list[tuple[int, int]] = []
        at = 0
        for data in datas:
            places.append((at, at + len(data) + 1))
            at += len(data) + 1
        return [rated.score for rated in self._of_part(0, Part(Place(0, 0, 0), b"\n".join(datas) + b"\n"), places, [])]

    def of_texts_apart(self, texts: list[str]) -> list[float]:
        """How well each of some texts that have nothing to do with each other answers."""
        pieces: list[bytes] = []
        places: list[tuple[int, int]] = []
        at = 0
        for text in texts:
            pieces.append(text.encode("utf-8", "replace"))
            places.append((at, at + len(pieces[-1]) + 1))
            at += len(pieces[-1]) + _APART
        if not places:
            return []
        own, _ = self._found((b"\n" * _APART).join(pieces) + b"\n" * _APART, places, [])
        return [_together([times[number] for number in sorted(times)]) for times in own]

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
        exact: set[tuple[int, int]] = set()
        first = [start for start, _ in places]
        for unit, place, number in self._hits(data, places):
            worth = self._quality(data, place, number)
            if worth:
                times = own[unit]
                worth *= 1.0 if not hidden or not _within(hidden, place) else _HIDDEN
                first[unit] = first[unit] if times else place
                times[number] = times.get(number, 0.0) + worth
                if worth == 1.0:
                    exact.add((unit, number))
        for unit, (times, (start, end)) in enumerate(zip(own, places, strict=True)):
            length = 1 - _LENGTH + _LENGTH * max(end - start, _LEAST_LENGTH) / average
            for number, found in times.items():
                count = found if (unit, number) in exact else min(found, _OTHERS)
                times[number] = self._weights[number] * count * (_SATURATION + 1) / (count + _SATURATION * length)
        return own, first

    def _hits(self, data: bytes, places: list[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
        """Unit, place and term of what stands in each unit, in order; not everything where there is very much."""
        if data.isascii():
            yield from self._plain_hits(data, places)
            return
        at, unit, hits = 0, 0, 0
        while (found := self._finder.next(data, at)) is not None:
            place, numbers = found
            if place >= places[unit][1]:
                unit, hits = bisect_right(places, (place, len(data) + 1), unit) - 1, 0
            for number in numbers:
                yield unit, place, number
            hits += 1
            at = place + 1 if hits < _MOST_HITS else places[unit][1]

    def _plain_hits(self, data: bytes, places: list[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
        found, numbers = self._finder.plain(data, 0, len(data))
        if not len(found):
            return
        unit = np.searchsorted(np.array([start for start, _ in places], dtype=np.int64), found, side="right") - 1
        fresh = np.concatenate(([0], np.flatnonzero(np.diff(unit)) + 1))
        rank = np.arange(len(found)) - np.repeat(fresh, np.diff(np.append(fresh, len(found))))
        keep = rank < _MOST_HITS
        yield from zip(unit[keep].tolist(), found[keep].tolist(), numbers[keep].tolist(), strict=True)

    def _quality(self, data: bytes, at: int, number: int) -> float:
        """How surely a term is meant where its stem begins."""
        near = data[max(0, at - 1) : at + _WORD_BYTES]
        if not near.isascii():
            before, word = _word(data, at)
            return self._rated(before, word, self._terms[number])
        match = _ASCII_REST.match(near, min(at, 1))
        seen = (near[: match.end()] if match else near[:1], number, at > 0)
        worth = self._known.get(seen)
        if worth is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            before, word = _word(data, at)
            worth = self._known[seen] = self._rated(before, word, self._terms[number])
        return worth

    def _rated(self, before: str, word: str, term: Term) -> float:
        if term.role in {"gram", "sign", "whole"}:
            return 1.0
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


def _together(scores: list[float]) -> float:
    """The sum of a unit's terms, higher the more there are together."""
    there = sum(1 for score in scores if score)
    return sum(scores) * (1 + _TOGETHER * max(there - 1, 0))


def _with_neighbours(own: list[dict[int, float]], headings: list[int]) -> list[float]:
    """The sum of each unit's terms and its surroundings', higher the more there are together."""
    columns = {number: column for column, number in enumerate(sorted({n for times in own for n in times}))}
    if not columns:
        return [0.0] * len(own)
    each = np.zeros((len(columns), len(own)))
    for place, times in enumerate(own):
        for number, score in times.items():
            each[columns[number], place] = score
    best = each.copy()
    for far, share in enumerate(_NEIGHBOURS, 1):
        np.maximum(best[:, far:], share * each[:, :-far], out=best[:, far:])
        np.maximum(best[:, :-far], share * each[:, far:], out=best[:, :-far])
    under = np.array(headings)
    held = np.flatnonzero(under >= 0)
    best[:, held] = np.maximum(best[:, held], _HEADING * each[:, under[held]])
    total = np.zeros(len(own))
    for row in best:  # one after the other: a sum in another order would be another number on another machine
        total += row
    scores: list[float] = (total * (1 + _TOGETHER * np.maximum(np.count_nonzero(best, axis=0) - 1, 0))).tolist()
    return scores
