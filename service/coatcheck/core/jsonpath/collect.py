"""Carry out a plan on a document of any size: one page of values, what they add up to, where the next page begins.

A walk (see `walk.py`): it yields which bytes it needs. At most MEMORY_LIMIT bytes of JSON text are decoded at a time.
It stops when the page is full, then counts on for a while, and always when its time is over; what it found is kept.
"""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.jsonpath import walk
from coatcheck.core.jsonpath.decode import BrokenError, TooDeepError, decode, mended
from coatcheck.core.jsonpath.descend import (
    LINE_LIMIT,
    Place,
    count_lines,
    descend,
    miss,
    not_json,
    sniff,
    too_large,
)
from coatcheck.core.jsonpath.evaluate import Condition, Node, OutOfEffortError, condition, evaluate
from coatcheck.core.jsonpath.hits import HOLD, Hit, Page, Resume, Unread, cells_of, cut, kind_of
from coatcheck.core.jsonpath.location import Step, normalized
from coatcheck.core.jsonpath.query import Filter, Slice, Wildcard
from coatcheck.core.jsonpath.tally import Ask, Tally, Within
from coatcheck.core.jsonpath.walk import Batch, CutShortError, Source, TooLongError, Walk

MEMORY_LIMIT: Final = LINE_LIMIT
"""Bytes of JSON text that are decoded at a time: about 60 MB of values, and 50 to 150 ms."""
_STEP_BYTES: Final = 256
"""Bytes whose decoding counts as one step."""
_TOGETHER: Final = 128
"""Elements that a filter is asked of at once."""
_TOGETHER_BYTES: Final = 256 * 1024
"""Bytes of them at most: longer ones are decoded each by itself."""
_LIST: Final = msgspec.json.Decoder(list[object])

Fan = Wildcard | Filter | Slice


def collect(ask: Ask, clock: Callable[[], float]) -> Walk[Page]:
    """The page.

    Raises:
        CoatcheckError: `not_json`, `json_too_large`.
    """
    tally = Tally(ask, clock)
    document = yield from sniff(ask.size, last=ask.size <= MEMORY_LIMIT)
    message = None
    try:
        place = yield from descend(document.source, document.start, ask.plan.descent)
        if place.missing is None:
            yield from _take_place(ask, tally, document.source, place)
        else:
            message = yield from miss(document.source, place)
    except CutShortError:
        tally.cut_short = True
        message = "No match before the place where the document is cut off."
    except OutOfEffortError:
        tally.spent_at = tally.spent_at or tally.start
    return tally.page(message if tally.found == 0 else None)


def _take_place(ask: Ask, tally: Tally, source: Source, place: Place) -> Walk[None]:
    plan = ask.plan
    if plan.single and not place.lines:
        end = yield from _end(source, place.at, tally)
        yield from _undecoded(ask, tally, place.at, end, place.path, Resume())
        tally.found += 1
        return
    fan = plan.fan
    if fan is None and (plan.single or (plan.spread and place.kind == "array")):
        fan = Wildcard()  # of lines: every line; and `..name` gives on an array what it gives on each element
    if fan is None:
        yield from _whole(ask, tally, source, place)
    elif place.kind == "array" or (place.kind == "object" and not isinstance(fan, Slice)):
        yield from _Fan(ask, tally, source, place, fan).run()


def _end(source: Source, at: int, tally: Tally) -> Walk[int]:
    try:
        return (yield from walk.end_of(source, at))
    except CutShortError:
        tally.cut_short = True
        return source.size


def _undecoded(ask: Ask, tally: Tally, start: int, end: int, path: list[Step], resume: Resume) -> Walk[None]:
    """Keep a value of any length, of which only the beginning is read."""
    keep = tally.keep
    raw = yield walk.Want(start, min(end, start + 4 * keep))
    kind = kind_of(raw[0]) or "number"
    try:
        decoded = decode(raw) if start + len(raw) == end else None
    except (BrokenError, TooDeepError):
        decoded = None
    cells = None
    if decoded is None or kind == "number":
        text = raw.decode("utf-8", "replace")
        text, whole = text[:keep], len(text) <= keep and start + len(raw) == end
    else:
        tally.odd |= decoded.odd
        text, whole = cut(decoded.value, keep)
        cells = cells_of(decoded.value, ask.fields, keep) if ask.fields else None
    tally.put(Hit(path, kind, text, whole, (start, end), resume, cells))


# ------------------------------------------------------------------------------------------- child after child


class _Fan:
    """The children of one place, one after the other."""

    def __init__(self, ask: Ask, tally: Tally, source: Source, place: Place, fan: Fan) -> None:
        self._ask = ask
        self._rest = ask.plan.rest
        self._tally = tally
        self._source = source
        self._place = place
        self._fan = fan
        self._holds = condition(fan.expression, tally.effort) if isinstance(fan, Filter) else None
        self._plain = not self._rest and not isinstance(fan, Filter)
        self._index = tally.start.index
        self._wanted: range | None = None

    def run(self) -> Walk[None]:
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
        if self._holds is not None and batch.names is None and not self._place.lines:
            return self._take_held(batch, self._holds)
        for number in range(len(batch.starts)):
            if self._past():
                return True
            if self._plain and self._tally.full_at is not None:
                return self._count_rest(Resume(batch.starts[number], self._index), len(batch.starts) - number)
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

    def _take_held(self, batch: Batch, holds: Condition) -> bool:
        """Take an array's elements for which a filter holds: the others are only decoded and asked."""
        tally = self._tally
        for first in range(0, len(batch.starts), _TOGETHER):
            last = min(first + _TOGETHER, len(batch.starts))
            before = self._index - first
            try:
                held = self._held(batch, first, last, holds)
            except OutOfEffortError:
                if batch.starts[first] not in {tally.start.byte, self._place.at + 1}:
                    tally.spent_at = Resume(batch.starts[first], self._index, 0, tally.found)
                    return True
                held = None  # a page begins here: it turns out how far one comes, if only by an element
            for number, value in ((n, None) for n in range(first, last)) if held is None else held:
                self._index = before + number
                if not self._child(batch, number, value):
                    return True
            self._index = before + last
        return False

    def _held(self, batch: Batch, first: int, last: int, holds: Condition) -> list[tuple[int, tuple[object]]] | None:
        """Which of some elements a filter holds for, with their values; None where one of them is peculiar."""
        effort = self._tally.effort
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
        return [(n, (value,)) for n, value in enumerate(values, first) if holds(value, None, effort)]

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
                yield from _undecoded(self._ask, tally, at, end, [*self._place.path, name], resume)
            tally.found += 1
        self._index += 1
        after, char = yield from walk.significant(source, end)
        return after + 1, char != ord(",")


# --------------------------------------------------------------------------------------------- a value in memory


def _whole(ask: Ask, tally: Tally, source: Source, place: Place) -> Walk[None]:
    end = source.size
    if not place.lines:
        end = yield from _end(source, place.at, tally)
    if end - place.at > MEMORY_LIMIT:
        raise too_large(normalized(place.path), f"{(end - place.at) / 1e6:,.0f} MB")
    raw = yield walk.Want(place.at, end)
    value = _lines(raw, tally) if place.lines else _decoded(raw, place, tally)
    taken, skip = 0, tally.start.skip
    within = Within(place.path, None if place.lines else raw, place.at)
    try:
        for location, found in evaluate(ask.plan.rest, (None, value), value, tally.effort):
            taken += 1
            if taken > skip:
                tally.add(found, within, location, Resume(0, 0, taken - 1, tally.found))
    except OutOfEffortError:
        tally.spent_at = Resume(0, 0, max(taken, skip), tally.found)


def _decoded(raw: bytes, place: Place, tally: Tally) -> object:
    try:
        decoded = decode(raw)
    except TooDeepError:
        raise CoatcheckError(
            Code.JSON_TOO_LARGE,
            "The document is nested too deeply for this path (about 1,000 levels). Use a path of names and indices "
            "only, with at most a [*] at its end, which may go as deep as the document does.",
        ) from None
    except BrokenError:
        rest = mended(raw) if tally.cut_short else None
        try:
            decoded = decode(rest) if rest is not None else None
        except (BrokenError, TooDeepError):
            decoded = None
        if decoded is None:
            raise not_json(f"what is at {normalized(place.path)[:200]} is not valid") from None
    tally.odd |= decoded.odd
    return decoded.value


def _lines(raw: bytes, tally: Tally) -> list[object]:
    values: list[object] = []
    for line in raw.split(b"\n"):
        if line.strip():
            try:
                decoded = decode(line)
            except (BrokenError, TooDeepError):
                tally.broken += 1
                values.append(None)
                continue
            tally.odd |= decoded.odd
            values.append(decoded.value)
    return values
