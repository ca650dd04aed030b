"""The text of a result: the readable text of its snippet, its excerpts and its content, without repetitions."""

import unicodedata
from typing import Final

from coatcheck.core.search.model import SearchResult
from coatcheck.core.search.responses.markup import excerpt_text, format_of, readable

_COMPARED: Final = 60
"""Letters of an excerpt that are compared to find it in the content."""
_SIGNS: Final = bytes(code for code in range(128) if not chr(code).isalnum())
_SHORT: Final = 12
"""Letters below which such a match proves nothing."""


def result_text(result: SearchResult) -> str:
    """Returns paragraphs in this order: snippet, further excerpts, content.

    Markup is removed; no other word is changed.

    An excerpt whose first and last words are in the content is left out, as it is an excerpt of that.
    """
    content = readable(result.content, format_of(result.content)) if result.content else ""
    letters: str | None = None
    out: list[str] = []
    earlier_letters: list[str] = []
    for excerpt in (result.snippet, *result.more):
        text = excerpt_text(excerpt)
        own = _letters(text)
        if not text or own == _letters(result.title) or any(own in other for other in earlier_letters):
            continue
        if content and len(own) >= _SHORT:
            letters = _letters(content) if letters is None else letters
            if own[:_COMPARED] in letters and own[-_COMPARED:] in letters:
                continue
        out.append(text)
        earlier_letters.append(own)
    return "\n\n".join([*out, content] if content else out)


def _letters(text: str) -> str:
    """Returns only letters and digits, so that blanks, marks and markup make no difference."""
    if text.isascii():
        return text.encode().translate(None, _SIGNS).decode().lower()
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text))).lower()
