"""Carries out a query plan on a document of any size. Returns one page of values, their number, and the next position.

The functions are walks (see `walk.py`): they yield the ranges of bytes that they need. At most DECODED_BYTES bytes of
JSON text are decoded at a time. When the page is full, values are counted for a while longer; when the time is up, the
walk stops. In both cases, the values that were found are kept.

Many children of a container are decoded together, which costs a third of decoding each separately. Children that are
not strict JSON, very deep or very long are decoded separately. The rest of the path is evaluated on a child's decoded
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
"""Bytes whose decoding costs one step of effort."""
_BATCH_CHILDREN: Final = 128
"""Children that are decoded together. If that fails for one of them, all are decoded one by one (decision 0017)."""
_BATCH_BYTES: Final = 256 * 1024
"""Maximum bytes of children that are decoded together; the children of a larger batch are decoded one by one."""
_ELEMENTS: Final = msgspec.json.Decoder(list[object])
_MEMBERS: Final = msgspec.json.Decoder(dict[str, object])
_LINES: Final = msgspec.json.Decoder(object)

_TOO_DEEP: Final = object()
"""Stands for the value of a child that is nested too deeply to be decoded."""

Selector = Wildcard | FilterSelector | Slice
Held = tuple[Step, object] | None
"""The name and the value of a child that was decoded together with others; for an element, the name is meaningless.
None for a child that was not decoded yet."""


class Children:
    """Reads the children of one container, and adds the values to which the path leads from them to a page."""

    def __init__(
        self, page_builder: PageBuilder, place: DescentPosition, selector: Selector, rest: tuple[Segment, ...]
    ) -> None:
        """Positions the reader at the first child of the container, or at the position where the page begins.

        Args:
            page_builder: takes the values.
            place: the container.
            selector: selects children.
            rest: the segments of the path behind that selector.
        """
        self._page_builder = page_builder
        self._place = place
        self._selector = selector
        self._rest = rest
        self._holds = selector.holds if isinstance(selector, FilterSelector) else None
        self._plain = not rest and self._holds is None
        self._index = page_builder.start.index
        self._wanted: range | None = None

    def run(self) -> Walk[None]:
        """Reads children until there are no more, no later child is selected, or the time is up.

        Raises:
            CoatcheckError: `json_too_large` for a child that must be decoded, but is too long.
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
        # If the selector is a slice, take only the children of this batch that it selects.
        if self._wanted is not None:
            begin = max(first, self._wanted.start)
            begin += (self._wanted.start - begin) % self._wanted.step
            numbers = range(begin - first, min(len(numbers), self._wanted.stop - first), self._wanted.step)
        for at in range(0, len(numbers), _BATCH_CHILDREN):
            part = numbers[at : at + _BATCH_CHILDREN]
            children = self._together(batch, part) or [None] * len(part)
            starts, ends = (each[part.start : part.stop : part.step].tolist() for each in (batch.starts, batch.ends))
            for number, start, end, child in zip(part, starts, ends, children, strict=True):
                if not self._child(batch, number, start, end - start, first + number, child):
                    return

    def _together(self, batch: ChildBatch, numbers: range) -> list[Held] | None:
        """Decodes children together, and returns them.

        None if they are not consecutive, too long together, or if one of them is not strict JSON or is too deep.
        """
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
        """Adds the values of one child to the page, unless a filter excludes the child; returns False if time is up."""
        page_builder = self._page_builder
        # Only the child in which the preceding page ended has values that were shown already.
        skip = page_builder.start.skip if start == page_builder.start.byte else 0
        count = 0
        try:
            # Decoding costs effort as evaluating does: a page of long children must end in time.
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
        """Adds a child that is too long to be held in memory to the page. That works only if it need not be decoded.

        Raises:
            CoatcheckError: `json_too_large` if it must be decoded.
        """
        start, index, page_builder = int(batch.starts[0]), self._index, self._page_builder
        self._index += 1
        if self._wanted is not None and index not in self._wanted:
            return
        # A filter or more segments would need the decoded child in memory.
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
"""Stands for a line that is not JSON, so that the other lines keep their indices."""
_CLOSED: Final = frozenset(b'[{"')
"""First bytes of the values that have an explicit end: arrays, objects and strings."""


def collect(ask: PageRequest, clock: Callable[[], float]) -> Walk[ValuePage]:
    """Returns the requested page.

    Raises:
        CoatcheckError: `not_json` for a document that is not JSON; `json_too_large` for a value that must be decoded as
            a whole, but is too large or too deep.
    """
    page_builder = PageBuilder(ask, clock)
    document = yield from sniff(ask.size)
    # Invalid JSON is no error: the values before it are shown, and a notice says what is wrong.
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
    """Adds the values to which the path leads from `first` to the page; returns a message if it leads nowhere."""
    plan = ask.plan
    # Names and indices at the beginning of the path lead to one value, which may have any size.
    place = yield from descend(first, plan.descent)
    if (yield from is_line_damaged(first, place)):
        page_builder.damaged = first.path
    if place.missing is not None:
        return (yield from miss(place))
    if place.kind == NO_JSON:
        page_builder.damaged = page_builder.damaged or place.path
        return (yield from nothing(place))
    # If the path ends there, that value is the only result, and only its beginning is read.
    if plan.single and not place.source.lines:
        end, all_there = yield from _end(page_builder, place)
        raw = yield Want(place.at, min(end, place.at + 4 * page_builder.keep))
        if page_builder.room(Resume()):
            page_builder.put_written(raw, place.path, (place.at, end), Resume(), all_there=all_there)
        return None
    # Otherwise its children are read one by one, if possible.
    selector = plan.children
    if selector is None and (plan.single or (plan.spread and place.kind == "array")):
        # If the document has one value per line, each line is a result. `..name` on an array gives the results of
        # `..name` on each of its elements.
        selector = Wildcard()
    if selector is None:
        yield from _whole(ask, page_builder, place)
    elif place.kind == "array" or (place.kind == "object" and not isinstance(selector, Slice)):
        yield from Children(page_builder, place, selector, plan.rest).run()
    return None


def _end(page_builder: PageBuilder, place: DescentPosition) -> Walk[tuple[int, bool]]:
    """Returns the offset at which the value at a place ends, and whether it is complete; if not, sets `cut_short`."""
    source = place.source
    try:
        end = yield from walk.end_of(source, place.at)
    except CutShortError:
        page_builder.cut_short = True
        return source.size, False
    # Inside a container, something must follow a value. If nothing follows a number, its end may be missing.
    inside = len(place.path) > (0 if place.line is None else 1)
    if inside and end == source.size and (yield Want(place.at, place.at + 1))[0] not in _CLOSED:
        page_builder.cut_short = True
        return end, False
    return end, True


# --------------------------------------------------------------------------------------------- a value in memory


def _whole(ask: PageRequest, page_builder: PageBuilder, place: DescentPosition) -> Walk[None]:
    # The path needs the whole value decoded, so that the value must fit into memory.
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
