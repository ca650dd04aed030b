"""Finds the line that introduces text: a heading, a definition, the key or message above an indented block.

Decided by layout alone, so it holds for any text: the line is above, and the passage is indented under it or follows it
like a heading's text.
"""

import re
from typing import Final

_BACK: Final = 8 * 1024
"""Bytes above a passage that are examined."""
_LINES: Final = 200
"""Lines above a passage that are examined."""
_LONGEST: Final = 120
"""Maximum bytes of such a line."""
_HEADING: Final = re.compile(rb"^#{1,6} [^\n]+\n(?=[ \t]*\n)", re.MULTILINE)
_INTRODUCES: Final = re.compile(rb"[A-Za-z_@#\"'\x80-\xff-][^\n]*[^\s.,;]\s*\Z")
"""Matches a line, without its indentation, that may introduce others: not a number in a column, not a finished
sentence."""
_DEFINES: Final = re.compile(
    rb"(?:[a-z]+ ){0,3}(?:def|class|func|fn|function|interface|struct|enum|trait|impl|module|namespace|sub|proc)\b"
)


def lead_line(data: bytes, at: int, *, whole: bool) -> tuple[int, int] | None:
    """Returns the half-open byte range of the line in `data` that introduces the line beginning at `at`, if any.

    `whole`: `data` begins at the start of a line.
    """
    low = max(0, at - _BACK)
    if low or not whole:
        low = data.find(b"\n", low, at) + 1
        if not low:
            return None
    end = data.find(b"\n", at)
    depth = _depth(data[at : end if end >= 0 else len(data)])
    if depth:
        return _above(data, low, at, depth)
    headings = list(_HEADING.finditer(data, low, at)) if data.find(b"#", low, at) >= 0 else []
    return headings[-1].span() if headings else None


def _above(data: bytes, low: int, at: int, depth: int) -> tuple[int, int] | None:
    """Returns the nearest definition that is less indented, going outwards; else the nearest such line."""
    nearest: tuple[int, int] | None = None
    end = at
    for _ in range(_LINES):
        if end <= low or not depth:
            break
        start = max(low, data.rfind(b"\n", low, end - 1) + 1)
        line = data[start:end]
        own = _depth(line)
        if line.strip() and own < depth:
            depth = own
            text = line[own:]
            if len(text) <= _LONGEST and _INTRODUCES.match(text):
                if _DEFINES.match(text):
                    return start, end
                nearest = nearest or (start, end)
        end = start
    return nearest


def _depth(line: bytes) -> int:
    return len(line) - len(line.lstrip(b" \t"))
