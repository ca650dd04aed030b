"""The lines above the excerpts: what the payload is, its statements about itself, its facts, as far as they fit.

Everything here that came from outside is inert and on one line; what is clipped is marked.
"""

import re
from collections.abc import Iterator
from typing import Final, final

from msgspec import Struct

from coatcheck.core.artifact import DeclaredMetadata, DetectedMetadata, Measure
from coatcheck.core.card import render
from coatcheck.core.text.excerpt import fit_text
from coatcheck.core.tokens import Tokenizer
from coatcheck.core.views.view import ViewMeasure
from coatcheck_client.contract.inert import one_line

_URL_KEPT: Final = 256
"""Budget in tokens from which a URL is never dropped, only clipped: some APIs fetch only URLs that they have seen."""
_NAME: Final = 120
"""Maximum characters of a tool's name, and of a call's ID."""
_FAILED: Final = "tool reported an error"
_SENTENCE: Final = re.compile(r"Description: |r\d+(?: |: | goes on: )")
"""Facts that are sentences rather than enumerations."""


class OwnLines(Struct):
    """The lines, and their cost."""

    lines: list[str]
    cost: int
    facts: tuple[str, ...] = ()

    def drop(self) -> bool:
        """Drops the last line; returns False if only the first is left."""
        if len(self.lines) < 2:  # noqa: PLR2004 - the first one stays
            return False
        line = self.lines.pop()
        self.facts = tuple(shown for shown in self.facts if shown != line)
        return True


@final
class OwnLinesBuilder:
    """Builds them for one card."""

    def __init__(
        self,
        declared: DeclaredMetadata,
        measure: Measure,
        facts: DetectedMetadata,
        budget: int,
        tokenizer: Tokenizer,
        view: ViewMeasure | None,
        *,
        text: bool,
    ) -> None:
        self._text = text
        self._declared = declared
        self._measure = measure
        self._facts = facts
        self._budget = budget
        self._brief = budget < render.BRIEF
        self._tokenizer = tokenizer
        self._view = view

    def first(self, artifact_id: str, *, smallest: bool = False, stored: bool = True) -> OwnLines:
        """Returns the one line that every card has."""
        kind = self._facts.kind.value
        size = "" if smallest or not self._text or not self._measure.size else render.size_of(self._measure, self._view)
        line = render.first_line(artifact_id, kind, size, brief=self._brief or smallest, stored=stored)
        return OwnLines([line], self._cost(line))

    def build(self, own: OwnLines, room: int, share: float) -> None:
        """Adds what fits into `room` tokens, in the card's order; facts get a `share` of what the names leave."""
        declared, facts, measure = self._declared, self._facts, self._measure
        limit = max(room // 3, min(room, 170)) if self._budget >= _URL_KEPT else room // 2
        last = [] if self._text else [render.bytes_line(measure, facts.media_type)]
        if declared.failed:
            last.append(_FAILED)
        if measure.dropped:
            last.append(render.dropped_line(measure))
        last += facts.comparison
        if facts.redacted:
            last.append(f"Redacted: {facts.redacted}")
        kept = [line for line in last if self._reserve(own, line, room)]
        title = declared.title or facts.title
        if title:
            self._labelled(own, "Title", title, limit, 0.4)
        if declared.url:
            self._labelled(own, "URL", declared.url, limit, 0.8)
        if facts.url and facts.url != declared.url:
            self._labelled(own, "Canonical" if declared.url else "URL", facts.url, limit, 0.8)
        if declared.tool_name and not self._brief:
            call_id = f" (call {_short(declared.tool_call_id)})" if declared.tool_call_id else ""
            self._labelled(own, "Tool", f"{_short(declared.tool_name)}{call_id}", limit, 0.4)
        if declared.command:
            self._labelled(own, "Command", declared.command, limit, 0.15)
        own.lines += kept
        self._facts_lines(own, room, share)

    def _reserve(self, own: OwnLines, line: str, room: int) -> bool:
        """Returns whether a line that is added later fits; its cost is counted now."""
        cost = self._cost(line)
        if own.cost + cost > room:
            return False
        own.cost += cost
        return True

    def _add(self, own: OwnLines, line: str, room: int) -> bool:
        if not self._reserve(own, line, room):
            return False
        own.lines.append(line)
        return True

    def _labelled(self, own: OwnLines, label: str, value: str, room: int, share: float) -> bool:
        """Adds a line of outside text, clipped to its share and marked if so. Returns whether it was added."""
        flat = one_line(value[:4_000])
        if self._add(own, f"{label}: {flat}", room):
            return True
        most = min(int(room * share), room - own.cost) - 4
        if most < 8:  # noqa: PLR2004 - fewer tokens say nothing
            return False
        return self._add(own, f"{label} (clipped): {fit_text(flat, most - 4, self._tokenizer)}", room)

    def _facts_lines(self, own: OwnLines, room: int, share: float) -> None:
        left = int((room - own.cost) * share)
        shown: list[str] = []
        for raw in self._facts.shape:
            line = one_line(raw)
            cost = self._cost(line)
            if cost > left:
                line = _clip_list(fit_text(line, left - 2, self._tokenizer)) if left > 12 else ""  # noqa: PLR2004
                if line:
                    shown.append(line)
                    own.cost += self._cost(line)
                break
            shown.append(line)
            left -= cost
            own.cost += cost
        own.lines += shown
        own.facts = tuple(shown)

    def _cost(self, line: str) -> int:
        return self._tokenizer.count(f"\n{line}")


def _short(name: str) -> str:
    """Returns a tool's or a call's name, shortened. It is made inert first: a cut must not hide a tag."""
    return one_line(name[: 4 * _NAME])[:_NAME]


def _clip_list(text: str) -> str:
    """Returns a clipped fact, back to its last whole item or, in a sentence, word; empty if there is none.

    Half a name is another name, and half a number another number.
    """
    if not text.endswith("…"):
        return text
    place = text.rfind(" ") if _SENTENCE.match(text) else max(_ends_of_items(text), default=0)
    label = text.find(": ")
    return f"{text[:place].rstrip()} …" if place > label + 1 else ""


def _ends_of_items(text: str) -> Iterator[int]:
    """Yields where items of an enumeration end; none ends inside quotation marks."""
    inside = False
    escaped = False
    for place, character in enumerate(text):
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = inside
        elif character == '"':
            inside = not inside
        elif character in ";," and not inside and text[place + 1 : place + 2] == " ":
            yield place + 1
