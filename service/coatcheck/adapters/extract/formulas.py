"""Counts formulas of a workbook whose values its program never computed: their cells look empty. Runs in a worker.

Reads only the parts of an Excel workbook that name its sheets, and the sheets, as bytes; expands nothing.
"""

import io
import re
import zipfile
import zlib
from html import unescape
from lzma import LZMAError
from typing import Final

_SHEET: Final = re.compile(rb"<(?:\w+:)?sheet\s([^<>]*)>")
_RELATION: Final = re.compile(rb"<(?:\w+:)?Relationship\s([^<>]*)>")
_ATTRIBUTE: Final = re.compile(rb"([\w:]+)=\"([^\"<]*)\"")
_EMPTY: Final = re.compile(rb"<c(\s[^<>]*)?>\s*<f(?:\s[^<>]*)?(?:/>|(?<!/)>[^<]*</f>)\s*(?:<v>\s*</v>|<v\s*/>)?\s*</c>")
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


def formulas_without_value(payload: bytes) -> dict[str, int]:
    """Returns how many formulas of each sheet have no value, by the sheet's name; none for what cannot be read."""
    found: dict[str, int] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(payload)) as book:
            related = [_attributes(each) for each in _RELATION.findall(_part(book, "xl/_rels/workbook.xml.rels"))]
            targets = {each.get("Id", ""): each.get("Target", "") for each in related}
            for sheet in map(_attributes, _SHEET.findall(_part(book, "xl/workbook.xml"))):
                target = targets.get(sheet.get("r:id", ""), "")
                cells = _EMPTY.findall(_part(book, target[1:] if target.startswith("/") else f"xl/{target}"))
                found[sheet.get("name", "")] = sum(b'"str"' not in each for each in cells)  # which may be empty
    except _FAULTS:
        return found  # sheets counted so far; what cannot be read is not counted
    return found


def _part(book: zipfile.ZipFile, name: str) -> bytes:
    with book.open(name) as part:
        data = part.read(_BYTES + 1)
    if len(data) > _BYTES:
        raise ValueError(name)
    return data


def _attributes(tag: bytes) -> dict[str, str]:
    return {name.decode(): unescape(value.decode()) for name, value in _ATTRIBUTE.findall(tag)}
