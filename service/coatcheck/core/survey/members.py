"""The members of a JSON object that streams past: their names, short values and lengths, wherever they stand.

Brackets and commas are told apart in bulk; only the first bytes of each member are kept. Text that turns out to be no
single object, complete and in form as far as it is looked at, has no members.
"""

import re
from typing import Final, final

import msgspec
import numpy as np
from msgspec import Struct

from coatcheck.core.jsonpath.structure import StructureReader

_KEPT: Final = 400
"""Bytes of a member that are looked at."""
_MANY: Final = 200
"""Members from which an object is taken for a map: its names are data, and nothing is said of it."""
_NAME: Final = re.compile(rb'\s*("(?:[^"\\\x00-\x1f]|\\.)*")\s*:\s*')


class ObjectMember(Struct, frozen=True, array_like=True):
    """A member of the object."""

    name: str
    value: str | None = None
    """Its value as JSON, where that is a scalar of few bytes."""
    elements: int | None = None
    """How many elements it has, where it is an array."""


class _Part(Struct):
    """A member as far as it has been seen."""

    text: bytes = b""
    size: int = 0
    commas: int = 0
    """One level below the member itself."""


@final
class Members:
    """Collects them: `feed` the text, then `found`."""

    def __init__(self) -> None:
        self._structure: StructureReader | None = None
        self._parts: list[_Part] = []
        self._open = _Part()
        self._base = 0
        self._state: str = "before"
        """`before` the object, `inside` it, `behind` it, or `none` where there is none."""

    def feed(self, block: bytes) -> None:
        """Looks at the next bytes. Costs nothing once it is known that this is no object."""
        if self._state == "before":
            block = block.lstrip(b" \t\r\n\xef\xbb\xbf")
            if block:
                self._state = "inside" if block.startswith(b"{") else "none"
                self._structure = StructureReader()
        if self._structure is not None and self._state == "inside":
            self._look(self._structure, block)
        elif self._state == "behind" and block.strip():
            self._state = "none"

    def found(self) -> tuple[ObjectMember, ...]:
        """Returns the members, in order; none where this was no whole object, or one of more than 200."""
        if self._state != "behind":
            return ()
        members = [_member(part) for part in self._parts]
        return () if None in members else tuple(each for each in members if each is not None)

    def _look(self, structure: StructureReader, block: bytes) -> None:
        marks = structure.feed(block, 0)
        end = marks.closes(1)
        limit = int(marks.at[end]) if end < len(marks.at) else len(block)
        tops = marks.at[marks.commas(1, end)]
        inner = marks.at[marks.commas(2, end)]
        if len(self._parts) + len(tops) >= _MANY:
            self._state = "none"
            self._parts.clear()
            return
        start = 1 if not self._base else 0
        edges = [*tops.tolist(), limit]
        before = np.searchsorted(inner, edges).tolist()
        counted = 0
        for edge, below in zip(edges, before, strict=True):
            part = self._open
            if len(part.text) < _KEPT:
                part.text += block[start : min(edge, start + _KEPT - len(part.text))]
            part.size += edge - start
            part.commas += below - counted
            start, counted = edge + 1, below
            if edge < limit or end < len(marks.at):
                self._close()
        self._base += len(block)
        if end < len(marks.at):
            self._state = "none" if block[limit + 1 :].strip() else "behind"

    def _close(self) -> None:
        """The open member is over."""
        self._parts.append(self._open)
        self._open = _Part()


def _member(part: _Part) -> ObjectMember | None:
    """Returns what is known of a member; None where it is none."""
    match = _NAME.match(part.text)
    if match is None:
        return None
    try:
        name = msgspec.json.decode(match[1], type=str)
        rest = part.text[match.end() :].strip()
        if rest[:1] == b"[":
            empty = part.size == len(part.text) and not rest[1:-1].strip()
            return ObjectMember(name, elements=0 if empty else part.commas + 1)
        if rest[:1] == b"{" or part.size > len(part.text):
            return ObjectMember(name)
        return ObjectMember(name, value=msgspec.json.format(rest, indent=-1).decode())
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
