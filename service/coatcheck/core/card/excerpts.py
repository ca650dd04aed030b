"""Excerpts and omissions: which parts of a payload a card shows, and which it leaves out; together, all of it."""

from itertools import pairwise
from typing import Literal

from coatcheck.core.artifact import Measure, PayloadSample
from coatcheck.core.card.model import ByteRange, Excerpt, LineRange, Omission
from coatcheck.core.choose.units import Units
from coatcheck.core.redact.filler import reveal
from coatcheck.core.survey.region import Region
from coatcheck.core.text.cuts import align, align_up
from coatcheck.core.text.terminal import overwrites, visible
from coatcheck_client.contract.inert import inert

_BLANKS = 2
"""Empty lines between two shown ones that cost less to show than to skip."""
Run = tuple[int, int]
"""Numbers of the first and the last unit of an excerpt."""


def regions_of(sample: PayloadSample, lines: int, fragments: tuple[Region, ...] = ()) -> list[Region]:
    """Returns what is available of a payload, in order: its two ends, and what its survey kept of the middle.

    Args:
        sample: the ends, or all of it.
        lines: number of lines in the whole payload.
        fragments: whole lines, or pieces of long ones; those that an end already includes are dropped.
    """
    if sample.whole:
        return [Region(0, 1, sample.head)] if sample.head else []
    head, tail = sample.head, sample.tail
    cut = head.rfind(b"\n") + 1 or align(head, len(head) - 1)
    out = [Region(0, 1, head[:cut], ends=head[:cut].endswith(b"\n"))]
    begin = tail.find(b"\n") + 1
    if begin in {0, len(tail)}:  # the last line is longer than what is available of it
        begin = align_up(tail, 0)
    data = tail[begin:]
    start = sample.size - len(data)
    out += [each for each in fragments if each.start >= cut and each.start + len(each.data) <= start]
    line = lines - data.count(b"\n") - (not data.endswith(b"\n")) + 1
    out.append(Region(start, line, data, begins=tail[begin - 1 : begin] == b"\n"))
    return out


def runs_of(units: Units, places: list[int], dropped_at: int | None = None) -> list[Run]:
    """Returns chosen units joined to excerpts: consecutive ones, and those with only blank lines between.

    No excerpt crosses `dropped_at`, where bytes of an oversized payload were dropped.
    """
    runs: list[Run] = []
    for place in places:
        if runs and _joined(units, runs[-1][1], place) and not _split(units, runs[-1][0], place, dropped_at):
            runs[-1] = (runs[-1][0], place)
        else:
            runs.append((place, place))
    return runs


def _joined(units: Units, last: int, place: int) -> bool:
    if place == last + 1:
        return units.follows(place)
    if place - last > _BLANKS + 1:
        return False
    between = range(last + 1, place)
    return all(units.follows(at) for at in (*between, place)) and not any(units.text[at].strip() for at in between)


def _split(units: Units, first: int, place: int, dropped_at: int | None) -> bool:
    return dropped_at is not None and units.start[first] < dropped_at < units.end[place]


def excerpt(
    units: Units, run: Run, regions: list[Region], masked: tuple[str, ...], view: Literal["raw", "text"]
) -> Excerpt:
    """Returns an excerpt: text as a model may read it, with its exact range."""
    first, last = run
    start, end = units.start[first], units.end[last]
    region = next(each for each in reversed(regions) if each.start <= start)
    data = region.data[start - region.start : end - region.start]
    seen = visible(data, frames=overwrites(region.data))
    text = (data if seen == data.replace(b"\r\n", b"\n") else seen).decode("utf-8", "replace")
    text = inert(reveal(text, masked) if masked else text)
    opens, closes = units.opens[first], units.closes[last]
    return Excerpt(
        text=text,
        view=view,
        bytes=ByteRange(start, end),
        lines=LineRange(units.line[first], units.line[last]),
        exact=_same(text, data),
        cut="" if opens and closes else "both" if not opens and not closes else "end" if opens else "start",
    )


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
            out.append(Omission(bytes=ByteRange(start, end), lines=LineRange(first, last), whole_lines=max(0, whole)))
    return out


def _same(text: str, data: bytes) -> bool:
    try:
        return text == data.decode()
    except UnicodeDecodeError:
        return False
