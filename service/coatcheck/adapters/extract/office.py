"""The text of Word documents, presentations, OpenDocument texts and EPUB books, whose parts are XML in a ZIP archive.

Runs in a worker process. All parts together are unpacked within one limit. A part that is missing, encrypted or broken
makes the view partial. Headers and footers, notes, comments and hidden slides have sections of their own. Text that was
deleted while changes were tracked is left out.

`survey_sheets` finds two facts about a sheet that the library for workbooks does not report: how many formulas have no
value, so that their cells look empty, and whether the sheet is too large to open. It searches the bytes of the sheet
and does not parse them. The library allocates memory for every cell of a sheet's extent before it returns, so that a
single cell in the last row may end the worker.
"""

import io
import posixpath
import re
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from lzma import LZMAError
from typing import Final, NamedTuple, final
from urllib.parse import unquote

from msgspec import structs

from coatcheck.adapters.extract.archives import STOPPABLE_METHODS
from coatcheck.adapters.extract.office_xml import (
    BODY,
    DRAWING,
    NOTES,
    OPEN,
    SLIDE,
    WORD,
    Block,
    Grammar,
    Style,
    TextReader,
    XmlElement,
    elements,
    get,
    number,
)
from coatcheck.adapters.extract.wire import ViewWriter
from coatcheck.core.extract.blocks import one_line
from coatcheck.core.extract.page import extract_page
from coatcheck.core.parts.charset import decode
from coatcheck.core.text.count import format_count
from coatcheck.core.views.view import ExtractedText

_EXTRACTOR: Final = "office 1"
_MAX_MEMBERS: Final = 20_000
"""Maximum entries of a document's archive, whose directory is read whole. Real documents have hundreds."""
_UNPACKED: Final = 64 * 1024 * 1024
"""Maximum bytes that are unpacked of one document."""
_HEADING: Final = re.compile(r"heading (\d)", re.IGNORECASE)
_BASES: Final = 16
"""Maximum length of a chain of styles that inherit from one another."""
_NUMBER: Final = re.compile(r"\d{1,9}")


@final
class _Package:
    """The parts of a document."""

    def __init__(self, archive: zipfile.ZipFile, writer: ViewWriter) -> None:
        self._archive = archive
        self.writer = writer
        self._room = _UNPACKED
        self.names = archive.namelist()

    def part(self, name: str) -> bytes:
        """Returns the bytes of a part, cut at the limit of the document; empty if the part cannot be read."""
        try:
            info = self._archive.getinfo(name)
            is_readable = info.compress_type in STOPPABLE_METHODS
            with self._archive.open(info) as source:
                data = source.read(self._room + 1) if is_readable else b""
        except Exception:  # noqa: BLE001 - a hostile part may raise anything, and other parts may be readable
            self.writer.partial = True
            return b""
        self.writer.partial = self.writer.partial or len(data) > self._room
        self._room = max(0, self._room - len(data))
        return data

    def read_elements(self, name: str) -> list[XmlElement]:
        """Returns the elements of a part that describes other parts; an empty list if the part is missing."""
        return elements(self.part(name)) if name in self.names else []

    def matching(self, pattern: str) -> list[str]:
        """Returns the names of the parts that match a pattern, in the order of the last numbers in the names."""
        names = [name for name in self.names if re.fullmatch(pattern, name)]
        return sorted(names, key=lambda name: [int(each) for each in _NUMBER.findall(name)[-1:]])

    def read_relations(self, name: str) -> Mapping[str, tuple[str, str]]:
        """Returns a part's references to other parts: by the reference's ID, its type and the other part's name."""
        folder, _, base = name.rpartition("/")
        relations: dict[str, tuple[str, str]] = {}
        for each in self.read_elements(f"{folder}/_rels/{base}.rels"):
            target = posixpath.normpath(posixpath.join(f"/{folder}", get(each.attributes, "Target"))).lstrip("/")
            relations[get(each.attributes, "Id")] = get(each.attributes, "Type").rpartition("/")[2], target
        return relations

    def blocks(self, name: str, grammar: Grammar = DRAWING) -> list[Block]:
        """Returns the blocks of a part; an empty list if the part is missing."""
        return TextReader(grammar, self.writer).read(self.part(name)) if name in self.names else []


def extract_office(payload: bytes, name: str, until: float) -> ExtractedText | None:
    """Returns the text view of a document; None if its archive has too many entries, or nothing could be read.

    Args:
        payload: the whole document.
        name: name of the document's format, such as `Word document`.
        until: CPU time of this process, in seconds, at which to stop.
    """
    # The signature of a directory entry. Counting it bounds the entries before the library reads the whole directory.
    if payload.count(b"PK\1\2") > _MAX_MEMBERS:
        return None
    writer = ViewWriter(until)
    try:
        with zipfile.ZipFile(io.BytesIO(payload)) as archive:
            package = _Package(archive, writer)
            names = set(package.names)
            if "word/document.xml" in names:
                _write_word(package, name)
            elif "ppt/presentation.xml" in names:
                _write_slides(package, name)
            elif "META-INF/container.xml" in names:
                _write_book(package, name)
            elif "content.xml" in names:
                _write_open(package, name)
    except Exception:  # noqa: BLE001 - a hostile document may raise anything, and the text before that is whole
        writer.partial = True
    return writer.finish(_EXTRACTOR)


def _summary(name: str, metadata: Iterable[XmlElement], more: str = "") -> str:
    """Returns the first line of a view: `Word document “Title”, by Author`, followed by `more`."""
    properties = {each.name: one_line(each.text) for each in reversed(list(metadata)) if each.text.strip()}
    title = f" “{properties['title']}”" if "title" in properties else ""
    author = properties.get("creator") or properties.get("initial-creator")
    return f"{name}{title}{f', by {author}' if author else ''}{more}"


def _write(writer: ViewWriter, blocks: Iterable[Block], level: int = 0) -> None:
    """Writes blocks. A heading begins a section, whose level is the heading's level plus `level`."""
    was_tight = False
    for block in blocks:
        if block.level:
            writer.heading(block.text, level + block.level)
        elif (was_tight and block.is_tight) or writer.put(""):
            writer.put(block.text)
        was_tight = block.is_tight


def _write_areas(writer: ViewWriter, areas: Mapping[str, Sequence[Block]], level: int = 1) -> None:
    """Writes the blocks outside the running text, each area as a section; equal blocks are written once."""
    for title, blocks in areas.items():
        if blocks:
            writer.heading(title, level, aside=title in {"Headers", "Footers"})
            for each in dict.fromkeys(block.text for block in blocks):
                writer.put(each)


def _write_word(package: _Package, name: str) -> None:
    writer = package.writer
    writer.put(_summary(name, package.read_elements("docProps/core.xml")))
    styles, ordered = _word_styles(package), _word_lists(package)
    _write(writer, TextReader(WORD, writer, styles, ordered).read(package.part("word/document.xml")))
    areas: dict[str, list[Block]] = defaultdict(list)
    for part in ("footnotes", "endnotes", "comments"):
        areas[part.capitalize()] = package.blocks(f"word/{part}.xml", WORD)
    for part in ("header", "footer"):
        for each in package.matching(rf"word/{part}\d*\.xml"):
            areas[f"{part.capitalize()}s"] += package.blocks(each, WORD)
    for part in package.matching(r"word/(?:charts/chart|diagrams/data)\d+\.xml"):
        areas["Charts and diagrams"] += package.blocks(part)
    _write_areas(writer, areas)


def _word_styles(package: _Package) -> dict[str, Style]:
    """Returns the paragraph styles by ID, each with the properties that it inherits from the styles it is based on."""
    styles: dict[str, Style] = {}
    titles: list[Style] = []
    style = Style()
    for each in package.read_elements("word/styles.xml"):
        value = get(each.attributes, "val")
        if each.name == "style":
            style = styles.setdefault(get(each.attributes, "styleId"), Style())
        elif each.name == "name":
            heading = _HEADING.fullmatch(value)
            style.level = int(heading[1]) if heading else 0
            titles += [style] if value.lower() == "title" else []
        elif each.name == "basedOn":
            style.base = value
        elif each.name == "outlineLvl":
            style.level = style.level or (number(value) + 1) % 10
        elif each.name == "numId":
            style.list_id = value
    for style in styles.values():
        above = style
        for _ in range(_BASES):
            above = styles.get(above.base, Style())
            style.level, style.list_id = style.level or above.level, style.list_id or above.list_id
    for style in titles:  # set last, so that styles that are based on the title's style do not inherit this level
        style.level = 1
    return styles


def _word_lists(package: _Package) -> frozenset[tuple[str, int]]:
    """Returns the numbered levels of lists, each as the list's ID and the level from 0."""
    abstract: dict[str, set[int]] = defaultdict(set)
    numbered: set[tuple[str, int]] = set()
    key, list_id, level = "", "", 0
    for each in package.read_elements("word/numbering.xml"):
        value = get(each.attributes, "val")
        if each.name == "abstractNum":
            key = get(each.attributes, "abstractNumId")
        elif each.name == "lvl":
            level = number(get(each.attributes, "ilvl"))
        elif each.name == "numFmt" and value not in {"bullet", "none"}:
            abstract[key].add(level)
        elif each.name == "num":
            list_id = get(each.attributes, "numId")
        elif each.name == "abstractNumId":
            numbered |= {(list_id, level) for level in abstract[value]}
    return frozenset(numbered)


def _write_slides(package: _Package, name: str) -> None:
    writer, related = package.writer, package.read_relations("ppt/presentation.xml")
    slide_ids = [each for each in package.read_elements("ppt/presentation.xml") if each.name == "sldId"]
    slides = [related.get(each.attributes.get("r:id", ""), ("", ""))[1] for each in slide_ids]
    slides = slides or package.matching(r"ppt/slides/slide\d+\.xml")
    writer.put(_summary(name, package.read_elements("docProps/core.xml"), f": {format_count(len(slides), 'slide')}"))
    for nth, slide in enumerate(slides, 1):
        reader = TextReader(DRAWING, writer)
        blocks = reader.read(package.part(slide))
        for kind, part in package.read_relations(slide).values():
            area = {"notesSlide": NOTES, "comments": "Comments", "chart": BODY, "diagramData": BODY}.get(kind)
            if area is not None:
                blocks += [structs.replace(each, area=area, level=0) for each in package.blocks(part)]
        _write_slide(writer, nth, blocks, hidden=reader.hidden)


def _write_slide(writer: ViewWriter, nth: int, blocks: Sequence[Block], *, hidden: bool) -> None:
    """Writes a slide under its title, then its notes and comments."""
    body, areas = _split_areas(blocks)
    title = next((each for each in body if each.level), None)
    title_suffix = "" if title is None else f": {title.text}"
    writer.heading(f"Slide {nth}{' (hidden)' if hidden else ''}{title_suffix}")
    _write(writer, [structs.replace(each, level=0) for each in body if each is not title])
    _write_areas(writer, {f"{area} of slide {nth}": apart for area, apart in areas.items()}, 2)


def _split_areas(blocks: Iterable[Block]) -> tuple[list[Block], dict[str, list[Block]]]:
    """Returns the blocks of the running text, and the other blocks by the titles of their areas."""
    areas: dict[str, list[Block]] = defaultdict(list)
    for block in blocks:
        areas[block.area].append(block)
    return areas.pop(BODY, []), areas


def _write_open(package: _Package, name: str) -> None:
    writer = package.writer
    blocks = TextReader(OPEN, writer).read(package.part("content.xml"))
    starts = [place for place, each in enumerate(blocks) if each.text.startswith(SLIDE)]
    more = f": {format_count(len(starts), 'slide')}" if starts else ""
    writer.put(_summary(name, package.read_elements("meta.xml"), more))
    for nth, (start, end) in enumerate(pairwise([*starts, len(blocks)]), 1):
        _write_slide(writer, nth, blocks[start + 1 : end], hidden=len(blocks[start].text) > 1)
    if not starts:
        body, areas = _split_areas(blocks)
        _write(writer, body)
        _, apart = _split_areas(package.blocks("styles.xml", OPEN))
        apart["Formulas and charts"] = [
            block for part in package.matching(r".+/content\.xml") for block in package.blocks(part, OPEN)
        ]
        _write_areas(writer, {**areas, **apart})


def _write_book(package: _Package, name: str) -> None:
    writer = package.writer
    roots = [each for each in package.read_elements("META-INF/container.xml") if each.name == "rootfile"]
    root = get(roots[0].attributes, "full-path") if roots else ""
    book_elements = package.read_elements(root)
    items = {get(each.attributes, "id"): each.attributes for each in book_elements if each.name == "item"}
    writer.put(_summary(name, book_elements))
    for each in book_elements:
        item = items.get(get(each.attributes, "idref")) if each.name == "itemref" else None
        href = "" if item is None else unquote(get(item, "href").partition("#")[0])
        part = posixpath.normpath(posixpath.join(posixpath.dirname(root), href))
        if item is None or get(item, "properties") == "nav" or writer.late:  # `nav` is a list of the chapters
            continue
        chapter = extract_page(decode(package.part(part), None), None, is_article=True)
        if chapter is None or not any(section.start == 0 for section in chapter.sections):
            writer.heading(posixpath.basename(href))
        else:
            writer.put("")
        if chapter is not None:
            writer.include(chapter, 0)


_EMPTY: Final = re.compile(rb"<c(\s[^<>]*)?>\s*<f(?:\s[^<>]*)?(?:/>|(?<!/)>[^<]*</f>)\s*(?:<v>\s*</v>|<v\s*/>)?\s*</c>")
_CELL: Final = re.compile(rb"<(?:\w+:)?c\s[^<>]*?\br=\"([A-Z]{1,3})([0-9]{1,7})\"")
_MAX_COLUMNS: Final = 16_384
"""Columns that a sheet may have (Excel's limit)."""
_EXTENT: Final = 12_000_000
"""Maximum cells in the extent of a sheet, at 32 bytes each."""
_SHEET_BYTES: Final = 96 * 1024 * 1024
"""Maximum bytes of a sheet's XML; the cells take up to eight times as much memory."""
_BYTES: Final = 32 * 1024 * 1024
"""Maximum bytes of a sheet's XML that is searched for facts; of a larger sheet, only the size is compared."""
_FAULTS: Final = (zipfile.BadZipFile, KeyError, LZMAError, RuntimeError, EOFError, OSError, ValueError, zlib.error)


class SheetFacts(NamedTuple):
    """Facts about a sheet that the library for workbooks does not report."""

    formulas: int = 0
    """Number of formulas without a value, whose cells look empty."""
    is_too_large: bool = False
    """Whether opening the sheet would need too much memory."""


def survey_sheets(payload: bytes) -> dict[str, SheetFacts]:
    """Returns the facts about the sheets of an Excel workbook by name, up to the first sheet that cannot be read."""
    facts: dict[str, SheetFacts] = {}
    # If a sheet cannot be read, the facts about the sheets before it are still true.
    with suppress(*_FAULTS), zipfile.ZipFile(io.BytesIO(payload)) as book:
        package = _Package(book, ViewWriter(0.0))
        related = package.read_relations("xl/workbook.xml")
        for each in package.read_elements("xl/workbook.xml"):
            if each.name == "sheet":
                _, part = related.get(get(each.attributes, "id"), ("", ""))
                facts[get(each.attributes, "name")] = _survey_sheet(book, part)
    return facts


def _survey_sheet(book: zipfile.ZipFile, part: str) -> SheetFacts:
    size = book.getinfo(part).file_size
    if size > _BYTES:
        return SheetFacts(is_too_large=size > _SHEET_BYTES)
    data = _part(book, part)
    formulas = sum(b'"str"' not in each for each in _EMPTY.findall(data))  # the value of a text formula may be empty
    return SheetFacts(formulas, _extent(data) > _EXTENT)


def _extent(data: bytes) -> int:
    """Returns the number of cells in the rectangle from A1 to the last row and the last column of a sheet.

    If the sheet has so few rows that no width could exceed the limit, returns only the number of rows.
    """
    last = _CELL.search(data, max(0, data.rfind(b"<c ")))
    rows = int(last[2]) if last is not None else 0
    if rows * _MAX_COLUMNS <= _EXTENT:  # within the limit, whatever the width of the sheet is
        return rows
    columns = {match[1] for match in _CELL.finditer(data)}
    return rows * max(_number(letters) for letters in columns)


def _number(letters: bytes) -> int:
    """Returns the number of a column from its letters: 1 for A, 27 for AA."""
    number = 0
    for letter in letters:
        number = number * 26 + letter - ord("A") + 1
    return number


def _part(book: zipfile.ZipFile, name: str) -> bytes:
    with book.open(name) as part:
        data = part.read(_BYTES + 1)
    if len(data) > _BYTES:
        raise ValueError(name)
    return data
