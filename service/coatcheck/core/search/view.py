"""The text view of a search response: answers and results as a list that can be read, a section for each result.

```
Search results for "…" (tavily): 2 results

Answer: …

r1. Title
https://…
2026-11-19 | site | author

Text of the result, without markup.

r2. …

Pictures:
https://…
```
A result's text is the readable text of its snippet, excerpts and content, without repetitions. Apart from repetitions,
only markup, menus and scripts of pages are left out; the code that cuts passages decides what is boilerplate. Texts are
not made inert here; the code that shows them to a model does so.
"""

import unicodedata
from typing import Final

from msgspec import Struct

from coatcheck.core.search.model import CUT_MARK, ProviderAnswer, SearchResponse, SearchResult
from coatcheck.core.search.responses.markup import excerpt_text, format_of, readable
from coatcheck.core.search.responses.normalise import normalise
from coatcheck.core.views.view import MAX_SECTIONS, TITLE_CHARS, ExtractedText, Section
from coatcheck.core.views.window import Position

_CUT_WARNINGS: Final = ("well-formed", "more results than", "characters are read")
"""Parts of the warnings that say that something of a response was not read."""
_COMPARED_LETTERS: Final = 60
"""Letters at each end of an excerpt that are searched for in the content."""
_SIGNS: Final = bytes(code for code in range(128) if not chr(code).isalnum())
_MIN_COMPARED_LETTERS: Final = 12
"""Letters of an excerpt, below which a match in the content proves nothing."""


def result_text(result: SearchResult) -> str:
    """Returns a result's text in paragraphs: the snippet, further excerpts, and the content, in this order.

    Markup is removed; the words are not changed.

    An excerpt whose first and last letters are in the content is left out, because it is a part of the content. So is
    an excerpt that equals the title or is a part of an earlier one.
    """
    content = readable(result.content, format_of(result.content)) if result.content else ""
    letters: str | None = None
    out: list[str] = []
    earlier_letters: list[str] = []
    # Providers send the same text as snippet, excerpt and content. Only letters are compared, since blanks and marks
    # differ.
    for excerpt in (result.snippet, *result.more):
        text = excerpt_text(excerpt)
        own = _letters(text)
        if not text or own == _letters(result.title) or any(own in other for other in earlier_letters):
            continue
        if content and len(own) >= _MIN_COMPARED_LETTERS:
            letters = _letters(content) if letters is None else letters
            # Both ends must be in the content. This also recognises excerpts that were joined from several places.
            if own[:_COMPARED_LETTERS] in letters and own[-_COMPARED_LETTERS:] in letters:
                continue
        out.append(text)
        earlier_letters.append(own)
    return "\n\n".join([*out, content] if content else out)


def _letters(text: str) -> str:
    """Returns only the letters and digits of a text, for comparisons without blanks, marks and markup."""
    if text.isascii():
        return text.encode().translate(None, _SIGNS).decode().lower()
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text))).lower()


EXTRACTOR: Final = "search-results 2"
"""Name of the extractor. Its number must be increased when views change."""
_LABELS: Final = {"answer": "Answer", "knowledge": "About", "question": "Related question", "commentary": "Commentary"}
MAX_VIEW_CHARS: Final = 16_000_000
"""Maximum characters of the results' texts in one view; beyond them, results have only their headings."""


class ResultBody(Struct, frozen=True):
    """A result's text, and the position of this text in the view."""

    text: str
    data: bytes
    """`text` in UTF-8: exactly the bytes of the view from `place` on."""
    place: Position


class ResponseLayout(Struct, frozen=True):
    """A response with its text view."""

    response: SearchResponse
    text: bytes
    sections: tuple[Section, ...]
    """Sections of the results, in order: the section with index n-1 is `rn`."""
    bodies: tuple[ResultBody, ...]
    partial: bool


def search_view(body: bytes) -> ExtractedText:
    """Returns the text view of a stored response, with the sections r1, r2, ….

    If the response has neither results nor answers, the view is the payload itself, without sections.
    """
    laid = lay_out(normalise(body))
    if not (laid.response.results or laid.response.answers):
        return ExtractedText(text=None, extractor=EXTRACTOR)
    return ExtractedText(text=laid.text, sections=laid.sections, extractor=EXTRACTOR, partial=laid.partial)


def lay_out(response: SearchResponse) -> ResponseLayout:
    """Returns the view of a response, with the positions of the results' texts in the view."""
    pieces: list[bytes] = []
    sections: list[Section] = []
    bodies: list[ResultBody] = []
    at = Position(0, 0, 0)

    # Positions are counted while the view is written, so that they fit the stored bytes exactly.
    def add(text: str) -> bytes:
        nonlocal at
        data = text.encode("utf-8", "replace")
        pieces.append(data)
        at = at.after(data)
        return data

    add(_heading(response))
    for answer in response.answers:
        add(_answer(answer))
    # Over the limit, results still have their headings, because every citation needs its section.
    room = MAX_VIEW_CHARS
    for result in response.results[:MAX_SECTIONS]:
        start = at
        add(_head(result))
        text = result_text(result)[:room]
        room -= len(text)
        place = at
        bodies.append(ResultBody(text, add(text), place))
        add("\n\n" if text else "")
        sections.append(
            Section(
                name=f"r{result.rank}",
                title=result.title[:TITLE_CHARS],
                level=1,
                start=start.byte,
                end=at.byte,
                line=start.newlines + 1,
                lines=at.newlines - start.newlines,
                url=result.url,
            )
        )
    if response.pictures:
        add("\n".join(["Pictures:", *(_render_picture(each) for each in response.pictures), ""]))
    return ResponseLayout(
        response, b"".join(pieces), tuple(sections), tuple(bodies), partial=room <= 0 or _was_cut(response)
    )


def _was_cut(response: SearchResponse) -> bool:
    texts = (text for result in response.results for text in (result.snippet, result.content))
    return any(text.endswith(CUT_MARK) for text in texts) or any(
        part in warning for warning in response.warnings for part in _CUT_WARNINGS
    )


def _heading(response: SearchResponse) -> str:
    of = f' for "{response.query}"' if response.query else ""
    count = len(response.results)
    return f"Search results{of} ({response.provider}): {count} {'result' if count == 1 else 'results'}\n\n"


def _answer(answer: ProviderAnswer) -> str:
    title = f" ({answer.title})" if answer.title else ""
    url = f"\n{answer.url}" if answer.url else ""
    return f"{_LABELS[answer.kind]}{title}: {answer.text.strip()}{url}\n\n"


def _render_picture(picture: SearchResult) -> str:
    return " | ".join(each for each in (picture.title, picture.url, picture.picture) if each)


def _head(result: SearchResult) -> str:
    """Returns the lines above a result's text."""
    title = result.title or result.url or ""
    url = f"{result.url}\n" if result.url and result.title else ""
    about = " | ".join(each for each in (result.date, result.site, result.author, result.picture) if each)
    return f"r{result.rank}. {title}\n{url}{about}{chr(10) if about else ''}\n"
