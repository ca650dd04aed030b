"""Take the children of one place one after the other: all, a slice, or those for which a filter holds.

The elements of an array are decoded many at once, which costs a third of decoding each; what is peculiar (not strict
JSON, very deep, very long) is taken by itself. Of what no page has room for only the number is kept.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from coatcheck.core.jsonpath import walk
from coatcheck.core.jsonpath.decode import BrokenError, TooDeepError, all_members, all_sound, decode, sound
from coatcheck.core.jsonpath.descend import AT_HAND, LINE_LIMIT, DescentPosition, count_lines, too_large
from coatcheck.core.jsonpath.evaluate import Node, OutOfEffortError, condition, evaluate, leading
from coatcheck.core.jsonpath.hits import HOLD, Resume, UndecodedValue, ValueContainer
from coatcheck.core.jsonpath.location import Step, normalized
from coatcheck.core.jsonpath.page_builder import PageBuilder, PageRequest
from coatcheck.core.jsonpath.query import FilterSelector, Slice, Wildcard
from coatcheck.core.jsonpath.raw_values import undecoded
from coatcheck.core.jsonpath.walk import ChildBatch, CutShortError, TooLongError, Walk, WalkSource

MEMORY_LIMIT: Final = LINE_LIMIT
"""Bytes of JSON text that are decoded at a time: about 60 MB of values, and 50 to 150 ms."""
_STEP_BYTES: Final = 256
"""Bytes whose decoding counts as one step."""
_TOGETHER: Final = 128
"""Elements that are decoded at once."""
_TOGETHER_BYTES: Final = 256 * 1024
"""Bytes of them at most: longer ones are decoded each by itself."""
_COUNTED: Final = 1_024
"""Elements that are counted at once."""
_LIST: Final = msgspec.json.Decoder(list[object])

Fan = Wildcard | FilterSelector | Slice


class Children:
    """The children of one place, and what a path leads to from them."""

    def __init__(self, ask: PageRequest, tally: PageBuilder, place: DescentPosition, fan: Fan) -> None:
        """Begin at the place's first child, or where the page begins."""
        self._ask = ask
        self._rest = ask.plan.rest
        self._tally = tally
        self._source = place.source
        self._place = place
        self._fan = fan
        self._holds = condition(fan.expression, tally.effort) if isinstance(fan, FilterSelector) else None
        self._leads = leading(self._rest)
        self._plain = not self._rest and not isinstance(fan, FilterSelector)
        self._index = tally.start.index
        self._wanted: range | None = None
        self._window = walk.FIRST_WINDOW
        self._last_counts = False

    def run(self) -> Walk[None]:
        """Take them, until there are no more, nothing more is wanted, or time is over.

        Raises:
            CoatcheckError: `json_too_large` for a child that is too long to be decoded and must be.
        """
        at = self._tally.start.byte
        place, source = self._place, self._source
        if isinstance(self._fan, Slice):
            self._wanted = yield from self._range(self._fan)
            if not self._wanted:
                return
            if not at and not place.lines:
                begin = yield from walk.element(source, place.at, self._wanted.start)
                if begin is None:
                    return
                at, self._index = begin, self._wanted.start
        if place.kind == "object" and source.last:
            yield from self._all_names()
        at = at or (place.at if place.lines else place.at + 1)
        closed = False
        while not closed and self._tally.spent_at is None and not self._past():
            try:
                if place.lines:
                    at, closed = yield from walk.lines(source, at, self._take, longest=MEMORY_LIMIT)
                else:
                    is_object = place.kind == "object"
                    at, closed = yield from walk.children(
                        source, at, self._take, is_object=is_object, longest=MEMORY_LIMIT, window=self._window
                    )
            except TooLongError as e:
                at, closed = yield from self._long(e.start)

    def _all_names(self) -> Walk[None]:
        """Have all names of a short object at hand, so that of members with the same name the last counts."""
        source, at = self._source, self._place.at
        end = min(source.size, at + AT_HAND)
        try:
            end = yield from walk.clipped(walk.end_of(WalkSource(end), at), end)
        except CutShortError:
            if end < source.size:
                return
        self._window, self._last_counts = end - at, True

    def _range(self, fan: Slice) -> Walk[range]:
        if (fan.start or 0) >= 0 and (fan.stop or 0) >= 0:
            stop = self._source.size if fan.stop is None else fan.stop
            found = range(fan.start or 0, stop, fan.step or 1)
        else:
            counted = count_lines if self._place.lines else walk.count
            found = fan.of((yield from counted(self._source, self._place.at)))
        return range(found.start, found[-1] + 1, found.step) if found else found

    def _past(self) -> bool:
        return self._wanted is not None and self._index >= self._wanted.stop

    def _take(self, batch: ChildBatch) -> bool:
        elements = batch.names is None and not self._place.lines
        if elements and (self._wanted is None or self._wanted.step == 1):
            return self._take_together(batch)
        return self._take_each(batch, 0, len(batch.starts))

    def _take_each(self, batch: ChildBatch, first: int, last: int) -> bool:
        followed = _followed(batch) if self._last_counts else frozenset[int]()
        for number in range(first, last):
            if self._past():
                return True
            if self._plain and self._tally.full_at is not None:
                return self._count_rest(batch, number, last, followed)
            wanted = (self._wanted is None or self._index in self._wanted) and number not in followed
            if wanted and not self._child(batch, number):
                return True
            self._index += 1
        return self._past()

    def _count_rest(self, batch: ChildBatch, first: int, last: int, followed: frozenset[int] = frozenset()) -> bool:
        """Children of which only the number is of interest; what is no JSON is left out of it, too."""
        tally, wanted, at = self._tally, self._wanted, first
        while at < last and not self._past():
            upto = min(at + _COUNTED, last)
            if wanted is not None:
                upto = min(upto, at + wanted.stop - self._index)
            start, end = batch.starts[at], batch.ends[upto - 1]
            try:
                tally.effort.spend(1 + (end - start) // _STEP_BYTES)
            except OutOfEffortError:
                tally.spent_at = Resume(start, self._index, 0, tally.found)
                return True
            numbers = self._asked_for(at, upto, followed)
            if self._sound(batch, at, upto):
                tally.found += len(numbers)
            else:
                sound_ones = sum(_is_sound(batch, number) for number in numbers)
                tally.found += sound_ones
                tally.broken += len(numbers) - sound_ones
            self._index += upto - at
            at = upto
        return self._past()

    def _asked_for(self, first: int, last: int, followed: frozenset[int]) -> Sequence[int]:
        """Which of the children from the next one on are asked for, as numbers in their batch."""
        if self._wanted is not None:
            begin, step = max(self._index, self._wanted.start), self._wanted.step
            begin += (self._wanted.start - begin) % step
            return range(first + begin - self._index, last, step)
        return [n for n in range(first, last) if n not in followed] if followed else range(first, last)

    def _sound(self, batch: ChildBatch, first: int, last: int) -> bool:
        """Whether children are all strict JSON, where that is told of many at once."""
        if self._place.lines:
            return False
        start, end = batch.starts[first] - batch.base, batch.ends[last - 1] - batch.base
        written = batch.data[start:end]
        return all_sound(written, last - first) if batch.names is None else all_members(written)

    def _take_together(self, batch: ChildBatch) -> bool:
        """Take elements that are decoded many at once."""
        tally, total = self._tally, len(batch.starts)
        for first in range(0, total, _TOGETHER):
            if self._past():
                return True
            if self._plain and tally.full_at is not None:
                return self._count_rest(batch, first, total)
            last = min(first + _TOGETHER, total)
            if self._wanted is not None:
                last = min(last, first + self._wanted.stop - self._index)
            before = self._index
            try:
                values = self._together(batch, first, last)
            except OutOfEffortError:
                if batch.starts[first] not in {tally.start.byte, self._place.at + 1}:
                    tally.spent_at = Resume(batch.starts[first], self._index, 0, tally.found)
                    return True
                values = None  # a page begins here: it turns out how far one comes, if only by an element
            if self._take_each(batch, first, last) if values is None else self._take_values(batch, first, values):
                return True
            self._index = before + last - first
        return self._past()

    def _together(self, batch: ChildBatch, first: int, last: int) -> list[tuple[int, object]] | None:
        """Which of some elements are asked for, with their values; None where one of them is peculiar."""
        effort, holds = self._tally.effort, self._holds
        start, end = batch.starts[first] - batch.base, batch.ends[last - 1] - batch.base
        if end - start > _TOGETHER_BYTES:
            return None
        effort.spend(last - first + (end - start) // _STEP_BYTES)
        try:
            values = _LIST.decode(b"[%b]" % batch.data[start:end])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        if len(values) != last - first:
            return None
        numbered = enumerate(values, first)
        return list(numbered) if holds is None else [(n, value) for n, value in numbered if holds(value, None, effort)]

    def _take_values(self, batch: ChildBatch, first: int, values: list[tuple[int, object]]) -> bool:
        """Take what the path leads to from decoded elements; True when time is over."""
        leads, before = self._leads, self._index - first
        if leads is None:
            for number, element in values:
                self._index = before + number
                if not self._child(batch, number, (element,)):
                    return True
            return False
        tally, path = self._tally, self._place.path
        base, data, starts, ends, _ = batch
        for number, element in values:
            node = leads(element)
            if node is None:
                continue
            if tally.full_at is not None:
                tally.found += 1
                continue
            start, index = starts[number], before + number
            if tally.start.skip and start == tally.start.byte:
                continue  # an earlier page had it
            within = ValueContainer([*path, index], data[start - base : ends[number] - base], start)
            tally.add(node[1], within, node[0], Resume(start, index, 0, tally.found))
        return False

    def _child(self, batch: ChildBatch, number: int, held: tuple[object] | None = None) -> bool:
        """Take the values of one child, or those within its value that a filter `held` for; False when time is over."""
        tally, start, step = self._tally, batch.starts[number], self._index
        at, name = start, b""
        if batch.names is not None:
            member = walk.named(batch, number)
            if member is None:
                tally.broken += 1
                return True
            name, at = member
        raw = batch.data[at - batch.base : batch.ends[number] - batch.base]
        skip = tally.start.skip if start == tally.start.byte else 0
        taken, within = 0, None
        try:
            tally.effort.spend(1 + len(raw) // _STEP_BYTES)
            for location, value in self._values(raw, held):
                taken += 1
                if taken <= skip:
                    continue
                if within is None:
                    own: Step = step if batch.names is None else walk.name_of(name)
                    within = ValueContainer([*self._place.path, own], raw, at)
                tally.add(value, within, location, Resume(start, step, taken - 1, tally.found))
        except OutOfEffortError:
            tally.spent_at = Resume(start, step, max(taken, skip), tally.found)
            return False
        return True

    def _values(self, raw: bytes, held: tuple[object] | None) -> Iterable[Node]:
        tally = self._tally
        if held is not None:
            return evaluate(self._rest, (None, held[0]), None, tally.effort)
        try:
            decoded = decode(raw)
        except TooDeepError:
            if self._plain:
                return ((None, UndecodedValue(raw)),)
            tally.broken += 1
            return ()
        except BrokenError:
            tally.broken += 1
            return ()
        tally.odd |= decoded.odd
        if self._holds is not None and not self._holds(decoded.value, None, tally.effort):
            return ()
        return evaluate(self._rest, (None, decoded.value), None, tally.effort)

    def _long(self, start: int) -> Walk[tuple[int, bool]]:
        """A child that is longer than what may be in memory, where it need not be."""
        source, tally = self._source, self._tally
        if not self._plain or self._place.lines:
            raise too_large(f"an element of {normalized(self._place.path)}", f"over {MEMORY_LIMIT >> 20} MiB")
        at, step = start, self._index
        name: Step = step
        if self._place.kind == "object":
            quote, _ = yield from walk.significant(source, start)
            close = (yield from walk.end_of(source, quote)) - 1
            name = walk.name_of((yield walk.Want(quote + 1, min(close, quote + 1 + HOLD))))
            at = yield from walk.value_after(source, close)
        at, _ = yield from walk.significant(source, at)
        end = yield from walk.end_of(source, at)
        if self._wanted is None or self._index in self._wanted:
            resume = Resume(start, step, 0, tally.found)
            if tally.room(resume):
                yield from undecoded(self._ask, tally, at, end, [*self._place.path, name], resume)
            tally.found += 1
        self._index += 1
        after, char = yield from walk.significant(source, end)
        return after + 1, char != ord(",")


def _followed(batch: ChildBatch) -> frozenset[int]:
    """The members behind which one with the same name stands, which is the one that counts."""
    base, data = batch.base, batch.data
    written = [data[opening + 1 - base : closing - base] for opening, closing in batch.names or []]
    if len(set(written)) == len(written) and b"\\" not in b"".join(written):
        return frozenset()
    members = ((n, walk.named(batch, n)) for n in range(len(batch.starts)))
    names = {n: walk.name_of(member[0]) for n, member in members if member is not None}
    last = {name: n for n, name in names.items()}
    return frozenset(names.keys() - last.values())


def _is_sound(batch: ChildBatch, number: int) -> bool:
    base, at = batch.base, batch.starts[number]
    if batch.names is not None:
        member = walk.named(batch, number)
        if member is None:
            return False
        at = member[1]
    return sound(batch.data[at - base : batch.ends[number] - base])
