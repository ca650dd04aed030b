"""Reads the XML parts of office documents: their paragraphs, headings, lists and tables, in order.

One reader serves WordprocessingML, DrawingML and OpenDocument, which differ in the names of elements. A document type
with entities is refused, so that no entity expands. Elements may be nested to any depth. Reading ends when the time is
used up.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Final, final
from xml.parsers import expat

from msgspec import Struct

from coatcheck.adapters.extract.wire import ViewWriter
from coatcheck.core.records.yaml import XmlRefusalError, xml_parser

Attributes = Mapping[str, str]
_CHUNK_BYTES: Final = 64 * 1024
"""Bytes that are parsed between two checks of the limits."""
_TEXT_CHARS: Final = 16 * 1024 * 1024
"""Characters of text after which the reading of a part ends."""
_BLOCK_COUNT: Final = 200_000
"""Blocks after which the reading of a part ends."""
_SPACES: Final = 100
"""Maximum number of blanks that one `text:s` element of OpenDocument stands for."""
_ELEMENTS: Final = 200_000
"""Maximum elements read of a part that describes other parts: styles, relationships, a table of contents."""
_ELEMENT_CHARS: Final = 4096
"""Characters of an element's text after which no more are added; a title may be that long."""
_BLANKS: Final = re.compile(r"[^\S\v]+")
_LINE_END: Final = "\v"
"""Marks the end of a line within a paragraph. A line feed cannot mark it: in XML, a line feed is only a blank."""
BODY: Final = ""
NOTES: Final = "Notes"
SLIDE: Final = "\f"
"""First character of the block that marks the beginning of a slide in an OpenDocument presentation."""
TITLES: Final = frozenset({"title", "ctrTitle"})
"""Types of the placeholders that contain a slide's title."""
_SILENT_PLACEHOLDERS: Final = frozenset({"sldNum", "hdr", "dt", "page-number", "date-time"})
"""Types of the placeholders whose text says nothing about the slide: its number, its header, the date."""
MAX_LEVEL: Final = 8
"""Deepest level of headings and lists."""


class Block(Struct):
    """A paragraph, heading, list item or table row."""

    text: str
    level: int = 0
    """Level of a heading, from 1; 0: the block is no heading."""
    is_tight: bool = False
    """Whether no empty line separates the block from a tight block before it: true for list items and table rows."""
    area: str = BODY
    """Title of the area that the block is in, such as `Comments` or `Notes`; empty: the running text."""


class Paragraph(Struct):
    """A paragraph that is being read."""

    parts: list[str]
    level: int = 0
    """Level of a heading, from 1; 0: the paragraph is no heading."""
    list_id: str = ""
    """ID of the list that the paragraph is an item of; empty or `0`: it is in no list."""
    depth: int = 0
    """Level of the paragraph in its list, from 0."""


class Style(Struct):
    """The properties that a Word style gives its paragraphs."""

    level: int = 0
    list_id: str = ""
    base: str = ""
    """ID of the style that this one inherits from; empty: none."""


class XmlElement(Struct):
    """An element, with the text that is directly in it."""

    name: str
    attributes: Attributes
    text: str = ""


@lru_cache(1024)
def local(name: str) -> str:
    """Returns the name of an element or attribute without its namespace prefix."""
    return name[name.rfind(":") + 1 :]


def get(attributes: Attributes, name: str) -> str:
    """Returns the value of the attribute with this local name; empty if there is none."""
    for key, value in attributes.items():
        if local(key) == name:
            return value
    return ""


def elements(data: bytes) -> list[XmlElement]:
    """Returns all elements of a small part in document order, up to the first error in its XML."""
    all_elements: list[XmlElement] = []
    open_elements: list[XmlElement] = []

    def start(name: str, attributes: Attributes) -> None:
        if len(all_elements) == _ELEMENTS:
            raise XmlRefusalError
        all_elements.append(XmlElement(local(name), attributes))
        open_elements.append(all_elements[-1])

    def characters(text: str) -> None:
        if len(open_elements[-1].text) < _ELEMENT_CHARS:
            open_elements[-1].text += text

    parser = xml_parser()
    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: open_elements.pop()
    parser.CharacterDataHandler = characters
    with suppress(expat.ExpatError, XmlRefusalError):  # the elements before the error are complete
        parser.Parse(data, True)
    return all_elements


class Grammar(Struct, frozen=True):
    """The local names of the elements of one document format."""

    words: frozenset[str] = frozenset()
    """Elements whose characters are text; empty: the characters of all elements in paragraphs are text."""
    skipped: frozenset[str] = frozenset()
    """Elements that are left out with everything inside them."""
    signs: Mapping[str, str] = {}
    """Empty elements that stand for a character, such as a tab, each with this character."""
    rows: str = "tr"
    """The element of a table row."""
    cells: frozenset[str] = frozenset({"tc"})
    """Elements of table cells; the paragraphs of a cell are joined."""
    paragraphs: frozenset[str] = frozenset({"p"})
    areas: Mapping[str, str] = {}
    """Elements whose paragraphs are not part of the running text, each with the title of their area."""


DRAWING: Final = Grammar(
    words=frozenset({"t", "v", "text"}), signs={"br": _LINE_END}, paragraphs=frozenset({"p", "v", "text"})
)
WORD: Final = Grammar(
    words=frozenset({"t"}),
    skipped=frozenset({"del", "moveFrom", "Fallback", "tabs", "sectPr"}),
    signs={"tab": "\t", "br": _LINE_END, "cr": _LINE_END, "noBreakHyphen": "-"},
)
OPEN: Final = Grammar(
    skipped=frozenset({"tracked-changes", "forms", "date"}),
    signs={"tab": "\t", "line-break": _LINE_END},
    rows="table-row",
    cells=frozenset({"table-cell", "covered-table-cell"}),
    paragraphs=frozenset({"p", "h", "creator", "math"}),
    areas={
        "annotation": "Comments",
        **dict.fromkeys(("note-body", "notes", "note-citation"), NOTES),
        **{
            f"{name}{page}": f"{name.capitalize()}s"
            for name in ("header", "footer")
            for page in ("", "-left", "-first")
        },
    },
)


class _List(Struct):
    """A list that is being read."""

    style: str
    count: int = 0
    begins: bool = False
    """Whether the next paragraph is the first one of a list item."""


@final
class TextReader:
    """Reads the text of one part of a document."""

    def __init__(
        self,
        grammar: Grammar,
        writer: ViewWriter,
        styles: Mapping[str, Style] | None = None,
        ordered: frozenset[tuple[str, int]] = frozenset(),
    ) -> None:
        """Creates a reader of one part, which has read nothing yet.

        Args:
            grammar: the names of the elements.
            writer: says when reading has to end. Nothing is written to it, but its `partial` is set if the part was
                read only partly.
            styles: the paragraph styles of a Word document, by ID.
            ordered: the numbered levels of the document's lists, each as the list's ID and the level from 0.
        """
        self._grammar = grammar
        self._writer = writer
        self._styles = styles or {}
        self._ordered = {*ordered}
        self.blocks: list[Block] = []
        self.hidden = False
        """Whether the slide is hidden."""
        self._hidden_styles: set[str] = set()
        self._chars = 0
        self._skipped = 0
        self._reading = 0
        self._paragraphs: list[Paragraph] = []
        self._rows: list[list[str]] = []
        self._cells: list[list[str]] = []
        self._areas: list[str] = [BODY]
        self._lists: list[_List] = []
        self._counts: dict[tuple[str, int], int] = {}
        self._label = ""
        """The label that the next paragraph of a note or comment begins with; empty: none."""
        self._style = ""
        self._place = ""
        self._starts: dict[str, Callable[[Attributes], None]] = {
            "pStyle": self._set_style,
            "numId": lambda a: self._set("list_id", get(a, "val")),
            "ilvl": lambda a: self._set("depth", number(get(a, "val"))),
            "outlineLvl": lambda a: self._set("level", (number(get(a, "val")) + 1) % 10),  # 9 is body text
            "footnoteReference": lambda a: self._add(f"[^{get(a, 'id')}]"),
            "endnoteReference": lambda a: self._add(f"[^e{get(a, 'id')}]"),
            "commentReference": lambda a: self._add(f"[comment {get(a, 'id')}]"),
            "footnote": lambda a: setattr(self, "_label", f"[^{get(a, 'id')}]"),
            "endnote": lambda a: setattr(self, "_label", f"[^e{get(a, 'id')}]"),
            "comment": lambda a: setattr(self, "_label", f"[comment {get(a, 'id')}] {get(a, 'author')}:"),
            "docPr": self._add_picture,
            "cNvPr": self._add_picture,
            "txbxContent": lambda _: self._put(Block("[text box]")),
            "text-box": lambda _: None if self._place else self._put(Block("[text box]")),
            "s": lambda a: self._add(" " * min(number(get(a, "c")) or 1, _SPACES) * (grammar is OPEN)),
            "list": lambda a: self._lists.append(_List(get(a, "style-name") or self._outer_style)),
            "list-item": self._begin_item,
            "list-style": lambda a: setattr(self, "_style", get(a, "name")),
            "list-level-style-number": lambda a: self._ordered.add((self._style, number(get(a, "level")) - 1)),
            "style": lambda a: setattr(self, "_style", get(a, "name")),
            "drawing-page-properties": self._hide_style,
            "page": lambda a: self._put(Block(f"{SLIDE}{' (hidden)' * (get(a, 'style-name') in self._hidden_styles)}")),
            "frame": lambda a: setattr(self, "_place", get(a, "class")),
            "sp": lambda _: setattr(self, "_place", ""),
            "ph": lambda a: setattr(self, "_place", get(a, "type") or "body"),
            "sld": lambda a: setattr(self, "hidden", get(a, "show") in {"0", "false"}),
        }

    def read(self, data: bytes) -> list[Block]:
        """Returns the blocks of a part, up to the first error in its XML or until time or a limit is used up."""
        parser = xml_parser()
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        try:
            for at in range(0, len(data), _CHUNK_BYTES):
                is_full = self._chars > _TEXT_CHARS or len(self.blocks) > _BLOCK_COUNT
                if is_full or self._writer.must_write:
                    self._writer.partial = True
                    break
                parser.Parse(data[at : at + _CHUNK_BYTES], at + _CHUNK_BYTES >= len(data))
        except (expat.ExpatError, XmlRefusalError):
            self._writer.partial = True
        return self.blocks

    def _start(self, name: str, attributes: Attributes) -> None:
        name, grammar = local(name), self._grammar
        if self._skipped or name in grammar.skipped:
            self._skipped += 1
            return
        self._reading += name in grammar.words
        if name in grammar.cells:
            self._cells.append([])
        if name == grammar.rows:
            self._rows.append([])
        if name in grammar.paragraphs:
            self._begin_paragraph(name, attributes)
        elif name in grammar.signs:
            self._add(grammar.signs[name])
        elif (area := grammar.areas.get(name)) is not None:
            self._areas.append(area)
            if name == "note-citation":
                self._paragraphs.append(Paragraph([]))
        elif (start := self._starts.get(name)) is not None:
            start(attributes)

    def _end(self, name: str) -> None:
        name, grammar = local(name), self._grammar
        if self._skipped:
            self._skipped -= 1
            return
        self._reading -= name in grammar.words
        if name in grammar.paragraphs:
            self._end_paragraph(self._paragraphs.pop())
        elif name in grammar.areas:
            self._areas.pop()
            if name == "note-citation":
                self._label = f"[^{''.join(self._paragraphs.pop().parts).strip()}]"
                self._add(self._label)
        # A table inside a cell becomes plain text of that cell; only the rows of an outermost table get bars.
        if name == grammar.rows:
            cells = self._rows.pop()
            if any(cells):
                text = " ".join(cells) if self._cells else f"| {' | '.join(cells)} |"
                self._put(Block(text, is_tight=True))
        elif name in grammar.cells:
            cell = " ".join(self._cells.pop())
            if self._rows:
                self._rows[-1].append(cell)
        elif name == "list" and self._lists:
            self._lists.pop()

    def _begin_paragraph(self, name: str, attributes: Attributes) -> None:
        level = (number(get(attributes, "outline-level")) or 1) if name == "h" else 0
        self._paragraphs.append(Paragraph([], level))

    def _characters(self, text: str) -> None:
        if not self._skipped and (self._reading or not self._grammar.words):
            self._add(text)

    def _add(self, text: str) -> None:
        if self._paragraphs:
            self._paragraphs[-1].parts.append(text)
            self._chars += len(text)

    def _set(self, name: str, value: object) -> None:
        if self._paragraphs:
            setattr(self._paragraphs[-1], name, value)

    def _set_style(self, attributes: Attributes) -> None:
        style = self._styles.get(get(attributes, "val"))
        if style is not None and self._paragraphs:
            paragraph = self._paragraphs[-1]
            paragraph.level, paragraph.list_id = style.level, style.list_id

    def _add_picture(self, attributes: Attributes) -> None:
        text = f"[image: {get(attributes, 'descr')}]"
        if text != "[image: ]":
            self._add(text) if self._paragraphs else self._put(Block(text))

    def _hide_style(self, attributes: Attributes) -> None:
        if get(attributes, "visibility") == "hidden":
            self._hidden_styles.add(self._style)

    @property
    def _outer_style(self) -> str:
        return self._lists[-1].style if self._lists else ""

    def _begin_item(self, _: Attributes) -> None:
        if self._lists:
            self._lists[-1].count += 1
            self._lists[-1].begins = True

    def _end_paragraph(self, paragraph: Paragraph) -> None:
        lines = _BLANKS.sub(" ", "".join(paragraph.parts)).split(_LINE_END)
        text = "\n".join(filter(None, map(str.strip, lines)))
        paragraph.parts.clear()
        if not text or self._place in _SILENT_PLACEHOLDERS:
            return
        if self._label and (self._grammar is WORD or self._areas[-1] == NOTES):
            text, self._label = f"{self._label} {text}", ""
        level = 1 if self._place in TITLES else 0 if self._cells else min(paragraph.level, MAX_LEVEL)
        mark = "" if level else self._mark(paragraph)
        self._put(Block(f"{mark}{text}", level, bool(mark)))

    def _mark(self, paragraph: Paragraph) -> str:
        """Returns the indented bullet or number of a paragraph in a list; empty if the paragraph is in none."""
        if self._lists:
            state = self._lists[-1]
            depth, count = min(len(self._lists) - 1, MAX_LEVEL), state.count
            is_ordered, begins, state.begins = (state.style, len(self._lists) - 1) in self._ordered, state.begins, False
        else:
            key, depth = paragraph.list_id, min(max(paragraph.depth, 0), MAX_LEVEL)
            if key in {"", "0"}:
                return ""
            for deeper in range(depth + 1, MAX_LEVEL + 1):
                self._counts.pop((key, deeper), None)
            count = self._counts[key, depth] = self._counts.get((key, depth), 0) + 1
            is_ordered, begins = (key, depth) in self._ordered, True
        return f"{'  ' * depth}{('  ' if not begins else f'{count}. ' if is_ordered else '- ')}"

    def _put(self, block: Block) -> None:
        if self._cells:
            self._cells[-1].append(" ".join(block.text.split()))
        else:
            block.area = self._areas[-1]
            self.blocks.append(block)


def number(text: str) -> int:
    """Returns the value of an attribute as a number; 0 if the value is no number, or has more than six digits."""
    return int(text) if text.isdecimal() and len(text) < 7 else 0  # noqa: PLR2004 - no real number is longer
