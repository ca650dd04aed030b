"""The members of a streamed JSON object: their names, short values and lengths, wherever they are.

Brackets and commas are processed in bulk; only the first bytes of each member are kept. Text that turns out not to be a
single, complete object, well-formed as far as it is checked, has no members.
"""

import re
from typing import Final, final

import msgspec
import numpy as np
from msgspec import Struct

from coatcheck.core.jsonpath.structure import StructureReader

_KEPT: Final = 400
"""Bytes of a member that are kept."""
_MANY: Final = 200
"""Members from which an object is considered a map: its names are data, and are not reported."""
_NAME: Final = re.compile(rb'\s*("(?:[^"\\\x00-\x1f]|\\.)*")\s*:\s*')


class ObjectMember(Struct, frozen=True, array_like=True):
    """A member of the object."""

    name: str
    value: str | None = None
    """Its value as JSON, if it is a scalar of few bytes."""
    elements: int | None = None
    """Its number of elements, if it is an array."""


class _Part(Struct):
    """A member as far as it has been read."""

    text: bytes = b""
    size: int = 0
    commas: int = 0
    """Commas one level below the member itself."""


@final
class Members:
    """Collects members: `feed` the text, then call `found`."""

    def __init__(self) -> None:
        self._structure = StructureReader()
        self._parts: list[_Part] = []
        self._open = _Part()
        self._base = 0
        self._state: str = "before"
        """`before` the object, `inside` it, `behind` it, or `none` if there is none."""

    def feed(self, block: bytes) -> None:
        """Processes the next bytes. Costs nothing once it is known that this is not an object."""
        if self._state == "before":
            block = block.lstrip(b" \t\r\n\xef\xbb\xbf")
            if block:
                self._state = "inside" if block.startswith(b"{") else "none"
        if self._state == "inside":
            self._look(block)
        elif self._state == "behind" and block.strip():
            self._state = "none"

    def found(self) -> tuple[ObjectMember, ...]:
        """Returns the members, in order; none if this was not a complete object, or one of more than 200."""
        if self._state != "behind":
            return ()
        members = [_member(part) for part in self._parts]
        return () if None in members else tuple(each for each in members if each is not None)

    def _look(self, block: bytes) -> None:
        marks = self._structure.feed(block, 0)
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
                self._parts.append(part)
                self._open = _Part()
        self._base += len(block)
        if end < len(marks.at):
            self._state = "none" if block[limit + 1 :].strip() else "behind"


def _member(part: _Part) -> ObjectMember | None:
    """Returns what is known about a member; None if it is invalid."""
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
