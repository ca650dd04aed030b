"""Chooses units within a budget of tokens: the most worth for its cost, what is alike once, both ends always."""

from bisect import bisect_left
from heapq import heapify, heappop, heappush
from itertools import accumulate
from typing import Final, final

from coatcheck.core.choose.units import Units
from coatcheck.core.choose.worth import Worth
from coatcheck.core.tokens import Tokenizer

SEAM: Final = 4
"""Tokens that the line before an excerpt costs, about."""
_TAIL: Final = 0.12
_HEAD: Final = 0.08
"""Shares of the budget that the two ends get whatever else there is."""
_SMALLEST: Final = 8
"""Tokens under which nothing more is looked for."""
_BLANK: Final = 200
"""Bytes from which a unit is taken to say something."""
_MISSES: Final = 40
"""Units that do not fit, one after the other, before the search ends."""
_PLENTY: Final = 5
"""How many budgets of units are priced exactly."""


@final
class Selection:
    """Units being chosen. The same arguments choose the same units."""

    def __init__(self, units: Units, worth: Worth, budget: int, tokenizer: Tokenizer) -> None:
        self._units = units
        self._worth = worth
        self._tokenizer = tokenizer
        self._left = budget
        self._taken: dict[int, float] = {}
        """By number, what each was worth when it was taken."""
        self._ends: set[int] = set()
        """Those that belong to an end's share, which are given up last."""
        self._shown: set[str] = set()
        self._said: set[bytes] = set()
        self._words: dict[int, frozenset[bytes]] = {}
        self._prices: dict[int, int] = {}
        self._choose(budget)

    @property
    def places(self) -> list[int]:
        """The numbers of the chosen units, in order."""
        return sorted(self._taken)

    def drop(self, tokens: int) -> bool:
        """Gives up units of the least worth for so many tokens; False when none are left."""
        while tokens > 0 and self._taken:
            least = min(self._taken, key=lambda place: (place in self._ends, self._taken[place], place))
            del self._taken[least]
            tokens -= self._prices[least]
        return bool(self._taken)

    def _choose(self, budget: int) -> None:
        units = self._units
        total = len(units)
        ends = [*self._end(range(total - 1, -1, -1), budget * _TAIL), *self._end(range(total), budget * _HEAD)]
        self._price({*self._candidates(budget), *ends})
        for places, share in ((range(total - 1, -1, -1), _TAIL), (range(total), _HEAD)):
            room = budget * share
            for place in places:
                if place in self._taken or not _says(units.text[place]):
                    continue
                if place not in self._prices or self._prices[place] > room or not self._take(place):
                    break
                self._ends.add(place)
                room -= self._prices[place]
        heap = [(-self._rate(place), place) for place in self._prices if place not in self._taken]
        heapify(heap)
        misses = 0
        while heap and self._left >= _SMALLEST and misses < _MISSES:
            rate, place = heappop(heap)
            now = -self._rate(place)
            if now > rate + 1e-9:  # something like it was taken meanwhile
                if now < 0:
                    heappush(heap, (now, place))
            elif not self._take(place):
                misses += 1

    def _end(self, places: range, room: float) -> list[int]:
        """The units that may fit into an end's share."""
        units, out, size = self._units, list[int](), 0.0
        for place in places:
            if _says(units.text[place]):
                out.append(place)
                size += len(units.text[place]) + 1
                if size > room * 8:
                    break
        return out

    def _candidates(self, budget: int) -> list[int]:
        """The units worth pricing: the best of several budgets, by a guess of their price."""
        text, base, topics = self._units.text, self._worth.base, self._worth.topics
        cover, thrift, rarity = self._worth.weights.cover, self._worth.weights.thrift, self._worth.rarity
        guessed: list[tuple[float, int]] = []
        for place in base.keys() | topics.keys():
            size = len(text[place])
            if not size or (size < _BLANK and text[place].isspace()):
                continue
            value = base.get(place, 0.0)
            if place in topics:
                value += cover * sum([rarity[topic] for topic in topics[place]]) / max(20, size) ** 0.5
            guessed.append((-value / (size + 8) ** thrift, place))
        guessed.sort()
        room = budget * _PLENTY * 4
        for number, (_, place) in enumerate(guessed):
            room -= len(text[place]) + 8
            if room < 0:
                return [place for _, place in guessed[:number]]
        return [place for _, place in guessed]

    def _price(self, places: set[int]) -> None:
        """Counts many units in one encoding: each costs the tokens that end in it."""
        order = sorted(places)
        parts = [self._units.text[place].decode("utf-8", "replace") for place in order]
        joined = "\n".join(parts)
        tokenizer = self._tokenizer
        token_ends = list(accumulate(tokenizer.lengths(tokenizer.encode(joined))))
        at = before = 0
        for place, part in zip(order, parts, strict=True):
            at += len(part) + 1 if part.isascii() else len(part.encode("utf-8", "surrogatepass")) + 1
            here = bisect_left(token_ends, at)
            self._prices[place] = max(1, here - before)
            before = here

    def _value(self, place: int) -> float:
        worth = self._worth
        value = worth.base.get(place, 0.0)
        topics = worth.topics.get(place)
        if topics:
            new = sum([worth.rarity[topic] for topic in topics if topic not in self._shown])
            value += worth.weights.cover * new / max(20, len(self._units.text[place])) ** 0.5
        words = self._words.get(place)
        if words is None:
            words = self._words[place] = frozenset(self._units.shape[place].split())
        return value * (1 - worth.weights.repeats * len(words & self._said) / max(1, len(words)))

    def _rate(self, place: int) -> float:
        return self._value(place) / self._prices[place] ** self._worth.weights.thrift

    def _take(self, place: int) -> bool:
        seam = SEAM - SEAM * ((place - 1) in self._taken) - SEAM * ((place + 1) in self._taken)
        price = self._prices[place] + seam
        if price > self._left:
            return False
        self._taken[place] = self._rate(place)  # which also looks its words up
        self._left -= price
        self._said |= self._words[place]
        self._shown.update(self._worth.topics.get(place, ()))
        return True


def _says(text: bytes) -> bool:
    return bool(text) and not text.isspace()
