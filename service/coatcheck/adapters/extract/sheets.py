"""What the library for workbooks does not say of a sheet: formulas without a value, whether it is too large to open.

The library gives every cell of a sheet's extent memory before it returns, so that one cell in the last row may end the
worker. Formulas whose values no program computed have cells that look empty. Runs in a worker.

Reads only the parts of an Excel workbook that name its sheets, and the sheets, as bytes; expands nothing.
"""

import io
import re
import zipfile
import zlib
from html import unescape
from lzma import LZMAError
from typing import Final, NamedTuple

_SHEET: Final = re.compile(rb"<(?:\w+:)?sheet\s([^<>]*)>")
_RELATION: Final = re.compile(rb"<(?:\w+:)?Relationship\s([^<>]*)>")
_ATTRIBUTE: Final = re.compile(rb"([\w:]+)=\"([^\"<]*)\"")
_EMPTY: Final = re.compile(rb"<c(\s[^<>]*)?>\s*<f(?:\s[^<>]*)?(?:/>|(?<!/)>[^<]*</f>)\s*(?:<v>\s*</v>|<v\s*/>)?\s*</c>")
_CELL: Final = re.compile(rb"<(?:\w+:)?c\s[^<>]*?\br=\"([A-Z]{1,3})([0-9]{1,7})\"")
_COLUMNS: Final = 16_384
_EXTENT: Final = 12_000_000
"""Maximum cells in the extent of a sheet, at 32 bytes each."""
_LARGEST: Final = 96 * 1024 * 1024
"""Maximum bytes of a sheet, whose cells take up to eight times as much."""
_BYTES: Final = 32 * 1024 * 1024
"""Maximum bytes of a part."""
_FAULTS: Final = (
    zipfile.BadZipFile,
    KeyError,
    LZMAError,
    RuntimeError,
    EOFError,
    OSError,
    ValueError,
    zlib.error,
)


class SheetFacts(NamedTuple):
    """What is known of a sheet."""

    formulas: int = 0
    """Number of formulas without a value."""
    is_too_large: bool = False


def survey_sheets(payload: bytes) -> dict[str, SheetFacts]:
    """Returns what is known of each sheet of an Excel workbook, by its name; nothing of what cannot be read."""
    facts: dict[str, SheetFacts] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(payload)) as book:
            related = [_attributes(each) for each in _RELATION.findall(_part(book, "xl/_rels/workbook.xml.rels"))]
            targets = {each.get("Id", ""): each.get("Target", "") for each in related}
            for sheet in map(_attributes, _SHEET.findall(_part(book, "xl/workbook.xml"))):
                target = targets.get(sheet.get("r:id", ""), "")
                part = target[1:] if target.startswith("/") else f"xl/{target}"
                facts[sheet.get("name", "")] = _survey_sheet(book, part)
    except _FAULTS:
        return facts  # of sheets so far
    return facts


def _survey_sheet(book: zipfile.ZipFile, part: str) -> SheetFacts:
    size = book.getinfo(part).file_size
    if size > _BYTES:
        return SheetFacts(is_too_large=size > _LARGEST)
    data = _part(book, part)
    formulas = sum(b'"str"' not in each for each in _EMPTY.findall(data))  # which may be empty
    return SheetFacts(formulas, _extent(data) > _EXTENT)


def _extent(data: bytes) -> int:
    """Returns the number of cells between the first one of a sheet and the farthest, in at least the last row."""
    last = _CELL.search(data, max(0, data.rfind(b"<c ")))
    rows = int(last[2]) if last is not None else 0
    if rows * _COLUMNS <= _EXTENT:  # whatever its width is
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


def _attributes(tag: bytes) -> dict[str, str]:
    return {name.decode(): unescape(value.decode()) for name, value in _ATTRIBUTE.findall(tag)}
