"""The survey of a payload that is too large to be held: what its every byte says, kept in a few kilobytes.

Fed with blocks while the payload streams in. Bulk operations that run in C do the work: lines are told apart by their
shape, which is the line without its digits, and only a shape that was not met before is looked at by itself. Memory is
bounded for every content, and so is the result. Pure: the same bytes give the same survey however they are split.
"""

from collections import Counter
from itertools import accumulate
from typing import Final, final

import msgspec
from msgspec import Struct

from coatcheck.core.survey.lexicon import BENIGN, SPEAKS, STRONG, SURE, VERDICT, classify, shapes_of, speaking
from coatcheck.core.survey.members import Member, Members
from coatcheck.core.survey.region import Region
from coatcheck.core.survey.tallies import Tallies
from coatcheck.core.text.seen import frame_start
from coatcheck.core.text.terminal import visible

_BLOCK: Final = 512 * 1024
"""Bytes that are looked at together; blocks end with a line."""
_DIGITS: Final = b"0123456789"
_HEXADECIMAL: Final = b"0123456789abcdefABCDEF"
_SHAPES: Final = 20_000
"""Different shapes that are counted. A text with more is told apart more coarsely, then not at all."""
_LONGEST: Final = 400
"""Bytes of a line that tell its shape, and that a fragment shows."""
_BEFORE: Final = 3
_AFTER: Final = 4
"""Lines above and below a statement that are kept with it."""
_FIRST: Final = 24
_LAST: Final = 24
"""Statements of one class that are kept: the first shapes and the last ones."""
_RARE: Final = 32
"""Lines that are like no other and are kept."""
_ODD: Final = 256
"""Such lines that are remembered; a block with more has no odd ones."""
_NOTHING: Final = 9
"""Worse than every level."""
_MATCHES: Final = 2_000
"""Lines of one block that are classified."""


class Survey(Struct, frozen=True, array_like=True):
    """What is kept."""

    fragments: tuple[Region, ...] = ()
    """Parts of the payload that hold what matters, in order; none overlaps another."""
    facts: tuple[str, ...] = ()
    """Tallies over the whole payload."""
    counts: tuple[tuple[bytes, int], ...] = ()
    """The commonest shapes, with how many lines have them."""
    members: tuple[Member, ...] = ()
    """Of a payload that is one JSON object."""


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Survey).decode


def pack_survey(survey: Survey) -> bytes:
    """Returns a survey as it is stored."""
    return _encode(survey)


def survey_of(payload: bytes, held: int) -> Survey | None:
    """Returns the survey of a payload in memory; None where it is no longer than the `held` bytes that need none."""
    if len(payload) <= held:
        return None
    surveyor = Surveyor()
    surveyor.feed(payload)
    return surveyor.finish()


def unpack_survey(packed: bytes) -> Survey:
    """Returns what `pack_survey` packed.

    Raises:
        msgspec.MsgspecError: for bytes that it did not make.
    """
    return _decode(packed)


class _Seen(Struct):
    """A line that may be kept: where it is, and the lines around it."""

    region: Region
    shape: bytes


@final
class Surveyor:
    """Surveys a text that streams past: `feed` its bytes, then `finish`."""

    def __init__(self) -> None:
        self._carry = b""
        self._offset = 0
        self._line = 1
        self._inside = False
        """Whether the block begins inside a line."""
        self._data = b""
        self._known: Counter[bytes] = Counter()
        self._drop = _DIGITS
        self._flooded = False
        self._tallies = Tallies()
        self._members = Members()
        self._first: dict[int, list[_Seen]] = {1: [], 2: [], 3: []}
        self._last: dict[int, list[_Seen]] = {1: [], 2: [], 3: []}
        self._odd: list[_Seen] = []
        self._starts: list[int] = []
        """Where the lines of the block begin, once somebody asked."""

    def feed(self, data: bytes) -> None:
        """Looks at the next bytes of the payload, in blocks of its own: how they arrive makes no difference."""
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
        kept: list[_Seen] = []
        for level in self._first:
            kept += self._first[level] + self._last[level]
        kept += [each for each in self._odd if self._known[each.shape] == 1][:_RARE] if self._oddness() else []
        return Survey(
            fragments=_merged([each.region for each in kept]),
            facts=self._tallies.facts(),
            counts=tuple(sorted(each for each in self._known.most_common(64) if len(each[0]) <= _LONGEST)),
            members=self._members.found(),
        )

    def _oddness(self) -> bool:
        """Whether a line that is like no other says anything: where nearly all lines are like others."""
        return not self._flooded and len(self._known) * 20 <= self._known.total()

    def _look(self, data: bytes) -> None:
        self._members.feed(data)
        raw = data.split(b"\n")
        seen = visible(data)
        self._tallies.feed(seen)
        if not raw[-1]:
            raw.pop()
        total = len(raw)
        self._data = data
        if not self._flooded:
            shapes = shapes_of(seen, self._drop)[:total]
            fresh = self._fresh(shapes, total)
        else:
            shapes, fresh = [], []
        self._statements(raw, seen, shapes, fresh)
        self._starts = []
        self._offset += len(data)
        self._inside = not data.endswith(b"\n")
        self._line += total - self._inside

    def _fresh(self, shapes: list[bytes], total: int) -> list[int]:
        """Counts the shapes of a block; the numbers of the lines whose shape is new."""
        first = dict(zip(reversed(shapes), range(total - 1, -1, -1), strict=True))
        new = sorted(first[shape] for shape in first.keys() - self._known.keys())
        self._known.update(shapes)
        if len(self._known) > _SHAPES:
            self._coarsen()
        return new

    def _coarsen(self) -> None:
        """Tells shapes apart without hexadecimal digits, or gives up where even that leaves too many."""
        if self._drop == _DIGITS:
            self._drop = _HEXADECIMAL
            folded: Counter[bytes] = Counter()
            for shape, count in self._known.items():
                folded[shape.translate(None, _HEXADECIMAL)] += count
            self._known = folded
            for each in self._odd:
                each.shape = each.shape.translate(None, _HEXADECIMAL)
        if len(self._known) > _SHAPES:
            self._flooded = True
            self._known.clear()
            self._odd.clear()

    def _statements(self, raw: list[bytes], seen: bytes, shapes: list[bytes], fresh: list[int]) -> None:
        shown = seen.split(b"\n")
        if self._flooded or not shapes:
            block, numbers = seen, None
        else:
            block, numbers = b"\n".join([shown[number] for number in fresh]), fresh
            self._keep_odd(raw, shown, shapes, fresh)
        row = at = 0
        for count, (start, _) in enumerate(speaking(block)):
            if count >= _MATCHES:
                break
            row += block.count(b"\n", at, start)
            at = start
            number = row if numbers is None else numbers[row]
            level = _level(classify(shown[number]))
            if level:
                self._keep(level, _Seen(self._region(raw, number), shapes[number] if shapes else b""))

    def _keep(self, level: int, seen: _Seen) -> None:
        if len(self._first[level]) < _FIRST:
            self._first[level].append(seen)
            return
        last = self._last[level]
        last.append(seen)
        if len(last) > _LAST:
            del last[0]

    def _keep_odd(self, raw: list[bytes], shown: list[bytes], shapes: list[bytes], fresh: list[int]) -> None:
        """Remembers lines of new shapes, while they are few: whether they stay alone is known at the end."""
        single = [number for number in fresh if self._known[shapes[number]] == 1 and shown[number].strip()]
        if len(single) <= _ODD:
            self._odd += [_Seen(self._region(raw, number), shapes[number]) for number in single]
            self._odd = [each for each in self._odd if self._known[each.shape] == 1][-_ODD:]

    def _region(self, raw: list[bytes], number: int) -> Region:
        low, high = max(0, number - _BEFORE), min(len(raw), number + _AFTER + 1)
        if any(len(line) > _LONGEST for line in raw[low:high]):
            low, high = number, number + 1
        if not self._starts:
            self._starts = list(accumulate([len(each) + 1 for each in raw], initial=self._offset))
        start, end = self._starts[low], min(self._starts[high], self._offset + len(self._data))
        data = self._data[start - self._offset : end - self._offset]
        at = _telling(data) if high - low == 1 and len(raw[low]) > _LONGEST else 0
        shown = data[at : at + _LONGEST] if at or len(raw[low]) > _LONGEST else data
        begins = at == 0 and not (self._inside and low == 0)
        return Region(start + at, self._line + low, shown, begins=begins, ends=at + len(shown) == len(data))


def _telling(line: bytes) -> int:
    r"""Returns where the part of a long line begins that states most; where none states anything, its last frame."""
    first = frame_start(line)
    last = max(first, len(line) - SPEAKS)
    places = [*range(first, min(len(line), first + SPEAKS), _LONGEST // 2), *range(last, len(line), _LONGEST // 2)]
    levels = [(_level(classify(line[at : at + _LONGEST])) or _NOTHING, at) for at in places]
    return min(levels, default=(0, 0))[1]


def _level(flags: int) -> int:
    """1 for a sure failure, 2 for something that went wrong, 3 for a verdict; 0 for what is not kept."""
    if flags & BENIGN and not flags & SURE:
        return 0
    if flags & SURE:
        return 1
    return 2 if flags & STRONG else 3 if flags & VERDICT else 0


def _merged(regions: list[Region]) -> tuple[Region, ...]:
    """Regions in order, those that overlap or touch as one."""
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
