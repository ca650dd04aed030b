"""Passages that answer a query, as a model reads them: verbatim, made inert, under lines of ours that say where.

The text is counted whole and shrunk until it is within its budget, whatever the estimates were. Every window is an
exact range of the document; where its text had to be made inert it says so.
"""

import math
import re
from heapq import nlargest
from typing import Final

from msgspec import Struct

from coatcheck.core.clip import Budget
from coatcheck.core.text.excerpt import fit_head
from coatcheck.core.text.inert import MARK, inert
from coatcheck.core.tokens import Tokenizer
from coatcheck.core.window import Extent, Places, Window, decode, window
from coatcheck.core.windows.choose import Chooser, Run
from coatcheck.core.windows.rank import Part, Rated

BRIEF: Final = 300
"""Budget in tokens under which every word counts, as in cards: ranges by lines alone."""
_SEAM: Final = 14
_BRIEF_SEAM: Final = 8
_GAP_SEAM: Final = 4
"""About what the line before a window costs."""
_BLANKS: Final = b" \t\r\n"
_LINE_ENDS: Final = re.compile(rb"[ \t\r]*\n")
_COUNTED: Final = 1_500
"""Budget in tokens up to which every unit is counted; for a larger one the best tell of the others."""
_TELLING: Final = 24
"""Units that do."""
_LEAST: Final = 8
"""Tokens under which a piece of a unit is not worth showing."""


class Passage(Struct, frozen=True):
    """One window that is shown."""

    text: str
    exact: bool
    """False: control characters or tags were changed in `text`, or its bytes are not UTF-8."""
    window: Window
    """Exactly what `text` stands for."""
    score: float
    """How well its best sentence or line answers: comparable within one answer only."""


class Composed(Struct, frozen=True):
    """An answer's text and what it is made of."""

    text: str
    tokens: int
    passages: list[Passage]


def compose(
    rated: list[Rated],
    parts: list[Part],
    whole: Extent,
    budget: Budget,
    tokenizer: Tokenizer,
    last: str,
    *,
    places: bool = True,
) -> Composed:
    """The best passages within the budget, in document order, and the line `last` of ours after them, if any.

    Args:
        rated: the units of the parts, in order.
        parts: the bytes that they lie in.
        whole: the bytes of the document that were looked for passages: it begins and ends with lines.
        budget: tokens and characters of the text.
        tokenizer: what counts.
        last: without its mark; dropped where only that makes anything fit.
        places: whether a line above each passage says where it stands; otherwise there is a mark wherever something
            is left out.
    """
    return _Composing(rated, parts, whole, budget, tokenizer, places=places).run(f"{MARK} {last}" if last else "")


class _Composing:
    def __init__(
        self,
        rated: list[Rated],
        parts: list[Part],
        whole: Extent,
        budget: Budget,
        tokenizer: Tokenizer,
        *,
        places: bool,
    ) -> None:
        self._rated = rated
        self._parts = parts
        self._places = [Places(part.place, part.data) for part in parts]
        self._whole = whole
        self._budget = budget
        self._tokenizer = tokenizer
        self._brief = budget.tokens < BRIEF
        self._told = places
        self._density = self._dense() if budget.tokens > _COUNTED else None

    def run(self, last: str) -> Composed:
        budget = self._budget
        room = Budget(
            budget.tokens - self._tokenizer.count(f"\n{last}") if last else budget.tokens, budget.chars - len(last)
        )
        seam = _BRIEF_SEAM if self._brief else _SEAM
        chooser = Chooser(self._rated, self._cost, room, seam if self._told else _GAP_SEAM)
        runs = chooser.choose()
        while runs:
            made = self._render([self._passage(*self._edges(run)) for run in runs], last)
            over = made.tokens - budget.tokens, len(made.text) - budget.chars
            if max(over) <= 0:
                return made
            runs = chooser.less(*over)
        return self._piece(last) or self._render([], last)

    def _dense(self) -> tuple[float, float]:
        """Tokens and characters that a byte of the best units is shown as."""
        best = nlargest(_TELLING, self._rated, key=lambda unit: unit.score)
        data = b"\n".join(self._bytes(unit.part, unit.start, unit.end) for unit in best)
        text = _shown(data)
        size = max(1, len(data))
        return self._tokenizer.count(text) / size, len(text) / size

    def _cost(self, unit: Rated) -> tuple[int, int]:
        if self._density is not None:
            size = unit.end - unit.start
            return math.ceil(size * self._density[0]), math.ceil(size * self._density[1])
        text = _shown(self._bytes(unit.part, unit.start, unit.end))
        return self._tokenizer.count(text), len(text)

    def _bytes(self, part: int, start: int, end: int) -> bytes:
        at = self._parts[part].place.byte
        return self._parts[part].data[start - at : end - at]

    def _edges(self, run: Run) -> tuple[int, int, int, float]:
        """Part, start and end of a run without the blanks around it, and its score."""
        units = self._rated[run.first : run.end]
        part, start, end = units[0].part, units[0].start, units[-1].end
        data = self._bytes(part, start, end)
        score = max(unit.score for unit in units)
        if not data.strip(_BLANKS):  # only `inert` text or a neighbour's score can have chosen them
            return part, start, end, score
        blank = len(data) - len(data.lstrip(_BLANKS))
        return part, start + data.rfind(b"\n", 0, blank) + 1, start + len(data.rstrip(_BLANKS)), score

    def _passage(self, part: int, start: int, end: int, score: float) -> Passage:
        data = self._bytes(part, start, end)
        text = _shown(data)
        return Passage(
            text=text,
            exact=text.encode("utf-8", "replace") == data,
            window=window(
                self._places[part].at(start), self._places[part].at(start + len(data)), ends_line=data.endswith(b"\n")
            ),
            score=round(score, 3),
        )

    def _render(self, passages: list[Passage], last: str) -> Composed:
        lines = self._with_places(passages) if self._told else self._with_gaps(passages)
        text = "\n".join([*lines, last] if last else lines)
        return Composed(text, self._tokenizer.count(text), passages)

    def _with_places(self, passages: list[Passage]) -> list[str]:
        return [line for passage in passages for line in (self._seam(passage), passage.text.removesuffix("\n"))]

    def _with_gaps(self, passages: list[Passage]) -> list[str]:
        lines: list[str] = []
        at = self._whole.start
        for passage in passages:
            lines += [*self._gap(at, passage.window.bytes.start), passage.text.removesuffix("\n")]
            at = passage.window.bytes.end
        return [*lines, *self._gap(at, self._whole.end)] if passages else []

    def _gap(self, start: int, end: int) -> tuple[str, ...]:
        """The mark of what is left out between two places, if that is anything but blanks."""
        held = next((p for p in self._parts if p.place.byte <= start and end <= p.place.byte + len(p.data)), None)
        blank = start >= end or (held is not None and not self._bytes(self._parts.index(held), start, end).strip())
        return () if blank else (f"{MARK} …",)

    def _seam(self, passage: Passage) -> str:
        lines, where = passage.window.lines, passage.window.bytes
        span = f"line {lines.first}" if lines.first >= lines.last else f"lines {lines.first}-{lines.last}"
        if not self._whole_lines(where.start, where.end):
            part = "part" if lines.first >= lines.last else "ends cut"
            span += f", {part}" if self._brief else f", bytes {where.start}-{where.end}"
        if not (passage.exact or self._brief):
            span += ", control characters or tags changed"
        return f"{MARK} {span}"

    def _whole_lines(self, start: int, end: int) -> bool:
        part = next(p for p in self._parts if p.place.byte <= start < p.place.byte + len(p.data))
        at = part.place.byte
        before = start == self._whole.start or (start > at and part.data.startswith(b"\n", start - at - 1))
        after = end == self._whole.end or _LINE_ENDS.match(part.data, end - at) is not None
        return before and after

    def _piece(self, last: str) -> Composed | None:
        """As much of the best unit as fits, from its first term on; without the last line if need be."""
        best = max(self._rated, key=lambda unit: (unit.score, -unit.start), default=None)
        if best is None or best.score <= 0:
            return None
        data = self._bytes(best.part, best.hit, best.end)
        for after in dict.fromkeys((last, "")):
            ask = self._budget.tokens - _SEAM - self._tokenizer.count(after)
            while ask >= _LEAST:
                piece, _ = fit_head(data, ask, self._tokenizer, lines=False)
                if piece:
                    made = self._render([self._passage(best.part, best.hit, best.hit + len(piece), best.score)], after)
                    if made.tokens <= self._budget.tokens and len(made.text) <= self._budget.chars:
                        return made
                ask = ask * 3 // 4
        return None


def _shown(data: bytes) -> str:
    return inert(decode(data))
