r"""What a person saw of terminal output: of a line with carriage returns its last frame, and no escape sequences.

A progress bar writes frame after frame over the same line, separated by `\r`; only what follows the last `\r` stayed
(the one before LF ends the line). Words of ours replace what is left out. Every shown character can be traced to its
byte, so that ranges stay exact.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar, final

from coatcheck.core.text.plural import plural
from coatcheck.core.views.window import decode, raw_length

T = TypeVar("T", str, bytes)
Hidden = tuple[int, int, bytes]
"""Bytes of a text that are not shown, as a half-open range, and what is shown in their place."""
ESCAPES: Final = re.compile(
    rb"\x1b(?:\[[0-?]*+[ -/]*+[@-~]|[\]PX^_][^\x07\x1b\r\n]{0,4000}(?:\x07|\x1b\\)|[()*+][0-9A-Za-z]|[=>78cDEHMNOZ])"
)
"""Escape sequences that terminals understand: colours, cursor movements, titles, links, character sets."""
_LONGEST: Final = 4_100
"""Maximum bytes of such a sequence."""
_FRAMES: Final = re.compile(rb"^[^\n]*\r(?=[^\r\n])|\r+(?=\r\n)|\r+\Z", re.MULTILINE)
"""Matches the frames of a line that others were written over, and carriage returns that end nothing."""


def overwritten(count: int) -> str:
    """Returns the replacement for `count` bytes that were overwritten."""
    return f"[… {plural(count, 'byte')} overwritten …]"


def has_hidden(data: bytes) -> bool:
    """Returns whether `data` may contain anything that a person did not see."""
    return b"\x1b" in data or data.count(b"\r") > data.count(b"\r\n")


def frame_start(line: bytes) -> int:
    r"""Returns where the last frame of a line begins; a `\r` at its end separates nothing."""
    return line.rstrip(b"\r\n").rfind(b"\r") + 1


def without_escapes(data: bytes) -> bytes:
    """Returns `data` without escape sequences."""
    return ESCAPES.sub(b"", data) if b"\x1b" in data else data


def measure_shown_bytes(data: bytes, width: int, hidden: Sequence[Hidden] = ()) -> int:
    """Returns how many bytes at the beginning of `data` contain `width` bytes that are shown."""
    if not hidden and b"\x1b" not in data[:width]:
        return min(width, len(data))
    end = skipped = 0
    for start, stop in sorted([*(part[:2] for part in hidden), *(match.span() for match in ESCAPES.finditer(data))]):
        if start - skipped >= width:
            break
        skipped += max(0, stop - max(start, end))
        end = max(end, stop)
    return min(width + skipped, len(data))


def show_parts(data: bytes, hidden: Sequence[Hidden], base: int = 0) -> bytes:
    """Returns `data` with what is shown in place of what is hidden.

    `hidden` is in order, disjoint, and counts from `base` bytes before `data`.
    """
    if not hidden:
        return data
    out: list[bytes] = []
    at = 0
    for number in range(bisect_right(hidden, base, key=lambda part: part[1]), len(hidden)):
        start, end, replacement = hidden[number]
        if start - base >= len(data):
            break
        out += (data[at : max(at, start - base)], replacement if start >= base else b"")
        at = max(at, end - base)
    return b"".join([*out, data[at:]])


def find_written_positions(hidden: Sequence[Hidden], positions: Iterable[int]) -> list[int]:
    """Returns where bytes of what `show_parts` returns are written; all of what is shown in a part's place, there.

    `hidden` is in order and disjoint, and `positions` are in order.
    """
    out: list[int] = []
    number = skipped = 0
    for place in positions:
        while number < len(hidden) and hidden[number][0] - skipped + len(hidden[number][2]) <= place:
            start, end, replacement = hidden[number]
            skipped += end - start - len(replacement)
            number += 1
        out.append(min(place + skipped, hidden[number][0]) if number < len(hidden) else place + skipped)
    return out


def complete_length(data: bytes) -> int:
    """Returns how many bytes at the beginning of `data` can be shown while more may follow: no incomplete sequence."""
    at = data.rfind(b"\x1b", max(0, len(data) - _LONGEST))
    return at if at > 0 and ESCAPES.match(data, at) is None else len(data)


@final
class VisibleText:
    """Bytes as they were seen.

    Attributes:
        text: what was seen, with words of ours where something was overwritten.
    """

    def __init__(self, data: bytes, apart: Iterable[tuple[int, int, str]] = ()) -> None:
        """`apart` is not shown either, but what is given in its place."""
        self._data = data
        self._starts: list[int] = [0]
        """Where verbatim and hidden parts begin in `data`, alternating; the first is verbatim, and may be empty."""
        self._chars: list[int] = [0]
        """Where they begin in `text`."""
        out: list[str] = []
        for start, end, replacement in in_order([*_unseen(data), *apart]):
            out += (decode(data[self._starts[-1] : start]), replacement)
            self._starts += (start, end)
            self._chars += (self._chars[-1] + len(out[-2]), self._chars[-1] + len(out[-2]) + len(replacement))
        out.append(decode(data[self._starts[-1] :]))
        self.text = "".join(out)

    def at(self, byte: int) -> int:
        """Returns the character that shows a byte; for a hidden one, that of what is shown in its place."""
        part = bisect_right(self._starts, byte) - 1
        verbatim = b"" if part % 2 else self._data[self._starts[part] : byte]
        return self._chars[part] + len(decode(verbatim))

    def cut(self, keep: int) -> tuple[int, str]:
        """Returns how many bytes the first `keep` characters represent, at most, and the text of exactly these.

        Words of ours are not split, and hidden bytes go with what follows them, except those at the very beginning.
        """
        if keep >= len(self.text):
            return len(self._data), self.text
        part = bisect_right(self._chars, keep) - 1
        while part % 2 or (part and self._chars[part] == keep and self._starts[part] > 0):
            part -= 1
            keep = min(keep, self._chars[part + 1])
        start, stop = self._starts[part], self._starts[part + 1] if part + 1 < len(self._starts) else len(self._data)
        end = start + raw_length(self._data[start:stop], self._text(part), keep - self._chars[part])
        return end, self.text[: self._chars[part]] + decode(self._data[start:end])

    def _text(self, part: int) -> str:
        end = self._chars[part + 1] if part + 1 < len(self._chars) else len(self.text)
        return self.text[self._chars[part] : end]


def in_order(parts: Iterable[tuple[int, int, T]]) -> list[tuple[int, int, T]]:
    """Returns parts in order; of those that overlap, the first and longest."""
    out: list[tuple[int, int, T]] = []
    for part in sorted(parts, key=lambda part: (part[0], -part[1])):
        if not out or part[0] >= out[-1][1]:
            out.append(part)
    return out


def _unseen(data: bytes) -> list[tuple[int, int, str]]:
    """Returns the parts that were not seen, in order, and their replacements."""
    out: list[tuple[int, int, str]] = []
    at = 0
    for match in _FRAMES.finditer(data) if b"\r" in data else ():
        out += [(m.start(), m.end(), "") for m in ESCAPES.finditer(data, at, match.start())]
        blank = not without_escapes(match[0]).strip(b"\r")
        out.append((match.start(), match.end(), "" if blank else overwritten(len(match[0]))))
        at = match.end()
    return [*out, *((m.start(), m.end(), "") for m in ESCAPES.finditer(data, at))]
