"""The survey of a payload that is too large to be held in memory: a summary of every byte, in a few kilobytes.

The survey is made while the payload streams in. Bulk operations in C do most of the work: lines are distinguished by
their shape, which is the line without its digits, and only lines with a new shape are examined individually. Memory and
result are bounded for any content. Pure: the same bytes give the same survey, however they are split.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Final, final

import msgspec
import numpy as np
from msgspec import Struct

from coatcheck.core.artifact import LineFields
from coatcheck.core.outline.summary import DiffTotals, totals_of
from coatcheck.core.parts.blobs import read_lines
from coatcheck.core.records.lines import LineFieldCounter, line_facts
from coatcheck.core.records.stream import RecordStream
from coatcheck.core.text.lexicon import DIGITS, SPEAKS, level_of, shapes_of, speaking, stating
from coatcheck.core.text.visible_text import frame_start, visible

_BLOCK: Final = 128 * 1024
"""Maximum bytes that are processed together. A block ends with a line, unless the line is longer."""
_HEXADECIMAL: Final = b"0123456789abcdefABCDEF"
_SHAPES: Final = 20_000
"""Maximum different shapes that are counted. In a text with more, shapes first become coarser; if there are still too
many, they are no longer counted."""
_LINE_BYTES: Final = 400
"""Maximum bytes of a shape, and of the part of a line that a fragment shows."""
_LINES_ABOVE: Final = 3
"""Lines above a statement that are kept with it."""
_LINES_BELOW: Final = 4
"""Lines below a statement that are kept with it, where its message may continue."""
_FIRST_REGIONS: Final = 24
"""Number of statements of one level that are kept from the beginning of the payload."""
_LAST_REGIONS: Final = 24
"""Number of statements of one level that are kept from the end of the payload, where an outcome usually stands."""
_RARE: Final = 32
"""Maximum lines that are kept because no other line resembles them."""
_ODD: Final = 256
"""Maximum lines that are remembered because no line before resembles them. If a block has more, none of them is
remembered."""
_WRONG: Final = 2
"""The level of a possible failure. Within one line, certain failures (level 1) rank no higher: the first failure of a
line tells most."""
_NOTHING: Final = 9
"""A number above all levels, for text that states nothing."""
_MATCHES: Final = 2_000
"""Maximum lines of one block that are classified."""


class Region(Struct, frozen=True, array_like=True):
    """Consecutive bytes of a payload, with their position: whole lines, or a part of one line."""

    start: int
    """Offset of the first byte in the payload."""
    line: int
    """Number of the first byte's line, from 1."""
    data: bytes
    begins: bool = True
    """Whether the first byte begins a line."""
    ends: bool = True
    """Whether a line ends after the last byte."""


class Survey(Struct, frozen=True, array_like=True):
    """The result of a survey."""

    fragments: tuple[Region, ...] = ()
    """The parts of the payload with its most important statements: disjoint, in order."""
    facts: tuple[str, ...] = ()
    """Facts about all records of the payload, or about all files of a diff."""
    counts: tuple[tuple[bytes, int], ...] = ()
    """The commonest shapes, with the number of lines of each."""
    retired: msgspec.Raw | None = None
    """Unused. Earlier releases stored a value in this place."""
    has_values: bool = False
    """Whether the facts contain values of records."""
    path: str | None = None
    """A JSONPath to the records that a reader most likely wants next; None: there is none."""


def pack_survey(survey: Survey) -> bytes:
    """Returns a survey in its stored form."""
    return msgspec.msgpack.encode(survey)


def survey_of(payload: bytes, sample_bytes: int, fields: LineFields | None = None) -> Survey | None:
    """Returns the survey of a payload in memory; None if the payload has at most `sample_bytes`, and so needs none."""
    if len(payload) <= sample_bytes:
        return None
    surveyor = Surveyor(fields)
    surveyor.feed(payload)
    return surveyor.finish()


def unpack_survey(data: bytes) -> Survey:
    """Returns the survey that `pack_survey` packed.

    Raises:
        msgspec.MsgspecError: the bytes are no packed survey.
    """
    return msgspec.msgpack.decode(data, type=Survey)


@final
class Surveyor:
    """Surveys a streamed text: call `feed` with its bytes, then `finish`."""

    def __init__(self, fields: LineFields | None = None) -> None:
        self._fields = fields
        self._carry = b""
        self._offset = 0
        self._line = 1
        self._inside = False
        """Whether the block begins inside a line."""
        self._data = b""
        self._known: Counter[bytes] = Counter()
        self._drop = DIGITS
        self._flooded = False
        self._totals: DiffTotals | RecordStream | None = None
        self._line_fields: LineFieldCounter | None = None
        self._stated: dict[int, list[Region]] = {1: [], 2: [], 3: []}
        self._odd: list[tuple[bytes, Region]] = []
        """Lines that no other line has resembled so far: the shape of each, and the region around it."""
        self._starts: list[int] = []
        """Offsets in the block at which its lines begin, and at which a further line would begin; computed on
        demand."""

    def feed(self, data: bytes) -> None:
        """Processes the next bytes of the payload. How the bytes are split between calls makes no difference."""
        data = self._carry + data
        at = 0
        while len(data) - at >= _BLOCK:
            end = data.rfind(b"\n", at, at + _BLOCK) + 1 or at + _BLOCK
            self._look(data[at:end])
            at = end
        self._carry = data[at:]

    def finish(self) -> Survey:
        """Returns the survey, once all bytes have been fed."""
        if self._carry:
            self._look(self._carry)
            self._carry = b""
        records = self._totals.collect_facts() if isinstance(self._totals, RecordStream) else None
        facts = list(self._totals.facts()) if isinstance(self._totals, DiffTotals) else []
        facts = (
            facts or (records.facts if records else []) or (line_facts(self._line_fields) if self._line_fields else [])
        )
        regions = list(chain.from_iterable(self._stated.values()))
        # Where most lines are alike, a line that resembles no other is worth showing.
        if len(self._known) * 20 <= self._known.total():
            regions += [region for shape, region in self._odd if self._known[shape] == 1][:_RARE]
        return Survey(
            fragments=_merge_regions(regions),
            facts=tuple(facts),
            has_values=records is not None and bool(records.facts),
            path=records.path if records else None,
            counts=tuple(sorted(each for each in self._known.most_common(64) if b"\n" not in each[0])),
        )

    def _look(self, data: bytes) -> None:
        if not self._offset:
            self._totals = totals_of(data) or RecordStream()
        if self._totals is not None:
            self._totals.feed(data)
        self._data, self._starts = data, []
        visible_bytes = visible(read_lines(self._fields, data, begins=not self._inside))
        self._line_fields = self._line_fields or LineFieldCounter(visible_bytes)
        self._line_fields.feed(visible_bytes)
        ends_line = data.endswith(b"\n")
        if not self._flooded:
            self._count_shapes(visible_bytes[:-1] if ends_line else visible_bytes)
        if self._flooded:
            lines = visible_bytes.split(b"\n")
            self._statements(lines, range(len(lines)))
        self._offset += len(data)
        self._inside = not ends_line
        self._line += int(np.count_nonzero(np.frombuffer(data, np.uint8) == ord("\n")))

    def _count_shapes(self, visible_bytes: bytes) -> None:
        """Counts the shapes of a block, and examines the lines with new shapes."""
        shapes = shapes_of(visible_bytes, self._drop)
        distinct = {*shapes}
        if len(max(distinct, key=len)) > _LINE_BYTES:
            shapes = [_short(shape) for shape in shapes]
            distinct = {*shapes}
        fresh = distinct - self._known.keys()
        self._known.update(shapes)
        if len(self._known) > _SHAPES:
            self._coarsen()
        if not fresh or self._flooded:
            return
        first = dict(zip(reversed(shapes), range(len(shapes) - 1, -1, -1), strict=True))
        numbers = sorted(first[shape] for shape in fresh)
        lines = visible_bytes.split(b"\n")
        single = [number for number in numbers if self._known[shapes[number]] == 1 and lines[number].strip()]
        if len(single) <= _ODD:  # later lines may still resemble them, which is checked at the end
            self._odd += [(shapes[number], self._region(number)) for number in single]
            self._odd = [each for each in self._odd if self._known[each[0]] == 1][-_ODD:]
        self._statements([stating(lines[number]) for number in numbers], numbers)

    def _coarsen(self) -> None:
        """Makes shapes coarser by dropping hexadecimal digits; stops counting shapes if there are still too many."""
        if self._drop == DIGITS:
            self._drop = _HEXADECIMAL
            coarse_counts: Counter[bytes] = Counter()
            for shape, count in self._known.items():
                coarse_counts[shape.translate(None, _HEXADECIMAL)] += count
            self._known = coarse_counts
            self._odd = [(shape.translate(None, _HEXADECIMAL), region) for shape, region in self._odd]
        if len(self._known) > _SHAPES:
            self._flooded = True
            self._known.clear()
            self._odd.clear()

    def _statements(self, lines: list[bytes], numbers: Sequence[int]) -> None:
        """Keeps the regions of those lines that state something.

        Args:
            lines: some lines of the block.
            numbers: the numbers of these lines in the block.
        """
        rows_by_level: dict[int, list[int]] = {level: [] for level in self._stated}
        for row in speaking(b"\n".join(lines), _MATCHES):
            if level := level_of(lines[row]):
                rows_by_level[level].append(numbers[row])
        for level, rows in rows_by_level.items():
            regions = self._stated[level]
            del rows[max(0, _FIRST_REGIONS - len(regions)) : -_LAST_REGIONS]
            regions += [self._region(row) for row in rows]
            del regions[_FIRST_REGIONS:-_LAST_REGIONS]

    def _region(self, number: int) -> Region:
        data, starts = self._data, self._starts
        if not starts:
            ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1
            starts = self._starts = [0, *ends.tolist(), *(() if data.endswith(b"\n") else [len(data) + 1])]
        low, high = max(0, number - _LINES_ABOVE), min(len(starts) - 1, number + _LINES_BELOW + 1)
        if any(starts[line + 1] - starts[line] > _LINE_BYTES + 1 for line in range(low, high)):
            low, high = number, number + 1
        block = data[starts[low] : starts[high]]
        long = starts[low + 1] - starts[low] > _LINE_BYTES + 1
        at = _telling(block) if long and high - low == 1 else 0
        excerpt = block[at : at + _LINE_BYTES] if long else block
        begins = at == 0 and not (self._inside and low == 0)
        start = self._offset + starts[low] + at
        return Region(start, self._line + low, excerpt, begins=begins, ends=at + len(excerpt) == len(block))


def _short(shape: bytes) -> bytes:
    """Returns a shape of bounded length: a longer shape becomes its ends and a hash behind an LF, which no line has."""
    if len(shape) <= _LINE_BYTES:
        return shape
    return shape[: _LINE_BYTES // 2] + b"\n" + hash(shape).to_bytes(8, signed=True) + shape[-_LINE_BYTES // 2 - 1 :]


def _telling(line: bytes) -> int:
    r"""Returns the offset of the most important part of a long line, of at most _LINE_BYTES.

    That is the first part that states a failure; or else the first part that states anything; or else the line's last
    frame: the text behind its last carriage return.
    """
    first = frame_start(line)
    last = max(first, len(line) - SPEAKS)
    positions = [
        *range(first, min(len(line), first + SPEAKS), _LINE_BYTES // 2),
        *range(last, len(line), _LINE_BYTES // 2),
    ]
    levels = [(max(_WRONG, level_of(line[at : at + _LINE_BYTES]) or _NOTHING), at) for at in positions]
    return min(levels, default=(0, 0))[1]


def _merge_regions(regions: list[Region]) -> tuple[Region, ...]:
    """Returns regions in order, merging those that overlap or touch."""
    out: list[Region] = []
    for region in sorted(regions, key=lambda each: (each.start, -len(each.data))):
        last = out[-1] if out else None
        end = last.start + len(last.data) if last is not None else -1
        if last is None or region.start > end or not last.ends:
            if region.start >= end:
                out.append(region)
        elif region.start + len(region.data) > end:
            data = last.data + region.data[end - region.start :]
            out[-1] = Region(last.start, last.line, data, last.begins, region.ends)
    return tuple(out)
