"""Reads the children of one place: all, a slice, or those for which a filter holds.

They are decoded many at once, which costs a third of decoding each separately; peculiar ones (not strict JSON, very
deep, very long) are decoded separately. What a path leads to from a child is evaluated on its decoded value.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from coatcheck.core.jsonpath import walk
from coatcheck.core.jsonpath.decode import MEMORY_LIMIT, BrokenError, TooDeepError, decode, too_large
from coatcheck.core.jsonpath.descend import AT_HAND, DescentPosition
from coatcheck.core.jsonpath.effort import OutOfEffortError
from coatcheck.core.jsonpath.evaluate import Node, evaluate
from coatcheck.core.jsonpath.hits import Resume
from coatcheck.core.jsonpath.location import Step, normalize_path
from coatcheck.core.jsonpath.page import PageBuilder
from coatcheck.core.jsonpath.query import FilterSelector, Segment, Slice, Wildcard
from coatcheck.core.jsonpath.walk import ChildBatch, ChildReader, CutShortError, Walk, Want

_STEP_BYTES: Final = 256
"""Bytes whose decoding counts as one step."""
_TOGETHER: Final = 128
"""Children that are decoded at once."""
_TOGETHER_BYTES: Final = 256 * 1024
"""Their maximum bytes: longer ones are decoded separately."""
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
        self._last_counts = False

    def run(self) -> Walk[None]:
        """Takes children until there are no more, the page is complete, or time is up.

        Raises:
            CoatcheckError: `json_too_large` for a child that is too long to be decoded but must be.
        """
        if isinstance(self._selector, Slice):
            self._wanted = yield from self._range(self._selector)
        window = (
            (yield from self._all_names())
            if self._place.kind == "object" and self._place.source.last_duplicate_wins
            else 0
        )
        reader = self._place.children(self._page_builder.start.byte, longest=MEMORY_LIMIT, window=window)
        while self._page_builder.spent_at is None and not self._past():
            batch = yield from reader.next()
            if batch is None:
                return
            if batch.long and isinstance(reader, ChildReader):
                yield from self._long(batch, reader)
            else:
                self._take(batch)

    def _all_names(self) -> Walk[int]:
        """Returns how many bytes to read first to have all names of a short object: the last of equal names counts."""
        source, at = self._place.source, self._place.at
        end = min(source.size, at + AT_HAND)
        try:
            end = yield from walk.end_of(source._replace(size=end), at)
        except CutShortError:
            if end < source.size:
                return 0
        self._last_counts = True
        return end - at

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
        if self._wanted is not None:
            begin = max(first, self._wanted.start)
            begin += (self._wanted.start - begin) % self._wanted.step
            numbers = range(begin - first, min(len(numbers), self._wanted.stop - first), self._wanted.step)
        followed = _find_duplicates(batch) if self._last_counts else frozenset[int]()
        for at in range(0, len(numbers), _TOGETHER):
            some = numbers[at : at + _TOGETHER]
            children = self._together(batch, some) or [None] * len(some)
            starts, ends = (each[some.start : some.stop : some.step].tolist() for each in (batch.starts, batch.ends))
            for number, start, end, one in zip(some, starts, ends, children, strict=True):
                if number not in followed and not self._child(batch, number, start, end - start, first + number, one):
                    return

    def _together(self, batch: ChildBatch, numbers: range) -> list[Held] | None:
        """Returns children with their values; None if they are not consecutive, or one of them is peculiar."""
        raw = batch.data[batch.starts[numbers[0]] - batch.base : batch.ends[numbers[-1]] - batch.base]
        if numbers.step > 1 or len(raw) > _TOGETHER_BYTES:
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
        skip = page_builder.start.skip if start == page_builder.start.byte else 0
        count = 0
        try:
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
        if not self._plain and not reader.unfinished:
            raise too_large(f"an element of {normalize_path(self._place.path)}", f"over {MEMORY_LIMIT >> 20} MiB")
        at, end = yield from reader.extent()
        resume = Resume(start, index, 0, page_builder.found)
        if not page_builder.room(resume):
            return
        name: Step = index if batch.names is None else walk.name_of((yield from reader.name()))
        raw = yield Want(at, min(end, at + 4 * page_builder.keep))
        page_builder.put_written(raw, [*self._place.path, name], (at, end), resume)


def _find_duplicates(batch: ChildBatch) -> frozenset[int]:
    """Returns the members that another one with the same name follows, which is the one that counts."""
    members = ((n, walk.text_of(batch, n)) for n in range(len(batch.starts)))
    names = {n: walk.name_of(member[2]) for n, member in members if member is not None}
    last = {name: n for n, name in names.items()}
    return frozenset(names.keys() - last.values()) if len(last) < len(names) else frozenset()
