"""Makes sections from the positions where parts of a view begin. Linear."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate

from msgspec import Struct

from coatcheck.core.views.view import MAX_SECTIONS, TITLE_CHARS, Section


class SectionStart(Struct, frozen=True):
    """Where a part of a view begins, always at the start of a line."""

    title: str
    level: int
    at: int
    """Byte of the view."""
    line: int
    """1-based."""
    url: str | None = None
    aside: bool = False
    """Whether it is an aside."""
    end: int | None = None
    """Byte where it ends, if not where the next part of its level or above begins; then parts in it end there too."""
    end_line: int = 0


def one_line(text: str) -> str:
    """Returns a title: blanks folded, cut to TITLE_CHARS characters, in which case the last is `…`."""
    flat = " ".join(text[: 8 * TITLE_CHARS].split())
    return flat if len(flat) <= TITLE_CHARS else f"{flat[: TITLE_CHARS - 1]}…"


def sections(starts: Sequence[SectionStart], *, prefix: str, size: int, lines: int) -> tuple[Section, ...]:
    """Returns named sections in order.

    Each extends to the next one of its level or above, the last to the end of the view, if it has no end of its own. If
    there are too many, those of the highest levels are kept, or the first ones if one level has too many.

    Args:
        starts: the parts, in order; no two at the same byte.
        prefix: `s`, `r` or `p`, which a number from 1 follows in names.
        size: bytes of the view.
        lines: lines of the view.
    """
    ends: list[tuple[int, int]] = [(size, lines + 1)] * len(starts)
    open_parts: list[int] = []
    for place, start in enumerate(starts):
        while open_parts and (ends[open_parts[-1]][0] <= start.at or starts[open_parts[-1]].level >= start.level):
            last = open_parts.pop()
            ends[last] = min(ends[last], (start.at, start.line))
        ends[place] = ends[open_parts[-1]] if open_parts else ends[place]
        if start.end is not None:
            ends[place] = min(ends[place], (start.end, start.end_line))
        open_parts.append(place)
    selection = _select_starts(starts)
    return tuple(
        Section(
            name=f"{prefix}{number}",
            title=one_line(starts[place].title),
            level=starts[place].level,
            start=starts[place].at,
            end=ends[place][0],
            line=starts[place].line,
            lines=ends[place][1] - starts[place].line,
            url=starts[place].url,
            aside=starts[place].aside,
        )
        for number, place in enumerate(selection, 1)
    )


def _select_starts(starts: Sequence[SectionStart]) -> Sequence[int]:
    """Returns the numbers of all parts or, of too many, those of the highest levels, and of one level the first."""
    if len(starts) <= MAX_SECTIONS:
        return range(len(starts))
    counts = Counter(start.level for start in starts)
    levels = sorted(counts)
    totals = list(accumulate(counts[level] for level in levels))
    deepest = levels[max(0, bisect_right(totals, MAX_SECTIONS) - 1)]
    return [place for place, start in enumerate(starts) if start.level <= deepest][:MAX_SECTIONS]


def locate_headings(headings: Iterable[tuple[int, str, int, str | None]], data: bytes) -> list[SectionStart]:
    """Returns starts in order, from (byte, title, level, URL), with their lines counted in one pass."""
    lines = LineCounter(data)
    return [SectionStart(title, level, place, lines.at(place), url) for place, title, level, url in headings]


class LineCounter:
    """Counts lines up to positions in ascending order, in one pass."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at, self._line = 0, 1

    def at(self, place: int) -> int:
        """Returns the line, from 1, of the byte at `place`, which is not before the one asked for last."""
        self._line += self._data.count(b"\n", self._at, place)
        self._at = place
        return self._line


def count_lines(data: bytes) -> int:
    """Returns the number of lines as a ViewMeasure counts them."""
    return data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))
