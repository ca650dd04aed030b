"""Recognises XML that is no page, picture or source, and reads its tags: nothing is expanded or fetched."""

import re
from contextlib import suppress
from html import unescape
from typing import Final
from xml.parsers import expat

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
LONG: Final = 60
"""Maximum bytes of a value."""
_LOOKED: Final = 4_000
_ABOUT: Final = (b"xmlns", b"xsi:", b"xml:")
"""Beginnings of attributes that say nothing of an element itself."""
_LABELS: Final = (b"name", b"id", b"key", b"title")
"""Attributes that name an element, without their prefix."""


def is_xml(head: bytes) -> bool:
    """Returns whether a text that begins with `head` is XML, but no page, picture or source.

    One that does not declare it must be well-formed, as far as it is there, and have a few elements.
    """
    if _BEGINS.match(head) is None:
        return False
    declared = _DECLARED.match(head) is not None
    first = next((token for token in TAG.finditer(head) if token[1] is not None or token.lastgroup), None)
    if first is None or first[1] is None:
        return declared
    if first[1].lower() in _OTHERS or first[1][:1] == b"/":
        return False
    return declared or _elements(head[:_LOOK], whole=len(head) < _LOOK) >= _LEAST


def _elements(data: bytes, *, whole: bool) -> int:
    """Returns the number of elements in a beginning; 0 if it is not well-formed."""
    names: list[str] = []
    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda name, _: names.append(name)
    with suppress(expat.ExpatError):
        parser.Parse(data, whole)
        return len(names)
    return 0


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


def plain_text(value: bytes) -> str:
    """Returns a value or a name as it reads, on one line."""
    return " ".join(unescape(value.decode("utf-8", "replace")).split())
