"""Reads XML as far as it is well-formed: which elements there are at which path, how many, and with which values.

A scan for tags, no parser: nothing is expanded or fetched, and time and memory are bounded by the bytes, however deep
or broken they are. Never raises because of content.
"""

import re
from collections import Counter, deque
from html import unescape
from typing import Final, final

from msgspec import Struct
from msgspec.json import encode

from coatcheck.core.structure.few_values import MOST, few_values
from coatcheck.core.text.plural import first_of

TAG: Final = re.compile(
    rb"<(?:(/?[A-Za-z_:\x80-\xff][\w.:\x80-\xff-]*)((?:[^<>\"']*(?:\"[^\"<]*\"|'[^'<]*'))*[^<>\"']*)>"
    rb"|!--[\s\S]*?-->|!\[CDATA\[[\s\S]*?\]\]>|\?[\s\S]*?\?>|!DOCTYPE\s[^<>\[]*(?:\[[\s\S]*?\]\s*)?>|(?P<open>))"
)
"""Matches a tag, with its name after a `/` if it ends an element, and its attributes; or a comment, a CDATA section, an
instruction or a document type; `open`: a `<` of something that never ends, or that is none of these."""
_ATTRIBUTE: Final = re.compile(rb"(?<![^\s\"'])([^\s=\"'/]++)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_DECLARED: Final = re.compile(rb"(?:\xef\xbb\xbf)?<\?xml\s")
_BEGINS: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:\?xml\s|!DOCTYPE\s|!--|[A-Za-z_][\w.:-]*[\s>/])")
_OTHERS: Final = frozenset([b"html", b"svg", b"template", b"script", b"style"])
"""Roots of pages, pictures and source, which have other readers."""
_LOOK: Final = 16 * 1024
_LEAST: Final = 3
"""Minimum elements of a text that does not declare that it is XML."""
_BLANKS: Final = b" \t\r\n\xef\xbb\xbf"
_DEEP: Final = 8
"""Depth below the root to which paths are distinguished."""
_PATHS: Final = 2_000
"""Maximum number of paths."""
LONG: Final = 60
"""Maximum bytes of a value."""
_RECORDS: Final = 8
"""Minimum elements at one path whose values are counted."""
_COUNTED: Final = 3
"""Attributes or elements whose values are counted."""
_NO_TEXT: Final = "\ufffd"
"""What stands for bytes that are not UTF-8: values with it are not shown."""
_SCALARS: Final = 12
_SPACE: Final = 240
"""Maximum characters of these in all, with their paths."""
_ELEMENTS: Final = 16
_FEW: Final = 0.05
"""Maximum share of the elements at a path that have a child which is named with where it stands."""
_PLACES: Final = 3
"""Maximum number of such children."""
_LOOKED: Final = 4_000
_ABOUT: Final = (b"xmlns", b"xsi:", b"xml:")
"""Beginnings of attributes that say nothing of an element itself."""
_LABELS: Final = (b"name", b"id", b"key", b"title")
"""Attributes that name an element, without their prefix."""


class XmlReading(Struct, frozen=True, kw_only=True):
    """What the read part of a document has. Paths begin below the root."""

    root: str
    complete: bool
    """Whether the entire document was read."""
    size: int
    """Bytes that were read."""
    scalars: tuple[tuple[str, str], ...]
    """Short values of the root's attributes, and of attributes and elements that occur once, outermost first."""
    elements: tuple[tuple[str, int, tuple[str, ...]], ...]
    """Paths of elements that occur more or less often than those that contain them, with their number; of those that
    few have, also the names of these."""
    counts: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
    """Attributes and elements with few different values, and how often each occurs; those with the rarest first."""

    @property
    def facts(self) -> tuple[str, ...]:
        """Lines for a card: the root with short values, the elements by path, the values that recur."""
        first = "" if self.complete else f" of the first {self.size} bytes"
        values = ", ".join([f"{path}={_quoted(value)}" for path, value in self.scalars])
        elements = [f"{path} {count}{_inside(named)}" for path, count, named in self.elements]
        counts = [
            (path, ", ".join([f"{_quoted(value)} {count}" for value, count in each])) for path, each in self.counts
        ]
        return (
            f"XML, root {self.root}{': ' if values else ''}{values}",
            *([f"Elements{first}: {first_of(elements, _ELEMENTS, separator=', ')}"] if elements else []),
            *[f"Counts of {path}{first}: {each}" for path, each in counts],
        )


@final
class _Place:
    """All elements at one path."""

    __slots__ = ("children", "count", "inside", "name", "values")

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.count = 0
        self.children: dict[bytes, _Place] = {}
        self.inside: list[bytes] = []
        """Attributes of the elements that contain the first of these."""
        self.values: dict[bytes, Counter[bytes] | None] = {}
        """Values of each attribute, named with `@`, and texts, named by nothing; None if many, or long."""

    def see(self, name: bytes, value: bytes) -> None:
        """Counts a value."""
        counter = self.values.setdefault(name, Counter())
        if counter is not None:
            counter[value] += 1
            if len(value) > LONG or len(counter) > MOST:
                self.values[name] = None


def is_xml(head: bytes) -> bool:
    """Returns whether a text that begins with `head` is XML, but no page, picture or source."""
    if _DECLARED.match(head) is not None:
        return _begins(head)
    return read_xml(head[:_LOOK], whole=len(head) < _LOOK) is not None


def _begins(head: bytes) -> bool:
    if _BEGINS.match(head) is None:
        return False
    first = next((token for token in TAG.finditer(head) if token[1] is not None or token.lastgroup), None)
    if first is None or first[1] is None:
        return _DECLARED.match(head) is not None
    return first[1].lower() not in _OTHERS and first[1][:1] != b"/"


def read_xml(data: bytes, *, whole: bool) -> XmlReading | None:
    """Returns what a document has as far as it is well-formed; None if it is no XML. `whole`: `data` is all of it.

    A text that does not declare that it is XML must be well-formed to its end, or to the end of `data`.
    """
    if not _begins(data):
        return None
    top = _Place(b"")
    size, depth = _Reader(top, data).read()
    complete = whole and not depth
    root = next(iter(top.children.values()), None)
    if root is None:
        return None
    if _DECLARED.match(data) is None:
        cut = not whole and -1 < depth * 2 < top.count
        if top.count < _LEAST or not (complete or cut):
            return None
    places = _walk(root)
    return XmlReading(
        root=plain_text(root.name),
        complete=complete,
        size=size,
        scalars=tuple(_scalars(places)),
        elements=tuple(_elements(places)),
        counts=tuple(_counts(places)),
    )


@final
class _Reader:
    """Counts the elements of a document below `top`, and in `top` all of them."""

    def __init__(self, top: _Place, data: bytes) -> None:
        self._top, self._data = top, data
        self._stack: list[tuple[_Place | None, bytes, bytes]] = [(top, b"", b"")]
        """The open elements: place, name, attributes."""
        self._paths = self._end = 0
        self._begun = -1
        """Where the start tag ended that was the last token; -1 if another was."""

    def read(self) -> tuple[int, int]:
        """Returns where reading ended, and how many elements were open there; -1 if what follows is not well-formed."""
        data, stack = self._data, self._stack
        for token in TAG.finditer(data):
            name, start = token[1], token.start()
            if len(stack) == 1 and data[self._end : start].strip(_BLANKS):
                return self._end, -1
            if token.lastgroup:
                return start, (len(stack) - 1 if _goes_on(data, start) else -1) or -1
            if name is None:
                self._skip()
            elif name[:1] != b"/":
                if len(stack) == 1 and self._top.count:
                    return self._end, -1
                self._enter(name, token[2])
            elif not self._leave(name[1:], start):
                return self._end, -1
            self._end = token.end()
            if self._begun == 0:
                self._begun = self._end
        if len(stack) == 1:
            return (self._end, -1) if data[self._end :].strip(_BLANKS) else (len(data), 0)
        return self._end, len(stack) - 1

    def _skip(self) -> None:
        place = self._stack[-1][0]
        if self._begun > 0 and place is not None:
            place.values[b""] = None  # a text with a comment in it
        self._begun = -1

    def _enter(self, name: bytes, attributes: bytes) -> None:
        stack, place = self._stack, None
        parent, _, around = stack[-1]
        self._top.count += 1
        if parent is not None and len(stack) <= _DEEP + 1 and len(name) <= LONG:
            place = parent.children.get(name)
            if place is None and self._paths < _PATHS:
                self._paths += 1
                place = parent.children[name] = _Place(name)
        if place is not None:
            place.count += 1
            if place.count <= _PLACES:
                place.inside.append(around)
            for key, double, single in _ATTRIBUTE.findall(attributes) if attributes else ():
                place.see(b"@" + key, double or single)
        self._begun = -1
        if not attributes.endswith(b"/"):
            stack.append((place, name, attributes))
            self._begun = 0

    def _leave(self, name: bytes, start: int) -> bool:
        """Ends an element; returns whether it is the one that was open."""
        place, opened, _ = self._stack.pop()
        if opened != name or not self._stack:
            return False
        if self._begun > 0 and place is not None and (text := self._data[self._begun : start].strip()):
            place.see(b"", text)
        self._begun = -1
        return True


def _goes_on(data: bytes, at: int) -> bool:
    """Returns whether what begins here may end behind the data."""
    return data.startswith((b"<!--", b"<![CDATA[", b"<?", b"<!DOCTYPE"), at) or data.find(b">", at) < 0


def _walk(root: _Place) -> list[tuple[str, _Place, _Place | None]]:
    """Returns all places with their paths and what contains them, outermost first."""
    found: list[tuple[str, _Place, _Place | None]] = []
    queue: deque[tuple[str, _Place, _Place | None]] = deque([("", root, None)])
    while queue:
        path, place, above = queue.popleft()
        found.append((path, place, above))
        before = f"{path}/" if path else ""
        queue.extend((f"{before}{plain_text(child.name)}", child, place) for child in place.children.values())
    return found


def _scalars(places: list[tuple[str, _Place, _Place | None]]) -> list[tuple[str, str]]:
    """Returns the values of what occurs once, by path; each value once."""
    found: dict[str, str] = {}
    space = _SPACE
    for path, place, _ in places:
        for name, counter in place.values.items() if place.count == 1 else ():
            value = plain_text(next(iter(counter))) if counter and not name[1:].startswith(_ABOUT) else ""
            if value and _NO_TEXT not in value and value not in found:
                member = _member(path, name)
                space -= len(member) + len(value)
                if space > 0:
                    found[value] = member
    return [(path, value) for value, path in found.items()][:_SCALARS]


def _elements(places: list[tuple[str, _Place, _Place | None]]) -> list[tuple[str, int, tuple[str, ...]]]:
    found: list[tuple[str, int, tuple[str, ...]]] = []
    for path, place, above in places:
        if above is not None and place.count != above.count:
            few = place.count <= min(_PLACES, above.count * _FEW)
            named = [label for each in place.inside if (label := label_of(each))] if few else []
            found.append((path, place.count, tuple(named)))
    return sorted(found, key=lambda each: not each[2])


def _counts(places: list[tuple[str, _Place, _Place | None]]) -> list[tuple[str, tuple[tuple[str, int], ...]]]:
    found: list[tuple[float, str, tuple[tuple[str, int], ...]]] = []
    for path, place, _ in places:
        for name, counter in place.values.items() if place.count >= _RECORDS else ():
            texts = Counter({plain_text(value): count for value, count in (counter or {}).items()})
            if not any(_NO_TEXT in text for text in texts) and (few := few_values(texts, place.count)):
                found.append((few[-1][1] / place.count, _member(path, name), few))
    return [each[1:] for each in sorted(found, key=lambda each: each[0])[:_COUNTED]]


def label_of(attributes: bytes) -> str | None:
    """Returns the value of the attribute that names an element; None if there is none that is short."""
    found = {key.rpartition(b":")[2]: double or single for key, double, single in _ATTRIBUTE.findall(attributes)}
    named = next((found[key] for key in _LABELS if found.get(key)), b"")
    return plain_text(named) if 0 < len(named) <= LONG else None


def first_value(attributes: bytes) -> str | None:
    """Returns the value of an element's first attribute that says something; None if that is long, or there is none."""
    values = ((key, double or single) for key, double, single in _ATTRIBUTE.findall(attributes[:_LOOKED]))
    value = next((value for key, value in values if value and not key.startswith(_ABOUT)), b"")
    return plain_text(value) if 0 < len(value) <= LONG else None


def _member(path: str, name: bytes) -> str:
    return "/".join(filter(None, (path, plain_text(name))))


def _inside(named: tuple[str, ...]) -> str:
    return f" (in {', '.join(map(_quoted, named))})" if named else ""


def _quoted(value: str) -> str:
    return encode(value).decode()


def plain_text(value: bytes) -> str:
    """Returns a value or a name as it reads, on one line."""
    return " ".join(unescape(value.decode("utf-8", "replace")).split())
