"""Finds the entries of a payload, in one way per sort of payload, and has the scanner for symbols of source files.

Each kind names one of these ways (`core/kinds/spec.py`). Pure and bounded: cards use them while a payload is stored. A
definition extends to the next definition on its level or above. Scopes are not analysed: a definition is nested if it
is indented further. Lines may be numbered, or begin with a file's name and a line number, as tools print them. Comments
and strings that span lines define nothing.
"""

import re
from functools import cache
from heapq import merge
from itertools import pairwise
from typing import Final, final

from msgspec.structs import replace

from coatcheck.core.outline.diff import Diff
from coatcheck.core.outline.json_shape import of_table
from coatcheck.core.outline.languages import (
    CLOSING,
    ENDS,
    PATTERNS,
    PREFIX,
    is_definition,
    language_by_directive,
    language_of,
)
from coatcheck.core.outline.line_scanner import Phases, StartScanner, is_log
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
from coatcheck.core.outline.yaml_documents import YamlDocuments, is_stream
from coatcheck.core.structure import style_of
from coatcheck.core.text.scan import BlockPattern
from coatcheck.core.views.window import Position

_LINE: Final = 600
"""Maximum bytes of a line with a definition; longer lines are mostly generated code."""
_TAB: Final = 4
"""Columns per tab stop; matters only in files that mix tabs and blanks."""
_MAX_LEVEL: Final = 8
"""Deepest level of a symbol; a deeper symbol gets this level."""
_PREFIX: Final = re.compile(PREFIX.encode())
_INDENT: Final = re.compile(rb"[ \t]*")
_TRAILING: Final = b" \t\r\n{:=("


@cache
def _scan(language: str) -> BlockPattern:
    return BlockPattern(PATTERNS[language])


@cache
def _ends(language: str) -> BlockPattern | None:
    return BlockPattern(ENDS[language]) if language in ENDS else None


@final
class Symbols(StartScanner):
    """Finds the definitions in source of one language."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self._scan = _scan(language)
        self._ends = _ends(language)
        self._closing = language in CLOSING
        self._open: dict[int, int] = {}
        """Number of the last unfinished definition of each indentation."""
        self._ended: dict[int, Position] = {}
        self._regions = Regions(language)
        self._details: list[str | None] = []
        self._indents: list[int] = []

    def feed(self, data: bytes, place: Position) -> None:
        """Processes whole lines; the first line begins at `place`."""
        offset, here = 0, place
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
                for each in [each for each in self._open if each >= depth]:  # deeper ones ended before
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

    def finish(self, end: Position, *, ends_line: bool) -> list[OutlineEntry]:
        """Returns the definitions; `detail` has the position in the original file if it is not the position here."""
        entries = reaching(self.starts, end, ends_line=ends_line, ends=self._ended)
        return [replace(entry, detail=detail) for entry, detail in zip(entries, self._details, strict=True)]

    def _level(self, indent: int) -> int:
        while self._indents and self._indents[-1] >= indent:
            self._indents.pop()
        self._indents.append(indent)
        return min(len(self._indents), _MAX_LEVEL)


def _origin(prefix: re.Match[bytes] | None, line: int) -> str | None:
    """Returns the position that a line's prefix gives; None if there is no prefix, or if it only repeats `line`."""
    if prefix is None or not prefix[0]:
        return None
    path, number = prefix["path"], int(prefix["number"] or prefix["counted"])
    if path is not None:
        return make_title(path + b":" + str(number).encode())
    return None if number == line else f"line {number:,} of its file"


_BEGINNING: Final = Position(0, 0, 0)
_HEAD_BYTES: Final = 16 * 1024
"""Bytes at the beginning of a payload by which the scanner is chosen."""
_LINES: Final = 40
"""Number of first lines that are examined to recognise printed source."""
_MIN_LINES: Final = 3
"""Minimum lines of a text that is taken for source: any two lines may be numbered."""
_WIDE: Final = 160
"""Bytes of a line that are examined to recognise source."""
_DEFINED: Final = 2
"""Minimum definitions at the beginning of a text that is taken for source."""


def landmarks(landmark_rules: Landmarks, names: tuple[str | None, ...], data: bytes) -> list[OutlineEntry]:
    """Returns the entries of a whole payload, in order; an empty list if nothing is recognised.

    Args:
        landmark_rules: how entries are found in a payload of this kind.
        names: possible names of its file: titles, URLs.
        data: the whole payload; lines and bytes of the entries refer to it.
    """
    if landmark_rules.structure is not None:
        return landmark_rules.structure(data, data.count(b"\n") + (not data.endswith(b"\n")), whole=True).entries
    scanner = landmark_rules.scanner(names, data[:_HEAD_BYTES])
    if scanner is None or not data:
        return []
    scanner.feed(data, _BEGINNING)
    return scanner.finish(_BEGINNING.after(data), ends_line=data.endswith(b"\n"))


def _json(head: bytes, _lines: int, *, whole: bool) -> OutlineEntries:
    return of_json(head, whole=whole)


def _table(head: bytes, lines: int, *, whole: bool) -> OutlineEntries:
    del whole
    return of_table(head, lines)


def _find_list_scanner(head: bytes) -> OutlineScanner | None:
    """Returns the scanner for commits or YAML documents; None if the text has neither."""
    return Diff() if is_log(head) else YamlDocuments() if is_stream(head) else None


def _source(names: tuple[str | None, ...], head: bytes) -> OutlineScanner | None:
    """Returns a scanner for symbols if a text is source, and its beginning defines something; otherwise None.

    Source is recognised by its style or by a directive, because it may begin with a comment of many lines that reads as
    prose.
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
    """Returns whether a scanner finds enough definitions in the whole lines of `head` for an outline."""
    scanner.feed(head[: head.rfind(b"\n") + 1], _BEGINNING)
    return len(scanner.finish(_BEGINNING.after(head), ends_line=False)) >= _DEFINED


def _find_source_scanner(names: tuple[str | None, ...], head: bytes) -> OutlineScanner | None:
    return Symbols(language_of(names, head)) if _is_printed_source(head) else None


JSON: Final = Landmarks(structure=_json, whole_bytes=8 * 1024 * 1024, beside_sections=True)
"""Paths of a JSON document, with their types."""
TABLE: Final = Landmarks(structure=_table)
"""Columns of a table, and the lines of its rows."""
DIFF: Final = Landmarks(scanner=lambda _names, _head: Diff())
"""Files and hunks of a diff, and commits if there are any."""
SOURCE: Final = Landmarks(scanner=lambda names, head: _find_list_scanner(head) or Symbols(language_of(names, head)))
"""Commits of a Git log, documents of a YAML stream, or else symbols."""
OUTPUT: Final = Landmarks(
    scanner=lambda names, head: (
        _find_list_scanner(head) or _find_source_scanner(names, head) or _source(names, head) or Phases()
    )
)
"""Commits of a Git log, documents of a YAML stream, symbols if the text is source (numbered or not), or else phases."""
PROSE: Final = Landmarks(scanner=lambda names, head: _find_list_scanner(head) or _find_source_scanner(names, head))
"""Commits of a Git log, documents of a YAML stream, or symbols of printed source."""
PRINTED: Final = Landmarks(scanner=_find_source_scanner)
"""Only symbols of printed source. For kinds that have sections, if this payload has no sections."""


def _is_printed_source(head: bytes) -> bool:
    """Returns whether every line is numbered in sequence, or has a path and a number as in the output of grep."""
    lines = head.split(b"\n")[: _LINES + 1][:-1]
    matches = [_PREFIX.match(line) for line in lines if line not in {b"", b"--"}]
    if len(matches) < _MIN_LINES:
        return False
    if all(match is not None and match["path"] is not None for match in matches):
        return language_of((), head) != "any"
    numbers = [int(match["counted"]) for match in matches if match is not None and match["counted"]]
    return len(numbers) == len(matches) and all(b == a + 1 for a, b in pairwise(numbers))
