"""Finds the byte where a line or a character begins, by reading only the frame that contains it."""

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.views.window import NUMBER_LIMIT, Position, Span, nth_char, nth_newline, past_end
from coatcheck.reading.view import ViewReading
from coatcheck.storing.content import Content


async def place_of(content: Content, span: Span) -> Position | None:
    """Returns where a span of bytes, characters or lines begins; None if the content has no such unit.

    Empty content has a beginning too. Character 0 begins at byte 0 even if stray continuation bytes come before the
    first whole character, so that reading from there misses nothing.
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
    """Returns the position of a byte, 0 to the content's size."""
    frame = byte // content.index.frame_size
    return _start(content, frame).after(await content.read(frame * content.index.frame_size, byte))


async def past_end_of(reading: ViewReading, span: Span) -> CoatcheckError:
    """Returns `offset_past_end`, with the offsets that exist: those of a section count in its view."""
    extent = reading.extent
    if reading.section is None:
        totals = {"line": reading.measure.lines, "char": reading.content.index.chars, "byte": reading.content.size}
        return past_end(span, reading.artifact.id, totals.get(span.unit, reading.measure.tokens.count))
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


async def _after_newline(content: Content, n: int) -> Position | None:
    index = content.index
    if n >= index.newlines:
        return None
    frame = index.frame_of_newline(n)
    begin = _start(content, frame)
    data = await content.read(begin.byte, begin.byte + index.frame_size)
    place = begin.after(data[: nth_newline(data, n - begin.newlines) + 1])
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
