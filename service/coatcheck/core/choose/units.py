"""Splits a payload into units for a card: lines with their positions, and the pieces of very long lines.

A unit's text is what a person would have seen; its bytes are those of the payload, without exception. Units cover only
the available parts: of a large payload, these are its two ends and the fragments that its survey kept.
"""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import Final, final

from msgspec import structs

from coatcheck.core.artifact import LineFields, PayloadSample
from coatcheck.core.parts.blobs import hidden_parts, read_lines
from coatcheck.core.parts.fields import has_times
from coatcheck.core.survey import Region, Survey
from coatcheck.core.text.excerpt import align, align_up
from coatcheck.core.text.lexicon import shapes_of
from coatcheck.core.text.visible_text import Hidden, find_written_positions, show_parts, visible
from coatcheck.core.views.view import Section

LONG: Final = 480
"""Maximum bytes of a line that is a single unit."""
PIECE: Final = 400
"""Maximum bytes of the pieces into which a longer line is cut; each is a unit."""
_NEAR: Final = 32 * 1024
"""Bytes of each end that are split into units if a survey covers the middle. More bytes made no card better."""
_LINE_END: Final = 2
"""Bytes of CR LF."""
_LAST_END: Final = re.compile(rb"(?s).*(?:\r|\. |\\n|\xe3\x80\x82|\},|> )")
"""Matches up to the best cut in a long line: after a sentence, an encoded line feed, a record or a tag."""
_LAST_BLANK: Final = re.compile(rb"(?s).*[ ,]")


@final
class Units:
    """All units of some regions, in the payload's order. The lists have one item per unit.

    Attributes:
        text: the visible text, without the line feed.
        start, end: the unit's bytes in the payload, half-open, including the line feed.
        line: the number of the unit's line, from 1.
        opens, closes: whether the unit begins and ends its line.
        shortened: indices of units that were whole lines before `shorten`.
        shape: equal for lines that differ only in numbers; see `shapes_of`.
        count: how many units have each shape.
        block: all text before any unit was shortened, one line per unit.
        regions: the regions that were split into the units.
        has_times: whether the lines have times, in fields that are not shown.
    """

    def __init__(self, regions: list[Region], fields: LineFields | None = None) -> None:
        self._fields = fields
        self.has_times = has_times(fields)
        self.text: list[bytes] = []
        self.start: list[int] = []
        self.end: list[int] = []
        self.line: list[int] = []
        self.opens: list[bool] = []
        self.closes: list[bool] = []
        self.shortened: set[int] = set()
        self.regions = regions
        for region in regions:
            self._add(region)
        self.block = b"\n".join(self.text)
        self.shape = shapes_of(self.block) if self.text else []
        self.count = Counter(self.shape)

    def __len__(self) -> int:
        """Returns the number of units."""
        return len(self.text)

    def follows(self, place: int) -> bool:
        """Returns whether unit `place` directly follows the unit before it."""
        return place > 0 and self.start[place] == self.end[place - 1]

    def has_neighbours(self, place: int) -> bool:
        """Returns whether units directly precede and follow unit `place`."""
        return self.follows(place) and place + 1 < len(self.text) and self.follows(place + 1)

    def opening(self, place: int) -> int | None:
        """Returns the unit that begins the line of unit `place`; None if the beginning is not available."""
        while not self.opens[place] and self.follows(place):
            place -= 1
        return place if self.opens[place] else None

    def shorten(self, place: int, size: int, *, last: bool) -> bool:
        """Shortens a unit to about its first or, with `last`, its last `size` bytes; the rest belongs to no unit.

        Returns False, without a change, if the unit is not longer than `size`, or if it has bytes that were never
        visible, because the positions of its text are then unknown.
        """
        text, whole = self.text[place], self.opens[place] and self.closes[place]
        ending = self.end[place] - self.start[place] - len(text)
        if not 0 <= ending <= _LINE_END or not 0 < size < len(text):
            return False
        if last:
            at = text.find(b" ", len(text) - size, len(text) - size // 2) + 1 or align_up(text, len(text) - size)
        else:
            at = text.rfind(b" ", size // 2, size) + 1 or align(text, size)
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
        messages = read_lines(self._fields, region.data, begins=region.begins)
        visible_data = visible(messages)
        visible_lines = raw if visible_data is region.data else visible_data.split(b"\n")
        ends = list(accumulate([len(line) + 1 for line in raw], initial=region.start))
        last = len(raw) - 1
        if not raw[last]:  # the region ends with a line feed
            del raw[last], ends[last + 1]
            visible_lines = visible_lines[: len(raw)]
            last -= 1
        else:
            ends[-1] -= 1
        if not raw:
            return
        first = len(self.text)
        at = 0
        for number in (
            [n for n, text in enumerate(visible_lines) if len(text) > LONG]
            if max(map(len, visible_lines)) > LONG
            else []
        ):
            self._put(visible_lines[at:number], ends[at:number], ends[at + 1 : number + 1], region.line + at)
            hidden = hidden_parts(
                self._fields, raw[number], begins=region.begins or number > 0, ends=region.ends or number < last
            )
            self._cut(raw[number], ends[number], ends[number + 1], region.line + number, hidden)
            at = number + 1
        self._put(visible_lines[at:], ends[at:-1], ends[at + 1 :], region.line + at)
        if not region.begins:
            self.opens[first] = False
        if not region.ends:
            self.closes[-1] = False

    def _put(self, text: list[bytes], start: list[int], end: list[int], line: int) -> None:
        """Adds lines, each as one unit, numbered from `line` on."""
        self.text += text
        self.start += start
        self.end += end
        self.line += range(line, line + len(text))
        self.opens += [True] * len(text)
        self.closes += [True] * len(text)

    def _cut(self, raw: bytes, start: int, end: int, line: int, hidden: list[Hidden]) -> None:
        """Cuts the visible text of a long line into pieces. Overwritten bytes belong to the first piece."""
        visible_line = show_parts(raw, hidden).removesuffix(b"\r")
        edges = cuts(visible_line, visible_line.rfind(b"\r") + 1)
        pieces = len(edges)
        between = [start + at for at in find_written_positions(hidden, [low for low, _ in edges[1:]])]
        self.text += [visible(visible_line[low:high]) for low, high in edges]
        self.start += [start, *between]
        self.end += [*between, end]
        self.line += [line] * pieces
        self.opens += [True, *[False] * (pieces - 1)]
        self.closes += [*[False] * (pieces - 1), True]


def units_of(
    sample: PayloadSample,
    lines: int,
    survey: Survey | None,
    *,
    sought: bool = False,
    fields: LineFields | None = None,
    asides: Sequence[Section] = (),
) -> Units:
    """Returns the available units of a payload, in order: its two ends, and what its survey kept of the middle.

    Args:
        sample: the ends of the payload, or all of it.
        lines: number of lines in the whole payload.
        survey: its fragments are whole lines, or pieces of long lines; fragments that overlap an end are dropped.
        fields: the fields of each line that are hidden; None: no fields are known.
        asides: parts that are left out, in order.
        sought: whether any line of the ends may matter, because it may answer a query or be new since an earlier run.
    """
    if sample.whole:
        return Units(_outside([Region(0, 1, sample.head)] if sample.head else [], asides), fields)
    near = len(sample.head) if survey is None or sought else _NEAR
    head, tail = sample.head[:near], sample.tail[-near:]
    head_end = head.rfind(b"\n") + 1 or align(head, len(head) - 1)
    begin = tail.find(b"\n") + 1
    if begin in {0, len(tail)}:  # only a part of the last line is available
        begin = align_up(tail, 0)
    data = tail[begin:]
    start = sample.size - len(data)
    line = lines - data.count(b"\n") - (not data.endswith(b"\n")) + 1
    fragments = () if survey is None else survey.fragments
    regions = [
        Region(0, 1, head[:head_end], ends=head[:head_end].endswith(b"\n")),
        *[each for each in fragments if each.start >= head_end and each.start + len(each.data) <= start],
        Region(start, line, data, begins=tail[begin - 1 : begin] == b"\n"),
    ]
    units = Units(_outside(regions, asides), fields)
    for shape, count in () if survey is None else survey.counts:
        if shape in units.count:
            units.count[shape] = max(units.count[shape], count)
    return units


def _outside(regions: list[Region], asides: Sequence[Section]) -> list[Region]:
    """Returns the parts of regions that are in no aside. Asides begin and end at the start of a line."""
    for aside in asides:
        rest: list[Region] = []
        for region in regions:
            end = region.start + len(region.data)
            if aside.end <= region.start or end <= aside.start:
                rest.append(region)
                continue
            if region.start < aside.start:
                rest.append(structs.replace(region, data=region.data[: aside.start - region.start], ends=True))
            if aside.end < end:
                data = region.data[aside.end - region.start :]
                line = aside.line + aside.lines
                rest.append(structs.replace(region, start=aside.end, line=line, data=data, begins=True))
        regions = rest
    return regions


def cuts(line: bytes, at: int = 0) -> list[tuple[int, int]]:
    """Returns where the pieces of a long line begin and end, from offset `at` on."""
    out: list[tuple[int, int]] = []
    size = len(line)
    while at < size:
        end = _edge(line, at, at + PIECE) if at + PIECE < size else size
        out.append((at, end))
        at = end
    return out


def _edge(line: bytes, low: int, high: int) -> int:
    least = low + PIECE // 3
    best = _LAST_END.match(line, least, high) or _LAST_BLANK.match(line, least, high)
    return align(line, high) if best is None else best.end()
