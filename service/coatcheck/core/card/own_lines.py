"""The lines above the excerpts, as far as they fit: names of the payload, its own statements, and facts about it.

All text from outside is made inert and put on one line; a shortened text is marked.
"""

import re
from itertools import pairwise
from typing import Final, final

from coatcheck.core.artifact import DeclaredMetadata
from coatcheck.core.card import render
from coatcheck.core.card.model import CardInput
from coatcheck.core.card.text import CardSource
from coatcheck.core.kinds.description import clip_line
from coatcheck.core.metadata_bounds import is_redirected
from coatcheck.core.passages.terms import terms_of
from coatcheck.core.records.describe import shows_records
from coatcheck.core.text.excerpt import fit_text
from coatcheck_client.contract.inert import one_line

_URL_KEPT: Final = 256
"""Budget in tokens from which a URL is never dropped, only shortened: some APIs fetch only URLs that they have seen."""
_ASKED: Final = 32
"""Tokens that facts get at least beside excerpts that answer a query; a third of the facts' share if that is more."""
_NAME: Final = 120
"""Maximum characters of a tool's name, and of a call's ID."""
_VALUE: Final = 4_000
"""Maximum characters of a title, a URL or a command."""
_HEADINGS: Final = 0.12
"""Share that the headings of a text view get of the tokens that names and facts leave."""
_DENSEST: Final = 8
"""Maximum bytes per token of an opening, and characters per token of headings."""
_PAGE_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
"""Usual content types of a page, which are not mentioned."""
_SENTENCE: Final = re.compile(r"Description: |r\d+(?: |: | goes on: )")
"""Matches the beginning of a fact that is a sentence rather than an enumeration."""
_COUNTS: Final = re.compile(r"\d+ [^'\"]+")
"""Matches the label in front of the counts of records, such as `120 records`."""
_ITEMS: Final = 3
"""Maximum fields that are sorted even if more than half of them have a word of the query. In a longer list, such words
single out nothing."""
_ITEM: Final = re.compile(r'"(?:\\.|[^"\\])*"?|[,;](?= )')
"""Matches the end of an item of an enumeration, or a whole quotation, because commas in it end no item."""


@final
class OwnLines:
    """The lines of one card, with their cost in tokens. The first line is there from the start."""

    def __init__(self, inputs: CardInput, *, smallest: bool = False) -> None:
        self._inputs = inputs
        self.lines = [render.first_line(inputs, sized=inputs.readable and inputs.measure.size > 0 and not smallest)]
        self.cost = self._cost(self.lines[0])
        self.facts: tuple[str, ...] = ()

    def drop(self) -> bool:
        """Drops the last line; returns False if only the first line is left."""
        if len(self.lines) < 2:  # noqa: PLR2004 - the first one stays
            return False
        line = self.lines.pop()
        self.facts = tuple(fact for fact in self.facts if fact != line)
        return True

    def fill(self, room: int, share: float) -> None:
        """Adds the lines that fit into `room` tokens, in the card's order; facts get up to a `share` of the rest.

        The rest is what names and other lines leave of the room.
        """
        inputs, declared, facts = self._inputs, self._inputs.declared, self._inputs.facts
        # The lines without which a card would mislead come first: that this is not the page, that the tool failed, that
        # bytes are missing. Their tokens are reserved before names get any.
        fetch = facts.fetch_of(declared)
        status = render.status_line(fetch)
        if status and self._reserve(status, room):
            self.lines.append(status)
        limit = max(room // 3, min(room, 170)) if inputs.budget >= _URL_KEPT else room // 2
        last = (
            "" if inputs.readable else render.bytes_line(inputs.measure, facts.media_type),
            "tool reported an error" if declared.failed else "",
            render.render_dropped_line(inputs.measure) if inputs.measure.dropped else "",
            *facts.comparison,
            f"Redacted: {facts.redacted}" if facts.redacted else "",
        )
        # Names, each shortened to its share, so that a long title cannot take the room of the URL below it.
        final_url = fetch.final_url if is_redirected(fetch) or not fetch.url else None
        own_type = (fetch.content_type or "").partition(";")[0].strip().lower()
        content_type = None if own_type in {"", *_PAGE_TYPES, facts.media_type} else own_type
        last_lines = [line for line in last if line and self._reserve(line, room)]
        for label, value, most in (
            ("Title", declared.title or facts.title, 0.4),
            ("URL", declared.url, 0.8),
            (
                "Canonical" if declared.url else "URL",
                facts.url if facts.url not in {declared.url, final_url} else None,
                0.8,
            ),
            ("Redirected to" if fetch.url else "URL", final_url, 0.8),
            ("Content type", content_type, 0.1),
            ("Tool", None if inputs.brief else _render_tool(declared), 0.4),
            ("Command", declared.command, 0.15),
        ):
            if value:
                self._add_labelled_line(label, value, limit, most)
        self.lines += last_lines
        # Facts and excerpts share the remaining tokens. If there is a query, only facts that answer it may use the
        # whole share of the facts.
        most = int((room - self.cost) * share)
        uses_query = inputs.query and share < 1 and not shows_records(facts.shape)
        self._add_facts(max(most // 3, min(most, _ASKED)) if uses_query else most, most)
        # The opening of a page says more than its headings.
        if inputs.text is not None and not inputs.brief and inputs.spec.text_view != "page":
            self._add_headings(inputs.text, room - self.cost)

    def _reserve(self, line: str, room: int) -> bool:
        """Returns whether a line fits that will be added later; if so, its cost is counted now."""
        cost = self._cost(line)
        if self.cost + cost > room:
            return False
        self.cost += cost
        return True

    def _add_labelled_line(self, label: str, value: str, room: int, share: float) -> None:
        """Adds a line with text from outside.

        Text of more than _VALUE characters, and a line that does not fit, is shortened to its share, and marked.
        """
        is_whole = len(value) <= _VALUE
        flat = one_line(value[:_VALUE]) + ("" if is_whole else "…")
        line = f"{label}: {flat}"
        if not is_whole or not self._reserve(line, room):
            most = min(int(room * share), room - self.cost) - 4
            if most < 8:  # noqa: PLR2004 - fewer tokens say nothing
                return
            line = f"{label} (clipped): {fit_text(flat, most - 4, self._inputs.tokenizer)}"
            if not self._reserve(line, room):
                return
        self.lines.append(line)

    def _add_facts(self, room: int, sought_room: int) -> None:
        """Adds facts that fit into `room` tokens in all; the last one is clipped to its whole items.

        In each fact, items with a word of the query come first. A fact with such items may extend to `sought_room`
        tokens in all.
        """
        most, wide = self.cost + room, self.cost + sought_room
        words = _words_of(self._inputs.query)
        for raw in self._inputs.facts.shape:
            line, limit = one_line(raw), most
            if words is not None:
                line, sought = _order_items(line, words)
                limit = max(most, min(wide, self.cost + self._cost(sought))) if sought else most
            remaining = limit - self.cost
            whole = self._reserve(line, limit)
            if not whole:
                line = _clip_list(fit_text(line, remaining - 2, self._inputs.tokenizer)) if remaining > 12 else ""  # noqa: PLR2004
            if whole or (line and self._reserve(line, limit)):
                self.facts += (line,)
            if not whole and words is None:
                break
        self.lines += self.facts

    def _add_headings(self, text: CardSource, room: int) -> None:
        """Adds a line that names headings beyond what excerpts of `room` tokens certainly show from the beginning."""
        most = int(room * _HEADINGS)
        sure = room - 2 * most
        begin = text.begin
        opening = text.sample.head[begin : begin + sure * _DENSEST].decode("utf-8", "ignore")
        start = begin + len(fit_text(opening, sure, self._inputs.tokenizer).encode())
        lines = (one_line(line) for line in text.headings(start, most) if len(line) <= most * _DENSEST)
        line = next((line for line in lines if self._reserve(line, self.cost + most)), None)
        if line is not None:
            self.facts += (line,)
            self.lines.append(line)

    def _cost(self, line: str) -> int:
        return self._inputs.tokenizer.count(f"\n{line}")


def _render_tool(declared: DeclaredMetadata) -> str | None:
    name, call = declared.tool_name, declared.tool_call_id
    return f"{_shorten_name(name)}{f' (call {_shorten_name(call)})' if call else ''}" if name else None


def _shorten_name(name: str) -> str:
    """Returns the name of a tool or a call, shortened, and marked if it was longer.

    The name is made inert before it is shortened, because otherwise a cut could hide a tag.
    """
    return clip_line(one_line(name), _NAME)


def _clip_list(text: str) -> str:
    """Returns a shortened fact up to its last whole item or, in a sentence, its last whole word.

    Empty if no whole item is left. Half a name would be another name, and half a number another number.
    """
    if not text.endswith("…"):
        return text
    ends = [match.end() for match in _ITEM.finditer(text) if match[0] in {",", ";"}]
    place = text.rfind(" ") if _SENTENCE.match(text) else max(ends, default=0)
    label = text.find(": ")
    return f"{text[:place].rstrip(' …')} …" if place > label + 1 else ""


def _words_of(query: str | None) -> re.Pattern[str] | None:
    """Returns a pattern for the words of a query; None if there are none."""
    terms = terms_of(query or "").terms
    stems = [rf"(?<!\w){re.escape(each.stem)}" if each.bound else re.escape(each.stem) for each in terms]
    return re.compile("|".join(stems), re.IGNORECASE) if stems else None


def _order_items(line: str, words: re.Pattern[str]) -> tuple[str, str]:
    """Returns counts of records twice: with the fields first that have one of the words, and with only these fields.

    Returns the line itself and an empty text if the line has no counts, or if the words single out no field.
    """
    label, _, items_text = line.partition(": ")
    if not _COUNTS.fullmatch(label):
        return line, ""
    ends = [match.start() for match in _ITEM.finditer(items_text) if match[0] == ";"]
    items = [items_text[start + 2 if start else 0 : end] for start, end in pairwise([0, *ends, len(items_text)])]
    sought = [item for item in items if words.search(item)]
    if not sought or (len(items) > _ITEMS and 2 * len(sought) > len(items)):  # the words single out no field
        return line, ""
    others = [item for item in items if item not in sought]
    return f"{label}: {'; '.join([*sought, *others])}", f"{label}: {'; '.join(sought)}; …"
