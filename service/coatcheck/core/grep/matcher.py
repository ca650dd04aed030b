"""Finds matching lines in streamed content, in bounded memory and with a deadline.

Callers' patterns are RE2 expressions over bytes, which RE2 searches in linear time whatever the pattern is.
(`core/text/scan.py` compiles the service's own patterns.) A call of RE2 cannot be interrupted. Each pattern therefore
knows its maximum time per byte, and one call gets only as many bytes as it can process in time in the worst case. Only
patterns with large repetitions get fewer bytes than are available.

A hit is a matching line. In a line of more than 2,000 bytes, every stretch of 2,000 bytes that begins with a match is a
separate hit, so that each stretch can be counted, skipped and reached.
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
"""Maximum bytes for the automata of one compiled pattern. If they do not fit, RE2 searches more slowly."""
_STEP_SECONDS = 5e-9
"""Seconds per byte and instruction of a compiled pattern that runs without automata. Measured: 2.9 to 4.7 ns."""
MIN_PIECE_BYTES = 8 * 1024
"""Bytes that a pattern must be able to search within WORST_SECONDS; otherwise it is refused."""
WORST_SECONDS = 2.0
"""Maximum seconds of one call of RE2. A caller must choose the bytes for a call so that it keeps to this time."""

_Match = Callable[[Any, bytes, int, int], list[tuple[int, int]]]
_ANY_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")
"""Matches `\\C`, the only construct of RE2 that matches LF in spite of `never_nl`."""
_ELSEWHERE = re.compile(r"invalid (?:perl operator|named capture)|invalid escape sequence: \\[0-9k]")
"""Matches RE2's error messages for look-around, backreferences and similar constructs that RE2 does not have."""
_LINE_FEED = re.compile(r"(?<!\\)(?:\\\\)*\\(?:n|x0[aA]|x\{0*[aA]\}|012)")
_NEGATED = re.compile(r"\[\^\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_DOLLAR = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]|\$", re.DOTALL)
"""Matches a `$` that stands for the end of a line, and everything in which `$` is an ordinary character: quoted text,
an escape, a character class."""
_LINE_END = r"(?:\r*$)"
_QUOTED_CHARS = 80
"""Maximum characters of the faulty part of a pattern that the error message quotes."""


class Pattern:
    """A compiled pattern. Thread-safe.

    Attributes:
        byte_seconds: maximum seconds of `find` per byte; it usually takes a thousandth of that.
    """

    def __init__(self, match: _Match, byte_seconds: float = 0.0) -> None:
        self.byte_seconds = byte_seconds
        self._match = match

    def find(self, data: bytes, start: int, end: int) -> tuple[int, int] | None:
        """Returns the leftmost match in `data[start:end]`, as positions in `data`; anchors see all of `data`."""
        span = self._match(UNANCHORED, data, start, end)[0]
        return None if span[0] < 0 else span


def compile_pattern(pattern: str, *, literal: bool, ignore_case: bool) -> Pattern:
    """Compiles a pattern whose matches stay within a line; `^` and `$` match the ends of a line, `$` also before CR LF.

    Raises:
        CoatcheckError: `invalid_pattern` with RE2's reason and, if known, with a correction.
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
        )  # so that the error message quotes the pattern as the caller wrote it
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
    """Returns whether an expression contains an LF, so that a search line by line can never match it."""
    return _LINE_FEED.search(_NEGATED.sub("", pattern)) is not None


def _refusal_of(reason: bytes) -> CoatcheckError:
    """Returns the error for RE2's reason, which names the faulty part of the pattern after a colon."""
    message = reason.decode("utf-8", "replace").replace("(?m)", "", 1)
    what, colon, part = message.partition(": ")
    quote = "".join(c if c.isprintable() else "\ufffd" for c in part[:_QUOTED_CHARS]) + (
        "…" if len(part) > _QUOTED_CHARS else ""
    )
    inside = " in" if what.startswith(("missing", "unexpected")) else ""
    where = f'{inside} "{quote}"' if colon else ""
    return _invalid(f"The pattern is not valid: {what}{where}.{_hint(message, quote)}")


def _hint(message: str, part: str) -> str:
    """Returns a sentence that tells the caller how to correct the pattern."""
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
"""Bytes of a long line that form one hit."""
PIECE_BYTES = 1024 * 1024
"""Maximum bytes of a line that is searched at once; a longer line is searched in pieces of this size."""
OVERLAP_BYTES = 64 * 1024
"""Bytes that neighbouring pieces share: the longest match that is certain to be found in a line searched in pieces."""
MAX_MATCHES = 16
"""Maximum matches kept per hit."""
_CALL_BYTES = 2 * PIECE_BYTES
"""Maximum bytes in the buffer: a piece, and one block of content after it."""
_SLICE_SECONDS = 0.25
"""Maximum seconds for searching one slice, which is a few whole lines."""
_GRACE_SECONDS = 0.3
"""Maximum seconds by which one call of RE2 may exceed the deadline."""


class LineHit(Struct, frozen=True):
    """A matching line, or a stretch of a long one."""

    line: int
    """Line number, counted from 1."""
    line_start: int
    """Byte position where the line begins."""
    matches: list[Extent]
    """The matches in order: at least one, at most MAX_MATCHES."""
    more: bool
    """Whether the line or stretch has more matches than `matches` lists."""


class ScanPosition(Struct, frozen=True):
    """A position at which a scan can continue, and how many hits precede it."""

    hits: int = 0
    byte: int = 0
    newlines: int = 0
    """Number of LF bytes before `line_start`."""
    line_start: int = 0
    in_pieces: bool = False
    """Whether some line before was too long to be searched at once."""
    undecoded: bool = False
    """Whether some line before was too long to be decoded, in a search of decoded lines."""


class PatternScan:
    """One pass over content of `size` bytes. `feed` takes the blocks in order, from byte `mark.byte` - 1 (or 0) on.

    Attributes:
        hits: the hits of the requested page, in order.
        count: hits so far, including those before and after the page.
        expired: whether the deadline passed before the scan was complete; `mark()` tells where it stopped.
        page_end: the position after the last hit of the page; None until the page is full.
        in_pieces: whether some line was too long to be searched at once.
        undecoded: whether some line was too long to be decoded; set by the caller, who decodes the lines.
        piece: maximum bytes of a line that is searched at once.
        overlap: length in bytes of the longest match that is certain to be found in a line searched in pieces.
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
        """Keeps `keep` hits after the first `skip`. Then it only counts hits, for at most `count_on` seconds."""
        self.hits: list[LineHit] = []
        self.count = mark.hits
        self.expired = False
        self.page_end: ScanPosition | None = None
        self.in_pieces = mark.in_pieces
        self.undecoded = mark.undecoded
        # Bytes that one call of RE2 may get, so that it returns in time whatever the pattern is.
        self._max_call_bytes = _bytes_in(WORST_SECONDS, pattern)
        self.piece = min(PIECE_BYTES, self._max_call_bytes)
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
        """Position of the byte with which the next block must begin."""
        return self._base + len(self._buffer)

    @property
    def is_done(self) -> bool:
        """Whether the scan is over, at the end of the content or at the deadline."""
        return self.expired or self._at >= self._size

    def mark(self) -> ScanPosition:
        """Returns the position that the scan has reached."""
        lines = self._lines_before(self._line_start)
        return ScanPosition(self.count, self._at, lines, self._line_start, self.in_pieces, self.undecoded)

    def feed(self, block: bytes) -> None:
        """Appends a block, and searches as far as whole lines, or pieces of very long lines, are available."""
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

        Returns False if the line needs more blocks before it can be searched.
        """
        end = min(length, start + self._max_call_bytes)
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
        """Drops the searched bytes, except for the last one, which anchors and word boundaries look back at."""
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
        """Searches for matches that begin before `stop`, looking no further than `end`."""
        buffer = self._buffer
        ends_line = stop > 0 and buffer[stop - 1] == 10  # noqa: PLR2004 - LF
        # The time of a call is estimated in advance only if the call may take noticeably long.
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
            # The line with the match begins after the last line feed before the match.
            before = buffer.rfind(b"\n", position, match[0])
            if before >= 0:
                self._line_start = self._base + before + 1
            position = self._hit(match, end, last=last)
        self._at = self._base + max(position, stop)
        if ends_line:
            self._line_start = max(self._line_start, self._base + stop)

    def _too_late(self, size: int) -> bool:
        """Returns whether `size` bytes cannot be searched in time.

        The first bytes of a scan are always searched, so that each scan advances.
        """
        worst = size * self._pattern.byte_seconds
        return self._begun and self._clock() + worst > self._deadline + _GRACE_SECONDS

    def _hit(self, match: tuple[int, int], end: int, *, last: bool) -> int:
        """Counts a hit, keeps it if it belongs to the page, and returns where to continue."""
        start, match_end = match
        buffer, line_start = self._buffer, self._line_start - self._base
        # A long line is cut into stretches with one hit each, so that a line of 100 MB is not a single hit.
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
        # The page is full. Counting continues for a while, so that the answer can say how many hits there are.
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
    """Returns how many bytes the pattern can certainly search in `seconds`, at most the size of a full buffer."""
    worst = pattern.byte_seconds * _CALL_BYTES
    return _CALL_BYTES if worst <= seconds else int(_CALL_BYTES * seconds / worst)
