"""Which bytes a card shows: head, tail and what the kind or the query asked for, within a budget of tokens.

Answers sorted segments that do not overlap. Everything is counted as it will be shown, made inert.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import Final, final

from coatcheck.core.artifact import Sample, Tokens
from coatcheck.core.card.places import Places
from coatcheck.core.kinds.cutter import Plan, Spot
from coatcheck.core.redact.filler import reveal
from coatcheck.core.text.excerpt import counts, fit_head, fit_tail
from coatcheck.core.text.inert import inert
from coatcheck.core.tokens import Tokenizer

SEAM: Final = 9
"""Tokens that the line before an excerpt costs, about."""

_LONG_NUMBERS: Final = 2
"""What it costs more when numbers of lines have over three digits."""

_CUT: Final = 9
"""What it costs more to say which bytes of a line are shown; in a brief card nothing but that they are a part."""
_BRIEF_CUT: Final = 3

_SMALLEST: Final = 12
"""Tokens under which an excerpt is not worth its seam."""

_DENSE: Final = 16
"""Bytes a token stands for at most in a payload that is tried whole."""

_LARGE: Final = 24
"""Tokens from which the beginning of a spot is shown where all of it does not fit."""

_ASKED: Final = 0.8
"""Of the excerpts, the share of what answers a query."""

_FILLS: Final = 3

_TRIED: Final = 5
"""Segments that are tried for it, each for one encoding of what is left."""

_SLACK: Final = 1.12
"""How much denser than the payload's mean a part of it may be before it must be encoded a second time."""

Cut = Callable[[bytes, int, Tokenizer, float], tuple[bytes, int]]
"""`fit_head` or `fit_tail`."""

_NEAR: Final = 40
"""Bytes between two segments that cost less to show than to pass over."""

_PART: Final = 200
"""Bytes of a line from which a part of it is shown where the line does not fit."""

_MISSES: Final = 12
"""Wanted spots that do not fit, one after the other, before no more are tried."""


def _start(spot: Spot) -> int:
    return spot.start


def shown(data: bytes, masked: tuple[str, ...] = ()) -> str:
    """Bytes of a sample as a card shows them; `masked` as the sample says."""
    text = data.decode("utf-8", "replace")
    return inert(reveal(text, masked) if masked else text)


@final
class Chooser:
    """Chooses for one card."""

    def __init__(self, sample: Sample, places: Places, tokens: Tokens, tokenizer: Tokenizer, *, brief: bool) -> None:
        self._sample = sample
        self._places = places
        self._tokens = tokens
        self._tokenizer = tokenizer
        self._cut = _BRIEF_CUT if brief else _CUT
        self._seam_cost = SEAM if places.few else SEAM + _LONG_NUMBERS
        self._density = min(8.0, max(1.5, sample.size / max(tokens.count, 1))) * _SLACK
        self._costs: dict[Spot, int] = {}
        self._unseen = sample.size - len(sample.tail) if sample.tail else -1
        """The first byte of the tail: whether a line begins there is not known."""

    def choose(
        self,
        plan: Plan,
        budget: int,
        extra: tuple[Spot, ...],
        begun: list[Spot] | None = None,
        *,
        fill: bool = True,
    ) -> list[Spot]:
        """Segments for about `budget` tokens, seams included. `extra` (a query's windows) comes before the plan's.

        What was `begun` for a smaller budget stays, and is added to; `fill` spends what is left over.
        """
        sample = self._sample
        if sample.size == 0 or budget < _SMALLEST:
            return []
        whole = Spot(0, sample.size)
        if self._may_fit(budget) and self._cost(whole) + 2 <= budget:
            return [whole]
        spots = self._spend(extra, begun or [], int(budget * _ASKED))
        spots = self._spend(plan.wanted, spots, int(budget * plan.spots))
        segments = spots if begun else self._ends(spots, budget - self.cost(spots), plan.tail)
        for _ in range(_FILLS if fill else 0):
            left = budget - self.cost(segments)
            grown = self._grow(segments, left) if left > _LARGE else segments
            if grown == segments:
                break
            segments = self._merge(grown)
        return segments

    def cost(self, segments: list[Spot]) -> int:
        """About what these segments cost, their seams included."""
        return sum(self._cost(spot) + self._seam(spot) for spot in segments)

    def _seam(self, spot: Spot) -> int:
        whole = self._places.starts_line(spot.start) and self._places.starts_line(spot.end)
        return self._seam_cost if whole else self._seam_cost + self._cut

    def shrink(self, segments: list[Spot], by: int) -> list[Spot]:
        """The segments for `by` tokens less, taken from the one that costs most, at the end that matters less."""
        if not segments:
            return []
        place = max(range(len(segments)), key=lambda at: self._cost(segments[at]))
        spot = segments[place]
        keep = self._cost(spot) - by
        if spot.start > 0 and spot.end == self._sample.size:
            size = self._lines(spot, keep, fit_tail)
            shorter = [Spot(spot.end - size, spot.end)] if size else []
        else:
            size = self._lines(spot, keep, fit_head)
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
        """Spend what is left on the first segment that can go on, at its end; a few are tried."""
        for place, spot in enumerate(segments[:_TRIED]):
            limit = segments[place + 1].start if place + 1 < len(segments) else self._sample.size
            if spot.end <= len(self._sample.head):
                limit = min(limit, len(self._sample.head))
            room = left - (SEAM + self._cut - self._seam(spot))  # it may end inside a line, which costs words
            size = self._lines(Spot(spot.end, limit), room, fit_head) if limit > spot.end else 0
            if size:
                more = Spot(spot.end, spot.end + size)
                longer = Spot(spot.start, more.end)
                self._costs[longer] = self._cost(spot) + self._cost(more)
                return [*segments[:place], longer, *segments[place + 1 :]]
        return segments

    def _cost(self, spot: Spot) -> int:
        count = self._costs.get(spot)
        if count is None:
            count = self._costs[spot] = self._tokenizer.count(
                shown(self._places.slice(spot.start, spot.end), self._sample.masked)
            )
        return count

    def _spend(self, wanted: Iterable[Spot], segments: list[Spot], budget: int) -> list[Spot]:
        """Add the first wanted ones that fit; one that is too long for what is left is cut, if most of it stays."""
        segments = list(segments)
        left = budget - self.cost(segments)
        misses = 0
        source = iter(wanted)
        while left >= _SMALLEST and misses < _MISSES and (ahead := self._ahead(source, left)):
            for piece in filter(None, (self._free(spot, segments) for spot in ahead)):
                if left < _SMALLEST or misses >= _MISSES:
                    break
                added = self._show(piece, segments, left)
                misses = misses + 1 if added is None else 0
                left -= added or 0
        return segments

    def _ahead(self, source: Iterator[Spot], left: int) -> list[Spot]:
        """The next wanted ones, about as many as fit, with what each costs: one encoding for all is much faster."""
        room = left * self._density
        ahead: list[Spot] = []
        texts: list[str] = []
        fresh: list[Spot] = []
        for spot in source:
            ahead.append(spot)
            room -= spot.end - spot.start + SEAM * self._density
            if spot not in self._costs and spot.end - spot.start <= left * _DENSE:
                fresh.append(spot)
                texts.append(shown(self._places.slice(spot.start, spot.end)))
            if room <= 0:
                break
        self._costs.update(zip(fresh, counts(texts, self._tokenizer), strict=True))
        return ahead

    def _show(self, piece: Spot, segments: list[Spot], left: int) -> int | None:
        """Add a piece, or most of it, for at most `left`; what it costs, and None where it does not fit."""
        added = self._added(piece, segments, left)
        return self._part(piece, segments, left) if added is None and left > _LARGE + SEAM else added

    def _part(self, piece: Spot, segments: list[Spot], left: int) -> int | None:
        """As `_added`, of a piece that does not fit: most of it, from its beginning; of the payload's end, the end."""
        last = piece.end == self._sample.size
        size = self._lines(piece, left - SEAM - self._cut, fit_tail if last else fit_head)
        if size < (piece.end - piece.start) // (4 if last else 2) or not size:
            return None
        part = Spot(piece.end - size, piece.end) if last else Spot(piece.start, piece.start + size)
        return self._added(part, segments, left)

    def _added(self, piece: Spot, segments: list[Spot], left: int) -> int | None:
        """Put a piece among the segments, joined with those near it, if it costs at most `left`; what it costs."""
        if (piece.end - piece.start) // _DENSE > left:
            return None
        place = bisect_left(segments, piece.start, key=_start)
        low, high = place, place
        joined = piece
        cost = 0
        if place and self._near(segments[place - 1], piece):
            low -= 1
            cost -= self._seam(segments[low])
            joined = Spot(segments[low].start, piece.end)
        if place < len(segments) and self._near(piece, segments[place]):
            cost -= self._seam(segments[high])
            joined = Spot(joined.start, segments[high].end)
            high += 1
        whole = self._cost(piece) + sum(self._cost(spot) for spot in segments[low:high])
        edges = [
            edge for spot in (*segments[low:place], piece, *segments[place:high]) for edge in (spot.start, spot.end)
        ]
        whole += sum(self._cost(Spot(a, b)) for a, b in zip(edges[1:-1:2], edges[2::2], strict=True) if a < b)
        cost += whole - sum(self._cost(spot) for spot in segments[low:high]) + self._seam(joined)
        if cost > left:
            return None
        self._costs.setdefault(joined, whole)
        segments[low:high] = [joined]
        return cost

    def _near(self, left: Spot, right: Spot) -> bool:
        return right.start - left.end <= _NEAR and self._joined(left, right)

    def _free(self, spot: Spot, segments: list[Spot]) -> Spot | None:
        """What of a spot is not shown yet, if that is one piece."""
        start, end = spot.start, spot.end
        place = bisect_left(segments, start, key=_start)
        if place and segments[place - 1].end > start:
            start = segments[place - 1].end
        if place < len(segments) and segments[place].start < end:
            if segments[place].end < end and segments[place].start > start:
                return None
            if segments[place].start <= start:
                start = max(start, segments[place].end)
            else:
                end = segments[place].start
        return Spot(start, end) if start < end and start != self._unseen else None

    def _ends(self, spots: list[Spot], room: int, tail_share: float) -> list[Spot]:
        """Lengthen or add tail and head around the spots; a spot that one of them reaches becomes part of it."""
        sample = self._sample
        inner = list(spots)
        end = inner.pop().start if inner and inner[-1].end == sample.size else sample.size
        seam = SEAM if end == sample.size else 0
        start = inner.pop(0).end if inner and inner[0].start == 0 else 0
        low = max(inner[-1].end if inner else start, self._unseen + 1)  # the byte before a tail must be known
        last = self._lines(Spot(low, end), int(room * tail_share) - seam, fit_tail) if low < end else 0
        segments = list(spots)
        if last:
            segments.append(Spot(end - last, end))
            room -= self._cost(segments[-1]) + seam
        limit = min(inner[0].start if inner else end - last, len(sample.head))
        seam = 0 if start else SEAM
        first = self._lines(Spot(start, limit), room - seam, fit_head) if start < limit else 0
        if first:
            segments.append(Spot(start, start + first))
        return self._merge(sorted(segments, key=_start))

    def _merge(self, segments: list[Spot]) -> list[Spot]:
        merged: list[Spot] = []
        for spot in segments:
            if merged and self._near(merged[-1], spot):
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

    def _lines(self, spot: Spot, budget: int, cut: Cut) -> int:
        """The same in whole lines, unless less than a part of a long one would be left."""
        size = self._within(spot, budget, cut)
        if size in {0, spot.end - spot.start}:
            return size
        if cut is fit_head:
            data = self._places.slice(spot.start, spot.start + size)
            whole = data.rfind(b"\n") + 1
        else:
            data = self._places.slice(spot.end - size - 1, spot.end)
            whole = len(data) - 1 - data.find(b"\n") if b"\n" in data else 0
        return whole if whole or size < _PART else size

    def _within(self, spot: Spot, budget: int, cut: Cut) -> int:
        """Bytes of the head or tail of a range that fit *as shown*: making text inert may add tokens."""
        data = self._places.slice(spot.start, spot.end)
        ask = budget
        while ask >= _SMALLEST // 2:
            piece, count = cut(data, ask, self._tokenizer, self._density)
            text = shown(piece, self._sample.masked)
            if text != piece.decode("utf-8", "replace"):
                count = self._tokenizer.count(text)
            if count <= budget:
                start = spot.start if cut is fit_head else spot.end - len(piece)
                self._costs[Spot(start, start + len(piece))] = count
                return len(piece)
            ask = min(ask - 1, ask * budget // count)
        return 0
