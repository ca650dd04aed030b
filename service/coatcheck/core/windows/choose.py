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
        self._joins = [left.part == right.part for left, right in pairwise(rated)]
        """Whether each unit stands together with the next in the document."""
        self._cost_of = cost
        self._costs: dict[int, tuple[int, int]] = {}
        self._seam = seam
        self._tokens = budget.tokens
        self._chars = budget.chars
        self._chosen: set[int] = set()

    def choose(self) -> list[Run]:
        """Windows for about the budget, their seams included; none where not even one unit fits."""
        order = [place for place, unit in enumerate(self._rated) if unit.score > 0]
        order.sort(key=lambda place: (-self._rated[place].score, place))
        self._best(order)
        self._bridge()
        self._grow()
        return self.runs()

    def runs(self) -> list[Run]:
        """What is chosen, in order."""
        out: list[Run] = []
        for place in sorted(self._chosen):
            if out and out[-1].end == place and self._joins[place - 1]:
                out[-1] = Run(out[-1].first, place + 1)
            else:
                out.append(Run(place, place + 1))
        return out

    def less(self, tokens: int, chars: int) -> list[Run]:
        """The windows for so many tokens and characters less, given up at edges, from the least useful on."""
        while self._chosen and (tokens > 0 or chars > 0):
            runs = self.runs()
            edges = {place for run in runs for place in (run.first, run.end - 1)}
            place = min(edges, key=lambda edge: (self._rated[edge].score, -edge))
            self._chosen.discard(place)
            cost = self._cost(place)
            tokens -= cost[0]
            chars -= cost[1]
        return self.runs()

    def _best(self, order: list[int]) -> None:
        misses = windows = 0
        most = max(_FEWEST, self._tokens // _PER_WINDOW)
        floor = _FLOOR * self._rated[order[0]].score if order else 0.0
        for place in order:
            if misses >= _MISSES or self._rated[place].score < floor:
                break
            alone = self._beside(place) == 0
            if alone and windows == most:
                continue
            if not self._take(place):
                misses += 1
            elif alone:
                windows += 1

    def _bridge(self) -> None:
        """Show what lies between windows that are close."""
        runs = self.runs()
        for left, right in pairwise(runs):
            gap = range(left.end, right.first)
            near = len(gap) <= _GAP and all(self._joins[left.end - 1 : right.first])
            if near and sum(self._cost(place)[0] for place in gap) <= 2 * self._seam:
                for place in gap:
                    self._take(place)

    def _grow(self) -> None:
        """Give each window its surroundings, the best first, while there is room."""
        for run in sorted(self.runs(), key=lambda run: -max(self._rated[p].score for p in range(run.first, run.end))):
            first, end = run.first, run.end
            size = sum(self._cost(place)[0] for place in range(first, end))
            while size < _GROWN:
                sides = [p for p, by in ((end, end - 1), (first - 1, first)) if self._together(p, by)]
                place = max(sides, key=lambda side: self._rated[side].score, default=None)
                if place is None or (place not in self._chosen and not self._take(place)):
                    break
                size += self._cost(place)[0]
                first, end = min(first, place), max(end, place + 1)

    def _take(self, place: int) -> bool:
        """Choose a unit if it fits."""
        tokens, chars = self._cost(place)
        seams = 1 - self._beside(place)
        tokens += seams * self._seam
        chars += seams * self._seam * 4
        if tokens > self._tokens or chars > self._chars:
            return False
        self._tokens -= tokens
        self._chars -= chars
        self._chosen.add(place)
        return True

    def _beside(self, place: int) -> int:
        """How many of a unit's two neighbours are chosen."""
        before = place > 0 and place - 1 in self._chosen and self._joins[place - 1]
        return before + (place + 1 in self._chosen and self._joins[place])

    def _cost(self, place: int) -> tuple[int, int]:
        cost = self._costs.get(place)
        if cost is None:
            cost = self._costs[place] = self._cost_of(self._rated[place])
        return cost

    def _together(self, left: int, right: int) -> bool:
        """Whether two neighbouring numbers stand together in the document."""
        first = min(left, right)
        return 0 <= first < len(self._joins) and self._joins[first]
