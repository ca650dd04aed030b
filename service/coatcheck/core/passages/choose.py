"""Chooses which units to show within a budget: the best ones, extended to readable passages, best passage first.

The cost of a passage is the sum over its units, which is an estimate. `compose` counts the text that it shows, and asks
for less if necessary.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Final, final

import numpy as np
from msgspec import Struct

from coatcheck.core.passages.rank import RatedUnit
from coatcheck.core.views.clip import ClipBudget

FILL: Final = 0.2
"""Share of the best score that a unit needs to be shown for its own sake, if the budget is to be used up."""
CONCISE: Final = 0.4
"""Share of the best score that a unit needs to be shown, if a few clear answers suffice."""
_PASSAGE_TOKENS: Final = 150
"""Minimum tokens to which a passage is extended, if the budget allows."""
_GAP_UNITS: Final = 2
"""Maximum units between two passages that are shown rather than left out, if that costs little more."""
_MAX_MISSES: Final = 24
"""The choice ends after this many candidates that do not fit."""

Cost = Callable[[RatedUnit], tuple[int, int]]
"""Function that returns how many tokens and characters a unit takes when shown."""


class UnitRun(Struct, frozen=True):
    """Consecutive units that are shown together: from number `first` to before number `end`."""

    first: int
    end: int


@final
class Chooser:
    """Chooses from the units of one document, any number of times and for any budget."""

    def __init__(self, rated_units: list[RatedUnit], cost: Cost, seam: int, *, floor: float, grain: int) -> None:
        """Prepares the candidates.

        Args:
            rated_units: the units of the parts, in order.
            cost: returns the cost of a unit; called at most once per unit.
            seam: tokens of the line above a passage.
            floor: share of the best candidate's score that a candidate needs to be chosen.
            grain: bytes of neighbouring units that are chosen together; 0: each unit is chosen separately.
        """
        self._rated_units = rated_units
        self._scores = [unit.score for unit in rated_units]
        self._joins = [False, *(before.part == after.part for before, after in pairwise(rated_units)), False]
        """Whether each unit directly follows the one before it in the document; false at both ends."""
        self._cost_of = cost
        self._costs: list[tuple[int, int] | None] = [None] * len(rated_units)
        self._seam = seam
        self._candidates = _candidates(rated_units, floor, grain)
        self._tokens = self._chars = 0
        self._selection = bytearray()

    def choose(self, budget: ClipBudget) -> list[UnitRun]:
        """Returns passages for about the budget, including the lines above them, best first; empty if no unit fits."""
        self._tokens, self._chars = budget.tokens, budget.chars
        self._selection = bytearray(
            len(self._rated_units) + 2
        )  # index unit + 1: whether the unit is chosen; the two ends stay 0
        misses = 0
        # The best candidates are tried first. A candidate that does not fit is skipped, because a shorter one may fit.
        # After many that do not fit, the budget is taken as spent.
        for first, end in self._candidates:
            new = self._selection.count(0, first + 1, end + 1)
            if new and 2 * new >= end - first:
                misses += not self._take(first, end)
            if misses == _MAX_MISSES:
                break
        # Passages that nearly touch are joined: a line between them would cost more than the units that it replaces.
        self._bridge()
        self._grow()
        return sorted(self._runs(), key=lambda run: (-self._best(run), run.first))

    def _runs(self) -> list[UnitRun]:
        """Returns the chosen runs in document order."""
        out: list[UnitRun] = []
        selection, joins = self._selection, self._joins
        first = selection.find(1)
        while first > 0:
            end = first + 1
            while selection[end] and joins[end - 1]:
                end += 1
            out.append(UnitRun(first - 1, end - 1))
            first = selection.find(1, end)
        return out

    def _bridge(self) -> None:
        """Chooses the units in small gaps between passages."""
        for before, after in pairwise(self._runs()):
            first, end = before.end, after.first
            near = end - first <= _GAP_UNITS and all(self._joins[first : end + 1])
            if near and sum(self._cost(unit)[0] for unit in range(first, end)) <= 2 * self._seam:
                self._take(first, end)

    def _grow(self) -> None:
        """Extends each passage by neighbouring units, on the better side first, while there is room."""
        scores, joins = self._scores, self._joins
        for run in sorted(self._runs(), key=lambda run: -self._best(run)):
            first, end = run.first, run.end
            size = sum(self._cost(unit)[0] for unit in range(first, end))
            while size < _PASSAGE_TOKENS:
                unit = end if joins[end] else -1
                if joins[first] and (unit < 0 or scores[first - 1] > scores[unit]):
                    unit = first - 1
                if unit < 0 or not (self._selection[unit + 1] or self._take(unit, unit + 1)):
                    break
                size += self._cost(unit)[0]
                first, end = min(first, unit), max(end, unit + 1)

    def _take(self, first: int, end: int) -> bool:
        """Chooses all units from `first` to before `end` if they fit; returns whether they do."""
        selection, joins = self._selection, self._joins
        beside = (selection[first] and joins[first]) + (selection[end + 1] and joins[end])
        seams = (1 - beside - (1 in selection[first + 1 : end + 1])) * self._seam
        tokens, chars = seams, seams * 4
        for unit in range(first, end):
            if not selection[unit + 1]:
                cost = self._cost(unit)
                tokens += cost[0]
                chars += cost[1]
        if tokens > self._tokens or chars > self._chars:
            return False
        self._tokens -= tokens
        self._chars -= chars
        selection[first + 1 : end + 1] = b"\1" * (end - first)
        return True

    def _best(self, run: UnitRun) -> float:
        return max(self._scores[run.first : run.end])

    def _cost(self, unit: int) -> tuple[int, int]:
        cost = self._costs[unit]
        if cost is None:
            cost = self._costs[unit] = self._cost_of(self._rated_units[unit])
        return cost


def _candidates(rated_units: list[RatedUnit], floor: float, grain: int) -> list[tuple[int, int]]:
    """Returns candidates as first unit and end, best first: single units, or runs of units within `grain` bytes.

    The score of a run is the root of the sum of squares, so that one good unit outweighs several poor ones.
    """
    values = [unit.score for unit in rated_units]
    ends = list(range(1, len(rated_units) + 1))
    if grain and rated_units:
        parts = np.array([unit.part for unit in rated_units])
        stops = np.array([unit.start for unit in rated_units]) + grain
        fitting = np.searchsorted(np.array([unit.end for unit in rated_units]), stops, side="right")
        fitting = np.minimum(np.maximum(fitting, ends), np.searchsorted(parts, parts, side="right"))
        sums = np.cumsum([0.0, *(value**2 for value in values)])
        values, ends = np.sqrt(np.maximum(sums[fitting] - sums[:-1], 0.0)).tolist(), fitting.tolist()
    least = floor * max(values, default=0.0)
    order = [unit for unit, value in enumerate(values) if value > 0 and value >= least]
    order.sort(key=values.__getitem__, reverse=True)
    return [(unit, ends[unit]) for unit in order]
