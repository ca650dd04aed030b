"""The elements of an XML document at its outer levels: those in the root, and those in these.

A leaf of the second level is named only if it has an attribute that names it, or the root holds nothing but one
element, as in a feed or a property list. Ends where the document is not well-formed.
"""

from typing import Final, final

from msgspec import Struct

from coatcheck.core.outline.model import MAX_ENTRIES, Entry, titled
from coatcheck.core.structure.xml_elements import LONG, TAG, first_value, label_of, plain_text
from coatcheck.core.views.window import Extent, LineExtent, Position

_OUTER: Final = 2
_OPEN: Final = 64 * 1024
"""Maximum bytes of a tag that goes on in the next block."""
_CHILDREN: Final = (b"name", b"id", b"title", b"artifactId")
"""Elements that name the one that they stand in, without their prefix."""
_OPENER: Final = 2
"""Bytes from which what opens a comment is not taken for its end."""
_CLOSERS: Final = ((b"<!--", b"-->"), (b"<![CDATA[", b"]]>"), (b"<?", b"?>"))


class _Found(Struct):
    """An element at an outer level."""

    name: str
    level: int
    start: Position
    label: str | None
    """What names it, or its short text."""
    value: str | None
    """The value of its first attribute, which is shown if nothing names it."""
    end: Position | None = None
    leaf: bool = True
    """Whether nothing but a text is in it, and no attribute names it."""


@final
class XmlOutline:
    """Finds elements, each with its exact lines; titled by its name, and by what names it or its short text."""

    def __init__(self) -> None:
        self._found: list[_Found] = []
        self._names: list[bytes] = []
        """Those of all open elements."""
        self._open: list[_Found] = []
        """Open elements at the outer levels."""
        self._children = 0
        """Number of elements in the root."""
        self._over = self._begun = False
        self._carry = self._closer = b""
        """What the next block goes on with, and what ends the comment or the like in which it begins."""
        self._here = Position(0, 0, 0)

    @property
    def full(self) -> bool:
        """Whether the maximum number of entries was found, or nothing more can be read."""
        return self._over or len(self._found) >= MAX_ENTRIES

    def feed(self, data: bytes, place: Position) -> None:
        """Processes whole lines, the first of which begins at this place."""
        if not self._carry:
            self._here = place
        data = self._carry + data
        ended = data.find(self._closer) + len(self._closer)
        if ended < len(self._closer):
            self._keep(data, len(data) - len(self._closer) + 1)
            return
        counted, text = 0, -1
        for token in TAG.finditer(data, ended):
            if token.lastgroup or self.full:
                self._here = self._here.after(data[counted : token.start()])
                self._interrupt(data[token.start() :])
                return
            if token[1] is None:
                text = -1
                continue
            ends, empty = token[1][:1] == b"/", token[2].endswith(b"/")
            if len(self._names) <= _OUTER + ends:
                at = token.end() if ends else token.start()
                self._here, counted = self._here.after(data[counted:at]), at
            if ends:
                self._close(token[1][1:], data[text : token.start()] if text >= 0 else b"")
            else:
                counted += self._begin(token[1], token[2], token[0])
            text = -1 if ends or empty else token.end()
        self._here, self._carry, self._closer = self._here.after(data[counted:]), b"", b""

    def _interrupt(self, rest: bytes) -> None:
        """Keeps what the next block may end: a tag, or the end of a comment or the like."""
        self._closer = next((closer for opener, closer in _CLOSERS if rest.startswith(opener)), b"")
        if self._closer:
            self._keep(rest, max(_OPENER, len(rest) - len(self._closer) + 1))
        else:
            self._over = len(rest) > _OPEN
            self._keep(rest, 0)

    def _keep(self, data: bytes, at: int) -> None:
        self._here, self._carry = self._here.after(data[:at]), data[at:]

    def _begin(self, name: bytes, attributes: bytes, tag: bytes) -> int:
        """Begins an element, and ends an empty one; returns how many bytes of the tag were counted."""
        level = len(self._names)
        self._names.append(name)
        if level == 0:
            self._over, self._begun = self._begun, True
        self._children += level == 1
        if level <= _OUTER + 1 and self._open:
            self._open[-1].leaf = False
        if 0 < level <= _OUTER:
            label = label_of(attributes)
            value = None if label else first_value(attributes)
            self._open.append(_Found(plain_text(name), level, self._here, label, value, leaf=label is None))
            self._found.append(self._open[-1])
        if not attributes.endswith(b"/"):
            return 0
        if level <= _OUTER:
            self._here = self._here.after(tag)
        self._close(name, b"")
        return len(tag) if level <= _OUTER else 0

    def _close(self, name: bytes, text: bytes) -> None:
        if not self._names or self._names.pop() != name:
            self._over = True
            return
        level, label = len(self._names), plain_text(text) if len(text) <= LONG else ""
        if 1 <= level <= _OUTER:
            found = self._open.pop()
            found.end = self._here
            found.label = found.label or (label if found.leaf else "")
            if level == _OUTER and found.leaf and self._children > 1:
                self._found.pop()
        if label and self._open and self._open[-1].level == level - 1 and name.rpartition(b":")[2] in _CHILDREN:
            self._open[-1].label = self._open[-1].label or label

    def finish(self, end: Position, *, ends_line: bool) -> list[Entry]:
        """Returns the elements, once the lines have ended at this place; those that never end reach up to it."""
        entries: list[Entry] = []
        for each in self._found:
            if each.level < _OUTER or not each.leaf or self._children == 1:
                stop = each.end or end
                last = end.newlines if each.end is None and ends_line else stop.newlines + 1
                entries.append(
                    Entry(
                        what="block",
                        title=titled(f"{each.name} {each.label or each.value or ''}"),
                        level=each.level,
                        lines=LineExtent(each.start.newlines + 1, last),
                        bytes=Extent(each.start.byte, stop.byte),
                    )
                )
        return entries
