"""Results wrapped in elements, such as `<document><source>…</source>…</document>`, read in one linear pass.

XML-like: elements need not be well-formed documents, and their contents are taken as they are. There is no parser, only
common entities, and no nesting of a wrapper in another of its name.
"""

import html
import re
from typing import Final

_OPEN: Final = re.compile(
    r"<(document|search_result|searchresult|result|source|item|entry|webpage|page)\b([^<>]{0,4000}?)(/?)>",
    re.IGNORECASE,
)
_ATTRIBUTE: Final = re.compile(r"([\w:-]{1,40})\s*=\s*(?:\"([^\"<>]*)\"|'([^'<>]*)')")
_CHILD: Final = re.compile(r"<([a-zA-Z][\w:-]{0,40})(?:\s[^<>]{0,1000})?>", re.IGNORECASE)
_CDATA: Final = re.compile(r"\s*<!\[CDATA\[(.*)\]\]>\s*", re.DOTALL)
_WRAPPERS: Final = frozenset({"metadata", "meta", "documents", "results"})
_ELEMENT_NAMES: Final = {
    "documentcontent": "content",
    "document_content": "content",
    "pubdate": "published_date",
    "page_content": "content",
    "content:encoded": "content",
}
_MOST: Final = 1_000
_CHILDREN: Final = 40


def elements(text: str) -> tuple[str, list[dict[str, object]]]:
    """Returns what precedes the first wrapper, and a record for each; none if wrappers contain no addresses."""
    if "<" not in text:
        return text, []
    out: list[dict[str, object]] = []
    first, at = 0, 0
    while len(out) < _MOST and (match := _OPEN.search(text, at)) is not None:
        name, attributes, closed = match.groups()
        record: dict[str, object] = {
            pair[1].lower(): html.unescape(pair[2] or pair[3] or "") for pair in _ATTRIBUTE.finditer(attributes)
        }
        at = match.end()
        if not closed:
            end = text.find(f"</{name}>", at)
            if end < 0:
                break
            _read(text[at:end], record)
            at = end + len(name) + 3
        if any("://" in str(record.get(key, "")) for key in ("url", "link", "href", "source", "uri")):
            first = first if out else match.start()
            out.append(record)
    return text[:first], out


def _read(inner: str, record: dict[str, object]) -> None:
    """Reads children as members; text outside them is the content."""
    at = 0
    rest: list[str] = []
    children = 0
    while children < _CHILDREN and (match := _CHILD.search(inner, at)) is not None:
        name = match.group(1)
        rest.append(inner[at : match.start()])
        if match.group().endswith("/>"):
            href = next((pair[2] or pair[3] for pair in _ATTRIBUTE.finditer(match.group()) if pair[1] == "href"), "")
            record.setdefault(name.lower(), html.unescape(href or ""))
            at = match.end()
            continue
        end = inner.find(f"</{name}>", match.end())
        if end < 0:
            at = match.start()
            break
        if name.lower() in _WRAPPERS:
            _read(inner[match.end() : end], record)
        else:
            record.setdefault(_ELEMENT_NAMES.get(name.lower(), name.lower()), _text(inner[match.end() : end]))
        at = end + len(name) + 3
        children += 1
    rest.append(inner[at:])
    text = "\n".join(piece.strip() for piece in rest if piece.strip())
    if text:
        record.setdefault("content", _text(text))


def _text(inner: str) -> str:
    match = _CDATA.fullmatch(inner)
    return (match.group(1) if match else html.unescape(inner)).strip()
