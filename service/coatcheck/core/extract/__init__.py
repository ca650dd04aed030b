"""Text views: what a reader reads of a payload. Pure, linear in the payload, bounded, and never raising for one.

The same payload gives the same view wherever it is made: in a worker process, or here when there is none to be had.
"""

import html
import re
from typing import Final

from coatcheck.core.artifact import Kind
from coatcheck.core.extract.charset import decoded
from coatcheck.core.extract.headings import extract_headings
from coatcheck.core.extract.json_text import extract_json
from coatcheck.core.extract.page import extract_page
from coatcheck.core.extract.parts_text import extract_parts, may_be_parts
from coatcheck.core.extract.results_text import extract_results
from coatcheck.core.extract.tags import TAG, without_opaque
from coatcheck.core.views import Extracted

PAGE_BYTES: Final = 16 * 1024 * 1024
"""Bytes of a page that are looked at; a longer one has a partial view."""
_STRIPPED: Final = "markup-dropped 1"
_STRIPPED_BYTES: Final = 4 * 1024 * 1024
_BREAKS: Final = re.compile(
    r"<(?:br|/?(?:p|div|li|tr|h[1-6]|table|ul|ol|section|article|blockquote|pre))\b", re.IGNORECASE
)
_BLANKS: Final = re.compile(r"[ \t\f\v\u00a0]+")


def extract_text(kind: Kind, media_type: str | None, url: str | None, payload: bytes) -> Extracted | None:
    """The text view of a payload; None where the kind has none but the raw one, or nothing could be read."""
    match kind:
        case Kind.WEB_PAGE:
            partial = len(payload) > PAGE_BYTES
            return extract_page(decoded(payload[:PAGE_BYTES], media_type), url, partial=partial)
        case Kind.SEARCH_RESULTS:
            return extract_results(payload) or extract_parts(payload) or extract_json(payload)
        case Kind.JSON:
            return extract_parts(payload) or extract_json(payload)
        case Kind.TEXT | Kind.CODE_OR_FILE:
            return extract_headings(kind, media_type, url, payload)
        case _:
            return None


def strip_markup(kind: Kind, media_type: str | None, payload: bytes) -> Extracted | None:
    """The words of a page, without looking for its main text: for what defeats `extract_text`. Cheap in memory."""
    if kind is not Kind.WEB_PAGE:
        return None
    text = without_opaque(decoded(payload[:_STRIPPED_BYTES], media_type))
    text = html.unescape(TAG.sub(" ", _BREAKS.sub(lambda match: f"\n{match.group()}", text)))
    lines = (line.strip() for line in _BLANKS.sub(" ", text).split("\n"))
    data = "\n".join(line for line in lines if line).encode("utf-8", "replace")
    if not data:
        return None
    return Extracted(text=data + b"\n", extractor=_STRIPPED, partial=len(payload) > _STRIPPED_BYTES)


__all__ = ["PAGE_BYTES", "extract_text", "may_be_parts", "strip_markup"]
