"""Reads block YAML, blocks of `key: value` lines, and XML as nested objects, in which records are found like JSON's.

Only the parts that records need are read. In YAML, these are mappings and lists by indentation, scalars on their lines,
and texts below `|` and `>`. In XML, attributes and elements become members. Anchors, tags and flow collections are read
as plain text, and a document with entities is refused, so that nothing is expanded.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final, NoReturn, cast, final
from xml.parsers import expat

from msgspec import Struct, field

from coatcheck.core.records.model import LONGEST

_BEGINS: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:\?xml\s|!--|[A-Za-z_][\w.:-]*[\s/>])")
_TEXT_MEMBER: Final = "text"
"""Name of the member that holds the text of an element which also has attributes or elements."""
_MAX_ELEMENT_DEPTH: Final = 100
"""Maximum nesting of elements; a deeper document is not read."""


class Reading(Struct):
    """A document as nested values, and the lines at which its objects begin."""

    value: object
    lines: dict[int, int] = field(default_factory=dict[int, int])
    """For each object, by its `id()`: the number of the line at which it begins, from 1."""


class XmlRefusalError(ValueError):
    """The document declares entities, which could expand to any size, or is too large or too deep."""


def xml_parser() -> expat.XMLParserType:
    """Returns a parser that refuses declared entities, because they can expand far beyond the size of the document.

    The parser raises XmlRefusalError for them.
    """

    def refuse(*_: object) -> None:
        raise XmlRefusalError

    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.EntityDeclHandler = refuse
    return parser


class _Element(Struct):
    tag: str
    members: dict[str, object]
    line: int
    """Number of the line at which the element begins, from 1."""
    text: list[str] = field(default_factory=list[str])
    """Pieces of the element's text, of about LONGEST characters in all; further text is dropped."""
    size: int = 0
    """Characters in `text`."""


@final
class _Builder:
    """Builds nested values from the events of an XML parser."""

    def __init__(self) -> None:
        self.parser = xml_parser()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._add_text

        self.lines: dict[int, int] = {}
        self._open = [_Element("", {}, 0)]

    @property
    def value(self) -> object:
        return self._open[0].members

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self._open) > _MAX_ELEMENT_DEPTH:
            raise XmlRefusalError
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
            value = text or True  # an empty element may mean something by its presence
        elif text:
            members.setdefault(_TEXT_MEMBER, text)
        if members:
            self.lines[id(members)] = element.line
        siblings = self._open[-1].members.setdefault(element.tag, [])
        if isinstance(siblings, list):  # an attribute may have the name of the element
            cast("list[object]", siblings).append(value)


def is_xml(head: bytes) -> bool:
    """Returns whether a text begins like XML."""
    return _BEGINS.match(head) is not None


def read_xml(data: bytes) -> Reading | None:
    """Reads a whole XML document; returns None if it is not XML, not well-formed, too deep, or declares entities."""
    if not is_xml(data):
        return None
    builder = _Builder()
    try:
        builder.parser.Parse(data.lstrip(b"\xef\xbb\xbf \t\r\n") if data[:5] != b"<?xml" else data, True)
    except (expat.ExpatError, XmlRefusalError):
        return None
    return Reading(builder.value, builder.lines)


_HEAD_BYTES: Final = 8 * 1024
"""Bytes at the beginning by which most texts that are not YAML are recognised."""
_KEY: Final = re.compile(
    r"(\"[^\"\n]{1,200}\"|'[^'\n]{1,200}'|[^\s#&*!|>%@`\[\]{},\"'-][^#\n]{0,200}?|-[^\s#:][^#:\n]{0,200}?)\s*:(?:\s+(.*)|$)"
)
_ITEM: Final = re.compile(r"-(?:(\s+)(.*)|$)")
_TEXT: Final = re.compile(r"(?:[!&]\S+\s+)*[|>][-+0-9]*\s*(?:#.*)?")
_QUOTED: Final = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^']|'')*)'")
_CONSTANTS: Final[dict[str, object]] = {
    "": None,
    "~": None,
    "null": None,
    "{}": None,
    "[]": None,
    "true": True,
    "false": False,
}
_MAX_DEPTH: Final = 50
"""Maximum nesting of blocks. The reader recurses for each level, so that a deeper text is refused."""
_MIN_LINES: Final = 2
"""Minimum lines of a document, without comments: any single line may have a colon."""
_MIN_PAIRS: Final = 3
"""Minimum lines with pairs, and minimum records that these lines must form."""
_FIRST_LINES: Final = 200
"""Lines at the beginning that decide whether the other lines are examined."""
_OTHERS: Final = 4
"""Maximum number of lines per pair."""
_LENGTHS: Final = 8
"""Maximum different numbers of pairs that the records of a text have; a text with more is prose with colons."""
_PAIR: Final = re.compile(r"([A-Za-z][\w .()/%@+-]{0,60}?)(?:\s*:|\s+\|)(?:\s+(.*)|$)|([A-Za-z][\w.-]{0,60})=(.*)")
_APART: Final = re.compile(r"\W*|[-=*_+].*[-=*_+]")
"""Matches a line that sets what follows apart: an empty one, or a rule."""


class _RefusalError(Exception):
    """The text is not block YAML, or contains more of YAML than is read."""


class _Line(Struct, eq=False):
    indent: int
    """Number of blanks in front of `text`."""
    text: str
    number: int
    """Number of the line in the document, from 1."""


def is_yaml(head: bytes) -> bool:
    """Returns whether a text begins like block YAML, and has at least one list item, or one key with a block below."""
    text = head[:_HEAD_BYTES].decode("utf-8", "replace")
    first = [line for line in text.split("\n")[:-1] if line.strip() and not line.startswith(("#", "---", "%"))]
    if len(first) < _MIN_LINES or not any(
        line.lstrip().startswith("- ") or line.rstrip().endswith(":") for line in first
    ):
        return False
    return all(line[:1] in " -" or _KEY.match(line) for line in first)


def read_yaml(data: bytes) -> Reading | None:
    """Reads a whole text of one or more YAML documents; returns None if any line is not block YAML."""
    if not is_yaml(data):
        return None
    try:
        return _Reader(data.decode("utf-8", "replace").split("\n")).read()
    except _RefusalError:
        return None


@final
class _Reader:
    """Reads the lines of block YAML, one after the other, by recursive descent."""

    def __init__(self, all_lines: Sequence[str]) -> None:
        self._all_lines = all_lines
        self._at = 0
        self._lines: list[_Line] = []
        self._numbers: dict[int, int] = {}

    def read(self) -> Reading:
        documents: list[object] = []
        part: list[_Line] = []
        for number, line in enumerate([*self._all_lines, "---"], 1):
            text = line.strip()
            if line.startswith(("---", "...")):
                if part:
                    self._lines, self._at = part, 0
                    documents.append(self._block(part[0].indent, 0))
                    if self._at < len(part):
                        self._refuse()
                part = []
                text = line[3:].strip()
                if text.startswith("#") or line.startswith("..."):
                    continue
            if text:
                part.append(_Line(len(line) - len(line.lstrip(" ")), text, number))
        return Reading(documents if len(documents) > 1 else (documents or [None])[0], self._numbers)

    def _refuse(self) -> NoReturn:
        raise _RefusalError

    def _next(self) -> _Line | None:
        while self._at < len(self._lines) and self._lines[self._at].text.startswith("#"):
            self._at += 1
        return self._lines[self._at] if self._at < len(self._lines) else None

    def _block(self, indent: int, depth: int) -> object:
        """Reads the block at an indentation: a list, a mapping, or a scalar."""
        line = self._next()
        if line is None or depth > _MAX_DEPTH:
            self._refuse()
        if _ITEM.match(line.text):
            return self._items(indent, depth)
        if _KEY.match(line.text):
            return self._members(indent, depth)
        self._at += 1
        return self._scalar(line.text, indent - 1)

    def _items(self, indent: int, depth: int) -> list[object]:
        out: list[object] = []
        while (line := self._next()) is not None and line.indent == indent and (match := _ITEM.match(line.text)):
            inner = match[2] or ""
            if inner and (_ITEM.match(inner) or _KEY.match(inner)):
                line.indent, line.text = indent + 1 + len(match[1]), inner
                out.append(self._block(line.indent, depth + 1))
            else:
                self._at += 1
                out.append(self._value(inner, indent, depth, line))
        return out

    def _members(self, indent: int, depth: int) -> dict[str, object]:
        out: dict[str, object] = {}
        first = self._next()
        self._numbers[id(out)] = first.number if first is not None else 0
        while (line := self._next()) is not None and line.indent == indent and (match := _KEY.match(line.text)):
            self._at += 1
            key = _unquote_text(match[1])
            if key in out:  # a repeated key: these are blocks of pairs, not a mapping
                self._refuse()
            out[key] = self._value(match[2] or "", indent, depth, line)
        if line is not None and line.indent > indent:
            self._refuse()
        return out

    def _value(self, text: str, indent: int, depth: int, above: _Line) -> object:
        """Reads the value behind a key or a dash. `text` is the value's beginning, on the line of the key or dash."""
        if _TEXT.fullmatch(text):
            return self._text(indent)
        if text and not text.startswith(("#", "&", "!")):
            return self._scalar(text, indent)
        line = self._next()
        beside = (
            line is not None and line.indent == indent and line.text.startswith("-") and not above.text.startswith("-")
        )
        if line is None or not (line.indent > indent or beside):
            return None
        return self._block(line.indent, depth + 1)

    def _text(self, indent: int) -> str:
        lines: list[str] = []
        while self._at < len(self._lines) and self._lines[self._at].indent > indent:
            lines.append(self._lines[self._at].text)
            self._at += 1
        return "\n".join(lines)[:LONGEST]

    def _scalar(self, text: str, indent: int) -> object:
        """Returns a scalar that begins with `text`. Deeper indented lines continue it."""
        quoted = _QUOTED.match(text)
        plain = text if quoted else text.partition(" #")[0].rstrip()
        more = self._text(indent)
        if plain in _CONSTANTS and not more:
            return _CONSTANTS[plain]
        return _unquote_text(f"{plain} {more}" if more else plain)[:LONGEST]


def _unquote_text(text: str) -> str:
    match = _QUOTED.match(text)
    return text.strip() if match is None else (match[1] or match[2] or "")


def read_pairs(data: bytes) -> Reading | None:
    """Returns the records that recurring `Key: value` lines form, whatever is between them; None if they form none.

    Every record begins with the same key.
    """
    every = data.decode("utf-8", "replace").split("\n")
    if sum(_PAIR.match(line) is not None for line in every[:_FIRST_LINES]) < _MIN_PAIRS:
        return None
    pairs = [
        ((match[1] or match[3]).strip(), (match[2] or match[4] or "").strip(), number)
        for number, line in enumerate(every, 1)
        if (match := _PAIR.fullmatch(line.rstrip("\r"))) is not None
    ]
    times = Counter(key for key, _, _ in pairs)
    usual = Counter(each for each in times.values() if each >= _MIN_PAIRS).most_common(1)
    if not usual:
        return None
    first = next(key for key, _, _ in pairs if times[key] == usual[0][0])
    count = times[first]
    records: list[dict[str, object]] = []
    lines: dict[int, int] = {}
    # Where most lines are pairs, a rare key says something.
    least = 1 if 2 * len(pairs) > sum(bool(line.strip()) for line in every) else count / 4
    for key, value, number in pairs:
        if key == first:
            records.append({})
            lines[id(records[-1])] = number
        if records and times[key] >= least:
            records[-1].setdefault(key, value[:LONGEST] or None)
    alike = sum(len(each) > 1 for each in records)
    apart = all(line == 1 or _APART.fullmatch(every[line - 2].strip()) for line in lines.values())
    if not apart and sum(map(len, records)) * _OTHERS < sum(bool(line.strip()) for line in every):
        return None
    is_regular = 4 * alike >= 3 * count and (apart or len({*map(len, records)}) <= _LENGTHS)
    return Reading(records, lines) if is_regular else None
