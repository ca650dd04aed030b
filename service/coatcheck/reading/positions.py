"""Finds the byte at which a line, a character or a token begins.

For lines and characters, only the frame that contains the position is read. Positions of tokens are exact: they are
counted from checkpoints, which are computed on demand, block by block, and cached. Counting has a time limit. When time
runs out, the caller gets an error that says to retry; the blocks counted so far stay in the cache, so each retry gets
further. The cache is bounded, and losing an entry does no harm.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Protocol

from msgspec.structs import replace

from coatcheck.core.caches import BoundedCache
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.text.count import Checkpoint, TokenIndexer
from coatcheck.core.tokens import Tokenizer
from coatcheck.core.views.view import Section
from coatcheck.core.views.window import NUMBER_LIMIT, Position, Span, nth_char, nth_newline, past_end
from coatcheck.reading.view import ViewReading
from coatcheck.runtime.work_placement import in_pool
from coatcheck.storing.content import Content


async def place_of(content: Content, span: Span) -> Position | None:
    """Returns the position at which a span of bytes, characters or lines begins; None if the offset is past the end.

    The first unit always begins at byte 0, even in empty content. Character 0 begins there even if stray UTF-8
    continuation bytes precede the first whole character, so that a read from character 0 misses no bytes.
    """
    nth = span.offset - span.first
    if nth == 0:
        return Position(0, 0, 0)
    if span.unit == "line":
        return await _after_newline(content, nth - 1)
    if span.unit == "char":
        return await _at_char(content, nth)
    return await at_byte(content, nth) if nth < content.size else None


async def at_byte(content: Content, byte: int) -> Position:
    """Returns the position of a byte. `byte` is at least 0 and at most the content's size."""
    frame = byte // content.index.frame_size
    return _start(content, frame).after(await content.read(frame * content.index.frame_size, byte))


async def past_end_of(reading: ViewReading, span: Span) -> CoatcheckError:
    """Returns the error `offset_past_end`, whose message names the valid offsets.

    Offsets count from the beginning of the view, even if only a section is read.
    """
    extent = reading.extent
    if reading.section is None:
        totals = {"line": reading.measure.lines, "char": reading.content.index.chars, "byte": reading.content.size}
        return past_end(span, reading.artifact.id, totals.get(span.unit, reading.measure.tokens.count))
    # Offsets count from the beginning of the view, so the range of a section does not begin at 0.
    first, last = [await at_byte(reading.content, byte) for byte in (extent.start, extent.end)]
    ends = {"line": (reading.lines.first, reading.lines.last), "char": (first.chars, last.chars - 1)}
    low, high = ends.get(span.unit, (first.byte, last.byte - 1))
    offset = str(span.offset) if span.offset <= NUMBER_LIMIT else "given"
    return CoatcheckError(
        Code.OFFSET_PAST_END,
        f"Offset {offset} is past the end of {reading.name}, which is {span.unit}s {low} to {high} of the text. "
        "Use an offset from there, or leave section out.",
        unit=span.unit,
        total=max(0, high - low + 1),
    )


async def end_after(reading: ViewReading, line: int) -> ViewReading:
    """Returns a view of which nothing after a line is read: as a section that ends with this line, if it is there.

    The line is in the part that is read. If a section is read, the returned section has its name, otherwise none.
    """
    following = await place_of(reading.content, Span("line", line + 1, None))
    if following is None:
        return reading
    start, first = reading.extent.start, reading.lines.first
    name = "" if reading.section is None else reading.section.name
    section = Section(name=name, title="", level=1, start=start, end=following.byte, line=first, lines=line - first + 1)
    return replace(reading, sections=(section,), nth=0)


async def _after_newline(content: Content, n: int) -> Position | None:
    index = content.index
    if n >= index.newlines:
        return None
    frame = index.frame_of_newline(n)
    begin = _start(content, frame)
    data = await content.read(begin.byte, begin.byte + index.frame_size)
    place = begin.after(data[: nth_newline(data, n - begin.newlines) + 1])
    # A newline at the end of the content begins no further line.
    return place if place.byte < content.size else None


async def _at_char(content: Content, n: int) -> Position | None:
    index = content.index
    if n >= index.chars:
        return None
    frame = index.frame_of_char(n)
    begin = _start(content, frame)
    data = await content.read(begin.byte, begin.byte + index.frame_size)
    return begin.after(data[: nth_char(data, n - begin.chars)])


def _start(content: Content, frame: int) -> Position:
    index = content.index
    return Position(frame * index.frame_size, index.newlines_before(frame), index.chars_before(frame))


MEMORY_BYTES = 8 * 1024 * 1024
"""Size of the cache of checkpoints, in bytes. There is a checkpoint of 16 bytes for every 64 KB of content, so the
cache is enough for 32 GB."""
BLOCK_BYTES = 256 * 1024
"""Bytes whose tokens are counted between two checks of the time limit. Counting them takes about 20 ms."""


class TokenSource(Protocol):
    """A text whose tokens are counted from its beginning."""

    @property
    def key(self) -> str:
        """The key of this text in caches. Texts with different bytes never have the same key."""
        ...

    @property
    def size(self) -> int:
        """Number of bytes."""
        ...

    async def read(self, start: int, end: int) -> bytes:
        """Returns the bytes from `start` to before `end`."""
        ...


class TokenCheckpoints:
    """The checkpoints of one text that have been counted so far. New checkpoints are only added at the end."""

    def __init__(self) -> None:
        self._bytes = array("Q", [0])
        """Byte offset of each checkpoint, in an array: a list of objects would take several times the memory."""
        self._tokens = array("Q", [0])
        """Number of tokens before each checkpoint."""

    @property
    def last(self) -> Checkpoint:
        """The checkpoint up to which tokens have been counted."""
        return Checkpoint(self._bytes[-1], self._tokens[-1])

    def add(self, checkpoints: list[Checkpoint]) -> None:
        """Appends checkpoints, except those that a concurrent count has already appended."""
        for point in checkpoints:
            if point.byte > self._bytes[-1]:
                self._bytes.append(point.byte)
                self._tokens.append(point.tokens)

    def before(self, token: int) -> Checkpoint:
        """Returns the last checkpoint at or before a token position."""
        n = bisect_right(self._tokens, token) - 1
        return Checkpoint(self._bytes[n], self._tokens[n])

    def between(self, byte: int, token: int) -> list[int]:
        """Returns the byte offsets of the checkpoints after `byte`, up to and including the first one beyond `token`.

        If no checkpoint is beyond `token`, the last one ends the list. The list is empty only if `byte` is the offset
        of the last checkpoint.
        """
        low = bisect_right(self._bytes, byte)
        high = bisect_right(self._tokens, token) + 1
        return list(self._bytes[low : max(high, low + 1)])


class TokenPositions:
    """Counts the tokens of texts, only as far as a reader needs. All readers share one instance."""

    def __init__(self, tokenizer: Tokenizer, pool: Executor, clock: Callable[[], float], patience: float) -> None:
        self._tokenizer = tokenizer
        self._pool = pool
        self._clock = clock
        self._patience = patience
        self._known: BoundedCache[str, TokenCheckpoints] = BoundedCache("token_positions", MEMORY_BYTES)

    async def reach(self, content: TokenSource, token: int) -> TokenCheckpoints:
        """Returns checkpoints that reach past a token position, or to the content's end.

        Raises:
            CoatcheckError: `count_pending` if time ran out first; retrying gets further.
        """
        progress = self._known.get(content.key) or TokenCheckpoints()
        deadline = self._clock() + self._patience
        while progress.last.tokens <= token and progress.last.byte < content.size:
            if self._clock() >= deadline:
                raise _pending(progress.last.byte, content.size)
            await self._advance(content, progress)
            # The entry is put again after each block, because the cache measures the size of an entry only when it is
            # put.
            self._known.put(content.key, progress)
        return progress

    async def _advance(self, content: TokenSource, progress: TokenCheckpoints) -> None:
        begin = progress.last
        indexer = TokenIndexer(self._tokenizer, begin)
        end = min(begin.byte + BLOCK_BYTES, content.size)
        checkpoints = await in_pool(self._pool, indexer.feed, await content.read(begin.byte, end))
        # The last token of a block may continue in the next block, so the indexer is finished only after the last one.
        if end == content.size:
            total = await in_pool(self._pool, indexer.finish)
            checkpoints = [*checkpoints, Checkpoint(content.size, total.count)]
        progress.add(checkpoints)


def _pending(processed_bytes: int, size: int) -> CoatcheckError:
    percent = 100 * processed_bytes // size
    return CoatcheckError(
        Code.COUNT_PENDING,
        f"Token positions are still being counted ({percent} % so far). Retry the same call, or read by line.",
        percent=percent,
    )
