"""The lines above the excerpts: what the payload is, what it says of itself, its shape. Each only as far as it fits.

Everything here that came from outside is inert and on one line; what is clipped says so.
"""

from typing import Final, final

from msgspec import Struct

from coatcheck.core.artifact import Facts, Measure, Said
from coatcheck.core.card import render
from coatcheck.core.card.model import Excerpt
from coatcheck.core.card.text import Text
from coatcheck.core.kinds.cutter import Plan
from coatcheck.core.text.excerpt import fit_text
from coatcheck.core.text.inert import one_line
from coatcheck.core.tokens import Tokenizer

_URL_KEPT: Final = 256
"""Budget in tokens from which a URL is never dropped, only clipped: some APIs fetch none that they have not seen."""
_OUTLINED: Final = 11
"""How many times the budget a text must be for its outline to get the outline's whole share."""
_MOST: Final = 0.5
_TOO_LITTLE: Final = 48
"""Tokens under which an excerpt beside a shape that tells most says nothing: the shape gets them too."""
_NAME: Final = 120
"""Characters of a tool's name, and of a call's ID."""
_HINTED: Final = 24
"""Tokens that hints are worth keeping for."""
_FAILED: Final = "tool reported an error"
_HINT_DENSITY: Final = 4
"""Characters of a path or URL to a token, about: the line is counted exactly as a whole."""


class Fixed(Struct):
    """The lines above the excerpts, as far as they fit, and what they cost."""

    lines: list[str]
    cost: int
    names: int = 1
    """How many of the lines say what the payload is called; sizes and what it says of itself come after them."""
    sizes: int = 0
    failed: bool = False
    """One more line, after the sizes, says that the tool failed."""
    shape: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()

    def drop(self) -> bool:
        """Give up the last line. False when only the first is left."""
        if len(self.lines) < 2:  # noqa: PLR2004 - the first one stays
            return False
        line = self.lines.pop()
        self.shape = tuple(shown for shown in self.shape if shown != line)
        if line.startswith("Places: "):
            self.hints = ()
        return True


@final
class FixedLines:
    """Builds them for one card."""

    def __init__(
        self,
        said: Said,
        measure: Measure,
        facts: Facts,
        plan: Plan,
        budget: int,
        tokenizer: Tokenizer,
        view: Text | None = None,
    ) -> None:
        self._view = None if view is None else view.measure
        self._said = said
        self._measure = measure
        self._facts = facts
        self._plan = plan
        self._budget = budget
        self._tokenizer = tokenizer

    def first(self, artifact_id: str, *, room: int, excerpts: bool, stored: bool) -> Fixed:
        """The one line that every card has."""
        line = render.first_line(artifact_id, self._facts.kind.value, room=room, excerpts=excerpts, stored=stored)
        return Fixed([line], self._cost(line))

    def build(self, fixed: Fixed, room: int, *, text: bool) -> Fixed:
        """Add what fits into `room` tokens, in the order of the card."""
        said, facts, measure = self._said, self._facts, self._measure
        brief = self._budget < render.BRIEF
        size = render.size_line(measure, text=text, media_type=facts.media_type, brief=brief, view=self._view)
        if said.failed:  # before all else, so that it fits
            fixed.failed = self._add(fixed, _FAILED, room)
        fixed.sizes += self._add(fixed, size, room, 1)
        limit = max(room // 3, min(room, 170)) if self._budget >= _URL_KEPT else room // 2
        if said.url:
            self._named(fixed, "URL", said.url, limit, 0.8)
        if facts.url and facts.url != said.url:
            self._named(fixed, "Canonical" if said.url else "URL", facts.url, limit, 0.8)
        title = said.title or facts.title
        if title:
            self._named(fixed, "Title", title, limit, 0.4, at=1)
        if said.tool_name:
            call_id = f" (call {_short(said.tool_call_id)})" if said.tool_call_id else ""
            self._named(fixed, "Tool", f"{_short(said.tool_name)}{call_id}", limit, 0.4)
        if measure.dropped:
            fixed.sizes += self._add(fixed, render.dropped_line(measure), room)
        if facts.redacted:
            fixed.sizes += self._add(fixed, f"Redacted: {facts.redacted}", room)
        self._shape(fixed, room)
        return fixed

    def kept(self, room: int) -> int:
        """Of `room` tokens, how many are kept for hints that the excerpts may turn out not to show."""
        kept = int(room * self._plan.hints)
        return kept if kept >= _HINTED and self._facts.hints else 0

    def add_hints(self, fixed: Fixed, excerpts: list[Excerpt], kept: int) -> bool:
        """Add those paths and URLs that no excerpt shows, as many as `kept` tokens hold. Whether any was."""
        left = kept - 4
        chosen: list[str] = []
        for hint in map(one_line, self._facts.hints):
            if left <= 0 or any(hint in excerpt.text for excerpt in excerpts):
                continue
            left -= len(hint) // _HINT_DENSITY + 2
            if left >= 0:
                chosen.append(hint)
        if not chosen or not self._add(fixed, f"Places: {', '.join(chosen)}", fixed.cost + kept):
            return False
        fixed.hints = tuple(chosen)
        return True

    def add_markers(self, fixed: Fixed, excerpts: list[Excerpt], room: int) -> bool:
        """Add what the payload says of itself where the excerpts do not show it anyway. Whether anything was."""
        values = dict.fromkeys(one_line(marker.value) for marker in self._facts.markers)
        missing = [value for value in values if not any(value in excerpt.text for excerpt in excerpts)]
        if not missing:
            return False
        before = fixed.cost
        at = fixed.names + fixed.sizes + fixed.failed
        self._labelled(fixed, "It says", " | ".join(missing), min(room, fixed.cost + room // 3), 0.3, at=at)
        return fixed.cost > before

    def _add(self, fixed: Fixed, line: str, room: int, at: int | None = None) -> bool:
        cost = self._cost(line)
        if fixed.cost + cost > room:
            return False
        fixed.lines.insert(len(fixed.lines) if at is None else at, line)
        fixed.cost += cost
        return True

    def _named(self, fixed: Fixed, label: str, value: str, room: int, share: float, at: int | None = None) -> None:
        """A line about what the payload is called, before its sizes."""
        fixed.names += self._labelled(fixed, label, value, room, share, at=at or fixed.names)

    def _labelled(self, fixed: Fixed, label: str, value: str, room: int, share: float, at: int) -> bool:
        """A line of outside words, clipped to its share and marked when it was. Whether it was added."""
        flat = one_line(value[:4_000])
        if self._add(fixed, f"{label}: {flat}", room, at):
            return True
        most = min(int(room * share), room - fixed.cost) - 4
        if most < 8:  # noqa: PLR2004 - fewer tokens say nothing
            return False
        return self._add(fixed, f"{label} (clipped): {fit_text(flat, most - 4, self._tokenizer)}", room, at)

    def _shape(self, fixed: Fixed, room: int) -> None:
        share = self._plan.shape
        if self._plan.outline:
            share *= min(1.0, self._measure.tokens.count / (_OUTLINED * self._budget))
        left = int((room - fixed.cost) * share)
        if self._plan.ends and share > _MOST and room - fixed.cost - left < _TOO_LITTLE:
            left = room - fixed.cost
        lines: list[str] = []
        for raw in self._facts.shape:
            line = one_line(raw)
            cost = self._cost(line)
            if cost > left:
                line = _clip_list(fit_text(line, left - 2, self._tokenizer)) if left > 12 else ""  # noqa: PLR2004
                if line:
                    lines.append(line)
                    fixed.cost += self._cost(line)
                break
            lines.append(line)
            left -= cost
            fixed.cost += cost
        fixed.lines += lines
        fixed.shape = tuple(lines)

    def _cost(self, line: str) -> int:
        return self._tokenizer.count(f"\n{line}")


def _short(name: str) -> str:
    """A name of a tool or a call, as far as a reader needs it. Inert before it is cut: a cut must not hide a tag."""
    return one_line(name[: 4 * _NAME])[:_NAME]


def _clip_list(text: str) -> str:
    """A clipped enumeration, back to its last whole item."""
    if not text.endswith("…"):
        return text
    place = text.rfind(" ")
    return f"{text[:place].rstrip()} …" if place > 0 else text
