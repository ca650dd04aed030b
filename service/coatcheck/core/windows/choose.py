"""Which units to show within a budget: the best ones, grown into passages that can be read, in document order.

Costs are sums over units and so estimates; `compose` counts what it shows and asks for less where it must.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Final, final

from msgspec import Struct

from coatcheck.core.clip import Budget
from coatcheck.core.windows.rank import Rated

_FLOOR: Final = 0.12
"""Of the best unit's score: what answers less well is not shown for its own sake."""
_GROWN: Final = 200
"""Tokens that a window grows to where the budget allows."""
_GAP: Final = 2
"""Units between two windows that are shown rather than skipped, if that costs little more."""
_PER_WINDOW: Final = 100
"""Tokens of the budget for each window that is begun: few that can be read rather than many crumbs."""
_FEWEST: Final = 4
"""Windows that any budget allows."""
_MISSES: Final = 24
"""Units that do not fit before no more are tried."""

Cost = Callable[[Rated], tuple[int, int]]
"""Tokens and characters of a unit as it is shown."""


class Run(Struct, frozen=True):
    """Units that are shown together: numbers `first` to before `end`."""

    first: int
    end: int


@final
class Chooser:
    """Chooses once; `less` then takes away."""

    def __init__(self, rated: list[Rated], cost: Cost, budget: Budget, seam: int) -> None:
        self._rated = rated
        self._scores = [unit.score for unit in rated]
        self._joins = [False, *(left.part == right.part for left, right in pairwise(rated)), False]
        """Whether each unit stands together with the one before it in the document."""
        self._cost_of = cost
        self._costs: list[tuple[int, int] | None] = [None] * len(rated)
        self._seam = seam
        self._tokens = budget.tokens
        self._chars = budget.chars
        self._chosen = bytearray(len(rated) + 2)
        """By place + 1: whether a unit is chosen. The two ends are never."""

    def choose(self) -> list[Run]:
        """Windows for about the budget, their seams included; none where not even one unit fits."""
        self._best()
        self._bridge()
        self._grow()
        return self.runs()

    def runs(self) -> list[Run]:
        """What is chosen, in order."""
        out: list[Run] = []
        chosen, joins = self._chosen, self._joins
        first = chosen.find(1)
        while first > 0:
            end = first + 1
            while chosen[end] and joins[end - 1]:
                end += 1
            out.append(Run(first - 1, end - 1))
            first = chosen.find(1, end)
        return out

    def less(self, tokens: int, chars: int) -> list[Run]:
        """The windows for so many tokens and characters less, given up at edges, from the least useful on."""
        runs = self.runs()
        while runs and (tokens > 0 or chars > 0):
            edges = {place for run in runs for place in (run.first, run.end - 1)}
            place = min(edges, key=lambda edge: (self._scores[edge], -edge))
            self._chosen[place + 1] = 0
            cost = self._cost(place)
            tokens -= cost[0]
            chars -= cost[1]
            runs = self.runs()
        return runs

    def _best(self) -> None:
        scores = self._scores
        floor = _FLOOR * max(scores, default=0.0)
        order = [place for place, score in enumerate(scores) if score > 0 and score >= floor]
        order.sort(key=scores.__getitem__, reverse=True)
        misses = windows = 0
        most = max(_FEWEST, self._tokens // _PER_WINDOW)
        for place in order:
            if misses >= _MISSES:
                break
            beside = self._beside(place)
            if not beside and windows == most:
                continue
            if not self._take(place, beside):
                misses += 1
            elif not beside:
                windows += 1

    def _bridge(self) -> None:
        """Show what lies between windows that are close."""
        for left, right in pairwise(self.runs()):
            gap = range(left.end, right.first)
            near = len(gap) <= _GAP and all(self._joins[left.end : right.first + 1])
            if near and sum(self._cost(place)[0] for place in gap) <= 2 * self._seam:
                for place in gap:
                    self._take(place, self._beside(place))

    def _grow(self) -> None:
        """Give each window its surroundings, the best first, while there is room."""
        scores, joins = self._scores, self._joins
        for run in sorted(self.runs(), key=lambda run: -max(scores[run.first : run.end])):
            first, end = run.first, run.end
            size = sum(self._cost(place)[0] for place in range(first, end))
            while size < _GROWN:
                place = end if joins[end] else -1
                if joins[first] and (place < 0 or scores[first - 1] > scores[place]):
                    place = first - 1
                if place < 0 or not (self._chosen[place + 1] or self._take(place, self._beside(place))):
                    break
                size += self._cost(place)[0]
                first, end = min(first, place), max(end, place + 1)

    def _take(self, place: int, beside: int) -> bool:
        """Choose a unit, of whose neighbours so many are chosen, if it fits."""
        tokens, chars = self._cost(place)
        seam = (1 - beside) * self._seam
        tokens += seam
        chars += seam * 4
        if tokens > self._tokens or chars > self._chars:
            return False
        self._tokens -= tokens
        self._chars -= chars
        self._chosen[place + 1] = 1
        return True

    def _beside(self, place: int) -> int:
        """How many of a unit's two neighbours are chosen."""
        chosen, joins = self._chosen, self._joins
        return (chosen[place] and joins[place]) + (chosen[place + 2] and joins[place + 1])

    def _cost(self, place: int) -> tuple[int, int]:
        cost = self._costs[place]
        if cost is None:
            cost = self._costs[place] = self._cost_of(self._rated[place])
        return cost
