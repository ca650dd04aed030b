"""The definitions of a source file: every line that begins one, nested by indentation.

A definition reaches to the next of its level or above. It knows no scopes: a nested one is one that stands further in.
"""

import re
from typing import Final, final

from coatcheck.core.kinds.scan import Scan
from coatcheck.core.outline.languages import PATTERNS, is_definition
from coatcheck.core.outline.model import MAX_ENTRIES, Entry, Start, reaching, titled
from coatcheck.core.window import Place

_LINE: Final = 600
"""Bytes of a line above which it is no definition; generated code is full of longer ones."""
_TAB: Final = 4
_DEEPEST: Final = 8
_NUMBER: Final = re.compile(rb"[ ]{0,7}[0-9]{1,7}(?:[:|\t]|\xe2\x86\x92)[ ]?")
_INDENT: Final = re.compile(rb"[ \t]*")
_TRAIL: Final = " {:=("
_SCANS: dict[str, Scan] = {}


@final
class Symbols:
    """A Scanner."""

    def __init__(self, language: str) -> None:
        if language not in _SCANS:
            _SCANS[language] = Scan(PATTERNS[language])
        self._scan = _SCANS[language]
        self._starts: list[Start] = []
        self._indents: list[int] = []

    @property
    def full(self) -> bool:
        """See Scanner."""
        return len(self._starts) >= MAX_ENTRIES

    def feed(self, data: bytes, place: Place) -> None:
        """See Scanner."""
        counted, here = 0, place
        for start, end, *_ in self._scan.lines(data):
            if self.full:
                return
            if end - start > _LINE:
                continue
            line = data[start:end]
            numbered = _NUMBER.match(line)
            code = line[numbered.end() :] if numbered else line
            title = titled(code).rstrip(_TRAIL)
            if not is_definition(title):
                continue
            here, counted = here.after(data[counted:start]), start
            indent = _INDENT.match(code)
            level = self._level(len(indent[0].expandtabs(_TAB)) if indent else 0)
            self._starts.append(Start("symbol", title, level, here))

    def finish(self, end: Place, *, ends_line: bool) -> list[Entry]:
        """See Scanner."""
        return reaching(self._starts, end, ends_line=ends_line)

    def _level(self, indent: int) -> int:
        while self._indents and self._indents[-1] >= indent:
            self._indents.pop()
        self._indents.append(indent)
        return min(len(self._indents), _DEEPEST)
