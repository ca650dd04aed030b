"""Formats minified JSON for reading: one member per line, indented. Values stay as they are written; none is parsed.

A document that is cut off or not quite JSON (NaN, a missing brace) is indented as far as possible.
"""

import re
from itertools import islice
from typing import Final

import msgspec

from coatcheck.core.parts.blobs import name_blobs
from coatcheck.core.views.view import ExtractedText

JSON_EXTRACTOR: Final = "json-indented 2"
_BOM: Final = b"\xef\xbb\xbf"
_PRETTY: Final = 200
"""Mean bytes of a line up to which a document is readable as it is."""
_TOKEN: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{},:]|[^\s\[\]{},:"]++', re.DOTALL)
_DEEPEST: Final = 32
"""Levels that are indented; deeper ones are not, or a short document could become a huge one."""
_GROWTH: Final = 8
_TOKENS: Final = 4_000_000


def extract_json(data: bytes) -> ExtractedText | None:
    """Returns the indented text, with names in place of encoded bytes.

    None if the document is readable as it is, is NDJSON, or does not begin like JSON.
    """
    body = data.removeprefix(_BOM).strip(b" \t\r\n")
    if body[:1] not in {b"{", b"["}:
        return None
    without_blobs = name_blobs(body)
    if _reads_well(without_blobs):
        return None if without_blobs is body else ExtractedText(text=without_blobs + b"\n", extractor=JSON_EXTRACTOR)
    body = without_blobs
    try:
        text = msgspec.json.format(body, indent=2)
        text.decode()
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, ValueError):
        pass
    else:
        if len(text) <= _GROWTH * len(body) + 1024:
            return ExtractedText(text=text + b"\n", extractor=JSON_EXTRACTOR)
    indented_text, whole = indent_json(body.decode("utf-8", "replace"))
    return ExtractedText(text=indented_text.encode(), extractor=JSON_EXTRACTOR, partial=not whole)


def _reads_well(body: bytes) -> bool:
    lines = body.count(b"\n") + 1
    if lines > 1 and len(body) <= _PRETTY * lines:
        return True
    if lines == 1:
        return False
    first = body[: body.index(b"\n")].rstrip()
    try:  # a first line that is a document by itself
        msgspec.json.decode(first, type=msgspec.Raw)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return False
    return True


def indent_json(text: str) -> tuple[str, bool]:
    """Returns the document indented token by token, and whether it was complete: all brackets and strings closed."""
    out: list[str] = []
    stack: list[str] = []
    whole = True
    last = ""
    for match in islice(_TOKEN.finditer(text), _TOKENS):
        mark = match.group()
        begins = mark not in "}],:"
        if not begins and mark in "}]":
            whole = whole and bool(stack) and stack[-1] == mark
            del stack[-1:]
        if (begins and last and last in "{[,") or (mark in "}]" and last not in {"{", "["}):
            out.append("\n" + "  " * min(len(stack), _DEEPEST))
        out.append(": " if mark == ":" else mark)
        if mark in "{[":
            stack.append("}" if mark == "{" else "]")
        elif begins:
            whole = whole and (mark[0] != '"' or (len(mark) > 1 and mark[-1] == '"'))
        last = mark
    out.append("\n")
    return "".join(out), whole and not stack
