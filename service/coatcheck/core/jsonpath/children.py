"""Carries out a plan on a document of any size: one page of values, their number, where the next page begins.

A walk (see `walk.py`): it yields which bytes it needs. At most DECODED_BYTES bytes of JSON text are decoded at a time.
It stops when the page is full, then counts on for a while, and always when its time is up; what it found is kept.

The children of a place are decoded many at once, which costs a third of decoding each separately; peculiar ones (not
strict JSON, very deep, very long) are decoded separately. What a path leads to from a child is evaluated on its decoded
value.
"""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.jsonpath import walk
from coatcheck.core.jsonpath.descend import (
    NO_JSON,
    DescentPosition,
    begin,
    descend,
    is_line_damaged,
    miss,
    not_json,
    nothing,
    sniff,
)
from coatcheck.core.jsonpath.filters import Node, evaluate
from coatcheck.core.jsonpath.page import PageBuilder, PageRequest, Resume, ValuePage
from coatcheck.core.jsonpath.query import (
    FilterSelector,
    OutOfEffortError,
    Segment,
    Slice,
    Step,
    Wildcard,
    normalize_path,
)
from coatcheck.core.jsonpath.structure import DECODED_BYTES, BrokenError, TooDeepError, decode, too_large
from coatcheck.core.jsonpath.walk import ChildBatch, ChildReader, CutShortError, Walk, Want
from coatcheck.core.text.json_skeleton import find_complete_part

_STEP_BYTES: Final = 256
"""Bytes whose decoding counts as one step."""
_BATCH_CHILDREN: Final = 128
"""Children that are decoded at once; if one of them is peculiar, all are decoded one by one (decision 0017)."""
_BATCH_BYTES: Final = 256 * 1024
"""Maximum bytes of such a batch: longer children are decoded separately."""
_ELEMENTS: Final = msgspec.json.Decoder(list[object])
_MEMBERS: Final = msgspec.json.Decoder(dict[str, object])
_LINES: Final = msgspec.json.Decoder(object)

_TOO_DEEP: Final = object()
"""Stands for the value of a child that is nested too deeply to be decoded."""

Selector = Wildcard | FilterSelector | Slice
Held = tuple[Step, object] | None
"""The name of a child (or anything, for an element) and its value, if it was decoded with others."""


class Children:
    """The children of one place, and what a path leads to from them."""

    def __init__(
        self, page_builder: PageBuilder, place: DescentPosition, selector: Selector, rest: tuple[Segment, ...]
    ) -> None:
        """Begins at the place's first child, or where the page begins."""
        self._page_builder = page_builder
        self._place = place
        self._selector = selector
        self._rest = rest
        self._holds = selector.holds if isinstance(selector, FilterSelector) else None
        self._plain = not rest and self._holds is None
        self._index = page_builder.start.index
        self._wanted: range | None = None

    def run(self) -> Walk[None]:
        """Takes children until there are no more, the page is complete, or time is up.

        Raises:
            CoatcheckError: `json_too_large` for a child that is too long to be decoded but must be.
        """
        if isinstance(self._selector, Slice):
            self._wanted = yield from self._range(self._selector)
        reader = self._place.children(self._page_builder.start.byte, longest=DECODED_BYTES)
        while self._page_builder.spent_at is None and not self._past():
            batch = yield from reader.next()
            if batch is None:
                return
            if batch.long and isinstance(reader, ChildReader):
                yield from self._long(batch, reader)
            else:
                self._take(batch)

    def _range(self, selector: Slice) -> Walk[range]:
        if (selector.start or 0) >= 0 and (selector.stop or 0) >= 0:
            stop = self._place.source.size if selector.stop is None else selector.stop
            indexes = range(selector.start or 0, stop, selector.step or 1)
        else:
            indexes = selector.of((yield from walk.count(self._place.children())))
        return range(indexes.start, indexes[-1] + 1, indexes.step) if indexes else indexes

    def _past(self) -> bool:
        return self._wanted is not None and (not self._wanted or self._index >= self._wanted.stop)

    def _take(self, batch: ChildBatch) -> None:
        first, self._index = self._index, self._index + len(batch.starts)
        numbers = range(len(batch.starts) - batch.blank)
        # A slice: only the numbers in this batch that it selects.
        if self._wanted is not None:
            begin = max(first, self._wanted.start)
            begin += (self._wanted.start - begin) % self._wanted.step
            numbers = range(begin - first, min(len(numbers), self._wanted.stop - first), self._wanted.step)
        for at in range(0, len(numbers), _BATCH_CHILDREN):
            some = numbers[at : at + _BATCH_CHILDREN]
            children = self._together(batch, some) or [None] * len(some)
            starts, ends = (each[some.start : some.stop : some.step].tolist() for each in (batch.starts, batch.ends))
            for number, start, end, one in zip(some, starts, ends, children, strict=True):
                if not self._child(batch, number, start, end - start, first + number, one):
                    return

    def _together(self, batch: ChildBatch, numbers: range) -> list[Held] | None:
        """Returns children with their values; None if they are not consecutive, or one of them is peculiar."""
        raw = batch.data[batch.starts[numbers[0]] - batch.base : batch.ends[numbers[-1]] - batch.base]
        if numbers.step > 1 or len(raw) > _BATCH_BYTES:
            return None
        try:
            if batch.names is not None:
                children: list[Held] = [*_MEMBERS.decode(b"{%b}" % raw).items()]
            else:
                values = _LINES.decode_lines(raw) if self._place.source.lines else _ELEMENTS.decode(b"[%b]" % raw)
                children = [(0, value) for value in values]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        return children if len(children) == len(numbers) else None

    def _child(self, batch: ChildBatch, number: int, start: int, size: int, index: int, child: Held) -> bool:
        """Takes the values of one child, unless a filter excludes it; returns False when time is up."""
        page_builder = self._page_builder
        # Only the child in which the last page ended has values that were shown already.
        skip = page_builder.start.skip if start == page_builder.start.byte else 0
        count = 0
        try:
            # Decoding is work as well as evaluating: a page of long children must end in time.
            page_builder.effort.spend(1 + size // _STEP_BYTES)
            for location, value in self._values(batch, number, child):
                count += 1
                resume = Resume(start, index, count - 1, page_builder.found)
                if count <= skip or not page_builder.room(resume):
                    continue
                raw, at, name = walk.text_of(batch, number) or (b"", start, b"")
                path = [*self._place.path, index if batch.names is None else walk.name_of(name)]
                if value is _TOO_DEEP:
                    at += len(raw) - len(raw.lstrip())
                    raw = raw.strip()
                    page_builder.put_written(raw, path, (at, at + len(raw)), resume)
                else:
                    page_builder.put(value, path, location, raw, at, resume)
        except OutOfEffortError:
            page_builder.spent_at = Resume(start, index, max(count, skip), page_builder.found)
            return False
        return True

    def _values(self, batch: ChildBatch, number: int, child: Held) -> Iterable[Node]:
        page_builder = self._page_builder
        if child is not None:
            value = child[1]
        else:
            raw, _, _ = walk.text_of(batch, number) or (b"", 0, b"")
            try:
                decoded = decode(raw)
            except (BrokenError, TooDeepError) as e:
                if isinstance(e, TooDeepError) and self._plain:
                    return ((None, _TOO_DEEP),)
                page_builder.broken += 1
                return ()
            page_builder.odd |= decoded.odd and not (self._plain and page_builder.full_at is not None)  # only counted
            value = decoded.value
        if self._holds is not None and not self._holds(value, None, page_builder.effort):
            return ()
        return evaluate(self._rest, (None, value), None, page_builder.effort)

    def _long(self, batch: ChildBatch, reader: ChildReader) -> Walk[None]:
        """Takes a child that is longer than what may be in memory, if it need not be decoded."""
        start, index, page_builder = int(batch.starts[0]), self._index, self._page_builder
        self._index += 1
        if self._wanted is not None and index not in self._wanted:
            return
        # With a filter or more steps it would have to be in memory.
        if not self._plain and not reader.unfinished:
            raise too_large(f"an element of {normalize_path(self._place.path)}", f"over {DECODED_BYTES >> 20} MiB")
        at, end = yield from reader.extent()
        resume = Resume(start, index, 0, page_builder.found)
        if not page_builder.room(resume):
            return
        name: Step = index if batch.names is None else walk.name_of((yield from reader.name()))
        raw = yield Want(at, min(end, at + 4 * page_builder.keep))
        page_builder.put_written(raw, [*self._place.path, name], (at, end), resume)


_LEFT_OUT: Final = object()
"""Stands for a line that is not JSON, so that the others keep their indices."""
_CLOSED: Final = frozenset(b'[{"')
"""What begins a value that has an explicit end."""


def collect(ask: PageRequest, clock: Callable[[], float]) -> Walk[ValuePage]:
    """Returns the page.

    Raises:
        CoatcheckError: `not_json`, `json_too_large`.
    """
    page_builder = PageBuilder(ask, clock)
    document = yield from sniff(ask.size)
    # Damage does not end a page: what was found before it is shown, and what is wrong is said.
    message = None
    first = yield from begin(document, ask.plan.descent)
    page_builder.line = first.line
    try:
        message = yield from _from(ask, page_builder, first)
    except CutShortError:
        page_builder.cut_short = True
        where = "the document" if page_builder.line is None else normalize_path(first.path)
        message = f"No match before the place where {where} is cut off."
    except BrokenError:
        page_builder.damaged, page_builder.lost = first.path, True
        message = "No match before the place where it is no JSON."
    except OutOfEffortError:
        page_builder.spent_at = page_builder.spent_at or page_builder.start
    return page_builder.page(message if page_builder.found == 0 else None)


def _from(ask: PageRequest, page_builder: PageBuilder, first: DescentPosition) -> Walk[str | None]:
    """Takes what the path leads to from there; returns a sentence if it leads nowhere."""
    plan = ask.plan
    # To one value by names and indices, whatever its size.
    place = yield from descend(first, plan.descent)
    if (yield from is_line_damaged(first, place)):
        page_builder.damaged = first.path
    if place.missing is not None:
        return (yield from miss(place))
    if place.kind == NO_JSON:
        page_builder.damaged = page_builder.damaged or place.path
        return (yield from nothing(place))
    # It is the answer itself: only its beginning is read.
    if plan.single and not place.source.lines:
        end, all_there = yield from _end(page_builder, place)
        raw = yield Want(place.at, min(end, place.at + 4 * page_builder.keep))
        if page_builder.room(Resume()):
            page_builder.put_written(raw, place.path, (place.at, end), Resume(), all_there=all_there)
        return None
    # Else its children, one by one.
    selector = plan.children
    if selector is None and (plan.single or (plan.spread and place.kind == "array")):
        selector = Wildcard()  # for lines: every line; and `..name` gives for an array what it gives for each element
    if selector is None:
        yield from _whole(ask, page_builder, place)
    elif place.kind == "array" or (place.kind == "object" and not isinstance(selector, Slice)):
        yield from Children(page_builder, place, selector, plan.rest).run()
    return None


def _end(page_builder: PageBuilder, place: DescentPosition) -> Walk[tuple[int, bool]]:
    """Returns where the value at a place ends, and whether it is complete; if not, that is recorded."""
    source = place.source
    try:
        end = yield from walk.end_of(source, place.at)
    except CutShortError:
        page_builder.cut_short = True
        return source.size, False
    inside = len(place.path) > (0 if place.line is None else 1)  # something must follow, or a number may be incomplete
    if inside and end == source.size and (yield Want(place.at, place.at + 1))[0] not in _CLOSED:
        page_builder.cut_short = True
        return end, False
    return end, True


# --------------------------------------------------------------------------------------------- a value in memory


def _whole(ask: PageRequest, page_builder: PageBuilder, place: DescentPosition) -> Walk[None]:
    # A path that must see everything: limited to what fits into memory.
    lines = place.source.lines
    end = place.source.size if lines else (yield from _end(page_builder, place))[0]
    if end - place.at > DECODED_BYTES:
        raise too_large(normalize_path(place.path), f"{(end - place.at) / 1e6:,.0f} MB")
    raw = yield Want(place.at, end)
    value = _lines(raw, page_builder) if lines else _decode_value(raw, place, page_builder)
    count, skip = 0, page_builder.start.skip
    try:
        for location, result in evaluate(ask.plan.rest, (None, value), value, page_builder.effort):
            if result is _LEFT_OUT:
                continue
            count += 1
            resume = Resume(0, 0, count - 1, page_builder.found)
            if count > skip and page_builder.room(resume):
                page_builder.put(result, place.path, location, None if lines else raw, place.at, resume)
    except OutOfEffortError:
        page_builder.spent_at = Resume(0, 0, max(count, skip), page_builder.found)


def _decode_value(raw: bytes, place: DescentPosition, page_builder: PageBuilder) -> object:
    try:
        decoded = decode(raw)
    except TooDeepError:
        raise CoatcheckError(
            Code.JSON_TOO_LARGE,
            "The document is nested too deeply for this path (about 1,000 levels). Use a path of names and indices "
            "only, with at most a [*] at its end, which may go as deep as the document does.",
        ) from None
    except BrokenError:
        part = find_complete_part(raw) if page_builder.cut_short else None
        try:
            decoded = None if part is None else decode(raw[: part[0]] + part[1])
        except (BrokenError, TooDeepError):
            decoded = None
        if decoded is None:
            raise not_json(f"what is at {normalize_path(place.path)[:200]} is not valid") from None
    page_builder.odd |= decoded.odd
    return decoded.value


def _lines(raw: bytes, page_builder: PageBuilder) -> list[object]:
    values: list[object] = []
    for line in raw.split(b"\n"):
        if line.strip():
            try:
                decoded = decode(line)
            except (BrokenError, TooDeepError):
                page_builder.broken += 1
                values.append(_LEFT_OUT)
                continue
            page_builder.odd |= decoded.odd
            values.append(decoded.value)
    return values
