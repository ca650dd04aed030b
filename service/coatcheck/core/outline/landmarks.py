"""The ways of finding entries in a payload, one per sort of payload, and the scanner for symbols of source files.

The row of a kind names one of the ways (`core/kinds/spec.py`). Pure and bounded: cards use it while a payload is
stored. A definition extends to the next definition of the same or an outer level. Scopes are not analysed: a definition
is nested if it is indented further. Lines may be numbered, or have a file's name and a line number, as tools print
them; comments and strings that span lines define nothing.
"""

import re
from functools import cache
from heapq import merge
from itertools import pairwise
from typing import Final, final

from msgspec.structs import replace

from coatcheck.core.outline.diff import Diff
from coatcheck.core.outline.json_shape import of_notebook, of_table
from coatcheck.core.outline.languages import (
    CLOSING,
    ENDS,
    PATTERNS,
    PREFIX,
    is_definition,
    language_by_directive,
    language_of,
)
from coatcheck.core.outline.line_scanner import StartScanner, is_log, is_oneline, oneline_scanner, phase_scanner
from coatcheck.core.outline.model import (
    EntryStart,
    Landmarks,
    OutlineEntries,
    OutlineEntry,
    OutlineScanner,
    make_title,
    reaching,
)
from coatcheck.core.outline.regions import Regions
from coatcheck.core.outline.summary import of_json
from coatcheck.core.outline.yaml_parts import YamlParts, yaml_form
from coatcheck.core.structure import style_of
from coatcheck.core.text.scan import BlockPattern
from coatcheck.core.views.window import Position

_LINE: Final = 600
"""Maximum bytes of a line with a definition; generated code is full of longer ones."""
_TAB: Final = 4
"""Columns of a tab stop; it only matters where a file mixes tabs and blanks."""
_MAX_LEVEL: Final = 8
"""Maximum level of a symbol; symbols that are nested more deeply get this level."""
_PREFIX: Final = re.compile(PREFIX.encode())
_INDENT: Final = re.compile(rb"[ \t]*")
_TRAILING: Final = b" \t\r\n{:=("
_UNNAMED: Final = re.compile(r"typedef (?:struct|enum|union)")
_NAMED: Final = re.compile(rb"^\}[ \t]*(\w[^;\n]{0,80})?;", re.MULTILINE)
"""Matches the line that ends an unnamed type, and gives it its name."""
_BODY: Final = 16 * 1024
"""Bytes of an unnamed type in which its end is searched for."""


@cache
def _scan(language: str) -> BlockPattern:
    return BlockPattern(PATTERNS[language])


@cache
def _ends(language: str) -> BlockPattern | None:
    return BlockPattern(ENDS[language]) if language in ENDS else None


@final
class Symbols(StartScanner):
    """Finds the definitions of one language."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self._scan = _scan(language)
        self._ends = _ends(language)
        self._closing = language in CLOSING
        self._open: dict[int, int] = {}
        """For each indentation, the number of the last definition whose end was not found yet."""
        self._ended: dict[int, Position] = {}
        self._regions = Regions(language)
        self._details: list[str | None] = []
        self._indents: list[int] = []
        self._unnamed = 0
        """Number, from 1, of the last entry that is a type whose name was not found yet; 0: there is no such entry."""

    def feed(self, data: bytes, place: Position) -> None:
        """Processes whole lines, the first of which begins at this place."""
        offset, here = 0, place
        self._name(data, 0, place.byte)
        regions = iter(self._regions.of(data))
        region = next(regions, None)
        begins = ((start, end, True) for start, end, *_ in self._scan.lines(data))
        closes = () if self._ends is None else ((start, end, False) for start, end, *_ in self._ends.lines(data))
        for start, end, defines in merge(begins, closes):
            if self.full:
                return
            while region is not None and region[1] <= start:
                region = next(regions, None)
            if end - start > _LINE or (region is not None and region[0] <= start):
                continue
            line = data[start:end]
            prefix = _PREFIX.match(line)
            code = line[prefix.end() :] if prefix else line
            indent = _INDENT.match(code)
            depth = len(indent[0].expandtabs(_TAB)) if indent else 0
            if not defines:
                here, offset = here.after(data[offset:start]), start
                after = here.after(data[start:end])
                for each in [each for each in self._open if each >= depth]:  # deeper definitions ended before
                    number = self._open.pop(each)
                    if self.starts[number].place.byte < here.byte:
                        self._ended[number] = after if each == depth and self._closing else here
                continue
            title = make_title(code.rstrip(_TRAILING))
            if not is_definition(title):
                continue
            here, offset = here.after(data[offset:start]), start
            self._open[depth] = len(self.starts)
            self.starts.append(EntryStart("symbol", title, self._level(depth), here))
            self._details.append(_origin(prefix, here.newlines + 1))
            if _UNNAMED.fullmatch(title):
                self._unnamed = len(self.starts)
                self._name(data, end, here.byte + end - start)

    def finish(self, end: Position, *, ends_line: bool) -> list[OutlineEntry]:
        """Returns the definitions. `detail` gives the place of a definition in its file, if its line says so."""
        entries = reaching(self.starts, end, ends_line=ends_line, ends=self._ended)
        return [replace(entry, detail=detail) for entry, detail in zip(entries, self._details, strict=True)]

    def _name(self, data: bytes, at: int, byte: int) -> None:
        """Adds the name to the title of an unnamed type. `at` in the block is the position `byte` in the text."""
        if not self._unnamed:
            return
        start = self.starts[self._unnamed - 1]
        name = _NAMED.search(data, at, max(at, min(len(data), at + start.place.byte + _BODY - byte)))
        if name is not None:
            title = make_title(start.title.encode() + b" " + (name[1] or b""))
            self.starts[self._unnamed - 1] = replace(start, title=title)
        if name is not None or byte + len(data) - at >= start.place.byte + _BODY:
            self._unnamed = 0

    def _level(self, indent: int) -> int:
        while self._indents and self._indents[-1] >= indent:
            self._indents.pop()
        self._indents.append(indent)
        return min(len(self._indents), _MAX_LEVEL)


def _origin(prefix: re.Match[bytes] | None, line: int) -> str | None:
    """Returns the place that a line says it comes from; None if it says nothing, or names its place in this text."""
    if prefix is None or not prefix[0]:
        return None
    path, number = prefix["path"], int(prefix["number"] or prefix["counted"])
    if path is not None:
        return make_title(path + b":" + str(number).encode())
    return None if number == line else f"line {number:,} of its file"


_BEGINNING: Final = Position(0, 0, 0)
_HEAD_BYTES: Final = 16 * 1024
"""Bytes at the beginning that decide how entries are found."""
_LINES: Final = 40
"""Maximum lines that are examined to find out whether a text is source as tools print it."""
_MIN_LINES: Final = 3
"""Minimum lines of a text that is taken for source, because any two lines may be numbered."""
_WIDE: Final = 160
"""Bytes of a line that are examined."""
_DEFINED: Final = 2
"""Minimum definitions at the beginning of a text that is taken for source."""


def landmarks(landmark_rules: Landmarks, names: tuple[str | None, ...], data: bytes) -> list[OutlineEntry]:
    """Returns the entries of a whole payload, in order; none if nothing is recognised.

    Args:
        landmark_rules: how entries are found in such a payload.
        names: possible names of the payload's file: titles, URLs.
        data: the whole payload; the lines and bytes of entries refer to it.
    """
    if landmark_rules.structure is not None:
        return landmark_rules.structure(data, data.count(b"\n") + (not data.endswith(b"\n")), whole=True).entries
    scanner = landmark_rules.scanner(names, data[:_HEAD_BYTES])
    if scanner is None or not data:
        return []
    scanner.feed(data, _BEGINNING)
    return scanner.finish(_BEGINNING.after(data), ends_line=data.endswith(b"\n"))


def _json(head: bytes, _lines: int, *, whole: bool) -> OutlineEntries:
    """Returns the cells of a complete notebook, or the places in a JSON document that begins with `head`."""
    return (of_notebook(head) if whole else None) or of_json(head, whole=whole)


def _table(head: bytes, lines: int, *, whole: bool) -> OutlineEntries:
    del whole
    return of_table(head, lines)


def _find_list_scanner(head: bytes) -> OutlineScanner | None:
    """Returns the scanner for a text's commits, documents or keys; None if it has no such parts."""
    if is_log(head):
        return Diff()
    if is_oneline(head):
        return oneline_scanner()
    form = yaml_form(head)
    return YamlParts(form) if form else None


def _source(names: tuple[str | None, ...], head: bytes) -> OutlineScanner | None:
    """Returns a scanner for symbols if a text reads as source or has a directive, and its beginning defines something.

    Source may begin with a comment of many lines, which read as prose.
    """
    lines = [line[:_WIDE] for line in head.split(b"\n")[:_LINES] if line and not line.isspace()]
    if len(lines) < _MIN_LINES:
        return None
    style = style_of(b"\n".join(lines).decode("utf-8", "ignore").encode(), len(lines))
    if style != "code" and language_by_directive(head) is None:
        return None
    language = language_of(names, head)
    return Symbols(language) if _finds(Symbols(language), head) else None


def _finds(scanner: OutlineScanner, head: bytes) -> bool:
    """Returns whether a scanner finds at least _DEFINED entries in the whole lines of a text's beginning."""
    scanner.feed(head[: head.rfind(b"\n") + 1], _BEGINNING)
    return len(scanner.finish(_BEGINNING.after(head), ends_line=False)) >= _DEFINED


def _find_source_scanner(names: tuple[str | None, ...], head: bytes) -> OutlineScanner | None:
    return Symbols(language_of(names, head)) if _is_printed_source(head) else None


JSON: Final = Landmarks(structure=_json, whole_bytes=8 * 1024 * 1024, beside_sections=True)
"""Cells of a notebook, otherwise paths with their types."""
TABLE: Final = Landmarks(structure=_table)
"""Columns, and the lines of the rows."""
DIFF: Final = Landmarks(scanner=lambda _names, _head: Diff())
"""Files and hunks, and commits if there are any."""
SOURCE: Final = Landmarks(scanner=lambda names, head: _find_list_scanner(head) or Symbols(language_of(names, head)))
"""Symbols; commits of a Git log; documents of a YAML stream; keys of a YAML mapping."""
OUTPUT: Final = Landmarks(
    scanner=lambda names, head: (
        _find_list_scanner(head) or _find_source_scanner(names, head) or _source(names, head) or phase_scanner()
    )
)
"""Commits, parts of YAML or symbols, as in SOURCE, if the text has them, with or without line numbers; otherwise
phases."""
PROSE: Final = Landmarks(scanner=lambda names, head: _find_list_scanner(head) or _find_source_scanner(names, head))
"""Commits of a Git log; documents of a YAML stream; symbols of printed source."""
PRINTED: Final = Landmarks(scanner=_find_source_scanner)
"""Only symbols of printed source. This is for payloads without sections, of kinds that usually have them."""


def _is_printed_source(head: bytes) -> bool:
    """Returns whether every line is numbered in sequence, or has a path and a number, like output of grep."""
    lines = head.split(b"\n")[: _LINES + 1][:-1]
    matches = [_PREFIX.match(line) for line in lines if line not in {b"", b"--"}]
    if len(matches) < _MIN_LINES:
        return False
    if all(match is not None and match["path"] is not None for match in matches):
        return language_of((), head) != "any"
    numbers = [int(match["counted"]) for match in matches if match is not None and match["counted"]]
    return len(numbers) == len(matches) and all(b == a + 1 for a, b in pairwise(numbers))
