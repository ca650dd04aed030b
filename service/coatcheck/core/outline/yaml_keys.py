"""The keys of one YAML mapping, by which its parts are found. No text is parsed."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final, final

from coatcheck.core.outline.line_scanner import StartScanner
from coatcheck.core.outline.model import Entry, EntryStart, titled
from coatcheck.core.text.scan import BlockPattern
from coatcheck.core.views.window import Position

_LOOK: Final = 16 * 1024
_LEAST: Final = 2
"""Minimum parts of a text; one is no outline."""
_KEY: Final = r"(?:\"[^\"\n]{1,80}\"|'[^'\n]{1,80}'|[\w./$~<*+][\w./${}<>*+@=()-]{0,80})"
_KEYS: Final = BlockPattern(rf"^ {{0,8}}(?:- |{_KEY}:(?:[ \t\r]|$))")
_KEY_LINE: Final = re.compile(rb"( *)(" + _KEY.encode() + rb"):[ \t\r]*(.*)")
_NOTHING: Final = re.compile(rb"(?:[ \t\r]*(?:#[^\n]*)?\n)*")
_OUTER: Final = re.compile(rb"#|%YAML|---(?:\s|$)|-\s|[\]}]|" + _KEY.encode() + rb":(?:\s|$)")
"""What a line of YAML may be that is not indented."""
_EMPTY: Final = re.compile(rb"(?:[&!]\S+[ \t\r]*)*(?:#.*)?$")
"""What may follow the colon of a key whose value stands below."""


def _outer(head: bytes) -> Iterator[bytes]:
    """Yields the whole lines at the beginning that are neither blank nor indented."""
    first = head[:_LOOK]
    lines = first[: first.rfind(b"\n") + 1] if len(head) > _LOOK else first
    return (line for line in lines.split(b"\n") if line.strip() and line[:1] not in b" \t")


def is_mapping(head: bytes) -> bool:
    """Returns whether a text begins as one YAML mapping: keys that differ, at least one with a block below."""
    first = head[:_LOOK]
    if b"\n " not in first or b"\n\t" in first:
        return False
    if not all(map(_OUTER.match, _outer(head))):
        return False
    lines = list(_outer(head))
    if not lines or lines[0][:2] == b"- ":
        return False
    found = [match for line in lines if (match := _KEY_LINE.match(line)) is not None]
    if not found or any(line[:3] == b"---" for line in lines[lines.index(found[0][0]) :]):
        return False
    keys = Counter(match[2] for match in found)
    blocks = re.findall(rb"^[^\s#-][^\n]*:[ \t]*\r?\n(?:[ \t]*(?:#[^\n]*)?\n)*(?: +|- )\S", first, re.MULTILINE)
    return bool(blocks) and len(keys) == len(found) and (len(keys) > _LEAST or len(keys) == len(blocks))


@final
class YamlKeys(StartScanner):
    """Finds the keys of one YAML mapping, and in them those with a block below; all of these if there is one key."""

    def __init__(self) -> None:
        super().__init__()
        self._indent = 0
        """Blanks before the keys in the present key; 0 if it has none, or they are not known yet."""
        self._inside = False
        """Whether the present key may have keys."""
        self._tops = 0
        self._leaves: set[int] = set()

    def feed(self, data: bytes, place: Position) -> None:
        """Processes whole lines, the first of which begins at this place."""
        counted, here, below = 0, place, 0
        for start, end, *_ in _KEYS.lines(data):
            match = None if self.full else _KEY_LINE.match(data, start, end)
            if self._inside and not self._indent and start > below:
                self._inside = _NOTHING.fullmatch(data, below, start) is not None
            if match is None:
                self._inside = self._inside and self._indent > 0  # a list, unless it stands in a key of this one
                continue
            indent, empty = len(match[1]), _EMPTY.match(match[3]) is not None
            if not indent:
                self._tops += 1
                self._inside, self._indent, below = empty, 0, end
            elif not self._inside or (self._indent and indent != self._indent):
                continue
            else:
                self._indent = indent
            if indent and not empty:
                if self._tops > 1:
                    continue
                self._leaves.add(len(self.starts))
            here, counted = here.after(data[counted:start]), start
            self.starts.append(EntryStart("block", titled(match[2].strip(b"\"'")), 1 + bool(indent), here))
        if self._inside and not self._indent:
            self._inside = _NOTHING.fullmatch(data, below) is not None

    def finish(self, end: Position, *, ends_line: bool) -> list[Entry]:
        """Returns the keys, once the lines have ended at this place; `ends_line`: with a line feed."""
        if self._tops > 1:
            self.starts = [each for number, each in enumerate(self.starts) if number not in self._leaves]
        return super().finish(end, ends_line=ends_line)
