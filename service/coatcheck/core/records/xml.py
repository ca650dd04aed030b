"""Reads XML as nested objects, with attributes and elements as members, so that its records are found like JSON's."""

import re
from typing import Final, cast, final
from xml.parsers import expat

from msgspec import Struct, field

from coatcheck.core.records.model import LONGEST

_BEGINS: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:\?xml\s|!--|[A-Za-z_][\w.:-]*[\s/>])")
_TEXT_MEMBER: Final = "text"
"""Name of the text of an element that has attributes or elements beside it."""
_MAX_ELEMENT_DEPTH: Final = 100
"""Elements in one another; of a deeper document nothing is said."""


class Reading(Struct):
    """A document as nested values, and where its objects begin."""

    value: object
    lines: dict[int, int] = field(default_factory=dict[int, int])
    """The line of each object, by its identity."""


class _XmlRefusalError(Exception):
    """The document is not read."""


class _Element(Struct):
    tag: str
    members: dict[str, object]
    line: int
    text: list[str] = field(default_factory=list[str])
    size: int = 0


@final
class _Builder:
    """Builds values while a parser reads."""

    def __init__(self) -> None:
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._add_text
        self.parser.EntityDeclHandler = _refuse
        self.lines: dict[int, int] = {}
        self._open = [_Element("", {}, 0)]

    @property
    def value(self) -> object:
        return self._open[0].members

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self._open) > _MAX_ELEMENT_DEPTH:
            raise _XmlRefusalError
        self._open.append(_Element(tag, cast("dict[str, object]", attributes), self.parser.CurrentLineNumber))

    def _add_text(self, text: str) -> None:
        element = self._open[-1]
        if element.size < LONGEST:
            element.size += len(text)
            element.text.append(text)

    def _end(self, _: str) -> None:
        element = self._open.pop()
        text, members = "".join(element.text).strip()[:LONGEST], element.members
        value: object = members
        if not members:
            value = text or True  # that it is there may be all that it says
        elif text:
            members.setdefault(_TEXT_MEMBER, text)
        if members:
            self.lines[id(members)] = element.line
        siblings = self._open[-1].members.setdefault(element.tag, [])
        if isinstance(siblings, list):  # an attribute may have the same name
            cast("list[object]", siblings).append(value)


def _refuse(*_: object) -> None:
    """A document with entities of its own may be far larger than its text."""
    raise _XmlRefusalError


def is_xml(head: bytes) -> bool:
    """Returns whether a text begins like XML."""
    return _BEGINS.match(head) is not None


def read_xml(data: bytes) -> Reading | None:
    """Returns a whole document; None if it is not XML, not well-formed, or has entities of its own."""
    if not is_xml(data):
        return None
    builder = _Builder()
    try:
        builder.parser.Parse(data.lstrip(b"\xef\xbb\xbf \t\r\n") if data[:5] != b"<?xml" else data, True)
    except (expat.ExpatError, _XmlRefusalError):
        return None
    return Reading(builder.value, builder.lines)
