"""Reads a page once, tag by tag, into blocks of text and the elements that contain them.

Unclosed and overlapping tags are accepted: an end tag closes the nearest open element of its name, if that is among the
innermost _CLOSES open elements.
"""

import html
from itertools import islice
from typing import Final

from msgspec import Struct

from coatcheck.core.extract.boilerplate import (
    INVISIBLE,
    attributes,
    href,
    is_invisible,
    judge,
    pieces,
    without_broken,
    words,
)

_INLINE: Final = words(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark q ruby s samp small span strike "
    "strong sub sup time tt u var wbr rb rt nobr img picture source input math mi mn mo mrow ms msub msubsup msup "
    "mtext semantics tspan"
)
_VOID: Final = words("br hr img input meta link area base col embed source track wbr param")
_IN_HEAD: Final = words("title meta link base script style noscript template")
_BUTTONS: Final = words("submit button reset")
_NOTED: Final = words("pre ul ol li table tr td th blockquote")
_HEADINGS: Final = {f"h{level}": level for level in range(1, 7)}
_ENDED_BY: Final = {
    "p": words(
        "address article aside blockquote center dd details dialog dir div dl dt fieldset figcaption figure footer form"
        " h1 h2 h3 h4 h5 h6 header hgroup li main menu nav ol p pre search section summary table td th tr ul"
    ),
    "option": words("option"),
}
"""By name of an element: the start tags that end the element if it is the innermost open element (HTML Living Standard,
13.1.2.4, 13.2.6.4.7)."""
_CELLS: Final = words("td th")
_GROUPS: Final = words("tbody thead tfoot")
_ENDS: Final = {
    "li": words("li"),
    "dd": words("dd dt"),
    "dt": words("dd dt"),
    "td": _CELLS,
    "th": _CELLS,
    "tr": words("tr"),
    **dict.fromkeys(_GROUPS, _GROUPS),
}
"""By start tag: the open element that the tag ends, together with all open elements inside it (HTML Living Standard,
13.2.6.4.7, 13.2.6.4.13 to 15)."""
_PASSED: Final = words("div p address")
"""Elements between a start tag and the list item that it ends; any other element between them keeps the item open.
Cells and rows are ended through every element but a table."""
_CELL: Final = 300
"""Maximum characters of a cell for which its row is shown as a row."""
_NAMED_CELL: Final = 1_200
"""Maximum characters of such a cell in a table whose columns have names."""
_NAME: Final = 60
"""Maximum characters of a column's name."""
_SPAN: Final = 200
"""Maximum columns or rows that one cell may span; browsers allow up to 1,000 columns."""
_TAGS: Final = 400_000
"""Maximum tags that are read, which takes about two seconds; typical pages have some thousands."""
_CLOSES: Final = 64
"""Innermost open elements among which an end tag looks for the element that it closes."""


class Element(Struct, eq=False):
    """An element that is or was open, and its contents."""

    name: str
    parent: "Element | None"
    first: int
    """Number of the element's first block."""
    verdict: int
    """What name and attributes say about the element, as `boilerplate.py` judges them."""
    weight: float
    """Points that the element's name and attributes add to its score."""
    last: int = 0
    """Number of the block after the element's last block."""
    score: float = 0.0
    """Points for the prose in the element. They decide which element is the article."""
    chars: int = 0
    """Characters of text in the element."""
    prose: int = 0
    """Characters of the element's text that are in blocks of prose."""
    linked: int = 0
    """Characters of the element's text that are in links."""

    @property
    def link_density(self) -> float:
        """The share of the element's characters that are in links, from 0 to 1."""
        return self.linked / self.chars if self.chars else 0.0


class PageBlock(Struct, eq=False):
    """Text between two block tags."""

    owner: Element
    """The innermost element that was open when the block ended."""
    parts: list[str] = []
    """The pieces of text in the block, in which entities are not replaced yet."""
    links: list[tuple[str, str]] = []
    """The words and the target of each link in the block."""
    linked: int = 0
    """Characters of the block that are in links."""
    alternatives: int = 0
    """Characters of the alternative texts of images in the block."""
    kind: str = "p"
    """Kind of the block: `p`, `h`, `li`, `row`, `pre` or `quote`."""
    level: int = 0
    """Level of a heading, from 1; 0 for any other block."""
    depth: int = 0
    """Number of lists around the list in which the block is."""
    number: int | None = None
    """Number of an item in an ordered list; None for any other block."""
    cell: int = 0
    """Number of the cell in which the block is, from 1; 0: the block is in no cell."""
    cells: list[str] = []
    """The texts of a row's cells; empty for any other block."""
    text: str = ""
    """The finished text of the block."""


class _Table(Struct, eq=False):
    """An open table: the place of the present row and cell, and the names of its columns."""

    start: int
    """Number of the row's first block."""
    cells: int = 0
    columns: list[int] = []
    """The first column of each cell of the row."""
    heads: int = 0
    """Cells of the row that are headers."""
    is_head: bool = True
    """Whether all rows so far are headers."""
    is_layout: bool = False
    """Whether the row holds another table."""
    names: dict[int, str] = {}
    next_column: int = 0
    """Where the next cell begins, if no cell above spans that place."""
    below: dict[int, int] = {}
    """By column: how many further rows the cell above spans."""

    def begin_row(self, start: int) -> None:
        self.start, self.cells, self.heads, self.next_column = start, 0, 0, 0
        self.columns, self.is_layout = [], False
        self.below = {column: rows - 1 for column, rows in self.below.items() if rows > 0}

    def begin_cell(self, name: str, rest: str) -> None:
        while self.below.get(self.next_column, -1) >= 0 and self.next_column < _SPAN:
            self.next_column += 1
        self.cells += 1
        self.heads += name == "th"
        self.columns.append(self.next_column)
        spans = attributes(rest) if "span" in rest else {}
        width, height = _number(spans.get("colspan")), _number(spans.get("rowspan"))
        if height > 1:
            self.below.update(dict.fromkeys(range(self.next_column, self.next_column + width), height - 1))
        self.next_column += width

    def render(self, texts: list[str]) -> list[str]:
        """Returns the row's cells, each with its column's name. If all cells are headers, they name the columns."""
        if self.heads == self.cells:
            names = self.names if self.is_head else {}
            ends = [*self.columns[1:], self.next_column]
            for text, first, end in zip(texts, self.columns, ends, strict=True):
                for column in range(first, end):
                    above = names.get(column, "")
                    column_name = text if not above or above == text else f"{above} {text}"
                    self.names[column] = " ".join(column_name.split())[:_NAME]
            return texts
        self.is_head = False
        names = [self.names.get(column, "") for column in self.columns]
        return [f"{name}: {text}" if name and text else text for name, text in zip(names, texts, strict=True)]


def _number(value: str | None) -> int:
    """Returns how many columns or rows a cell spans."""
    return min(int(value), _SPAN) if value and value.isdecimal() and value.isascii() and int(value[:4]) else 1


class PageReader:
    """Reads the tags and texts of a page, in order, into `blocks` and `elements`."""

    def __init__(self) -> None:
        root = Element("", None, 0, 0, 0.0)
        self.elements = [root]
        self.blocks: list[PageBlock] = []
        self.partial = False
        """Whether there are more tags than are read."""
        self.title = ""
        self._open = [root]
        self._block = PageBlock(root)
        self._judged: dict[tuple[str, str], tuple[int, float]] = {}
        self._pre = 0
        self._link: tuple[str, int] | None = None
        self._lists: list[int | None] = []
        self._tables: list[_Table] = []
        self._hidden = 0
        """Number of open elements that are not shown."""

    def read(self, text: str) -> None:
        """Reads the whole page. Must be called only once."""
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
        inline = name in _INLINE
        if self._hidden or (inline and not closing and name not in _VOID and is_invisible(rest)):
            inline = False
        elif name == "a":
            self._anchor(rest, closing=closing)
        elif name == "br":
            self._block.parts.append("\n")
        elif name in {"img", "input", "option"}:
            self._show(name, rest, closing=closing)
        elif not inline:
            self._flush()
        if not inline:
            if closing:
                self._close(name)
            elif name not in _VOID:
                self._begin(name, rest)

    def _show(self, name: str, rest: str, *, closing: bool) -> None:
        """Adds the text of an image, a button or an option of a selection."""
        if closing:
            return
        if name == "option":
            self._text(" | " if self._block.parts else "")
            return
        attrs = attributes(rest)
        if name == "img" and (alt := attrs.get("alt", "").strip()):
            self._text(f" ![{html.escape(alt, quote=False)}] ")
            self._block.alternatives += len(alt) + 3
        elif name == "input" and attrs.get("type", "").lower() in _BUTTONS:
            self._text(f" {html.escape(attrs.get('value', ''), quote=False)} ")

    def _text(self, text: str) -> None:
        if self._hidden:
            last = self._open[-1].name
            if last == "title" and not self.title:
                self.title = html.unescape(text.strip())  # the card has a line of its own for it
            if last != "head" or text.isspace():
                return
            self._close(last)  # text ends the head, as in a browser
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
        if name in _ENDS:
            self._end(name)
        while name in _ENDED_BY.get(last := self._open[-1].name, ()) or (last == "head" and name not in _IN_HEAD):
            self._close(last)
        parent = self._open[-1]
        judgement = self._judged.get((name, rest))
        if judgement is None:
            judgement = self._judged[name, rest] = judge(name, rest)
        element = Element(name, parent, len(self.blocks), *judgement)
        self._open.append(element)
        self.elements.append(element)
        self._hidden += element.verdict == INVISIBLE
        if name in _NOTED or name in _HEADINGS:
            self._note(name, rest)

    def _end(self, name: str) -> None:
        """Closes the open element that the start tag `name` ends, if there is one."""
        ends = _ENDS[name]
        of_list = name in {"li", "dd", "dt"}
        for element in islice(reversed(self._open), _CLOSES):
            if element.name in ends:
                self._close(element.name)
                return
            if element.name not in _PASSED and (of_list or element.name == "table"):
                return

    def _note(self, name: str, rest: str) -> None:
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
            self._tables.append(_Table(len(self.blocks)))
        elif name == "tr" and self._tables:
            self._tables[-1].begin_row(len(self.blocks))
        elif name in {"td", "th"} and self._tables:
            self._tables[-1].begin_cell(name, rest)
        elif name == "blockquote":
            block.kind = "quote"

    def _close(self, name: str) -> None:
        stack = self._open
        place = len(stack) - 1
        if stack[place].name != name:
            low = max(0, place - _CLOSES)
            while place > low and stack[place].name != name:
                place -= 1
            if place <= low:
                return
        end = len(self.blocks)
        while len(stack) > place:
            element = stack.pop()
            element.last = end
            self._hidden -= element.verdict == INVISIBLE
            inside = element.name
            if inside in _NOTED or inside in _HEADINGS:
                self._leave(inside)
                end = len(self.blocks)

    def _leave(self, name: str) -> None:
        if not self._block.parts:  # the element is over before any text came: its kind does not apply to what follows
            self._block = PageBlock(self.elements[0])
        if name == "pre":
            self._pre -= 1
        elif name in {"ul", "ol"} and self._lists:
            self._lists.pop()
        elif name == "tr" and self._tables:
            self._row(self._tables[-1])
        elif name == "table" and self._tables:
            self._tables.pop()
            for table in self._tables[-1:]:
                table.is_layout = True

    def _row(self, table: _Table) -> None:
        """Merges the blocks of a row's cells into one block, unless the table only serves the layout of the page.

        A table serves the layout if a cell is long, contains another table, or contains blocks other than paragraphs
        and list items.
        """
        if table.is_layout or table.cells < 2:  # noqa: PLR2004 - one cell is no row
            return
        row = self.blocks[table.start :]
        texts = [""] * table.cells
        for block in row:
            place = min(block.cell, table.cells) - 1
            if block.kind not in {"p", "li"} or place < 0:
                return
            texts[place] = f"{texts[place]}; {block.text}" if texts[place] else block.text
        limit = _NAMED_CELL if table.names else _CELL
        if not row or max(map(len, texts)) > limit:
            return
        row_block = row[0]
        row_block.kind = "row"
        row_block.cells = table.render(texts)
        for block in row[1:]:
            row_block.links += block.links
            row_block.linked += block.linked
        row_block.text = " ".join(block.text for block in row)
        del self.blocks[table.start + 1 :]

    def _flush(self) -> None:
        block = self._block
        if not block.parts:
            return
        raw = "".join(block.parts)
        if not raw or raw.isspace():
            block.parts.clear()  # the block keeps the kind that its tag gave it
            if self._link is not None:
                self._link = (self._link[0], 0)
            return
        url = self._link[0] if self._link is not None else ""
        if self._link is not None:
            self._anchor("", closing=True)
        text = html.unescape(raw) if "&" in raw else raw
        block.owner = self._open[-1]
        block.kind = "pre" if self._pre and block.kind == "p" else block.kind
        block.text = text if block.kind == "pre" else text.strip()
        block.depth = max(0, len(self._lists) - 1)
        block.cell = self._tables[-1].cells if self._tables else 0
        self.blocks.append(block)
        self._block = PageBlock(block.owner)
        if url:
            self._link = (url, 0)
