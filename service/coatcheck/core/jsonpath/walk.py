"""Reads JSON text in blocks without decoding it: finds where a value ends, and lists the children of a container.

The functions here are generators: they yield the range of bytes that they need (`Want`), and the caller sends the
bytes. So the same code works for bytes in memory (`over`) and for a store that is read asynchronously. At most a few
blocks are in memory.
"""

from collections.abc import Generator
from typing import Final, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from coatcheck.core.jsonpath.structure import DECODED_BYTES, BrokenError, too_large
from coatcheck.core.text.json_skeleton import COMMA, QUOTE, BlockStructure, StructureReader, blank_escapes

FIRST_WINDOW_BYTES: Final = 64 * 1024
"""Size of the first block of a walk, in bytes; each later block is several times as large. Chosen, not measured."""
MAX_WINDOW_BYTES: Final = 2 * 1024 * 1024
"""Maximum bytes of a block, which is read at once and held in memory. Chosen, not measured."""
BLANK: Final = b" \t\n\r"
_SCALAR_END: Final = b",]} \t\n\r"
_OPENERS: Final = b"[{"
_AFTER: Final = b",]}"
_BLANKS: Final = np.frombuffer(BLANK, np.uint8)
_NAME_BYTES: Final = 4_000
"""Maximum bytes that are read of the name of a long member."""
_ESCAPE_BYTES: Final = 6
"""Maximum bytes that one byte of a name takes if it is escaped, as in `\\u0041`."""
INDEXED_CHILDREN: Final = 100_000
"""Children at the end of a container whose positions are remembered while the children are counted. To locate an
earlier child by a negative index, a second pass is needed."""

T = TypeVar("T")
_Positions = NDArray[np.int64]


class Want(NamedTuple):
    """The range of bytes that a walk needs: from `start` to before `end`, clipped to the document."""

    start: int
    end: int


Walk = Generator[Want, bytes, T]


class CutShortError(Exception):
    """The document ends inside a value."""


class WalkSource(NamedTuple):
    """A document, or one line of a document, through which a walk goes."""

    size: int
    """Offset at which the document or line ends."""
    lines: bool = False
    """Whether each line is a document by itself; the lines are then treated as the elements of an array."""

    def want(self, start: int, length: int) -> Want:
        """Returns the range of `length` bytes from `start` on, clipped to the document."""
        return Want(start, min(self.size, start + length))


class ChildBatch(NamedTuple):
    """Consecutive children of a container. `data` holds all their bytes, unless the batch is a single `long` child."""

    base: int
    """Offset of `data` in the document."""
    data: bytes
    starts: _Positions
    """Offsets in the document at which the children begin: after a bracket, comma or line feed."""
    ends: _Positions
    """Offsets in the document at which the children end."""
    names: tuple[_Positions, _Positions] | None = None
    """For an object: offsets of the opening and closing quotes of the first string after each start; None for an array.
    In text that is not JSON, that string may be beyond the child, and there may be fewer strings than children."""
    blank: bool = False
    """Whether the last child is only the blank between a comma and the container's end."""
    long: bool = False
    """Whether the only child is too long to be read at once, so that its end is unknown and may not exist."""

    def raw(self, number: int) -> bytes:
        """Returns the text of child number `number` of the batch, from 0."""
        return self.data[self.starts[number] - self.base : self.ends[number] - self.base]


def over(data: bytes, walk: Walk[T]) -> T:
    """Runs a walk over bytes in memory, and returns its result."""
    try:
        want = next(walk)
        while True:
            want = walk.send(data[want.start : want.end])
    except StopIteration as done:
        return done.value


def significant(source: WalkSource, at: int) -> Walk[tuple[int, int]]:
    """Returns the position and the value of the first byte from `at` on that is not blank.

    Raises:
        CutShortError: all remaining bytes are blank.
    """
    window = 256
    while at < source.size:
        data = yield source.want(at, window)
        rest = data.lstrip(BLANK)
        if rest:
            return at + len(data) - len(rest), rest[0]
        at += len(data)
        window = min(window * 16, MAX_WINDOW_BYTES)
    raise CutShortError


def end_of(source: WalkSource, start: int) -> Walk[int]:
    """Returns the offset at which the value that begins at `start` ends.

    Raises:
        CutShortError: the document ends first.
    """
    _, first = yield from significant(source, start)
    structure, escaped = StructureReader(), False
    # The block grows quickly: most values are short, and the rest of a long one costs few reads.
    at, window = (start + 1 if first == QUOTE else start), 1024
    while at < source.size:
        data = yield source.want(at, window)
        # A string ends at a quote, a container at its bracket, another scalar before a comma, bracket or blank.
        if first == QUOTE:
            plain, escaped = blank_escapes(data, escaped=escaped)
            length = plain.find(b'"') + 1
        elif first in _OPENERS:
            block = structure.feed(data, at)
            close_index = block.closes(1)
            length = int(block.at[close_index]) + 1 - at if close_index < len(block.at) else 0
        else:
            length = next((n for n, octet in enumerate(data) if octet in _SCALAR_END), -1)
            if length < 0 and at + len(data) >= source.size:
                length = len(data)
            # There is a comma or a bracket in place of a value: the value is empty.
            elif not length:
                return at
        if length > 0:
            return at + length
        at += len(data)
        window = min(window * 8, MAX_WINDOW_BYTES)
    raise CutShortError


def value_after(source: WalkSource, quote: int) -> Walk[int]:
    """Returns the offset of a member's value. `quote` is the offset of the closing quote of the member's name.

    Raises:
        BrokenError: no colon follows.
        CutShortError: the document ends first.
    """
    at, char = yield from significant(source, quote + 1)
    if char != ord(":"):
        raise BrokenError
    return (yield from significant(source, at + 1))[0]


class ChildReader:
    """Reads the children of a container, batch by batch.

    Attributes:
        closed: whether the reader has reached the end of the container.
        unfinished: whether the document ends inside the child that was returned as `long`.
    """

    def __init__(
        self,
        source: WalkSource,
        at: int,
        *,
        has_names: bool,
        longest: int = FIRST_WINDOW_BYTES,
    ) -> None:
        """Positions the reader in front of a child.

        Args:
            source: the document that is read.
            at: offset of the first byte after a `[`, `{` or comma.
            has_names: whether the container is an object.
            longest: maximum bytes of a child; a longer child is returned alone, as a batch that is `long`.
        """
        self._source = source
        self._at = at
        self._has_names = has_names
        self._longest = longest
        self._window = FIRST_WINDOW_BYTES
        self._first = True
        self._long: ChildBatch | None = None
        self.unfinished = False
        self._extent: tuple[int, int] | None = None
        self.closed = False

    def next(self) -> Walk[ChildBatch | None]:
        """Returns the next children; None at the container's end.

        Raises:
            BrokenError: neither a comma nor a closing bracket follows a `long` child.
            CutShortError: the document ends inside the container. If it ends inside a child, that child was returned
                as `long` before.
        """
        # The preceding child was not read to its end. Now it must be, to find the comma behind it.
        if self._long is not None:
            _, end = yield from self.extent()
            after, char = yield from significant(self._source, end)
            if char not in _AFTER:
                raise BrokenError
            self._at, self.closed, self._long, self._extent = after + 1, char != COMMA, None, None
        while not self.closed:
            data = yield self._source.want(self._at, self._window)
            block = StructureReader(1).feed(data, self._at)
            end = block.closes(1)
            stops = block.commas(1, end)
            if end < len(block.at):
                self.closed, stops = True, np.append(stops, end)
            # The children up to the last comma are complete; the rest is read again with the next block.
            if len(stops):
                batch = self._batch(data, block, block.at[stops])
                return batch if len(batch.starts) else None
            # The block holds no complete child: the child is too long to be read at once, or the document ends in it.
            self.unfinished = self._at + len(data) >= self._source.size
            if self.unfinished or self._window > self._longest:
                self._long = yield from self._begin_child()
                return self._long
            self._window *= 2
        return None

    def extent(self) -> Walk[tuple[int, int]]:
        """Returns the offsets at which the value of the `long` child begins and ends.

        Raises:
            BrokenError: the child is inside an object, but is not a member.
            CutShortError: the document ends first.
        """
        if self.unfinished or self._long is None:
            raise CutShortError
        if self._extent is None:
            names = self._long.names
            if names is None:
                at, _ = yield from significant(self._source, self._at)
            elif len(names[1]):
                at = yield from value_after(self._source, int(names[1][0]))
            else:
                raise BrokenError
            self._extent = at, (yield from end_of(self._source, at))
        return self._extent

    def name(self) -> Walk[bytes]:
        """Returns the beginning of the `long` member's name, as it is written between its quotes; empty for an element.

        Raises:
            BrokenError: the child is inside an object, but is not a member.
        """
        if self._long is None or self._long.names is None:
            return b""
        opens, closes = self._long.names
        if not len(opens):
            raise BrokenError
        return (yield Want(int(opens[0]) + 1, min(int(closes[0]), int(opens[0]) + 1 + _NAME_BYTES)))

    def _batch(self, data: bytes, block: BlockStructure, ends: _Positions) -> ChildBatch:
        base, first = self._at, self._first
        starts = np.concatenate(([base], ends[:-1] + 1))
        names = block.strings(starts) if self._has_names else None
        self._at, self._first = int(ends[-1]) + 1, False
        self._window = min(max(self._window, FIRST_WINDOW_BYTES) * 4, MAX_WINDOW_BYTES)
        blank = self.closed and not data[int(starts[-1]) - base : int(ends[-1]) - base].strip(BLANK)
        if blank and first and len(starts) == 1:  # an empty container
            starts, ends = starts[:0], ends[:0]
        return ChildBatch(base, data, starts, ends, names, blank=blank)

    def _begin_child(self) -> Walk[ChildBatch]:
        """Returns the child that begins at the reader's position as a `long` batch, with its name if it is a member."""
        at, names = np.array([self._at]), None
        quote, char = yield from significant(self._source, self._at)
        if self._has_names:
            name_quotes = [(quote, (yield from end_of(self._source, quote)) - 1)] if char == QUOTE else []
            names = np.array([q for q, _ in name_quotes], np.int64), np.array([c for _, c in name_quotes], np.int64)
        self._first = False
        return ChildBatch(self._at, b"", at, at, names, long=True)


class LineReader:
    """Reads documents on separate lines as if they were the elements of an array. Skips blank lines."""

    def __init__(self, source: WalkSource, at: int) -> None:
        """Positions the reader at the first byte of a line."""
        self._source = source
        self._at = at
        self._window = FIRST_WINDOW_BYTES

    def next(self) -> Walk[ChildBatch | None]:
        """Returns the next lines; None if there are no more.

        Raises:
            CoatcheckError: `json_too_large` for a line over DECODED_BYTES.
        """
        while self._at < self._source.size:
            base = self._at
            data = yield self._source.want(base, self._window)
            stops = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
            if base + len(data) >= self._source.size and not data.endswith(b"\n"):
                stops = np.append(stops, len(data))
            if not len(stops):
                if self._window > DECODED_BYTES:
                    raise too_large("a line of this document", f"over {DECODED_BYTES >> 20} MiB")
                self._window *= 2
                continue
            starts = np.concatenate(([0], stops[:-1] + 1))
            # Only a line that begins with a blank, or with its own end, can be blank.
            has_text = ~np.isin(np.frombuffer(data, np.uint8)[starts], _BLANKS)
            for n in np.flatnonzero(~has_text).tolist():
                has_text[n] = bool(data[starts[n] : stops[n]].strip(BLANK))
            self._at, self._window = base + int(stops[-1]) + 1, MAX_WINDOW_BYTES
            if has_text.any():
                return ChildBatch(base, data, starts[has_text] + base, stops[has_text] + base)
        return None


Reader = ChildReader | LineReader


def count(reader: Reader) -> Walk[int]:
    """Returns the number of children that the reader has not read yet, and reads them."""
    total = 0
    while (batch := (yield from reader.next())) is not None:
        total += len(batch.starts)
    return total


def nth(reader: Reader, index: int) -> Walk[tuple[int, int, int] | None]:
    """Returns the offsets at which a child begins and ends, and its index from the first; None if it does not exist.

    `index` may be negative, down to -INDEXED_CHILDREN, and then counts from the end. For a `long` child, whose end is
    unknown, the returned end equals its beginning.
    """
    total, tail = 0, np.zeros((2, 0), np.int64)
    while (batch := (yield from reader.next())) is not None:
        if 0 <= index < total + len(batch.starts):
            return int(batch.starts[index - total]), int(batch.ends[index - total]), index
        if index < 0:
            tail = np.concatenate((tail, np.stack((batch.starts, batch.ends))), axis=1)[:, index:]
        total += len(batch.starts)
    if index >= 0 or total + index < 0:
        return None
    return int(tail[0, 0]), int(tail[1, 0]), total + index


def member(source: WalkSource, reader: ChildReader, name: str) -> Walk[int | None]:
    """Returns the offset of a member's value; None if there is no such member. Of several, the first counts."""
    key = name.encode("utf-8", "surrogatepass")
    while (batch := (yield from reader.next())) is not None:
        assert batch.names is not None  # noqa: S101 - it is an object
        hits = _find_named(batch, key)
        if batch.long and len(batch.names[0]):
            opening, closing = int(batch.names[0][0]), int(batch.names[1][0])
            # Escapes may take six bytes for each byte of the key. A longer name cannot be the key, and is not read.
            may_equal = closing - opening <= _ESCAPE_BYTES * len(key) + 1
            hits = [closing] if may_equal and _unescape_name((yield Want(opening + 1, closing))) == key else []
        if hits:
            return (yield from value_after(source, min(hits)))
    return None


def _find_named(batch: ChildBatch, key: bytes) -> list[int]:
    """Returns the offsets of the closing quotes of the names in a batch that equal `key`."""
    assert batch.names is not None  # noqa: S101 - it is an object
    data, base, width = batch.data, batch.base, len(key) + 1
    inside = batch.names[0] < batch.ends[-1]  # the string after a stray comma is no name of this object
    quotes = list(zip(*(each[inside].tolist() for each in batch.names), strict=True))
    # Lengths are compared first, which excludes nearly all names.
    hits = [close for begin, close in quotes if close - begin == width and data.startswith(key, begin + 1 - base)]
    if b"\\" in data:  # names written with escapes, which only decoding can compare
        names = ((close, data[begin + 1 - base : close - base]) for begin, close in quotes)
        hits += [close for close, name in names if b"\\" in name and _unescape_name(name) == key]
    return hits


def _unescape_name(name: bytes) -> bytes:
    return name_of(name).encode("utf-8", "surrogatepass")


def name_of(raw: bytes) -> str:
    """Returns a member's name from the bytes between its quotes."""
    if b"\\" not in raw:
        return raw.decode("utf-8", "replace")
    try:
        return msgspec.json.decode(b'"' + raw + b'"', type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return raw.decode("utf-8", "replace")


def text_of(batch: ChildBatch, number: int) -> tuple[bytes, int, bytes] | None:
    """Returns a child's value as it is written, its offset, and the child's name as written between its quotes.

    The name of an element is empty. None if the child is inside an object, but is not a member.
    """
    base, data, start, end = batch.base, batch.data, int(batch.starts[number]), int(batch.ends[number])
    if batch.names is None:
        return data[start - base : end - base], start, b""
    opens, closes = batch.names
    if number >= len(opens) or not start <= opens[number] < closes[number] < end:
        return None
    opening, closing = int(opens[number]) - base, int(closes[number]) - base
    colon = data.find(b":", closing, end - base)
    if colon < 0 or data[start - base : opening].strip(BLANK) or data[closing + 1 : colon].strip(BLANK):
        return None
    return data[colon + 1 : end - base], colon + 1 + base, data[opening + 1 : closing]
