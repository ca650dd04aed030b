"""Splits a payload into lines as a card may show them, each a unit with its position; very long ones into pieces.

A unit's text is what a person would have seen; its bytes are those of the payload, without exception. Units cover only
what is available: of a large payload the two ends and the fragments that its survey kept.
"""

from collections import Counter
from itertools import accumulate
from typing import Final, final

from coatcheck.core.survey.lexicon import shapes_of
from coatcheck.core.survey.region import Region
from coatcheck.core.text.cuts import align, align_up
from coatcheck.core.text.terminal import overwrites, visible

LONG: Final = 480
"""Maximum bytes of a line that is one unit."""
PIECE: Final = 400
"""Maximum bytes of a unit of a longer line."""
_LINE_END: Final = 2
"""Bytes of CR LF."""
_ENDS: Final = (b"\r", b". ", b"\\n", "。".encode(), b"},", b"> ")
"""Where a long line is best cut: after sentences, encoded line feeds, records, tags."""


@final
class Units:
    """All units of some regions, in the payload's order. The lists have one item per unit.

    Attributes:
        text: what is seen, without the line feed.
        start, end: the unit's bytes in the payload, half-open, including the line feed.
        line: the number of its line, from 1.
        opens, closes: whether the unit begins and ends its line.
        shortened: those that were whole lines before `shorten`.
        shape: equal for lines that differ only in numbers; see `shapes_of`.
        count: how many units have each shape.
    """

    def __init__(self, regions: list[Region]) -> None:
        self.text: list[bytes] = []
        self.start: list[int] = []
        self.end: list[int] = []
        self.line: list[int] = []
        self.opens: list[bool] = []
        self.closes: list[bool] = []
        self.shortened: set[int] = set()
        for region in regions:
            self._add(region)
        joined = b"\n".join(self.text)
        self.shape: list[bytes] = shapes_of(joined) if self.text else []
        self.count: Counter[bytes] = Counter(self.shape)

    def __len__(self) -> int:
        """Returns the number of units."""
        return len(self.text)

    def follows(self, place: int) -> bool:
        """Returns whether unit `place` directly follows the unit before it."""
        return place > 0 and self.start[place] == self.end[place - 1]

    def shorten(self, place: int, size: int, *, last: bool) -> bool:
        """Shortens a unit to about its first `size` bytes, or its last ones. What it loses belongs to no unit.

        Returns whether that was possible: not if some of its bytes were never visible, so that positions are unknown.
        """
        text, whole = self.text[place], self.opens[place] and self.closes[place]
        ending = self.end[place] - self.start[place] - len(text)
        if not 0 <= ending <= _LINE_END or not 0 < size < len(text):
            return False
        at = align_up(text, len(text) - size) if last else align(text, size)
        if not 0 < at < len(text):
            return False
        if last:
            self.text[place] = text[at:]
            self.start[place] += at
            self.opens[place] = False
        else:
            self.text[place] = text[:at]
            self.end[place] = self.start[place] + at
            self.closes[place] = False
        if whole:
            self.shortened.add(place)
        return True

    def _add(self, region: Region) -> None:
        raw = region.data.split(b"\n")
        frames = overwrites(region.data)
        seen = visible(region.data, frames=frames)
        shown = raw if seen is region.data else seen.split(b"\n")
        ends = list(accumulate([len(line) + 1 for line in raw], initial=region.start))
        last = len(raw) - 1
        if not raw[last]:  # the region ends with a line feed
            del raw[last], ends[last + 1]
            shown = shown[: len(raw)]
            last -= 1
        else:
            ends[-1] -= 1
        if not raw:
            return
        first = len(self.text)
        at = 0
        for number in [n for n, text in enumerate(shown) if len(text) > LONG] if max(map(len, shown)) > LONG else []:
            self._put_lines(shown, ends, region.line, at, number)
            self._cut(raw[number], ends[number], ends[number + 1], region.line + number, frames=frames)
            at = number + 1
        self._put_lines(shown, ends, region.line, at, len(shown))
        if not region.begins:
            self.opens[first] = False
        if not region.ends:
            self.closes[-1] = False

    def _put_lines(self, shown: list[bytes], ends: list[int], line: int, low: int, high: int) -> None:
        """Adds lines `low` to `high` of a region, each of which is one unit."""
        self.text += shown[low:high]
        self.start += ends[low:high]
        self.end += ends[low + 1 : high + 1]
        self.line += range(line + low, line + high)
        self.opens += [True] * (high - low)
        self.closes += [True] * (high - low)

    def _cut(self, raw: bytes, start: int, end: int, line: int, *, frames: bool) -> None:
        """Cuts a long line into pieces. What was overwritten in it belongs to the first."""
        body = raw.removesuffix(b"\r")
        edges = cuts(body, body.rfind(b"\r") + 1 if frames else 0)
        pieces = len(edges)
        self.text += [visible(body[low:high], frames=frames) for low, high in edges]
        self.start += [start, *[start + low for low, _ in edges[1:]]]
        self.end += [*[start + high for _, high in edges[:-1]], end]
        self.line += [line] * pieces
        self.opens += [True, *[False] * (pieces - 1)]
        self.closes += [*[False] * (pieces - 1), True]


def cuts(line: bytes, at: int = 0) -> list[tuple[int, int]]:
    """Returns where the pieces of a long line begin and end, from offset `at` on."""
    out: list[tuple[int, int]] = []
    size = len(line)
    while at < size:
        end = min(size, at + PIECE)
        if end < size:
            end = _edge(line, at, end)
        out.append((at, end))
        at = end
    return out


def _edge(line: bytes, low: int, high: int) -> int:
    least = low + PIECE // 3
    best = max(place + len(mark) if (place := line.rfind(mark, least, high)) >= 0 else 0 for mark in _ENDS)
    if best <= low:
        best = max(line.rfind(b" ", least, high), line.rfind(b",", least, high)) + 1
    if best <= low:
        best = high
        while best > low + 1 and line[best] & 0xC0 == 0x80:  # noqa: PLR2004 - a UTF-8 continuation byte
            best -= 1
    return best
