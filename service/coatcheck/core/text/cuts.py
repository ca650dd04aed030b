"""Places where text may be cut without changing how it is tokenized.

A safe cut is always a boundary between pre-tokens, in o200k_base and in cl100k_base: counts of the pieces add up to the
count of the whole. Works on bytes, valid UTF-8 or not; a cut never falls inside a character.
"""

import re

_SAFE = re.compile(
    rb"(?<=[!-~])(?=[ \t])"  # visible ASCII, then a blank
    rb"|(?<=\n)(?=[!-.0-~\xc3-\xdf\xe4-\xf4]|\xe3(?!\x80\x80))"  # a line's start other than a space and a slash
)
"""Preferred cuts. U+3000 and the Latin-1 spaces are whitespace too, so their lead bytes are excluded; a slash sticks to
the line end before it in o200k_base."""

_TIGHT = re.compile(
    rb"(?<=[A-Za-z])(?=[0-9!-&(-/:-@\[-`{-~])"  # letter, then a digit or punctuation other than an apostrophe
    rb"|(?<=[\xe5-\xe8][\x80-\xbf][\x80-\xbf])(?=\xef\xbc[\x81\x88\x89\x8c\x9a\x9b\x9f]|\xe3\x80[\x81\x82])"
)
"""Cuts for text without blanks: base64, minified code, Chinese and Japanese (ideograph, then its punctuation)."""

_LINE = re.compile(rb"[!-.0-~]|[ \t]{1,200}[!-~]")
"""Blanks that end a line stick to its LF, blanks that begin one do not."""

_INSIDE = 0x80
"""The two high bits of a byte that continues a UTF-8 sequence."""

_WINDOW = 64


def last_safe(data: bytes, low: int, high: int) -> int | None:
    """Returns the largest safe cut in `(low, high]`, or None. Searches back from `high` in growing windows.

    `data` should extend a few bytes past `high`, so that what follows a cut is seen.
    """
    for pattern in (_SAFE, _TIGHT):
        window = _WINDOW
        while True:
            start = max(low + 1, high - window)
            best = None
            for match in pattern.finditer(data, start, min(len(data), high + 4)):
                if match.start() > high:
                    break
                best = match.start()
            if best is not None:
                return best
            if start <= low + 1:
                break
            window *= 8
    return None


def first_safe(data: bytes, low: int, high: int) -> int | None:
    """Returns the smallest safe cut in `[low, high)`, or None.

    It is at a blank or a line's start, else between letters and signs.
    """
    for pattern in (_SAFE, _TIGHT):
        match = pattern.search(data, low, min(len(data), high + 4))
        if match is not None and match.start() < high:
            return match.start()
    return None


def safe_line(data: bytes, at: int) -> bool:
    """Returns whether the line at `at` begins at a safe cut: not if it is blank, nor with a slash."""
    return _LINE.match(data, at) is not None


def align(data: bytes, at: int) -> int:
    """Returns the last place at or before `at` that is not inside a UTF-8 sequence; gives up after four bytes."""
    place = min(at, len(data))
    for back in range(4):
        if place - back <= 0 or place - back >= len(data) or data[place - back] & 0xC0 != _INSIDE:
            return max(place - back, 0)
    return place


def align_up(data: bytes, at: int) -> int:
    """Returns the first place at or after `at` that is not inside a UTF-8 sequence; gives up after four bytes."""
    for forward in range(4):
        if at + forward >= len(data) or data[at + forward] & 0xC0 != _INSIDE:
            return min(at + forward, len(data))
    return at
