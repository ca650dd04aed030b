"""Composes passages that answer a query: verbatim, inert, each under a line that gives its position.

The best passage comes first. The text is counted as a whole, and passages are chosen again until it is within its
budget, however wrong the estimates were. Every passage is an exact range of the document; if its text had to be changed
for display, the answer says so.
"""

import math
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import Final, Literal

from msgspec import Struct

from coatcheck.core.artifact import LineFields
from coatcheck.core.parts.blobs import hidden_parts
from coatcheck.core.parts.fields import first_time
from coatcheck.core.passages.choose import FILL, Chooser, UnitRun
from coatcheck.core.passages.rank import DocumentPart, RatedUnit
from coatcheck.core.passages.units import lead_line
from coatcheck.core.text.excerpt import fit_head
from coatcheck.core.text.visible_text import Hidden, hidden_ranges, in_order, show_parts
from coatcheck.core.tokens import Tokenizer
from coatcheck.core.views.clip import ClipBudget
from coatcheck.core.views.view import Section
from coatcheck.core.views.window import Extent, LineIndex, Window, decode, window
from coatcheck_client.contract.inert import MARK, inert, one_line

BRIEF_TOKENS: Final = 300
"""Budget in tokens below which every word counts, as in cards: ranges are then given in lines only."""
_SEAM_TOKENS: Final = 14
"""Approximate tokens of the line before a passage that gives its range in lines and bytes."""
_BRIEF_SEAM_TOKENS: Final = 8
"""Approximate tokens of the line before a passage that gives its range in lines only."""
_GAP_SEAM_TOKENS: Final = 4
"""Approximate tokens of a mark that says only that something is left out."""
_LEAD_CHARS: Final = 64
"""Maximum characters shown of a title, or of the line above a passage."""
_BLANKS: Final = b" \t\r\n"
_LINE_ENDS: Final = re.compile(rb"[ \t\r]*\n")
_COUNTED_TOKENS: Final = 1_500
"""Budget in tokens up to which every unit is counted; for a larger one, counts are estimated from the best units."""
_SAMPLE_UNITS: Final = 24
"""Number of best units from which the tokens of all units are estimated. Chosen, not measured."""
_MIN_PIECE_TOKENS: Final = 8
"""Minimum tokens of a piece of a unit that is worth showing."""
_YIELD_DIVISOR: Final = 16
"""If the chosen passages are too long, the room shrinks by at least its own size divided by this number."""


Layout = Literal["ranked", "ordered", "marked"]
"""How passages are arranged. `ranked`: best first, each under a line that gives its position. `ordered`: the same in
document order. `marked`: in document order, with marks wherever something is left out."""


class Passage(Struct, frozen=True):
    """A passage that is shown."""

    text: str
    exact: bool
    """Whether `text` has exactly the bytes of the document. False: control characters, tags or overwritten text were
    changed, fields of its lines are left out, or its bytes are not UTF-8."""
    window: Window
    """The exact range of `text` in the document."""
    score: float
    """How well the passage's best sentence or line answers the query: comparable only within one answer."""


class PassageText(Struct, frozen=True):
    """An answer's text, and its passages."""

    text: str
    tokens: int
    passages: list[Passage]


def compose(
    rated_units: list[RatedUnit],
    parts: list[DocumentPart],
    whole: Extent,
    budget: ClipBudget,
    tokenizer: Tokenizer,
    last: str,
    *,
    floor: float = FILL,
    grain: int = 0,
    sections: Sequence[Section] = (),
    layout: Layout = "ranked",
    fields: LineFields | None = None,
) -> PassageText:
    """Returns the best passages within the budget, if there are any, followed by the line `last`.

    Args:
        rated_units: the units of the parts, in order.
        parts: the bytes that contain the units.
        whole: the range of the document that was searched: it begins and ends with whole lines.
        budget: maximum tokens and characters of the text.
        tokenizer: counts tokens.
        last: the last line without its mark, or empty; left out if no passage fits otherwise.
        floor: share of the best score: units that score less are not shown for their own sake.
        grain: bytes of neighbouring units that are chosen together.
        sections: the document's sections, in order; a ranked passage names its section, or the line above that
            introduces it.
        layout: how the passages are arranged.
        fields: the fields of each line that are hidden; None: no fields are known.
    """
    composing = _Composing(rated_units, parts, whole, budget, tokenizer, sections, layout, fields)
    return composing.run(f"{MARK} {last}" if last else "", floor, grain)


@dataclass
class _Composing:
    rated_units: list[RatedUnit]
    parts: list[DocumentPart]
    whole: Extent
    budget: ClipBudget
    tokenizer: Tokenizer
    sections: Sequence[Section]
    layout: Layout
    line_fields: LineFields | None

    def __post_init__(self) -> None:
        self._line_indexes = [LineIndex(part.place, part.data) for part in self.parts]
        self._fields: list[list[Hidden]] = [
            hidden_parts(self.line_fields, part.data, begins=part.place.byte == self.whole.start) for part in self.parts
        ]
        self._hidden = [
            in_order([*((*span, b"") for span in hidden_ranges(part.data)), *hidden])
            for part, hidden in zip(self.parts, self._fields, strict=True)
        ]
        self._section_starts = [section.start for section in self.sections]
        self._brief = self.budget.tokens < BRIEF_TOKENS
        self._density = self._dense() if self.budget.tokens > _COUNTED_TOKENS else None

    def run(self, last: str, floor: float, grain: int) -> PassageText:
        seam = _GAP_SEAM_TOKENS if self.layout == "marked" else _BRIEF_SEAM_TOKENS if self._brief else _SEAM_TOKENS
        chooser = Chooser(self.rated_units, self._cost, seam, floor=floor, grain=grain)
        tokens = self.budget.tokens - (self.tokenizer.count(f"\n{last}") if last else 0)
        chars = self.budget.chars - len(last)
        # Costs of units are sums or estimates. The composed text is counted, and the room shrinks by the excess until
        # the text fits.
        while runs := chooser.choose(ClipBudget(tokens, chars)):
            runs = runs if self.layout == "ranked" else sorted(runs, key=lambda run: run.first)
            passage_text = self._render([self._passage(*self._edges(run)) for run in runs], last)
            over = passage_text.tokens - self.budget.tokens, len(passage_text.text) - self.budget.chars
            if max(over) <= 0:
                return passage_text
            tokens -= max(over[0], tokens // _YIELD_DIVISOR, 1) if over[0] > 0 else 0
            chars -= max(over[1], chars // _YIELD_DIVISOR, 1) if over[1] > 0 else 0
        return self._piece(last) or self._render([], last)

    def _dense(self) -> tuple[float, float]:
        """Returns how many tokens and characters a byte of the best units takes on average when shown."""
        best = nlargest(_SAMPLE_UNITS, self.rated_units, key=lambda unit: unit.score)
        text = "\n".join(self._render_range(unit.part, unit.start, unit.end) for unit in best)
        size = max(1, sum(unit.end - unit.start + 1 for unit in best))
        return self.tokenizer.count(text) / size, len(text) / size

    def _cost(self, unit: RatedUnit) -> tuple[int, int]:
        if self._density is not None:
            size = unit.end - unit.start
            return math.ceil(size * self._density[0]), math.ceil(size * self._density[1])
        text = self._render_range(unit.part, unit.start, unit.end)
        return self.tokenizer.count(text), len(text)

    def _bytes(self, part: int, start: int, end: int) -> bytes:
        at = self.parts[part].place.byte
        return self.parts[part].data[start - at : end - at]

    def _render_range(self, part: int, start: int, end: int) -> str:
        """Returns a range of a part as a model reads it: its visible text, made inert."""
        return inert(self._without(self._hidden[part], part, start, end))

    def _without(self, hidden: list[Hidden], part: int, start: int, end: int) -> str:
        return decode(show_parts(self._bytes(part, start, end), hidden, start - self.parts[part].place.byte))

    def _edges(self, run: UnitRun) -> tuple[int, int, int, float]:
        """Returns the part, start, end and score of a run, without the blanks around it."""
        units = self.rated_units[run.first : run.end]
        part, start, end = units[0].part, units[0].start, units[-1].end
        data = self._bytes(part, start, end)
        score = max(unit.score for unit in units)
        if not data.strip(_BLANKS):  # invisible text or a neighbour's score caused the choice
            return part, start, end, score
        blank = len(data) - len(data.lstrip(_BLANKS))
        return part, start + data.rfind(b"\n", 0, blank) + 1, start + len(data.rstrip(_BLANKS)), score

    def _passage(self, part: int, start: int, end: int, score: float) -> tuple[int, Passage]:
        data = self._bytes(part, start, end)
        text = self._render_range(part, start, end)
        line_index = self._line_indexes[part]
        return part, Passage(
            text=text,
            exact=text.encode("utf-8", "replace") == data,
            window=window(line_index.at(start), line_index.at(end), ends_line=data.endswith(b"\n")),
            score=round(score, 3),
        )

    def _render(self, part_passages: list[tuple[int, Passage]], last: str) -> PassageText:
        passages = [passage for _, passage in part_passages]
        if self.layout == "marked":
            lines = self._with_gaps(passages)
        else:
            lines = [
                line for part, each in part_passages for line in (self._seam(part, each), each.text.removesuffix("\n"))
            ]
        text = "\n".join([*lines, last] if last else lines)
        return PassageText(text, self.tokenizer.count(text), passages)

    def _with_gaps(self, passages: list[Passage]) -> list[str]:
        lines: list[str] = []
        at = self.whole.start
        for passage in passages:
            lines += [*self._gap(at, passage.window.bytes.start), passage.text.removesuffix("\n")]
            at = passage.window.bytes.end
        return [*lines, *self._gap(at, self.whole.end)] if passages else []

    def _gap(self, start: int, end: int) -> tuple[str, ...]:
        """Returns the mark for bytes left out between two positions; no mark if they are blank."""
        part = next((p for p in self.parts if p.place.byte <= start and end <= p.place.byte + len(p.data)), None)
        blank = start >= end or (part is not None and not self._bytes(self.parts.index(part), start, end).strip())
        return () if blank else (f"{MARK} …",)

    def _seam(self, part: int, passage: Passage) -> str:
        lines, where = passage.window.lines, passage.window.bytes
        span = f"line {lines.first}" if lines.first >= lines.last else f"lines {lines.first}-{lines.last}"
        # The times in hidden fields are given here, because the order of ranked passages does not tell them.
        if self.layout == "ranked" and self._fields[part]:
            time = first_time(self.line_fields, self._bytes(part, where.start, where.end))
            span += f", {time}" if time else ""
        if not self._whole_lines(part, where.start, where.end):
            note = "part" if lines.first >= lines.last else "ends cut"
            span += f", {note}" if self._brief else f", bytes {where.start}-{where.end}"
        without_fields = self._without(self._fields[part], part, where.start, where.end)
        if not self._brief and passage.text != without_fields:
            span += ", control characters or tags changed"
        if self.layout == "ranked" and not self._brief:
            span += self._section(where.start) or self._lead(part, where.start)
        return f"{MARK} {span}"

    def _section(self, at: int) -> str:
        """Returns the name and title of the innermost section at a position, after a comma; empty if there is none."""
        for nth in range(bisect_right(self._section_starts, at) - 1, -1, -1):
            section = self.sections[nth]
            if at < section.end:
                return f", section {section.name} {_clip_lead(section.title)}".rstrip()
        return ""

    def _lead(self, part: int, at: int) -> str:
        """Returns the number and text of the line above that introduces a passage; empty if there is none."""
        base = self.parts[part].place.byte
        data = self.parts[part].data
        begin = data.rfind(b"\n", 0, at - base) + 1
        lead = lead_line(data, begin, whole=base == self.whole.start)
        if lead is None:
            return ""
        text = self._render_range(part, base + lead[0], base + lead[1])
        return f", under line {self._line_indexes[part].at(base + lead[0]).newlines + 1}: {_clip_lead(text)}"

    def _whole_lines(self, part: int, start: int, end: int) -> bool:
        base, data = self.parts[part].place.byte, self.parts[part].data
        before = start == self.whole.start or (start > base and data.startswith(b"\n", start - base - 1))
        after = end == self.whole.end or _LINE_ENDS.match(data, end - base) is not None
        return before and after

    def _piece(self, last: str) -> PassageText | None:
        """Returns as much of the best unit as fits, from its first term on, and if necessary without `last`."""
        best = max(self.rated_units, key=lambda unit: (unit.score, -unit.start), default=None)
        if best is None or best.score <= 0:
            return None
        data = self._bytes(best.part, best.hit, best.end)
        # No whole unit fits: the best one is cut, from its first term on.
        for after in dict.fromkeys((last, "")):
            ask = self.budget.tokens - _SEAM_TOKENS - self.tokenizer.count(after)
            while ask >= _MIN_PIECE_TOKENS:
                piece, _ = fit_head(data, ask, self.tokenizer, lines=False)
                if piece:
                    passage_text = self._render(
                        [self._passage(best.part, best.hit, best.hit + len(piece), best.score)], after
                    )
                    if passage_text.tokens <= self.budget.tokens and len(passage_text.text) <= self.budget.chars:
                        return passage_text
                ask = ask * 3 // 4
        return None


def _clip_lead(text: str) -> str:
    text = one_line(text[: 4 * _LEAD_CHARS])
    return text if len(text) <= _LEAD_CHARS else f"{text[: _LEAD_CHARS - 1]}…"
