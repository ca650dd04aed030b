"""Reads a page once, tag by tag, into blocks of text and the elements that contain them.

Unclosed and overlapping tags are accepted: a closing tag closes the nearest open element of its name, if one is near.
"""

import html
from typing import Final

from msgspec import Struct

from coatcheck.core.extract.boilerplate import judge
from coatcheck.core.extract.tags import href, pieces, without_broken, words

_INLINE: Final = words(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark q ruby s samp small span strike "
    "strong sub sup time tt u var wbr rb rt rp nobr img picture source input"
)
_VOID: Final = words("br hr img input meta link area base col embed source track wbr param")
_NOTED: Final = words("pre ul ol li table tr td th blockquote")
_HEADINGS: Final = {f"h{level}": level for level in range(1, 7)}
_ENDED_BY: Final = {
    "p": words(
        "address article aside blockquote center dd details dialog dir div dl dt fieldset figcaption figure footer form"
        " h1 h2 h3 h4 h5 h6 header hgroup li main menu nav ol p pre search section summary table td th tr ul"
    ),
    "dd": words("dd dt"),
    "dt": words("dd dt"),
    "li": words("li"),
    "td": words("td th tr"),
    "th": words("td th tr"),
    "tr": words("tr"),
    "option": words("option"),
}
"""By element: those whose start tags end it if it is open (HTML Living Standard, 13.1.2.4 and 13.2.6.4.7)."""
_CELL: Final = 300
"""Characters of a cell that is still shown in a row."""
_TAGS: Final = 400_000
"""Tags that are read, in about two seconds; pages have some thousands."""
_CLOSES: Final = 64
"""Open elements among which a closing tag looks for its own."""


class Element(Struct, eq=False):
    """An element that is or was open, and its contents."""

    name: str
    parent: "Element | None"
    first: int
    """The number of its first block."""
    verdict: int
    """See `boilerplate.py`."""
    weight: float
    """What its tag name and attributes add to its score."""
    last: int = 0
    """The number of the block after its last."""
    score: float = 0.0
    chars: int = 0
    prose: int = 0
    """Of its characters, those in blocks of prose."""
    linked: int = 0
    """Of its characters, those in links."""

    @property
    def link_density(self) -> float:
        """The share of its characters that are links, from 0 to 1."""
        return self.linked / self.chars if self.chars else 0.0


class PageBlock:
    """Text between two block tags."""

    __slots__ = ("cell", "cells", "depth", "kind", "level", "linked", "links", "number", "owner", "parts", "text")

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.links: list[tuple[str, str]] = []
        self.linked = 0
        self.kind = "p"
        self.level = 0
        self.depth = 0
        self.number: int | None = None
        self.cell = 0
        self.cells: list[str] = []
        self.owner: Element
        self.text = ""


class PageReader:
    """Goes through a page once."""

    def __init__(self) -> None:
        root = Element("", None, 0, 0, 0.0)
        self.elements = [root]
        self.blocks: list[PageBlock] = []
        self.partial = False
        """Whether there are more tags than are read."""
        self.title = ""
        self._open = [root]
        self._block = PageBlock()
        self._judged: dict[tuple[str, str], tuple[int, float]] = {}
        self._pre = 0
        self._link: tuple[str, int] | None = None
        self._lists: list[int | None] = []
        self._rows: list[tuple[int, int]] = []
        """For each open table: the block with which its row began, and the cells so far."""

    def read(self, text: str) -> None:
        """Reads the page."""
        split = pieces(text, _TAGS)
        last = len(split) - 1
        self.partial = last >= 4 * _TAGS
        for at in range(0, last, 4):
            before, name = split[at], split[at + 2]
            if before:
                self._text(before)
            if name:
                self._tag(name.lower(), split[at + 3] or "", closing=bool(split[at + 1]))
        if not self.partial:
            self._text(split[last] or "")
        self._flush()
        while self._open:
            self._open.pop().last = len(self.blocks)

    def _tag(self, name: str, rest: str, *, closing: bool) -> None:
        if name == "a":
            self._anchor(rest, closing=closing)
        elif name == "br":
            self._block.parts.append("\n")
        elif name not in _INLINE:
            self._flush()
            if closing:
                self._close(name)
            elif name not in _VOID:
                self._begin(name, rest)

    def _text(self, text: str) -> None:
        if "<" in text:
            text = without_broken(text)
        self._block.parts.append(text if self._pre or "\n" not in text else text.replace("\n", " "))
        if self._link is not None:
            self._block.linked += len(text.strip())

    def _anchor(self, rest: str, *, closing: bool) -> None:
        if self._link is not None:
            url, at = self._link
            linked = "".join(self._block.parts[at:])
            self._link = None
            if url and linked and not linked.isspace():
                self._block.links.append((linked, url))
        if not closing:
            self._link = (href(rest), len(self._block.parts))

    def _begin(self, name: str, rest: str) -> None:
        while name in _ENDED_BY.get(self._open[-1].name, ()):
            self._close(self._open[-1].name)
        parent = self._open[-1]
        known = self._judged.get((name, rest))
        if known is None:
            known = self._judged[name, rest] = judge(name, rest)
        element = Element(name, parent, len(self.blocks), *known)
        self._open.append(element)
        self.elements.append(element)
        if name in _NOTED or name in _HEADINGS:
            self._note(name)

    def _note(self, name: str) -> None:
        """Records what an element means for the block that begins with it."""
        block = self._block
        if name in _HEADINGS:
            block.kind, block.level = "h", _HEADINGS[name]
        elif name == "pre":
            self._pre += 1
        elif name in {"ul", "ol"}:
            self._lists.append(0 if name == "ol" else None)
        elif name == "li":
            block.kind = "li"
            if self._lists and (number := self._lists[-1]) is not None:
                self._lists[-1] = block.number = number + 1
        elif name == "table":
            self._rows.append((len(self.blocks), 0))
        elif name == "tr" and self._rows:
            self._rows[-1] = (len(self.blocks), 0)
        elif name in {"td", "th"} and self._rows:
            start, cells = self._rows[-1]
            self._rows[-1] = (start, cells + 1)
        elif name == "blockquote":
            block.kind = "quote"

    def _close(self, name: str) -> None:
        opened = self._open
        place = len(opened) - 1
        if opened[place].name != name:
            low = max(0, place - _CLOSES)
            while place > low and opened[place].name != name:
                place -= 1
            if place <= low:
                return
        end = len(self.blocks)
        while len(opened) > place:
            element = opened.pop()
            element.last = end
            inside = element.name
            if inside in _NOTED or inside in _HEADINGS:
                self._leave(inside)
                end = len(self.blocks)

    def _leave(self, name: str) -> None:
        if not self._block.parts:  # its intended kind no longer applies
            self._block = PageBlock()
        if name == "pre":
            self._pre -= 1
        elif name in {"ul", "ol"} and self._lists:
            self._lists.pop()
        elif name == "tr" and self._rows:
            self._row()
        elif name == "table" and self._rows:
            self._rows.pop()

    def _row(self) -> None:
        """One block of a row's cells, unless they hold more than a line each: then it was only laid out as a table."""
        start, cells = self._rows[-1]
        row = self.blocks[start:]
        self._rows[-1] = (len(self.blocks), 0)
        plain = all(block.kind == "p" and len(block.text) <= _CELL for block in row)
        if cells < 2 or not row or not plain or len({block.cell for block in row}) < len(row):  # noqa: PLR2004
            return
        merged = row[0]
        merged.kind = "row"
        merged.cells = [""] * cells
        for block in row:
            merged.cells[min(block.cell, cells) - 1] = block.text
        for block in row[1:]:
            merged.links += block.links
            merged.linked += block.linked
        merged.text = " ".join(block.text for block in row)
        del self.blocks[start + 1 :]
        self._rows[-1] = (len(self.blocks), 0)

    def _flush(self) -> None:
        block = self._block
        if not block.parts:
            return
        raw = "".join(block.parts)
        if raw.isspace() or self._open[-1].name == "title":  # the card has a line of its own for the title
            self.title = self.title or html.unescape(raw.strip())
            block.parts.clear()  # and what its tag meant stays
            if self._link is not None:
                self._link = (self._link[0], 0)
            return
        url = self._link[0] if self._link is not None else ""
        if self._link is not None:
            self._anchor("", closing=True)
        text = html.unescape(raw) if "&" in raw else raw
        owner = self._open[-1]
        block.owner = owner
        block.kind = "pre" if self._pre and block.kind == "p" else block.kind
        block.text = text if block.kind == "pre" else text.strip()
        block.depth = max(0, len(self._lists) - 1)
        block.cell = self._rows[-1][1] if self._rows else 0
        self.blocks.append(block)
        self._block = PageBlock()
        if url:
            self._link = (url, 0)
