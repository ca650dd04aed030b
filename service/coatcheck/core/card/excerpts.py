"""Excerpts and omissions: which parts of a payload a card shows, and which it leaves out; together, all of it."""

from itertools import pairwise

from coatcheck.core.artifact import Measure
from coatcheck.core.card.model import CardInput, Excerpt, Omission
from coatcheck.core.choose.units import Units
from coatcheck.core.parts.blobs import read_lines
from coatcheck.core.redact.filler import reveal
from coatcheck.core.text.terminal import visible
from coatcheck.core.views.view import Section
from coatcheck.core.views.window import Extent, LineExtent
from coatcheck_client.contract.inert import inert

_BLANKS = 2
"""Empty lines between two shown ones that cost less to show than to skip."""


def excerpts_of(units: Units, positions: list[int], inputs: CardInput) -> list[Excerpt]:
    """Returns chosen units as excerpts: consecutive ones are one, and those with only blank lines between.

    No excerpt crosses the place where bytes of an oversized payload were dropped.
    """
    dropped_at = inputs.measure.dropped_at if inputs.measure.dropped else None
    runs: list[tuple[int, int]] = []
    for place in positions:
        first = runs[-1][0] if runs and _is_joined(units, runs[-1][1], place) else place
        if first < place and (dropped_at is None or not units.start[first] < dropped_at < units.end[place]):
            runs[-1] = (first, place)
        else:
            runs.append((place, place))
    return [_excerpt(units, first, last, inputs) for first, last in runs]


def _is_joined(units: Units, last: int, place: int) -> bool:
    between = range(last + 1, place)
    return (
        len(between) <= _BLANKS
        and all(units.follows(at) for at in (*between, place))
        and not any(units.text[at].strip() for at in between)
    )


def _excerpt(units: Units, first: int, last: int, inputs: CardInput) -> Excerpt:
    """Returns units as text that a model may read, with its exact range."""
    start, end = units.start[first], units.end[last]
    region = next(each for each in reversed(units.regions) if each.start <= start)
    data = region.data[start - region.start : end - region.start]
    visible_data = visible(read_lines(inputs.fields, data, begins=units.opens[first]))
    text = (data if visible_data == data.replace(b"\r\n", b"\n") else visible_data).decode("utf-8", "replace")
    masked = inputs.evidence.masked
    text = inert(reveal(text, masked) if masked else text)
    opens, closes = units.opens[first], units.closes[last]
    return Excerpt(
        text=text,
        view="raw" if inputs.text is None else "text",
        bytes=Extent(start, end),
        lines=LineExtent(units.line[first], units.line[last]),
        exact=text.encode() == data,
        cut="" if opens and closes else "both" if not opens and not closes else "end" if opens else "start",
    )


def outside(omitted: list[Omission], asides: tuple[Section, ...]) -> list[Omission]:
    """Returns what is left out besides asides, which begin and end at starts of lines."""
    out: list[Omission] = []
    for gap in omitted:
        start, line, whole = gap.bytes.start, gap.lines.first, gap.whole_lines
        for aside in asides:
            if not (start < aside.end and aside.start < gap.bytes.end):
                continue
            if start < aside.start:
                lines = LineExtent(line, aside.line - 1)
                out.append(
                    Omission(bytes=Extent(start, aside.start), lines=lines, whole_lines=min(aside.line - line, whole))
                )
                whole -= aside.line - line
            after = aside.line + aside.lines
            whole -= min(after, gap.lines.last + 1) - max(line, aside.line)
            start, line = aside.end, after
        if start < gap.bytes.end:
            lines = LineExtent(line, gap.lines.last)
            out.append(Omission(bytes=Extent(start, gap.bytes.end), lines=lines, whole_lines=max(0, whole)))
    return out


def omissions(excerpts: list[Excerpt], measure: Measure) -> list[Omission]:
    """Returns the ranges that no excerpt shows, in order."""
    edges: list[tuple[int, int, bool]] = [(0, 1, True)]
    for each in excerpts:
        edges.append((each.bytes.start, each.lines.first, each.cut not in {"start", "both"}))
        whole = each.cut not in {"end", "both"}
        edges.append((each.bytes.end, each.lines.last + whole, whole))
    edges.append((measure.size, measure.lines + 1, True))
    out: list[Omission] = []
    for (start, first, opens), (end, next_line, closes) in list(pairwise(edges))[::2]:
        if end > start:
            last = max(first, next_line - closes)
            whole = last - first + 1 - (not opens) - (not closes and (last > first or opens))
            out.append(Omission(bytes=Extent(start, end), lines=LineExtent(first, last), whole_lines=max(0, whole)))
    return out
