"""Which bytes a card shows: head, tail and what the kind or the query asked for, within a budget of tokens.

Answers sorted segments that do not overlap. Everything is counted as it will be shown, made inert.
"""

from collections.abc import Callable
from typing import Final, final

from coatcheck.core.artifact import Sample
from coatcheck.core.card.places import Places
from coatcheck.core.kinds.cutter import Plan, Spot
from coatcheck.core.text.excerpt import head, tail
from coatcheck.core.text.inert import inert
from coatcheck.core.tokens import Tokenizer

SEAM: Final = 24
"""Tokens that the line between two excerpts costs, at most."""

_SMALLEST: Final = 16
"""Tokens under which an excerpt is not worth its seam."""

_DENSE: Final = 16
"""Bytes a token stands for at most in a payload that is tried whole."""

_TAIL: Final = 40
"""Tokens under which a tail says less than its seam costs."""

_FILLS: Final = 3

_NEAR: Final = 64
"""Bytes between two segments that cost less to show than to declare left out."""


def shown(data: bytes) -> str:
    """Bytes as a card shows them."""
    return inert(data.decode("utf-8", "replace"))


@final
class Chooser:
    """Chooses for one card."""

    def __init__(self, sample: Sample, places: Places, tokenizer: Tokenizer) -> None:
        self._sample = sample
        self._places = places
        self._tokenizer = tokenizer
        self._counts: dict[bytes, int] = {}

    def choose(self, plan: Plan, budget: int, extra: tuple[Spot, ...]) -> list[Spot]:
        """Segments for about `budget` tokens, seams included. `extra` (a query's windows) comes before the plan's."""
        sample = self._sample
        if sample.size == 0 or budget < _SMALLEST:
            return []
        if sample.whole and len(sample.head) <= budget * _DENSE and self._count(sample.head) + 2 <= budget:
            return [Spot(0, sample.size)]
        share = max(plan.spots, 0.6) if extra else plan.spots
        spots = self._spots((*extra, *plan.wanted), int(budget * share))
        room = budget - sum(self._cost(spot) + SEAM for spot in spots)
        segments = self._merge(self._ends(spots, room, plan.tail))
        for _ in range(_FILLS):
            left = budget - sum(self._cost(spot) + SEAM for spot in segments)
            grown = self._grow(segments, left) if left > _SMALLEST else segments
            if grown == segments:
                break
            segments = self._merge(grown)
        return segments

    def _grow(self, segments: list[Spot], left: int) -> list[Spot]:
        """Spend what is left on the first segment that can go on, at its end."""
        for place, spot in enumerate(segments):
            limit = segments[place + 1].start if place + 1 < len(segments) else self._sample.size
            if spot.end <= len(self._sample.head):
                limit = min(limit, len(self._sample.head))
            piece = self._within(self._places.slice(spot.end, limit), left, head)
            if piece:
                return [*segments[:place], Spot(spot.start, spot.end + len(piece)), *segments[place + 1 :]]
        return segments

    def _count(self, data: bytes) -> int:
        count = self._counts.get(data)
        if count is None:
            count = self._counts[data] = self._tokenizer.count(shown(data))
        return count

    def _cost(self, spot: Spot) -> int:
        return self._count(self._places.slice(spot.start, spot.end))

    def _spots(self, wanted: tuple[Spot, ...], budget: int) -> list[Spot]:
        """The first wanted ones that fit; one that is too long for what is left is cut, once."""
        chosen: list[Spot] = []
        unseen = self._sample.size - len(self._sample.tail) if self._sample.tail else -1
        for spot in wanted:
            if spot.start == unseen:  # the byte before a segment must be known
                continue
            if budget < _SMALLEST + SEAM:
                break
            if any(spot.start < other.end and other.start < spot.end for other in chosen):
                continue
            data = self._places.slice(spot.start, spot.end)
            piece = self._within(data, budget - SEAM, head)
            if len(piece) < len(data) // 3:
                continue
            chosen.append(Spot(spot.start, spot.start + len(piece)))
            budget -= self._count(piece) + SEAM
        return sorted(chosen, key=lambda spot: spot.start)

    def _ends(self, spots: list[Spot], room: int, tail_share: float) -> list[Spot]:
        """Add tail and head around the spots; a spot that one of them reaches becomes part of it."""
        sample = self._sample
        end_data = sample.tail[1:] or sample.head  # the byte before a segment must be known
        low = spots[-1].end if spots else 0
        after = end_data[max(0, len(end_data) - (sample.size - low)) :]
        share = int(room * tail_share)
        last = self._within(after, share, tail) if share >= _TAIL else b""
        room -= self._count(last) + SEAM if last else 0
        limit = spots[0].start if spots else sample.size - len(last)
        first = self._within(sample.head[:limit], room, head)
        segments = [Spot(0, len(first))] if first else []
        segments += spots
        if last:
            segments.append(Spot(sample.size - len(last), sample.size))
        return segments

    def _merge(self, segments: list[Spot]) -> list[Spot]:
        merged: list[Spot] = []
        for spot in segments:
            if merged and spot.start - merged[-1].end <= _NEAR and self._joined(merged[-1], spot):
                merged[-1] = Spot(merged[-1].start, max(spot.end, merged[-1].end))
            else:
                merged.append(spot)
        return merged

    def _joined(self, left: Spot, right: Spot) -> bool:
        """Whether all bytes between two segments are in one part of the sample."""
        sample = self._sample
        return sample.whole or right.end <= len(sample.head) or left.start >= sample.size - len(sample.tail)

    def _within(self, data: bytes, budget: int, cut: Callable[[bytes, int, Tokenizer], bytes]) -> bytes:
        """The head or tail of data that is within the budget *as shown*: making text inert may add tokens."""
        ask = budget
        while ask >= _SMALLEST // 2:
            piece = cut(data, ask, self._tokenizer)
            count = self._count(piece)
            if count <= budget:
                return piece
            ask = min(ask - 1, ask * budget // count)
        return b""
