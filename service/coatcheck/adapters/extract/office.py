"""The text of Word documents, presentations, OpenDocument texts and EPUB books, whose parts are XML in a ZIP archive.

Runs in a worker process. Parts are unpacked within a limit for all of them; those that are missing, encrypted or broken
make the view partial. Text that stands apart has sections of its own: headers and footers, notes, comments, hidden
slides; text that was deleted while changes were tracked is none.

`survey_sheets` finds what the library for workbooks does not say of a sheet, as bytes and without expanding anything:
formulas without a value, whose cells look empty, and whether the sheet is too large to open. The library gives every
cell of a sheet's extent memory before it returns, so that one cell in the last row may end the worker.
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
"""Entries of a document's archive, whose directory is read whole: documents have hundreds."""
_UNPACKED: Final = 64 * 1024 * 1024
"""Bytes unpacked of one document."""
_HEADING: Final = re.compile(r"heading (\d)", re.IGNORECASE)
_BASES: Final = 16
"""Styles that may be based on one another."""
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
        """Returns the bytes of a part, or as many as there is room for; none if it cannot be read."""
        try:
            info = self._archive.getinfo(name)
            is_readable = info.compress_type in STOPPABLE_METHODS
            with self._archive.open(info) as source:
                data = source.read(self._room + 1) if is_readable else b""
        except Exception:  # noqa: BLE001 - whatever a document does to its reader; its other parts may be whole
            self.writer.partial = True
            return b""
        self.writer.partial = self.writer.partial or len(data) > self._room
        self._room = max(0, self._room - len(data))
        return data

    def read_elements(self, name: str) -> list[XmlElement]:
        """Returns the elements of a part that describes others; none if it is missing."""
        return elements(self.part(name)) if name in self.names else []

    def matching(self, pattern: str) -> list[str]:
        """Returns the names of parts, in the order of the numbers in them."""
        names = [name for name in self.names if re.fullmatch(pattern, name)]
        return sorted(names, key=lambda name: [int(each) for each in _NUMBER.findall(name)[-1:]])

    def read_relations(self, name: str) -> Mapping[str, tuple[str, str]]:
        """Returns by ID the type and the name of what a part refers to."""
        folder, _, base = name.rpartition("/")
        relations: dict[str, tuple[str, str]] = {}
        for each in self.read_elements(f"{folder}/_rels/{base}.rels"):
            target = posixpath.normpath(posixpath.join(f"/{folder}", get(each.attributes, "Target"))).lstrip("/")
            relations[get(each.attributes, "Id")] = get(each.attributes, "Type").rpartition("/")[2], target
        return relations

    def blocks(self, name: str, grammar: Grammar = DRAWING) -> list[Block]:
        """Returns the blocks of a part; none if it is missing."""
        return TextReader(grammar, self.writer).read(self.part(name)) if name in self.names else []


def extract_office(payload: bytes, name: str, until: float) -> ExtractedText | None:
    """Returns the text view of a document; None if it is none of these, or cannot be opened.

    Args:
        payload: the whole document.
        name: what its format is called.
        until: CPU time of this process, in seconds, at which to stop.
    """
    if payload.count(b"PK\1\2") > _MAX_MEMBERS:  # more than one per entry of a directory, which is read whole
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
    except Exception:  # noqa: BLE001 - whatever a document does to its reader, what was read before is whole
        writer.partial = True
    return writer.finish(_EXTRACTOR)


def _summary(name: str, metadata: Iterable[XmlElement], more: str = "") -> str:
    """Returns `Word document “Title”, by Author`, followed by `more`."""
    properties = {each.name: one_line(each.text) for each in reversed(list(metadata)) if each.text.strip()}
    title = f" “{properties['title']}”" if "title" in properties else ""
    author = properties.get("creator") or properties.get("initial-creator")
    return f"{name}{title}{f', by {author}' if author else ''}{more}"


def _write(writer: ViewWriter, blocks: Iterable[Block], level: int = 0) -> None:
    """Writes blocks; headings begin sections below this level."""
    was_tight = False
    for block in blocks:
        if block.level:
            writer.heading(block.text, level + block.level)
        elif (was_tight and block.is_tight) or writer.put(""):
            writer.put(block.text)
        was_tight = block.is_tight


def _write_areas(writer: ViewWriter, areas: Mapping[str, Sequence[Block]], level: int = 1) -> None:
    """Writes what stands apart, each area as a section."""
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
    """Returns the styles of paragraphs by ID, each with what it takes from those that it is based on."""
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
    for style in titles:  # what is based on it is none
        style.level = 1
    return styles


def _word_lists(package: _Package) -> frozenset[tuple[str, int]]:
    """Returns the numbered levels of lists."""
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
    """Returns the text itself, and what stands apart by its area."""
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
        if item is None or get(item, "properties") == "nav" or writer.late:  # which lists the chapters
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
"""Maximum bytes of a sheet, whose cells take up to eight times as much."""
_BYTES: Final = 32 * 1024 * 1024
"""Maximum bytes of a part."""
_FAULTS: Final = (zipfile.BadZipFile, KeyError, LZMAError, RuntimeError, EOFError, OSError, ValueError, zlib.error)


class SheetFacts(NamedTuple):
    """What is known of a sheet."""

    formulas: int = 0
    """Number of formulas without a value."""
    is_too_large: bool = False


def survey_sheets(payload: bytes) -> dict[str, SheetFacts]:
    """Returns what is known of each sheet of an Excel workbook, by its name; nothing of what cannot be read."""
    facts: dict[str, SheetFacts] = {}
    with suppress(*_FAULTS), zipfile.ZipFile(io.BytesIO(payload)) as book:  # what is known of other sheets stays true
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
    formulas = sum(b'"str"' not in each for each in _EMPTY.findall(data))  # which may be empty
    return SheetFacts(formulas, _extent(data) > _EXTENT)


def _extent(data: bytes) -> int:
    """Returns the number of cells between the first one of a sheet and the farthest, in at least the last row."""
    last = _CELL.search(data, max(0, data.rfind(b"<c ")))
    rows = int(last[2]) if last is not None else 0
    if rows * _MAX_COLUMNS <= _EXTENT:  # whatever its width is
        return rows
    columns = {match[1] for match in _CELL.finditer(data)}
    return rows * max(_number(letters) for letters in columns)


def _number(letters: bytes) -> int:
    """Returns the number of a column: 1 for A, 27 for AA."""
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
