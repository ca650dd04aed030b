"""Chooses units within a budget of tokens: both ends of the text, and the units with the most worth for their cost."""

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
"""Share of the budget that the end of the text always gets."""
_PART: Final = 0.6
"""Part of an end's share that is reserved for a piece of a unit which is too long for this share."""
_SMALLEST: Final = 8
"""The search for further units ends when fewer tokens than this are left."""
_MISSES: Final = 10
"""The search ends after this many units that do not fit."""
_PLENTY: Final = 3
"""The tokens of units are counted for the best candidates, up to this many times the budget."""
_ALIKE: Final = 3
"""Maximum chosen units that differ only in numbers, without those of the ends' shares. More of them would only show how
many there are."""
_DISTINCT: Final = 1.0
"""Minimum worth of a unit that states nothing, but differs from nearly all others."""
_BETWEEN: Final = 1.5
"""Factor on the worth of a unit between two shown units, because a reader trusts a text without gaps more."""


@final
class Selection:
    """Chooses units of a text. The same arguments choose the same units."""

    def __init__(self, units: Units, worth: Worth, budget: int, tokenizer: Tokenizer) -> None:
        """Chooses units by their worth, for `budget` tokens as counted by `tokenizer`."""
        self._units = units
        self.worth = worth
        self._tokenizer = tokenizer
        self._left = budget
        self._taken: dict[int, float] = {}
        """The chosen units by number, each with its worth per price when it was chosen."""
        self._ends: set[int] = set()
        """Chosen units that belong to an end's share; these are dropped last."""
        self._shown_words: set[bytes] = set()
        """Words of the chosen units; collected only if the weights reduce the worth of repeated words."""
        self._prices: dict[int, int] = {}
        self._alike: dict[bytes, int] = {}
        """Number of chosen units of each shape."""
        self._first: dict[int, float] = {}
        """The candidates, which are the units whose tokens were counted, with their initial worth."""
        self._costs: dict[int, float] = {}
        """The divisor of each unit's worth, which grows with its price."""
        self._choose(budget)

    @property
    def positions(self) -> list[int]:
        """Returns the numbers of the chosen units, in order."""
        return sorted(self._taken)

    def unseen(self, *, with_topics: bool) -> dict[int, float]:
        """Returns the worth that units which are not chosen would add; only one of several similar units counts.

        Without topics, a unit has worth only by what the outcome of a run states, or by differing from nearly all other
        units.
        """
        worth, units = self.worth, self._units
        # A line that differs from a shown one only in numbers adds nothing; blank lines never add anything.
        shown_shapes = {b"", *[units.shape[place].strip() for place in self._taken]}
        least = 0.0 if with_topics else _DISTINCT
        values = {place: value for place, value in worth.statement_worth.items() if value >= least}
        values = {place: value for place, value in values.items() if units.shape[place].strip() not in shown_shapes}
        if with_topics and worth.topics is not None:
            worth.topics.add_worth(values)
        return values

    def drop(self, tokens: int) -> bool:
        """Drops the least valuable units until `tokens` are saved; returns False if no unit is left."""
        while tokens > 0 and self._taken:
            least = min(self._taken, key=lambda place: (place in self._ends, self._taken[place], place))
            del self._taken[least]
            tokens -= self._prices[least]
        return bool(self._taken)

    def extend(self, tokens: int) -> bool:
        """Chooses further units for `tokens` unused tokens; returns False if none fits."""
        count = len(self._taken)
        self._left += tokens
        self._spend(self._first, {})
        return len(self._taken) > count

    def _choose(self, budget: int) -> None:
        units = self._units
        total = len(units)
        # Only the tokens of units that may be shown are counted: counting those of a long text would take longer than
        # everything else.
        tail = self._end(range(total - 1, -1, -1), budget * _TAIL)
        head = self._end(range(total), budget * self.worth.weights.head_least)
        first = self._first = self._candidates(budget)
        self._price({*first, *tail, *head})
        parts = [(place, _TAIL) for place in tail[:1]] + [(place, self.worth.weights.head_least) for place in head[:1]]
        # The outermost unit of an end may be too long for its share (minified code, one line of JSON). Tokens are
        # reserved for a piece of it; otherwise a card would not show how such a text begins or ends.
        long = {place: int(budget * share * _PART) for place, share in parts}
        long = {place: room for place, room in long.items() if self._prices[place] * _PART > room}
        self._left -= sum(long.values())  # so that a piece of each can always be shown
        # Both ends are chosen first, whatever their worth, and the end of the text before its beginning, because the
        # end says how a run went.
        for positions, share in ((tail, _TAIL), (head, self.worth.weights.head_least)):
            self._fill(positions, budget * share)
        self._spend(first, long)
        # The long units that are left were not worth showing as a whole.
        for place, room in long.items():
            self._left += room
            self._take_part(place, room, last=place == tail[0])

    def _spend(self, worth: dict[int, float], long: dict[int, int]) -> None:
        """Chooses units by worth per price. `long` has the tokens reserved for a piece of each long unit."""
        # A greedy choice by worth per price. Worth only falls while units are chosen, because their words are shown
        # already, except for units between two chosen ones. So a rate in the heap is an upper bound, and only the best
        # unit is rated again each time.
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
            if now < -rate - 1e-9:  # a similar unit was chosen meanwhile
                if now > 0:
                    heappush(heap, (-now, place))
                continue
            # A unit with tokens reserved for a piece of it may use them to be shown as a whole.
            self._left += long.get(place, 0)
            if self._take(place, now):
                long.pop(place, None)
                # A unit between two chosen ones is worth more now, and saves the line that would mark the gap.
                for hole, beyond in ((place - 1, place - 2), (place + 1, place + 2)):
                    if beyond in self._taken and hole not in self._taken and hole in worth:
                        heappush(heap, (-self._rate(hole), hole))
            else:  # smaller units may still fit, but each try costs time
                self._left -= long.get(place, 0)
                misses += 1

    def _fill(self, positions: list[int], room: float) -> None:
        """Chooses the units of an end, from the outside inwards, within the end's share."""
        for place in positions:
            if place in self._taken:
                continue
            if self._prices[place] > room or not self._take(place, self._rate(place)):
                return
            self._ends.add(place)
            room -= self._prices[place]

    def _take_part(self, place: int, room: int, *, last: bool) -> None:
        """Chooses a unit at an end as a whole if it fits, otherwise as much of it as the end's share allows."""
        if not self._take(place, self._rate(place)):
            text = self._units.text[place]
            size = len(text) * (room - SEAM) // self._prices[place]
            price = self._part_price(text, size, last=last)
            if price > self._left - SEAM:  # the piece may have more tokens per byte than the whole line
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
        """Returns the units that may fit into an end's share, the outermost first."""
        units, out, size = self._units, list[int](), 0.0
        for place in positions:
            if units.text[place].strip() and place not in self.worth.beside:
                out.append(place)
                size += len(units.text[place]) + 1
                if size > room * 8:
                    break
        return out

    def _candidates(self, budget: int) -> dict[int, float]:
        """Returns the best candidates for several budgets, by estimated price, each with its worth."""
        text, worth, thrift = self._units.text, self.worth, self.worth.weights.thrift
        values = worth.values(self._units)
        # Prices are estimated from bytes, because tokens are not counted yet; the 8 stands for the line above an
        # excerpt.
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
        """Counts the tokens of units, and derives how much these count against the worth."""
        order, thrift = sorted(positions), self.worth.weights.thrift
        for place, price in zip(order, self._count_tokens(order) if order else (), strict=True):
            self._prices[place] = price
            self._costs[place] = price**thrift

    def _count_tokens(self, order: list[int]) -> list[int]:
        # The tokens of all units are counted in one call, in the form in which units will be shown: a control character
        # costs several tokens.
        block = b"\n".join([self._units.text[place] for place in order])
        texts = [f"{text}\n" for text in block.decode("utf-8", "replace").split("\n")]
        if has_controls(block):
            texts = [inert(text) for text in texts]
        return counts(texts, self._tokenizer)

    def _rate(self, place: int) -> float:
        """Returns a unit's current worth per price: words that are already shown no longer count."""
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
        """Chooses a unit if it fits; returns whether it did.

        Each excerpt has a line above it. A unit that joins two excerpts saves one such line.
        """
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
