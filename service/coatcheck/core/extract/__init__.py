"""Text views: the readable text of a payload. Pure, linear in the payload, bounded; never raises because of content.

The same payload gives the same view in a worker process and, if no worker is available, in this process.
"""

import html
import re
from typing import Final

from coatcheck.core.extract.boilerplate import TAG, without_opaque
from coatcheck.core.extract.headings import extract_headings, reads_as_document
from coatcheck.core.extract.page import extract_page
from coatcheck.core.extract.texts import (
    extract_json,
    extract_notebook,
    extract_parts,
    extract_results,
    may_be_notebook,
    may_be_parts,
)
from coatcheck.core.parts.charset import decode
from coatcheck.core.views.view import ExtractedText, TextForm

PAGE_BYTES: Final = 16 * 1024 * 1024
"""Maximum bytes of a page that are read; the view of a longer page is partial."""
_STRIPPED: Final = "markup-dropped 1"
_STRIPPED_BYTES: Final = 4 * 1024 * 1024
"""Maximum bytes of a page that are read if its article could not be extracted, so that only its tags are dropped. The
limit is lower, because all boilerplate stays in such a view."""
_BREAKS: Final = re.compile(
    r"<(?:br|/?(?:p|div|li|tr|h[1-6]|table|ul|ol|section|article|blockquote|pre))\b", re.IGNORECASE
)
_BLANKS: Final = re.compile(r"[ \t\f\v\u00a0]+")


def extract_text(form: TextForm, media_type: str | None, url: str | None, payload: bytes) -> ExtractedText | None:
    """Returns the text view of a payload; None if the view is the payload itself without sections, or cannot be made.

    If the `text` of the view is None, the view is the payload itself, with sections.

    Args:
        form: how the payload is read as text. For `document`, which needs an adapter, the result is None.
        media_type: the declared or detected media type.
        url: the payload's URL, or its file name.
        payload: the bytes of the payload. Of a page, only the first PAGE_BYTES are read.
    """
    match form:
        case "page":
            partial = len(payload) > PAGE_BYTES
            return extract_page(decode(payload[:PAGE_BYTES], media_type), url, partial=partial)
        case "search_results":
            return extract_results(payload) or extract_parts(payload) or extract_json(payload)
        case "json":
            return extract_parts(payload) or extract_notebook(payload) or extract_json(payload)
        case "prose":
            return extract_headings(payload)
        case "mixed":
            return extract_headings(payload) if reads_as_document(media_type, url, payload) else None
        case "same" | "document":
            return None


def strip_markup(media_type: str | None, payload: bytes) -> ExtractedText | None:
    """Returns the text of a page without its tags, but with all boilerplate: for pages where `extract_text` fails.

    None if the page has no text.
    """
    text = without_opaque(decode(payload[:_STRIPPED_BYTES], media_type))
    text = html.unescape(TAG.sub(" ", _BREAKS.sub(lambda match: f"\n{match.group()}", text)))
    lines = (line.strip() for line in _BLANKS.sub(" ", text).split("\n"))
    data = "\n".join(line for line in lines if line).encode("utf-8", "replace")
    if not data:
        return None
    return ExtractedText(text=data + b"\n", extractor=_STRIPPED, partial=len(payload) > _STRIPPED_BYTES)


__all__ = ["PAGE_BYTES", "extract_text", "may_be_notebook", "may_be_parts", "reads_as_document", "strip_markup"]
