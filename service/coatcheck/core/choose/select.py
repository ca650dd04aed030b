"""Chooses units within a budget of tokens: the most worth for its cost, similar ones once, always both ends."""

from heapq import heapify, heappop, heappush
from typing import Final, final

from coatcheck.core.choose.units import Units
from coatcheck.core.choose.worth import Worth
from coatcheck.core.text.excerpt import counts
from coatcheck.core.text.visible_text import has_controls
from coatcheck.core.tokens import Tokenizer
from coatcheck_client.contract.inert import inert

SEAM: Final = 4
"""Approximate tokens of the line before an excerpt."""
_TAIL: Final = 0.12
"""Share of the budget that the end always gets."""
_PART: Final = 0.6
"""Share of an end's share for a part of a unit that is too long for it."""
_SMALLEST: Final = 8
"""Tokens below which the search ends."""
_MISSES: Final = 10
"""Consecutive units that do not fit, after which the search ends."""
_PLENTY: Final = 3
"""Number of budgets' worth of units that are priced exactly."""
_ALIKE: Final = 3
"""Units that differ only in numbers, beside those in the ends' shares: more of them say no more than their count."""
_DISTINCT: Final = 1.0
"""Least worth of a unit that states nothing, but differs from nearly all others."""
_BETWEEN: Final = 1.5
"""How much more a unit between two shown ones is worth: a text without holes is read with less doubt."""


@final
class Selection:
    """Units being chosen. The same arguments choose the same units."""

    def __init__(self, units: Units, worth: Worth, budget: int, tokenizer: Tokenizer) -> None:
        """Chooses units of a text by the worth of each, for `budget` tokens, as `tokenizer` counts them."""
        self._units = units
        self.worth = worth
        self._tokenizer = tokenizer
        self._left = budget
        self._taken: dict[int, float] = {}
        """By number: the worth of each unit when it was taken."""
        self._ends: set[int] = set()
        """Those that belong to an end's share, which are dropped last."""
        self._shown_words: set[bytes] = set()
        """Words of the chosen units, where a repetition counts."""
        self._prices: dict[int, int] = {}
        self._alike: dict[bytes, int] = {}
        """How many units of each shape are chosen."""
        self._first: dict[int, float] = {}
        """The units that were worth pricing, with their values at first."""
        self._costs: dict[int, float] = {}
        """How much each price counts against a unit's worth."""
        self._choose(budget)

    @property
    def positions(self) -> list[int]:
        """Returns the numbers of the chosen units, in order."""
        return sorted(self._taken)

    def unseen(self, *, with_topics: bool) -> dict[int, float]:
        """Returns what units that are not chosen add to the chosen ones; only one of similar units counts.

        Without topics, only what a run's outcome states counts, and what distinguishes a unit from nearly all others.
        """
        worth, units = self.worth, self._units
        # A line that differs from a shown one only in numbers adds nothing; blank lines never do.
        shown_shapes = {b"", *[units.shape[place].strip() for place in self._taken]}
        least = 0.0 if with_topics else _DISTINCT
        values = {place: value for place, value in worth.statement_worth.items() if value >= least}
        values = {place: value for place, value in values.items() if units.shape[place].strip() not in shown_shapes}
        if with_topics and worth.topics is not None:
            worth.topics.add_worth(values)
        return values

    def drop(self, tokens: int) -> bool:
        """Drops the least valuable units until `tokens` are saved; returns False if none are left."""
        while tokens > 0 and self._taken:
            least = min(self._taken, key=lambda place: (place in self._ends, self._taken[place], place))
            del self._taken[least]
            tokens -= self._prices[least]
        return bool(self._taken)

    def extend(self, tokens: int) -> bool:
        """Takes further units for `tokens` that turned out to be free; returns False if none fits."""
        count = len(self._taken)
        self._left += tokens
        self._spend(self._first, {})
        return len(self._taken) > count

    def _choose(self, budget: int) -> None:
        units = self._units
        total = len(units)
        # Only what may be shown is priced: counting the tokens of a long text would take longer than all the rest.
        tail = self._end(range(total - 1, -1, -1), budget * _TAIL)
        head = self._end(range(total), budget * self.worth.weights.head_least)
        first = self._first = self._candidates(budget)
        self._price({*first, *tail, *head})
        parts = [(place, _TAIL) for place in tail[:1]] + [(place, self.worth.weights.head_least) for place in head[:1]]
        # The outermost unit of an end may be too long for its share (minified code, one line of JSON): a part of it
        # has tokens reserved, or a card would not show how such a text begins or ends.
        long = {place: int(budget * share * _PART) for place, share in parts}
        long = {place: room for place, room in long.items() if self._prices[place] * _PART > room}
        self._left -= sum(long.values())  # so that a part of each can be shown in any case
        # The ends come first, whatever they are worth, and the end before the beginning: it says how it went.
        for positions, share in ((tail, _TAIL), (head, self.worth.weights.head_least)):
            self._fill(positions, budget * share)
        self._spend(first, long)
        # What is still long was not worth showing whole.
        for place, room in long.items():
            self._left += room
            self._take_part(place, room, last=place == tail[0])

    def _spend(self, worth: dict[int, float], long: dict[int, int]) -> None:
        """Takes units with the most worth for their price; those in `long` have so many tokens reserved for a part."""
        # A greedy choice by worth per price. Worth only falls while units are taken (their words are shown already),
        # except in holes; so a rate in the heap is an upper bound, and only the best unit is rated anew each time.
        heap = [(-value / self._costs[place], place) for place, value in worth.items()]
        heapify(heap)
        misses = 0
        while heap and self._left >= _SMALLEST and misses < _MISSES:
            rate, place = heappop(heap)
            alike = self._alike.get(self._units.shape[place], 0) >= _ALIKE and place not in self.worth.exempt
            if place in self._taken or alike:
                continue
            now = self._rate(place)
            # The margin absorbs rounding: a unit whose worth has not changed is not pushed back.
            if now < -rate - 1e-9:  # a similar one was taken meanwhile
                if now > 0:
                    heappush(heap, (-now, place))
                continue
            # A unit whose part has reserved tokens may use these to be shown whole.
            self._left += long.get(place, 0)
            if self._take(place, now):
                long.pop(place, None)
                # A unit between two shown ones is worth more now, and saves the line that would name the gap.
                for hole, beyond in ((place - 1, place - 2), (place + 1, place + 2)):
                    if beyond in self._taken and hole not in self._taken and hole in worth:
                        heappush(heap, (-self._rate(hole), hole))
            else:  # smaller ones further down may still fit, but each costs a rating
                self._left -= long.get(place, 0)
                misses += 1

    def _fill(self, positions: list[int], room: float) -> None:
        """Takes the units of an end, from the end inwards, within its share."""
        for place in positions:
            if place in self._taken:
                continue
            if self._prices[place] > room or not self._take(place, self._rate(place)):
                return
            self._ends.add(place)
            room -= self._prices[place]

    def _take_part(self, place: int, room: int, *, last: bool) -> None:
        """Takes a unit at an end whole if there is room left, else as much of it as its share allows."""
        if not self._take(place, self._rate(place)):
            text = self._units.text[place]
            size = len(text) * (room - SEAM) // self._prices[place]
            price = self._part_price(text, size, last=last)
            if price > self._left - SEAM:  # the end of a line may be denser than the whole of it
                size = size * (self._left - SEAM) // (price + SEAM)
                price = self._part_price(text, size, last=last)
            if not _SMALLEST // 2 <= price <= self._left - SEAM or not self._units.shorten(place, size, last=last):
                return
            self._prices[place], self._costs[place] = price, price**self.worth.weights.thrift
            self._take(place, self._rate(place))
        self._ends.add(place)

    def _part_price(self, text: bytes, size: int, *, last: bool) -> int:
        part = text[-size:] if last else text[:size]
        return counts([part.decode("utf-8", "replace")], self._tokenizer)[0] if size > 0 else 0

    def _end(self, positions: range, room: float) -> list[int]:
        """Returns the units that may fit into an end's share, from the end inwards."""
        units, out, size = self._units, list[int](), 0.0
        for place in positions:
            if units.text[place].strip() and place not in self.worth.beside:
                out.append(place)
                size += len(units.text[place]) + 1
                if size > room * 8:
                    break
        return out

    def _candidates(self, budget: int) -> dict[int, float]:
        """Returns the units worth pricing, with their values: several budgets' worth, by estimated price."""
        text, worth, thrift = self._units.text, self.worth, self.worth.weights.thrift
        values = worth.values(self._units)
        # By bytes instead of tokens, which are not counted yet; the constant stands for the line above an excerpt.
        guessed = sorted([(-value / (len(text[place]) + 8) ** thrift, place) for place, value in values.items()])
        room = budget * _PLENTY * 4
        out: dict[int, float] = {}
        for _, place in guessed:
            room -= len(text[place]) + 8
            if room < 0:
                break
            out[place] = values[place]
        return out

    def _price(self, positions: set[int]) -> None:
        """Counts the tokens of units."""
        order, thrift = sorted(positions), self.worth.weights.thrift
        for place, price in zip(order, self._count_tokens(order) if order else (), strict=True):
            self._prices[place] = price
            self._costs[place] = price**thrift

    def _count_tokens(self, order: list[int]) -> list[int]:
        # Many in one encoding, as they will be shown: a control character costs several tokens.
        block = b"\n".join([self._units.text[place] for place in order])
        texts = [f"{text}\n" for text in block.decode("utf-8", "replace").split("\n")]
        if has_controls(block):
            texts = [inert(text) for text in texts]
        return counts(texts, self._tokenizer)

    def _rate(self, place: int) -> float:
        """Returns a unit's present worth for its price: what is already shown no longer counts."""
        worth, weights = self.worth, self.worth.weights
        value = worth.base.get(place, 0.0)
        if worth.topics is not None:
            value += worth.topics.worth_of(place)
        if weights.repeats and (words := {*self._units.shape[place].split()}):
            value *= 1 - weights.repeats * len(words & self._shown_words) / len(words)
        if place - 1 in self._taken and place + 1 in self._taken and self._units.has_neighbours(place):
            value *= _BETWEEN
        return value / self._costs[place]

    def _take(self, place: int, rate: float) -> bool:
        """Takes a unit if it fits. Each excerpt has a line above it: one between two others saves theirs."""
        neighbours = (place - 1 in self._taken) + (place + 1 in self._taken)
        price = self._prices[place] + SEAM * (1 - neighbours)
        if price > self._left:
            return False
        self._taken[place] = rate
        self._left -= price
        if self.worth.topics is not None:
            self.worth.topics.show(place)
        if self.worth.weights.repeats:
            self._shown_words.update(self._units.shape[place].split())
        self._alike[self._units.shape[place]] = self._alike.get(self._units.shape[place], 0) + 1
        return True
