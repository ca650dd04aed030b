"""Finds matching lines in streamed content, in bounded memory and with a deadline.

Patterns are RE2 on bytes, linear in the text for every pattern, and cached in small numbers (`core/text/scan.py` is for
our own). A call of a pattern cannot be interrupted, so each knows its maximum time per byte and gets only as many bytes
as it could process in time at worst; except for patterns with large repetitions, that is everything available.

A hit is a matching line. In a line of more than 2,000 bytes, every stretch of 2,000 bytes that begins with a match is a
separate hit, so that each can be counted, skipped and reached.
"""

import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.text.scan import UNANCHORED, re2_compiled
from coatcheck.core.views.window import Extent, newlines

PATTERN_CHARS = 1_000
"""Maximum characters of a pattern."""
RE2_BYTES = 8 * 1024 * 1024
"""Bytes that one compiled pattern may use for its automata; without them, RE2 is slower."""
_STEP_SECONDS = 5e-9
"""Seconds per instruction of a program and byte without those automata; 2.9 to 4.7 ns were measured."""
MIN_PIECE_BYTES = 8 * 1024
"""Bytes that must be searchable at once within WORST_SECONDS."""
WORST_SECONDS = 2.0
"""Maximum time of one call, which whoever cuts the bytes for it must respect."""

_Match = Callable[[Any, bytes, int, int], list[tuple[int, int]]]
_ANY_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")
"""The only thing in RE2 that matches LF in spite of `never_nl`."""
_ELSEWHERE = re.compile(r"invalid (?:perl operator|named capture)|invalid escape sequence: \\[0-9k]")
"""Reasons that mean look-around, a backreference or the like."""
_LINE_FEED = re.compile(r"(?<!\\)(?:\\\\)*\\(?:n|x0[aA]|x\{0*[aA]\}|012)")
_NEGATED = re.compile(r"\[\^\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_DOLLAR = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]|\$", re.DOTALL)
"""Matches a `$` that is a line's end, or what could hide one: quoted text, an escape, a class."""
_LINE_END = r"(?:\r*$)"
_QUOTED_CHARS = 80
"""Maximum characters of a pattern's part that a refusal repeats."""


class Pattern:
    """A compiled pattern. Thread-safe.

    Attributes:
        byte_seconds: maximum seconds of `find` per byte; a thousandth of it is usual.
    """

    def __init__(self, match: _Match, byte_seconds: float = 0.0) -> None:
        self.byte_seconds = byte_seconds
        self._match = match

    def find(self, data: bytes, start: int, end: int) -> tuple[int, int] | None:
        """Returns the leftmost match in `data[start:end]`, as positions in `data`; anchors see what is around it."""
        span = self._match(UNANCHORED, data, start, end)[0]
        return None if span[0] < 0 else span


def compile_pattern(pattern: str, *, literal: bool, ignore_case: bool) -> Pattern:
    """Compiles a pattern whose matches stay within a line; `^` and `$` are a line's ends, also before CR LF.

    Raises:
        CoatcheckError: `invalid_pattern` with RE2's reason, and what to write instead, if known.
    """
    if not pattern or len(pattern) > PATTERN_CHARS:
        raise _invalid(f"A pattern must have 1 to {PATTERN_CHARS:,} characters.")
    if "\n" in pattern:
        raise _invalid("A match stays within one line: search for the text of one line.")
    if not literal and _ANY_BYTE.search(pattern):
        raise _invalid("\\C is not supported: it could match half a character or a line's end. Use `.` instead.")
    ended = _DOLLAR.sub(lambda match: _LINE_END if match[0] == "$" else match[0], pattern)
    compiled = _compile_pattern(pattern if literal else ended, literal=literal, ignore_case=ignore_case)
    if not compiled.ok():
        compiled = _compile_pattern(
            pattern, literal=literal, ignore_case=ignore_case
        )  # a refusal quotes what was written
    if not compiled.ok():
        raise _refusal_of(bytes(compiled.error()))
    byte_seconds = max(1, int(compiled.ProgramSize())) * _STEP_SECONDS
    if byte_seconds * MIN_PIECE_BYTES > WORST_SECONDS:
        raise _invalid(
            "The pattern is too large to be searched within the time limit: "
            "use smaller repeat counts, or fewer repeated Unicode classes such as \\p{L}."
        )
    return Pattern(compiled.Match, byte_seconds)


def _compile_pattern(pattern: str, *, literal: bool, ignore_case: bool) -> Any:  # noqa: ANN401 - RE2's own type
    try:
        source = (pattern if literal else f"(?m){pattern}").encode()
    except UnicodeEncodeError:
        raise _invalid("The pattern has a lone surrogate, which no text contains.") from None
    return re2_compiled(
        source, RE2_BYTES, never_nl=True, never_capture=True, literal=literal, case_sensitive=not ignore_case
    )


def wants_line_feed(pattern: str) -> bool:
    """Returns whether an expression needs a line's end, which a search line by line never matches."""
    return _LINE_FEED.search(_NEGATED.sub("", pattern)) is not None


def _refusal_of(reason: bytes) -> CoatcheckError:
    """Returns the refusal; RE2 names the part of the pattern where it stopped after a colon."""
    message = reason.decode("utf-8", "replace").replace("(?m)", "", 1)
    what, colon, part = message.partition(": ")
    quote = "".join(c if c.isprintable() else "\ufffd" for c in part[:_QUOTED_CHARS]) + (
        "…" if len(part) > _QUOTED_CHARS else ""
    )
    inside = " in" if what.startswith(("missing", "unexpected")) else ""
    where = f'{inside} "{quote}"' if colon else ""
    return _invalid(f"The pattern is not valid: {what}{where}.{_hint(message, quote)}")


def _hint(message: str, part: str) -> str:
    """Returns what to write instead."""
    if _ELSEWHERE.match(message):
        return " Look-around and backreferences do not exist here (RE2 syntax): match more, and pick from the lines."
    if message.startswith("no argument for repetition"):
        return f" Write .{part[:1]} for any characters, or \\{part[:1]} for the sign itself."
    if message.startswith("bad repetition"):
        return " One repeat is enough; put a backslash before each sign that is meant as it is."
    if "too large" in message:
        return " Use smaller repeat counts."
    if message.startswith("invalid repetition size"):
        return " Use smaller repeat counts, at most 1,000 in all, and the lower one first."
    return " To search for the text as it is, use literal=true."


def _invalid(detail: str) -> CoatcheckError:
    return CoatcheckError(Code.INVALID_PATTERN, detail)


STRETCH_BYTES = 2_000
"""Bytes of a line that form one hit."""
PIECE_BYTES = 1024 * 1024
"""A line longer than this is searched in pieces."""
OVERLAP_BYTES = 64 * 1024
"""Bytes that pieces share: the longest match that is certain to be found in such a line."""
MAX_MATCHES = 16
"""Maximum matches kept per hit."""
_CALL_BYTES = 2 * PIECE_BYTES
"""Maximum bytes available at once: a piece, and a block of content after it."""
_SLICE_SECONDS = 0.25
"""Maximum time for searching a few whole lines."""
_GRACE_SECONDS = 0.3
"""Maximum time by which a call may exceed the deadline."""


class LineHit(Struct, frozen=True):
    """A matching line, or a stretch of one."""

    line: int
    """Counted from 1."""
    line_start: int
    """The byte where the line begins."""
    matches: list[Extent]
    """At least one, in order; at most MAX_MATCHES."""
    more: bool
    """Whether there are more matches in this stretch."""


class ScanPosition(Struct, frozen=True):
    """Where a scan can continue: so many hits precede a byte of a line."""

    hits: int = 0
    byte: int = 0
    newlines: int = 0
    """Number of LF bytes before `line_start`."""
    line_start: int = 0


class PatternScan:
    """One pass over content of `size` bytes. `feed` it blocks from `mark.byte` - 1 (0 at the beginning) on.

    Attributes:
        hits: the page, in order.
        count: hits so far, including those before and after the page.
        expired: whether the deadline came first; `mark()` is where it stopped.
        in_pieces: whether a line was too long to be searched at once.
        piece: bytes of a line above which that is so.
        overlap: the longest match that is certain to be found in such a line.
    """

    def __init__(
        self,
        pattern: Pattern,
        size: int,
        mark: ScanPosition,
        *,
        skip: int,
        keep: int,
        clock: Callable[[], float],
        deadline: float,
        count_on: float,
    ) -> None:
        """Keeps `keep` hits after the first `skip`; when the page is full, counts on for at most `count_on` seconds."""
        self.hits: list[LineHit] = []
        self.count = mark.hits
        self.expired = False
        self.page_end: ScanPosition | None = None
        self.in_pieces = False
        # What one call of RE2 may be given, so that it returns in time whatever the pattern is.
        self._most = _bytes_in(WORST_SECONDS, pattern)
        self.piece = min(PIECE_BYTES, self._most)
        self.overlap = min(OVERLAP_BYTES, self.piece // 2)
        self._slice = _bytes_in(_SLICE_SECONDS, pattern)
        self._begun = False
        self._pattern = pattern
        self._size = size
        self._skip = skip
        self._keep = keep
        self._clock = clock
        self._deadline = deadline
        self._count_on = count_on
        self._buffer = b""
        self._base = max(0, mark.byte - 1)
        self._at = mark.byte
        self._line_start = mark.line_start
        self._newlines = mark.newlines
        self._counted = mark.line_start

    @property
    def needs(self) -> int:
        """The byte with which the next block must begin."""
        return self._base + len(self._buffer)

    @property
    def is_done(self) -> bool:
        """Whether the scan is over."""
        return self.expired or self._at >= self._size

    def mark(self) -> ScanPosition:
        """Returns where the scan is."""
        return ScanPosition(self.count, self._at, self._lines_before(self._line_start), self._line_start)

    def feed(self, block: bytes) -> None:
        """Searches as far as whole lines, or pieces of very long ones, are available."""
        self._buffer = self._buffer + block if self._buffer else block
        while not self.is_done:
            start = self._at - self._base
            length = len(self._buffer)
            if self._base + length == self._size and length - start <= self._slice:
                self._search(start, length, length, last=True)
            elif (lf := self._buffer.rfind(b"\n", start, start + self._slice)) >= 0:
                self._search(start, lf + 1, lf + 1, last=False)
            elif not self._long_line(start, length):
                break
        if not self.expired:
            self._drop()

    def _long_line(self, start: int, length: int) -> bool:
        """Searches a line that is longer than a slice, whole or in pieces.

        Returns False if more of it must come first.
        """
        end = min(length, start + self._most)
        if (lf := self._buffer.find(b"\n", start, end)) >= 0:
            self._search(start, lf + 1, lf + 1, last=False)
        elif end == length and self._base + length == self._size:
            self._search(start, length, length, last=True)
        elif end - start > self.piece or end < length:
            self.in_pieces = True
            self._search(start, end - self.overlap, end - 1, last=False)
        else:
            return False
        return True

    def _drop(self) -> None:
        """Drops what is searched, except for one byte, which anchors and word boundaries look back at."""
        self._newlines = self._lines_before(self._line_start)
        self._counted = self._line_start
        low = max(self._base, min(self._at, self._base + len(self._buffer)) - 1)
        self._buffer = self._buffer[low - self._base :]
        self._base = low

    def _lines_before(self, byte: int) -> int:
        if byte <= self._counted:
            return self._newlines
        low = max(0, self._counted - self._base)
        self._newlines += newlines(memoryview(self._buffer)[low : byte - self._base])
        self._counted = byte
        return self._newlines

    def _search(self, position: int, stop: int, end: int, *, last: bool) -> None:
        """Searches matches that begin before `stop`, looking no further than `end`."""
        buffer = self._buffer
        ends_line = stop > 0 and buffer[stop - 1] == 10  # noqa: PLR2004 - LF
        # Only where one call may take noticeably long is its time judged in advance.
        large = (end - position) * self._pattern.byte_seconds > _GRACE_SECONDS
        find, clock = self._pattern.find, self._clock
        while position < stop:
            if clock() >= self._deadline or (large and self._too_late(end - position)):
                self.expired = True
                self._at = self._base + position
                return
            self._begun = True
            match = find(buffer, position, end)
            if match is None or match[0] > stop or (match[0] == stop and (ends_line or not last)):
                break
            # The line in which the match is begins behind the last line feed before it.
            before = buffer.rfind(b"\n", position, match[0])
            if before >= 0:
                self._line_start = self._base + before + 1
            position = self._hit(match, end, last=last)
        self._at = self._base + max(position, stop)
        if ends_line:
            self._line_start = max(self._line_start, self._base + stop)

    def _too_late(self, size: int) -> bool:
        """Returns whether so many bytes cannot be searched in time.

        The first bytes always can, so that each scan advances.
        """
        worst = size * self._pattern.byte_seconds
        return self._begun and self._clock() + worst > self._deadline + _GRACE_SECONDS

    def _hit(self, match: tuple[int, int], end: int, *, last: bool) -> int:
        """Counts a hit, keeps it if it belongs to the page, and returns where to continue."""
        start, match_end = match
        buffer, line_start = self._buffer, self._line_start - self._base
        # A long line is cut into stretches, one hit each, so that a line of 100 MB is not one hit.
        stretch_end = max(start + STRETCH_BYTES, match_end, start + 1)
        line_end = buffer.find(b"\n", start, max(line_start + STRETCH_BYTES, stretch_end) + 1)
        if line_end < 0 and last and len(buffer) <= max(line_start + STRETCH_BYTES, stretch_end):
            line_end = len(buffer)
        ends = line_end >= 0 and (line_end - line_start <= STRETCH_BYTES or line_end < stretch_end)
        after = line_end + 1 if ends else stretch_end
        if self._skip <= self.count < self._skip + self._keep:
            bound, limit = (line_end, line_end + 1) if ends else (end, start + STRETCH_BYTES)
            self._collect(match, bound, limit)
        self.count += 1
        if ends:
            self._line_start = self._base + after
        # The page is full. Counting goes on for a while, so that the answer can say how many there are.
        if self.count == self._skip + self._keep:
            self._at = self._base + after
            self.page_end = self.mark()
            self._deadline = min(self._deadline, self._clock() + self._count_on)
        return after

    def _collect(self, match: tuple[int, int], bound: int, limit: int) -> None:
        matches = [match]
        more = False
        while True:
            start, end = matches[-1]
            following = max(end, start + 1)
            found_next = self._pattern.find(self._buffer, following, bound) if following < bound else None
            if found_next is None or found_next[0] >= limit:
                break
            if len(matches) == MAX_MATCHES:
                more = True
                break
            matches.append(found_next)
        extents = [Extent(self._base + a, self._base + b) for a, b in matches]
        line = self._lines_before(self._line_start) + 1
        self.hits.append(LineHit(line, self._line_start, extents, more))


def _bytes_in(seconds: float, pattern: Pattern) -> int:
    """Returns how many bytes the pattern can certainly search in that time; at most those that are ever available."""
    worst = pattern.byte_seconds * _CALL_BYTES
    return _CALL_BYTES if worst <= seconds else int(_CALL_BYTES * seconds / worst)
