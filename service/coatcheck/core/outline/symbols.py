"""The definitions in a source file: every line that begins one, nested by indentation.

A definition extends to the next of its level or above. Scopes are not analysed: a nested definition is one that is
indented further. Lines may be numbered, or have a file's name and a line number, as tools print them; comments and
strings that span lines define nothing.
"""

import re
from functools import cache
from typing import Final, final

from msgspec.structs import replace

from coatcheck.core.outline.languages import PATTERNS, PREFIX, is_definition
from coatcheck.core.outline.line_scanner import StartScanner
from coatcheck.core.outline.model import Entry, EntryStart, titled
from coatcheck.core.outline.regions import Regions
from coatcheck.core.text.scan import BlockPattern
from coatcheck.core.views.window import Position

_LINE: Final = 600
"""Maximum bytes of a line with a definition; generated code is full of longer ones."""
_TAB: Final = 4
_DEEPEST: Final = 8
_PREFIX: Final = re.compile(PREFIX.encode())
_INDENT: Final = re.compile(rb"[ \t]*")
_TRAIL: Final = b" \t\r\n{:=("


@cache
def _scan(language: str) -> BlockPattern:
    return BlockPattern(PATTERNS[language])


@final
class Symbols(StartScanner):
    """Finds the definitions of one language."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self._scan = _scan(language)
        self._regions = Regions(language)
        self._details: list[str | None] = []
        self._indents: list[int] = []

    def feed(self, data: bytes, place: Position) -> None:
        """Processes whole lines, the first of which begins at this place."""
        counted, here = 0, place
        regions = iter(self._regions.of(data))
        region = next(regions, None)
        for start, end, *_ in self._scan.lines(data):
            if self.full:
                return
            while region is not None and region[1] <= start:
                region = next(regions, None)
            if end - start > _LINE or (region is not None and region[0] <= start):
                continue
            line = data[start:end]
            prefix = _PREFIX.match(line)
            code = line[prefix.end() :] if prefix else line
            title = titled(code.rstrip(_TRAIL))
            if not is_definition(title):
                continue
            here, counted = here.after(data[counted:start]), start
            indent = _INDENT.match(code)
            level = self._level(len(indent[0].expandtabs(_TAB)) if indent else 0)
            self.starts.append(EntryStart("symbol", title, level, here))
            self._details.append(_origin(prefix, here.newlines + 1))

    def finish(self, end: Position, *, ends_line: bool) -> list[Entry]:
        """Returns the definitions; `detail` says where in its file one is, if not here."""
        entries = super().finish(end, ends_line=ends_line)
        return [replace(entry, detail=detail) for entry, detail in zip(entries, self._details, strict=True)]

    def _level(self, indent: int) -> int:
        while self._indents and self._indents[-1] >= indent:
            self._indents.pop()
        self._indents.append(indent)
        return min(len(self._indents), _DEEPEST)


def _origin(prefix: re.Match[bytes] | None, line: int) -> str | None:
    """Returns where a line says that it comes from, unless that is its place here."""
    if prefix is None or not prefix[0]:
        return None
    path, number = prefix["path"], int(prefix["number"] or prefix["counted"])
    if path is not None:
        return titled(path + b":" + str(number).encode())
    return None if number == line else f"line {number:,} of its file"
