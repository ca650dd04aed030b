"""Searches whole blocks by RE2 patterns, linear in the bytes, without Python work for lines that do not match.

Only for the service's own patterns. Matches never cross the end of a line. This module uses RE2's binding below its
public wrapper, which would make an object per match, and keep 128 compiled patterns of up to 8 MB each. A pattern that
is compiled here belongs to the caller, and is thread-safe.
"""

import math
from collections.abc import Iterator
from typing import Any, Final, cast, final

import re2

RE2: Final = cast("Any", re2)._re2.RE2  # noqa: SLF001 - see above
UNANCHORED: Final = RE2.Anchor.UNANCHORED
LATIN1: Final = cast("Any", re2).Options.Encoding.LATIN1
"""Encoding in which each byte is one character."""
PATTERN_BYTES: Final = 32 * 1024
"""Bytes of memory that a compiled pattern usually takes. Measured with mallinfo2(3): some 19,000 for an ASCII pattern,
up to 900,000 for one that repeats classes such as \\p{L}. RE2 does not report its memory; it only keeps to its
limit."""


def re2_compiled(source: bytes, memory: int, **settings: object) -> Any:  # noqa: ANN401 - the binding has no types
    """Returns a pattern with automata of at most `memory` bytes; its `ok()` is False if RE2 does not accept it.

    `settings` are RE2's options by name.
    """
    options = cast("Any", re2).Options()
    options.log_errors = False
    options.max_mem = memory
    for name, value in settings.items():
        setattr(options, name, value)
    return RE2(source, options)


_MEMORY: Final = 16 << 20
"""Bytes of memory that one pattern may use for its automata."""


def rows_with(word: bytes, block: bytes) -> list[int]:
    """Returns the indices of the lines of `block` that contain `word`, which must have no line feed."""
    line_numbers: list[int] = []
    row = at = 0
    while (low := block.find(word, at)) >= 0:
        row += block.count(b"\n", at, low)
        line_numbers.append(row)
        at = block.find(b"\n", low)
        if at < 0:
            break
    return line_numbers


@final
class BlockPattern:
    """A compiled pattern; `^` and `$` match the ends of a line. Thread-safe."""

    def __init__(self, pattern: str, *, ignore_case: bool = False) -> None:
        compiled = re2_compiled(
            f"(?m){pattern}".encode(), _MEMORY, never_nl=True, never_capture=True, case_sensitive=not ignore_case
        )
        if not compiled.ok():
            raise ValueError(f"not a pattern of RE2: {bytes(compiled.error())!r}")
        self._match = compiled.Match

    def find(self, data: bytes, start: int = 0, end: int | None = None) -> tuple[int, int] | None:
        """Returns the leftmost match at or after `start`, as positions in `data`; anchors see all of `data`."""
        span: tuple[int, int] = self._match(UNANCHORED, data, start, len(data) if end is None else end)[0]
        return None if span[0] < 0 else span

    def lines(self, data: bytes, at: int = 0) -> Iterator[tuple[int, int, int, int]]:
        """Yields four positions per matching line: start and end of the line with its LF, and of its first match."""
        while at < len(data) and (span := self.find(data, at)) is not None:
            start = data.rfind(b"\n", 0, span[0]) + 1
            at = data.find(b"\n", max(span[1], span[0])) + 1 or len(data)
            yield start, at, *span

    def rows(self, data: bytes, enough: float = math.inf) -> list[int]:
        """Returns the indices of the lines with a match; stops after `enough` lines."""
        match, anchor, size = self._match, UNANCHORED, len(data)
        line_numbers: list[int] = []
        row = at = 0
        while at < size and len(line_numbers) < enough:
            low, high = match(anchor, data, at, size)[0]
            if low < 0:
                break
            row += data.count(b"\n", at, low)
            line_numbers.append(row)
            row += 1
            at = data.find(b"\n", high) + 1 or size
        return line_numbers

    def count(self, data: bytes, enough: float = math.inf) -> int:
        """Returns how many lines have a match; stops after `enough` lines."""
        match, anchor, size = self._match, UNANCHORED, len(data)
        line_count = at = 0
        while at < size and line_count < enough:
            low, high = match(anchor, data, at, size)[0]
            if low < 0:
                break
            line_count += 1
            at = data.find(b"\n", max(low, high)) + 1 or size
        return line_count
