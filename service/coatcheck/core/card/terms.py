"""Lines of the sample that answer a query: a small scan, for cards that are cut with a question in mind."""

import re
from typing import Final

from coatcheck.core.artifact import Sample
from coatcheck.core.kinds.cutter import Spot

_WORD: Final = re.compile(r"[^\W_]{2,}")
_IDEOGRAPHS: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_REACH: Final = 400
"""Bytes around a match that are looked at together."""
_SPOTS: Final = 8
_HITS: Final = 2_000
_TERMS: Final = 24


def _terms(query: str) -> list[str]:
    found: dict[str, None] = {}
    for word in _WORD.findall(query.lower()):
        ideographs = _IDEOGRAPHS.fullmatch(word)
        parts = [word[at : at + 2] for at in range(len(word) - 1)] if ideographs else [word]
        found.update(dict.fromkeys(parts))
    return list(found)[:_TERMS]


def spots_for(query: str, sample: Sample) -> tuple[Spot, ...]:
    """Ranges around the places where most distinct, rare terms of the query stand together, best first."""
    terms = [term.encode() for term in _terms(query)]
    spots: list[tuple[float, Spot]] = []
    for data, base in ((sample.head, 0), (sample.tail, sample.size - len(sample.tail))):
        spots += _scan(data, base, terms)
    spots.sort(key=lambda pair: (-pair[0], pair[1].start))
    return tuple(spot for _, spot in spots[:_SPOTS])


def rate(query: str, texts: list[str]) -> list[float]:
    """How well each text answers a query: rare terms weigh more, several together more than their sum."""
    terms = _terms(query)
    lowered = [text.lower() for text in texts]
    weight = {term: 1.0 / (1 + sum(term in text for text in lowered)) ** 0.5 for term in terms}
    scores: list[float] = []
    for text in lowered:
        found = [weight[term] for term in terms if term in text]
        scores.append(sum(found) * (1 + 0.3 * (len(found) - 1)))
    return scores


def _scan(data: bytes, base: int, terms: list[bytes]) -> list[tuple[float, Spot]]:
    lowered = data.lower()
    cells: dict[int, dict[bytes, int]] = {}
    weight: dict[bytes, float] = {}
    for term in terms:
        at = lowered.find(term)
        hits = 0
        while at >= 0 and hits < _HITS:
            hits += 1
            cells.setdefault(at // _REACH, {}).setdefault(term, at)
            at = lowered.find(term, at + len(term))
        weight[term] = 1.0 / (1 + hits) ** 0.5
    found: list[tuple[float, Spot]] = []
    for cell, members in cells.items():
        score = sum(weight[term] for term in members) * (1 + 0.3 * (len(members) - 1))
        start = max(data.rfind(b"\n", 0, cell * _REACH + 1) + 1, cell * _REACH - _REACH // 2)
        end = data.find(b"\n", min((cell + 1) * _REACH, len(data)))
        stop = min(end + 1 if end >= 0 else len(data), (cell + 2) * _REACH)
        found.append((score, Spot(base + _whole(data, start), base + _whole(data, stop))))
    return found


def _whole(data: bytes, at: int) -> int:
    while 0 < at < len(data) and data[at] & 0xC0 == 0x80:  # noqa: PLR2004 - a continuation byte
        at -= 1
    return at
