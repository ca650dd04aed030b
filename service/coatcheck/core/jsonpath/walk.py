"""Find values in JSON text without loading it: from a container to a child, to a value's end, over all children.

Everything here is a generator that yields which bytes it needs (`Want`) and is sent them, so that the same code
walks over a store that answers later and over bytes at hand (`over`). Memory is a few windows. A name that occurs
twice is found where it occurs first, or with `last` where it occurs last, at the price of reading to the object's end.
"""

from collections.abc import Callable, Generator
from typing import Final, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from coatcheck.core.jsonpath.decode import BrokenError
from coatcheck.core.jsonpath.structure import QUOTE, StructureReader, unescaped

FIRST_WINDOW: Final = 64 * 1024
WINDOW: Final = 2 * 1024 * 1024
_BLANK: Final = b" \t\n\r"
_CLOSERS: Final = b"]}"
_SCALAR_END: Final = b",]} \t\n\r"
_OPEN_ARRAY: Final = ord("[")
_OPEN_OBJECT: Final = ord("{")
_NEWLINE: Final = 0x0A
_SHORT_LINE: Final = 16
"""Bytes below which a line is looked at for being blank."""
NAME_LIMIT: Final = 1024 * 1024
"""Bytes of a member's name; a longer one is found by no path."""

_KEPT: Final = 100_000
"""Places from the end that are remembered while children are counted: what is there is found without a second look."""

T = TypeVar("T")


class Want(NamedTuple):
    """Bytes that are needed: from `start` to before `end`, clipped to the document."""

    start: int
    end: int


Walk = Generator[Want, bytes, T]


class CutShortError(Exception):
    """The document ends inside a value."""


class TooLongError(Exception):
    """A child is longer than what is held in memory.

    Attributes:
        start: where it begins.
    """

    def __init__(self, start: int) -> None:
        super().__init__(start)
        self.start = start


class WalkSource(NamedTuple):
    """A document, or the part of it that is walked over."""

    size: int
    last: bool = False
    """Of members with the same name, the last one counts."""
    lines: bool = False
    """Each line is a document; together they are the elements of an array."""


class ChildBatch(NamedTuple):
    """Children whose bytes are all at hand."""

    base: int
    data: bytes
    starts: list[int]
    """Where each child begins in the document: at its value, or at its name's quote."""
    ends: list[int]
    names: list[tuple[int, int]] | None
    """Of an object: the opening and closing quote of the string that follows, NAMELESS where there is none.

    In what is no JSON that string may lie beyond the child: see `named`.
    """


NAMELESS: Final = (-1, -1)

Take = Callable[[ChildBatch], bool]
"""Hears of children; says whether it has enough."""


def over(data: bytes, walk: Walk[T]) -> T:
    """Walk over bytes at hand."""
    try:
        want = next(walk)
        while True:
            want = walk.send(data[want.start : want.end])
    except StopIteration as done:
        return done.value


def clipped(walk: Walk[T], end: int) -> Walk[T]:
    """The same walk, over a document that ends at `end`."""
    try:
        want = next(walk)
        while True:
            want = walk.send((yield Want(want.start, min(want.end, end))))
    except StopIteration as done:
        return done.value


def significant(source: WalkSource, at: int) -> Walk[tuple[int, int]]:
    """The first byte from `at` on that is no blank: its position and value.

    Raises:
        CutShortError: there is none.
    """
    window = 256
    while at < source.size:
        data = yield Want(at, at + window)
        rest = data.lstrip(_BLANK)
        if rest:
            return at + len(data) - len(rest), rest[0]
        at += len(data)
        window = min(window * 16, WINDOW)
    raise CutShortError


def end_of(source: WalkSource, start: int) -> Walk[int]:
    """Where the value that begins at `start` ends.

    Raises:
        CutShortError: the document ends first.
    """
    _, first = yield from significant(source, start)
    if first == QUOTE:
        return (yield from _string_end(source, start))
    if first not in {_OPEN_ARRAY, _OPEN_OBJECT}:
        return (yield from _scalar_end(source, start))
    structure, at, window = StructureReader(), start, 1024
    while at < source.size:
        data = yield Want(at, at + window)
        marks = structure.feed(data, at)
        done = marks.closes(1)
        if done < len(marks.at):
            return int(marks.at[done]) + 1
        at += len(data)
        window = min(window * 8, WINDOW)
    raise CutShortError


def _string_end(source: WalkSource, start: int) -> Walk[int]:
    at, window, escaped = start + 1, 1024, False
    while at < source.size:
        data = yield Want(at, at + window)
        plain, escaped = unescaped(data, escaped=escaped)
        found = plain.find(b'"')
        if found >= 0:
            return at + found + 1
        at += len(data)
        window = min(window * 8, WINDOW)
    raise CutShortError


def _scalar_end(source: WalkSource, start: int) -> Walk[int]:
    at, window = start, 256
    while at < source.size:
        data = yield Want(at, at + window)
        for offset, octet in enumerate(data):
            if octet in _SCALAR_END:
                return at + offset
        at += len(data)
        window = min(window * 16, WINDOW)
    return source.size


def element(source: WalkSource, start: int, index: int) -> Walk[int | None]:
    """Where element `index` (from 0) of the array at `start` begins; None when there are fewer."""
    at, char = yield from significant(source, start + 1)
    if char in _CLOSERS:
        return None
    if index == 0:
        return at
    structure, before, window = StructureReader(1), 0, FIRST_WINDOW
    while at < source.size:
        data = yield Want(at, at + window)
        marks = structure.feed(data, at)
        end = marks.closes(1)
        commas = marks.commas(1, end)
        if before + len(commas) >= index:
            return (yield from significant(source, int(marks.at[commas[index - before - 1]]) + 1))[0]
        if end < len(marks.at):
            return None
        before += len(commas)
        at += len(data)
        window = min(window * 4, WINDOW)
    raise CutShortError


def count(source: WalkSource, start: int) -> Walk[int]:
    """How many children the container at `start` has."""
    return (yield from _counted(source, start, 0))[0]


def element_from_end(source: WalkSource, start: int, back: int) -> Walk[tuple[int | None, int]]:
    """Where element `back` (from 1) from the end of the array at `start` begins, and its index from 0.

    None, and an index below 0, when there are fewer.
    """
    length, commas = yield from _counted(source, start, back if back <= _KEPT else 0)
    index = length - back
    if index < 0:
        return None, index
    if not index or back > _KEPT:
        return (yield from element(source, start, index)), index
    return (yield from significant(source, int(commas[-back]) + 1))[0], index


def _counted(source: WalkSource, start: int, last: int) -> Walk[tuple[int, NDArray[np.int64]]]:
    """How many children a container has, and where at least the `last` commas between them are, or all."""
    at, char = yield from significant(source, start + 1)
    kept = np.zeros(0, np.int64)
    if char in _CLOSERS:
        return 0, kept
    structure, commas, window = StructureReader(1), 0, FIRST_WINDOW
    while at < source.size:
        data = yield Want(at, at + window)
        marks = structure.feed(data, at)
        end = marks.closes(1)
        found = marks.at[marks.commas(1, end)]
        commas += len(found)
        if last:
            kept = found if len(found) >= last else np.concatenate((kept, found))[-last:]
        if end < len(marks.at):
            return commas + 1, kept
        at += len(data)
        window = min(window * 4, WINDOW)
    raise CutShortError


def member(source: WalkSource, start: int, name: str) -> Walk[int | None]:
    """Where the value of a member of the object at `start` begins; None when there is no such member."""
    at, char = yield from significant(source, start + 1)
    if char in _CLOSERS:
        return None
    wanted = name.encode("utf-8", "surrogatepass")
    window, found, fresh = FIRST_WINDOW, -1, True
    structure = StructureReader(1)
    while at < source.size:
        data = yield Want(at, at + window)
        marks = structure.feed(data, at)
        end = marks.closes(1)
        commas = marks.commas(1, end)
        places = marks.at[commas] + 1
        if fresh:
            places = np.concatenate((np.full(1, at), places))
        named = 0
        if len(places):
            starts, ends = marks.strings(places)
            named = len(starts)
            if end < len(marks.at):  # behind a stray comma no name follows in this object
                within = starts < marks.at[end]
                starts, ends = starts[within], ends[within]
            hit = _named(data, at, starts, ends, wanted, last=source.last)
            found = hit if hit >= 0 else found
        if (found >= 0 and not source.last) or end < len(marks.at):
            return None if found < 0 else (yield from value_after(source, found))
        fresh = named < len(places)
        if fresh and at + len(data) < source.size:  # begin again at the name that is cut
            again = int(places[named])
            window = window * 2 if again == at else window
            if window > 2 * NAME_LIMIT:
                break
            at, structure = again, StructureReader(1)
        else:
            at += len(data)
            window = min(window * 4, WINDOW)
    if found >= 0:
        return (yield from value_after(source, found))
    raise CutShortError


def value_after(source: WalkSource, quote: int) -> Walk[int]:
    """Where the value begins that belongs to the name whose closing quote is at `quote`.

    Raises:
        BrokenError: no colon follows.
        CutShortError: the document ends first.
    """
    at, char = yield from significant(source, quote + 1)
    if char != ord(":"):
        raise BrokenError
    return (yield from significant(source, at + 1))[0]


def _named(
    data: bytes, base: int, opens: NDArray[np.int64], closes: NDArray[np.int64], wanted: bytes, *, last: bool
) -> int:
    """The closing quote of the first (or last) of these names that is `wanted`; -1 when none is."""
    starts, ends = opens - base + 1, closes - base
    hits = _plain_hits(data, starts, ends, wanted)
    if b"\\" in data:
        hits = hits + _escaped_hits(data, starts, ends, wanted)
    return (max(hits) if last else min(hits)) + base if hits else -1


def _plain_hits(data: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64], wanted: bytes) -> list[int]:
    likely = np.flatnonzero(ends - starts == len(wanted))
    octets = np.frombuffer(data, np.uint8)
    for offset in range(min(len(wanted), 64)):
        if len(likely) <= 4:  # noqa: PLR2004 - a few are compared faster one by one
            break
        likely = likely[octets[starts[likely] + offset] == wanted[offset]]
    return [int(ends[n]) for n in likely if data[starts[n] : ends[n]] == wanted]


def _escaped_hits(data: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64], wanted: bytes) -> list[int]:
    """Names that are written with escapes, which only decoding compares."""
    slashes = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\\"))
    first = np.searchsorted(slashes, starts)
    has = np.flatnonzero((first < len(slashes)) & (slashes[np.minimum(first, len(slashes) - 1)] < ends))
    return [int(ends[n]) for n in has if _unescaped(data[starts[n] : ends[n]]) == wanted]


def _unescaped(name: bytes) -> bytes:
    return name_of(name).encode("utf-8", "surrogatepass")


def name_of(raw: bytes) -> str:
    """A member's name from the bytes between its quotes."""
    if b"\\" not in raw:
        return raw.decode("utf-8", "replace")
    try:
        return msgspec.json.decode(b'"' + raw + b'"', type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return raw.decode("utf-8", "replace")


def named(batch: ChildBatch, number: int) -> tuple[bytes, int] | None:
    """The name of a member, as it is written between its quotes, and where what follows its colon begins.

    None for what is no member.
    """
    base, data, starts, ends, names = batch
    opening, closing = NAMELESS if names is None else names[number]
    start, end = starts[number], ends[number]
    if not start <= opening < closing < end:
        return None
    after = closing + 1 - base
    colon = data.find(b":", after, end - base)
    if colon < 0 or (opening > start and data[start - base : opening - base].strip(_BLANK)):
        return None
    if colon > after and data[after:colon].strip(_BLANK):
        return None
    return data[opening + 1 - base : closing - base], colon + 1 + base


def children(
    source: WalkSource, at: int, take: Take, *, is_object: bool, longest: int, window: int = FIRST_WINDOW
) -> Walk[tuple[int, bool]]:
    """Hand over the children from `at` on, the first byte behind a `[`, `{` or comma, until `take` says stop.

    Answers where the next child would begin, and whether the container is at its end. `window`: bytes that are looked
    at first.

    Raises:
        CutShortError: the document ends inside the container; what is whole was handed over.
        TooLongError: a child is longer than `longest` bytes.
    """
    while at < source.size:
        data = yield Want(at, at + window)
        marks = StructureReader(1).feed(data, at)
        end = marks.closes(1)
        stops = marks.commas(1, end)
        closed = end < len(marks.at)
        if closed:
            stops = np.append(stops, end)
        if not len(stops):
            if at + len(data) >= source.size:
                raise CutShortError
            if window > longest:
                raise TooLongError(at)
            window *= 2
            continue
        bounds = [at, *(marks.at[stops] + 1).tolist()]
        names = None
        if is_object:
            opens, closes = marks.strings(np.array(bounds[:-1]))
            names = list(zip(opens.tolist(), closes.tolist(), strict=True))
            names += [NAMELESS] * (len(bounds) - 1 - len(names))
        starts = bounds[:-1]
        ends = [b - 1 for b in bounds[1:]]
        if closed and not data[starts[-1] - at : ends[-1] - at].strip(_BLANK):  # an empty container
            starts, ends = starts[:-1], ends[:-1]
        stop = take(ChildBatch(at, data, starts, ends, names))
        at = bounds[-1]
        if closed or stop:
            return at, closed
        window = min(max(window, FIRST_WINDOW) * 4, WINDOW)
    raise CutShortError


def lines(source: WalkSource, at: int, take: Take, *, longest: int) -> Walk[tuple[int, bool]]:
    """The same for documents on lines of their own, from `at` on, a line's first byte. Blank lines are none.

    Raises:
        TooLongError: a line is longer than `longest` bytes.
    """
    window = FIRST_WINDOW
    while at < source.size:
        data = yield Want(at, at + window)
        stops = np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE)
        ended = at + len(data) >= source.size
        if ended and (not len(stops) or stops[-1] != len(data) - 1):
            stops = np.append(stops, len(data))
        if not len(stops):
            if window > longest:
                raise TooLongError(at)
            window *= 2
            continue
        starts = np.concatenate(([0], stops[:-1] + 1))
        short = stops - starts < _SHORT_LINE
        kept = [n for n in range(len(stops)) if not short[n] or data[starts[n] : stops[n]].strip(_BLANK)]
        stop = take(ChildBatch(at, data, [int(starts[n]) + at for n in kept], [int(stops[n]) + at for n in kept], None))
        at += int(stops[-1]) + 1
        if stop:
            return at, at >= source.size
        window = WINDOW
    return at, True
