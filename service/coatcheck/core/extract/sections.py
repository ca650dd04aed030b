"""Makes sections from the positions where parts of a view begin. Linear."""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from coatcheck.core.views.view import MAX_SECTIONS, TITLE_CHARS, Section

_LEVELS: Final = 6


class SectionStart(Struct, frozen=True):
    """Where a part of a view begins, always at the start of a line."""

    title: str
    level: int
    at: int
    """Byte of the view."""
    line: int
    """1-based."""
    url: str | None = None


def one_line(text: str) -> str:
    """Returns a title: blanks folded, cut to TITLE_CHARS characters, in which case the last is `…`."""
    flat = " ".join(text[: 8 * TITLE_CHARS].split())
    return flat if len(flat) <= TITLE_CHARS else f"{flat[: TITLE_CHARS - 1]}…"


def sections(starts: Sequence[SectionStart], *, prefix: str, size: int, lines: int) -> tuple[Section, ...]:
    """Returns named sections in order.

    Each extends to the next one of its level or above, the last to the end of the view.

    Args:
        starts: the parts, in order; no two at the same byte.
        prefix: `s`, `r` or `p`, which a number from 1 follows in names.
        size: bytes of the view.
        lines: lines of the view.
    """
    kept = _kept(starts)
    ends: list[tuple[int, int]] = [(size, lines + 1)] * len(kept)
    open_parts: list[int] = []
    for place, start in enumerate(kept):
        while open_parts and kept[open_parts[-1]].level >= start.level:
            ends[open_parts.pop()] = (start.at, start.line)
        open_parts.append(place)
    return tuple(
        Section(
            name=f"{prefix}{place}",
            title=one_line(start.title),
            level=start.level,
            start=start.at,
            end=end,
            line=start.line,
            lines=line - start.line,
            url=start.url,
        )
        for place, (start, (end, line)) in enumerate(zip(kept, ends, strict=True), 1)
    )


def _kept(starts: Sequence[SectionStart]) -> Sequence[SectionStart]:
    """Returns all of them, or those of the highest levels if there are too many.

    The first ones if one level has too many.
    """
    if len(starts) <= MAX_SECTIONS:
        return starts
    counts = [0] * (_LEVELS + 2)
    for start in starts:
        counts[min(max(start.level, 1), _LEVELS + 1)] += 1
    deepest, total = 0, 0
    for level in range(1, _LEVELS + 2):
        total += counts[level]
        if total > MAX_SECTIONS:
            break
        if counts[level]:
            deepest = level
    if not deepest:  # the highest level alone has too many
        highest = min(start.level for start in starts)
        return [start for start in starts if start.level == highest][:MAX_SECTIONS]
    return [start for start in starts if start.level <= deepest]


def placed(marks: Iterable[tuple[int, str, int, str | None]], data: bytes) -> list[SectionStart]:
    """Returns starts in order, from (byte, title, level, URL), with their lines counted in one pass."""
    starts: list[SectionStart] = []
    at, line = 0, 1
    for place, title, level, url in marks:
        line += data.count(b"\n", at, place)
        at = place
        starts.append(SectionStart(title, level, place, line, url))
    return starts


def count_lines(data: bytes) -> int:
    """Returns the number of lines as a ViewMeasure counts them."""
    return data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))
