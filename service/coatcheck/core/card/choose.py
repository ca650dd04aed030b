"""Which bytes a card shows: head, tail and what the kind or the query asked for, within a budget of tokens.

Answers sorted segments that do not overlap. Everything is counted as it will be shown, made inert.
"""

from collections.abc import Callable
from typing import Final, final

from coatcheck.core.artifact import Sample, Tokens
from coatcheck.core.card.places import Places
from coatcheck.core.kinds.cutter import Plan, Spot
from coatcheck.core.text.excerpt import fit_head, fit_tail
from coatcheck.core.text.inert import inert
from coatcheck.core.tokens import Tokenizer

SEAM: Final = 24
BRIEF_SEAM: Final = 19
"""Tokens that the line between two excerpts costs, at most; in a brief card."""

_SMALLEST: Final = 16
"""Tokens under which an excerpt is not worth its seam."""

_DENSE: Final = 16
"""Bytes a token stands for at most in a payload that is tried whole."""

_TAIL: Final = 40
"""Tokens under which a tail says less than its seam costs."""

_FILLS: Final = 2

_SLACK: Final = 1.12
"""How much denser than the payload's mean a part of it may be before it must be encoded a second time."""

Cut = Callable[[bytes, int, Tokenizer, float], tuple[bytes, int]]
"""`fit_head` or `fit_tail`."""

_NEAR: Final = 64
"""Bytes between two segments that cost less to show than to declare left out."""


def shown(data: bytes) -> str:
    """Bytes as a card shows them."""
    return inert(data.decode("utf-8", "replace"))


@final
class Chooser:
    """Chooses for one card."""

    def __init__(self, sample: Sample, places: Places, tokens: Tokens, tokenizer: Tokenizer, seam: int) -> None:
        self._sample = sample
        self._places = places
        self._tokens = tokens
        self._tokenizer = tokenizer
        self._seam = seam
        self._density = min(8.0, max(1.5, sample.size / max(tokens.count, 1))) * _SLACK
        self._costs: dict[Spot, int] = {}

    def choose(self, plan: Plan, budget: int, extra: tuple[Spot, ...]) -> list[Spot]:
        """Segments for about `budget` tokens, seams included. `extra` (a query's windows) comes before the plan's."""
        sample = self._sample
        if sample.size == 0 or budget < _SMALLEST:
            return []
        whole = Spot(0, sample.size)
        if self._may_fit(budget) and self._cost(whole) + 2 <= budget:
            return [whole]
        share = max(plan.spots, 0.8) if extra else plan.spots
        spots = self._spots((*extra, *plan.wanted), int(budget * share))
        segments = self._merge(self._ends(spots, budget - self.cost(spots), plan.tail))
        for _ in range(_FILLS):
            left = budget - self.cost(segments)
            grown = self._grow(segments, left) if left > _SMALLEST else segments
            if grown == segments:
                break
            segments = self._merge(grown)
        return segments

    def cost(self, segments: list[Spot]) -> int:
        """About what these segments cost, their seams included."""
        return sum(self._cost(spot) + self._seam for spot in segments)

    def shrink(self, segments: list[Spot], by: int) -> list[Spot]:
        """The segments for `by` tokens less, taken from the one that costs most, at the end that matters less."""
        if not segments:
            return []
        place = max(range(len(segments)), key=lambda at: self._cost(segments[at]))
        spot = segments[place]
        keep = self._cost(spot) - by
        if spot.start > 0 and spot.end == self._sample.size:
            size = self._within(spot, keep, fit_tail)
            shorter = [Spot(spot.end - size, spot.end)] if size else []
        else:
            size = self._within(spot, keep, fit_head)
            shorter = [Spot(spot.start, spot.start + size)] if size else []
        return [*segments[:place], *shorter, *segments[place + 1 :]]

    def _may_fit(self, budget: int) -> bool:
        """Whether it is worth counting the whole payload as shown. Colours, which are not shown, may be most of it."""
        sample, tokens = self._sample, self._tokens
        if not sample.whole or len(sample.head) > budget * _DENSE:
            return False
        known = tokens.exact and tokens.encoding == self._tokenizer.name and b"\x1b" not in sample.head
        return not known or tokens.count <= budget + budget // 16

    def _grow(self, segments: list[Spot], left: int) -> list[Spot]:
        """Spend what is left on the first segment that can go on, at its end."""
        for place, spot in enumerate(segments):
            limit = segments[place + 1].start if place + 1 < len(segments) else self._sample.size
            if spot.end <= len(self._sample.head):
                limit = min(limit, len(self._sample.head))
            size = self._within(Spot(spot.end, limit), left, fit_head) if limit > spot.end else 0
            if size:
                more = Spot(spot.end, spot.end + size)
                longer = Spot(spot.start, more.end)
                self._costs[longer] = self._cost(spot) + self._cost(more)
                return [*segments[:place], longer, *segments[place + 1 :]]
        return segments

    def _cost(self, spot: Spot) -> int:
        count = self._costs.get(spot)
        if count is None:
            count = self._costs[spot] = self._tokenizer.count(shown(self._places.slice(spot.start, spot.end)))
        return count

    def _spots(self, wanted: tuple[Spot, ...], budget: int) -> list[Spot]:
        """The first wanted ones that fit; one that is too long for what is left is cut, once."""
        chosen: list[Spot] = []
        unseen = self._sample.size - len(self._sample.tail) if self._sample.tail else -1
        for spot in wanted:
            if spot.start == unseen:  # the byte before a segment must be known
                continue
            if budget < _SMALLEST + self._seam:
                break
            if any(spot.start < other.end and other.start < spot.end for other in chosen):
                continue
            size = self._within(spot, budget - self._seam, fit_head)
            if size < (spot.end - spot.start) // 3 or not size:
                continue
            piece = Spot(spot.start, spot.start + size)
            chosen.append(piece)
            budget -= self._cost(piece) + self._seam
        return sorted(chosen, key=lambda spot: spot.start)

    def _ends(self, spots: list[Spot], room: int, tail_share: float) -> list[Spot]:
        """Add tail and head around the spots; a spot that one of them reaches becomes part of it."""
        sample = self._sample
        low = max(spots[-1].end if spots else 0, sample.size - len(sample.tail) + 1 if sample.tail else 0)
        share = int(room * tail_share)  # of a tail the byte before the first must be known
        last = self._within(Spot(low, sample.size), share, fit_tail) if share >= _TAIL and low < sample.size else 0
        end = Spot(sample.size - last, sample.size)
        room -= self._cost(end) + self._seam if last else 0
        limit = min(spots[0].start if spots else end.start, len(sample.head))
        first = self._within(Spot(0, limit), room, fit_head)
        segments = [Spot(0, first)] if first else []
        segments += spots
        if last:
            segments.append(end)
        return segments

    def _merge(self, segments: list[Spot]) -> list[Spot]:
        merged: list[Spot] = []
        for spot in segments:
            if merged and spot.start - merged[-1].end <= _NEAR and self._joined(merged[-1], spot):
                both = Spot(merged[-1].start, max(spot.end, merged[-1].end))
                gap = max(0, spot.start - merged[-1].end)
                self._costs.setdefault(both, self._cost(merged[-1]) + self._cost(spot) + gap // 2)
                merged[-1] = both
            else:
                merged.append(spot)
        return merged

    def _joined(self, left: Spot, right: Spot) -> bool:
        """Whether all bytes between two segments are in one part of the sample."""
        sample = self._sample
        return sample.whole or right.end <= len(sample.head) or left.start >= sample.size - len(sample.tail)

    def _within(self, spot: Spot, budget: int, cut: Cut) -> int:
        """Bytes of the head or tail of a range that fit *as shown*: making text inert may add tokens."""
        data = self._places.slice(spot.start, spot.end)
        ask = budget
        while ask >= _SMALLEST // 2:
            piece, count = cut(data, ask, self._tokenizer, self._density)
            text = shown(piece)
            if text != piece.decode("utf-8", "replace"):
                count = self._tokenizer.count(text)
            if count <= budget:
                start = spot.start if cut is fit_head else spot.end - len(piece)
                self._costs[Spot(start, start + len(piece))] = count
                return len(piece)
            ask = min(ask - 1, ask * budget // count)
        return 0
