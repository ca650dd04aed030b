"""The members of a streamed JSON object: their names, short values and lengths, wherever they are.

Brackets and commas are processed in bulk; only the first bytes of each member are kept. Text that turns out not to be a
single, complete object, well-formed as far as it is checked, has no members.
"""

import re
from typing import Final, final

import msgspec
import numpy as np
from msgspec import Struct

from coatcheck.core.jsonpath.structure import BlockStructure, StructureReader

_KEPT: Final = 400
"""Bytes of a member that are kept."""
_MANY: Final = 200
"""Members from which an object is considered a map: its names are data, and are not reported."""
_DEEP: Final = 3
"""Objects in one another, each most of the one around it, whose members are collected."""
_NAME: Final = re.compile(rb'\s*("(?:[^"\\\x00-\x1f]|\\.)*")\s*:\s*')
_OBJECT: Final = re.compile(_NAME.pattern + rb"(\[\s*)?(?=\{)")


class ObjectMember(Struct, frozen=True, array_like=True):
    """A member of the object."""

    name: str
    value: str | None = None
    """Its value as JSON, if it is a scalar of few bytes."""
    elements: int | None = None
    """Its number of elements, if it is an array."""
    members: "tuple[ObjectMember, ...]" = ()
    """Those of the object that it is, or of its only element, if it is most of the document."""


class _Part(Struct):
    """A member as far as it has been read."""

    text: bytes = b""
    size: int = 0
    commas: int = 0
    """Commas one level below the member itself."""
    inner: "Members | None" = None
    """Collects the members of the object that it is, or that is its first element."""


@final
class Members:
    """Collects members: `feed` the text, then call `found`."""

    def __init__(self, deeper: int = _DEEP, depth: int = 0) -> None:
        """Takes how many objects in one another are examined, and how many containers are open around this one."""
        self._deeper = deeper
        self.depth = depth
        self._behind = b" \t\r\n]" if depth else b" \t\r\n"
        self._structure = StructureReader()
        self._parts: list[_Part] = []
        self._open = _Part()
        self._base = 0
        self._state: str = "before"
        """`before` the object, `inside` it, `behind` it, or `none` if there is none."""

    def feed(self, block: bytes, marks: BlockStructure | None = None) -> None:
        """Processes the next bytes, with their structure if it is known. Costs nothing once this is not an object."""
        if self._state == "before":
            block = block.lstrip(b" \t\r\n\xef\xbb\xbf")
            if block:
                self._state = "inside" if block.startswith(b"{") else "none"
        if self._state == "inside":
            self._look(block, marks or self._structure.feed(block, 0))
        elif self._state == "behind" and block.strip(self._behind):
            self._state = "none"

    def found(self) -> tuple[ObjectMember, ...]:
        """Returns the members, in order; none if this was not a complete object, or one of more than 200."""
        if self._state != "behind":
            return ()
        total = sum(part.size for part in self._parts)
        members = [_member(part, most=2 * part.size > total) for part in self._parts]
        return () if None in members else tuple(each for each in members if each is not None)

    def _look(self, block: bytes, marks: BlockStructure) -> None:
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
            begin = start
            if self._deeper and not part.size and (value := _OBJECT.match(block, start, edge)) is not None:
                part.inner, begin = Members(self._deeper - 1, 1 + bool(value[2])), value.end()
            if part.inner is not None:
                part.inner.feed(block[begin:edge], marks.part(begin, edge, part.inner.depth))
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
            self._state = "none" if block[limit + 1 :].strip(self._behind) else "behind"


def _member(part: _Part, *, most: bool) -> ObjectMember | None:
    """Returns what is known about a member, which may be most of the object; None if it is invalid."""
    match = _NAME.match(part.text)
    if match is None:
        return None
    inner = part.inner.found() if most and part.inner is not None else ()
    try:
        name = msgspec.json.decode(match[1], type=str)
        rest = part.text[match.end() :].strip()
        if rest[:1] == b"[":
            empty = part.size == len(part.text) and not rest[1:-1].strip()
            return ObjectMember(name, elements=0 if empty else part.commas + 1, members=inner)
        if rest[:1] == b"{" or part.size > len(part.text):
            return ObjectMember(name, members=inner)
        return ObjectMember(name, value=msgspec.json.format(rest, indent=-1).decode())
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
