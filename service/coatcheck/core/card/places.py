"""Bytes and lines of a payload of which only a sample is in hand."""

from bisect import bisect_left, insort
from typing import final

from coatcheck.core.artifact import Measure, Sample
from coatcheck.core.card.model import LineRange


@final
class Places:
    """Answers for offsets inside the sample only; every excerpt lies there."""

    def __init__(self, sample: Sample, measure: Measure) -> None:
        self._head = sample.head
        self._tail = sample.tail
        self._tail_at = sample.size - len(sample.tail)
        self.size = sample.size
        last = (sample.tail or sample.head)[-1:]
        self._newlines = measure.lines - (last not in {b"", b"\n"})
        self.few = measure.lines < 1_000  # noqa: PLR2004 - numbers of three digits are one token
        """Whether every line's number is one token."""
        self._known = [(0, 1)]
        """Offsets in the head whose lines are known: counting goes from the nearest."""
        if sample.whole and self.size:
            self._known.append((self.size, self._newlines + 1))

    def slice(self, start: int, end: int) -> bytes:
        """The bytes of a range that lies in the head or in the tail of the sample."""
        if start >= self._tail_at and self._tail:
            return self._tail[start - self._tail_at : end - self._tail_at]
        return self._head[start:end]

    def line(self, offset: int) -> int:
        """The number of the line that the byte at `offset` belongs to; at the end, of the line after the last byte."""
        if offset > len(self._head):
            return self._newlines - self._tail.count(b"\n", offset - self._tail_at) + 1
        place = bisect_left(self._known, (offset, 0))
        candidates = self._known[max(0, place - 1) : place + 1]
        at, line = min(candidates, key=lambda known: abs(known[0] - offset))
        if at <= offset:
            line += self._head.count(b"\n", at, offset)
        else:
            line -= self._head.count(b"\n", offset, at)
        if at != offset:
            insort(self._known, (offset, line))
        return line

    def lines(self, start: int, end: int) -> LineRange:
        """The lines that a range touches."""
        first = self.line(start)
        return LineRange(first, max(first, self.line(max(end - 1, start))))

    def line_start(self, offset: int) -> int | None:
        """Where the line of the byte at `offset` begins; None where the sample does not tell."""
        if offset <= len(self._head):
            return self._head.rfind(b"\n", 0, offset) + 1
        before = self._tail.rfind(b"\n", 0, offset - self._tail_at)
        return None if before < 0 else self._tail_at + before + 1

    def starts_line(self, offset: int) -> bool:
        """Whether a line begins at `offset` (or the payload ends there)."""
        return offset in {0, self.size} or self.slice(offset - 1, offset) == b"\n"
