"""Splits bytes into sentences and lines, the units of passages.

Units end at line ends, at ends of sentences in any script, and at ends of blocks of markup. Longer ones are cut where
little is torn apart, at worst between two characters. Works on any bytes; returns positions.
"""

import re
from typing import Final

from coatcheck.core.text.excerpt import grapheme_before

_LONGEST_LINE: Final = 2_000
"""Maximum bytes of a line that is one unit."""
LONGEST: Final = 480
"""Maximum bytes of a unit."""
_SHORTEST: Final = 60
"""Bytes below which an apparent sentence inside a line is an abbreviation or a number."""

_AFTER: Final = rb"[\"')\]]{0,3}[ \t]+(?![a-z \t])"
"""Matches what follows a sentence's last sign: closing signs, and a blank that no lower-case letter follows."""
_CLOSING: Final = rb"(?:\xe2\x80[\x99\x9d]|\xe3\x80[\x8d\x8f]|\xef\xbc\x89)?"
_END: Final = re.compile(
    rb"|".join(
        (
            rb"\n[\r\n]*",
            rb"\." + _AFTER,
            rb"!" + _AFTER,
            rb"\?" + _AFTER,
            rb"\xe2\x80[\xa6\x9d]" + _AFTER,
            rb"\xe3\x80\x82" + _CLOSING,  # Chinese and Japanese
            rb"\xef\xbc[\x81\x9f\x9b]" + _CLOSING,
            rb"\xe0\xa5[\xa4\xa5][ \t]*",  # danda
            rb"\xd8\x9f[ \t]*",  # Arabic
            rb"\xdb\x94[ \t]*",
            rb"\xe1\x81\x8b[ \t]*",  # Burmese
            rb"\xe1\x9f\x94[ \t]*",  # Khmer
            rb"</(?i:p|li|h[1-6]|div|td|tr|dd|dt|title|blockquote|section|pre)>",
            rb"\\n",  # a line end inside JSON
        )
    )
)
"""Every alternative begins with a fixed byte: the engine looks for those and tries nothing elsewhere."""
_BREAK: Final = re.compile(rb"[,;:)}\]>]|\xef\xbc\x8c|\xe3\x80\x81|[ \t]+")
"""Where a sentence that is too long is cut."""
_LF: Final = 0x0A


def units(data: bytes, base: int) -> list[tuple[int, int]]:
    """Returns consecutive ranges from the first byte to the last; positions count from `base`."""
    out: list[tuple[int, int]] = []
    start, size = 0, len(data)
    ends = [match.end() for match in _END.finditer(data)]
    ends.append(size)
    for end in ends:
        if end - start < _SHORTEST and (end <= start or (end < size and data[end - 1] != _LF)):
            continue
        while end - start > LONGEST:
            break_at = _cut(data, start)
            out.append((base + start, base + break_at))
            start = break_at
        out.append((base + start, base + end))
        start = end
    return out


def lines_of(data: bytes) -> list[tuple[int, int]]:
    """Returns the ranges of lines, each with its line feed; of a long line, those of its pieces."""
    out: list[tuple[int, int]] = []
    start = 0
    while start < len(data):
        end = data.find(b"\n", start) + 1 or len(data)
        if end - start > _LONGEST_LINE:
            end = _cut(data, start)
        out.append((start, end))
        start = end
    return out


def _cut(data: bytes, start: int) -> int:
    low, high = start + LONGEST // 2, start + LONGEST
    break_at = max((match.end() for match in _BREAK.finditer(data, low, high)), default=0)
    return break_at or max(grapheme_before(data, high), start + 1)


def markup(data: bytes) -> list[tuple[int, int]]:
    """Returns tags, scripts, styles and comments of a page, in order: what its readers do not see."""
    out: list[tuple[int, int]] = []
    at = 0
    lowered = data.lower()
    while (at := lowered.find(b"<", at)) >= 0:
        end = _tag_end(lowered, at)
        if end < 0:
            break
        out.append((at, end))
        at = end
    return out


_RAW: Final = ((b"<script", b"</script"), (b"<style", b"</style"), (b"<!--", b"-->"))


def _tag_end(data: bytes, at: int) -> int:
    """Returns where the tag at `at` ends, or the element whose content is not text; else the end of `data`."""
    for opening, closing in _RAW:
        if data.startswith(opening, at):
            at = data.find(closing, at)
            if at < 0:
                return len(data)
            break
    end = data.find(b">", at)
    return len(data) if end < 0 else end + 1
