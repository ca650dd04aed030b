"""Take the children of one place one after the other: all, a slice, or those for which a filter holds.

The elements of an array are decoded many at once, which costs a third of decoding each; what is peculiar (not strict
JSON, very deep, very long) is taken by itself. Of what no page has room for only the number is kept.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from coatcheck.core.jsonpath import walk
from coatcheck.core.jsonpath.decode import BrokenError, TooDeepError, decode
from coatcheck.core.jsonpath.descend import LINE_LIMIT, Place, count_lines, too_large
from coatcheck.core.jsonpath.evaluate import Node, OutOfEffortError, condition, evaluate, leading
from coatcheck.core.jsonpath.hits import HOLD, Resume, Unread, Within
from coatcheck.core.jsonpath.location import Step, normalized
from coatcheck.core.jsonpath.query import Filter, Slice, Wildcard
from coatcheck.core.jsonpath.tally import Ask, Tally
from coatcheck.core.jsonpath.undecoded import undecoded
from coatcheck.core.jsonpath.walk import Batch, Source, TooLongError, Walk

MEMORY_LIMIT: Final = LINE_LIMIT
"""Bytes of JSON text that are decoded at a time: about 60 MB of values, and 50 to 150 ms."""
_STEP_BYTES: Final = 256
"""Bytes whose decoding counts as one step."""
_TOGETHER: Final = 128
"""Elements that are decoded at once."""
_TOGETHER_BYTES: Final = 256 * 1024
"""Bytes of them at most: longer ones are decoded each by itself."""
_LIST: Final = msgspec.json.Decoder(list[object])

Fan = Wildcard | Filter | Slice


class Children:
    """The children of one place, and what a path leads to from them."""

    def __init__(self, ask: Ask, tally: Tally, source: Source, place: Place, fan: Fan) -> None:
        """Begin at the place's first child, or where the page begins."""
        self._ask = ask
        self._rest = ask.plan.rest
        self._tally = tally
        self._source = source
        self._place = place
        self._fan = fan
        self._holds = condition(fan.expression, tally.effort) if isinstance(fan, Filter) else None
        self._leads = leading(self._rest)
        self._plain = not self._rest and not isinstance(fan, Filter)
        self._index = tally.start.index
        self._wanted: range | None = None

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
        at = at or (place.at if place.lines else place.at + 1)
        closed = False
        while not closed and self._tally.spent_at is None and not self._past():
            try:
                if place.lines:
                    at, closed = yield from walk.lines(source, at, self._take, longest=MEMORY_LIMIT)
                else:
                    is_object = place.kind == "object"
                    at, closed = yield from walk.children(
                        source, at, self._take, is_object=is_object, longest=MEMORY_LIMIT
                    )
            except TooLongError as e:
                at, closed = yield from self._long(e.start)

    def _range(self, fan: Slice) -> Walk[range]:
        if (fan.start or 0) >= 0 and (fan.stop or 0) >= 0:
            stop = self._source.size if fan.stop is None else fan.stop
            return range(fan.start or 0, stop, fan.step or 1)
        counted = count_lines if self._place.lines else walk.count
        return fan.of((yield from counted(self._source, self._place.at)))

    def _past(self) -> bool:
        return self._wanted is not None and self._index >= self._wanted.stop

    def _take(self, batch: Batch) -> bool:
        elements = batch.names is None and not self._place.lines
        if elements and (self._wanted is None or self._wanted.step == 1):
            return self._take_together(batch)
        return self._take_each(batch, 0, len(batch.starts))

    def _take_each(self, batch: Batch, first: int, last: int) -> bool:
        for number in range(first, last):
            if self._past():
                return True
            if self._plain and self._tally.full_at is not None:
                return self._count_rest(Resume(batch.starts[number], self._index), last - number)
            if (self._wanted is None or self._index in self._wanted) and not self._child(batch, number):
                return True
            self._index += 1
        return False

    def _count_rest(self, at: Resume, rest: int) -> bool:
        """Children that need not be looked at any more."""
        try:
            self._tally.effort.spend(1 + rest // 16)
        except OutOfEffortError:
            self._tally.spent_at = at
            return True
        among = range(self._index, self._index + rest)
        if self._wanted is None:
            self._tally.found += rest
        else:
            first = self._index + (self._wanted.start - self._index) % self._wanted.step
            self._tally.found += len(range(first, min(among.stop, self._wanted.stop), self._wanted.step))
        self._index += rest
        return False

    def _take_together(self, batch: Batch) -> bool:
        """Take elements that are decoded many at once."""
        tally, total = self._tally, len(batch.starts)
        for first in range(0, total, _TOGETHER):
            if self._past():
                return True
            if self._plain and tally.full_at is not None:
                return self._count_rest(Resume(batch.starts[first], self._index), total - first)
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
        return False

    def _together(self, batch: Batch, first: int, last: int) -> list[tuple[int, object]] | None:
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

    def _take_values(self, batch: Batch, first: int, values: list[tuple[int, object]]) -> bool:
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
            within = Within([*path, index], data[start - base : ends[number] - base], start)
            tally.add(node[1], within, node[0], Resume(start, index, 0, tally.found))
        return False

    def _child(self, batch: Batch, number: int, held: tuple[object] | None = None) -> bool:
        """Take the values of one child, or those within its value that a filter `held` for; False when time is over."""
        tally, base = self._tally, batch.base
        start, end = batch.starts[number], batch.ends[number]
        at, step = start, self._index
        name: Step = step
        if batch.names is not None:
            opening, closing = batch.names[number]
            name = walk.name_of(batch.data[opening + 1 - base : closing - base])
            at = batch.data.find(b":", closing + 1 - base, end - base) + 1 + base
        raw = batch.data[at - base : end - base]
        skip = tally.start.skip if start == tally.start.byte else 0
        taken, within = 0, None
        try:
            tally.effort.spend(1 + len(raw) // _STEP_BYTES)
            for location, value in self._values(raw, held):
                taken += 1
                if taken <= skip:
                    continue
                within = within or Within([*self._place.path, name], raw, at)
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
                return ((None, Unread(raw)),)
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
