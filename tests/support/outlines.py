"""A small extractor for tests: what it makes can be told by looking at the payload.

A page's text is what stands between its tags, a line for each of the page's, headings as `# title`; in Markdown the
text is the payload. Headings are the sections.
"""

import asyncio
import re

from coatcheck.core.artifact import Kind
from coatcheck.core.errors import CoatcheckError
from coatcheck.core.views.view import ExtractedText, Section

_HEADING = re.compile(r"(#{1,6}) (.*)")
_TAG = re.compile(r"<(/?)(h[1-6])?[^<>]*>")


class SmallExtractor:
    """An Extractor. `asked` counts the payloads that it was given; `begun` is set by the first."""

    def __init__(self) -> None:
        self.asked = 0
        self.begun = asyncio.Event()
        self.refusal: CoatcheckError | None = None
        """What is answered instead of a view, while it is set."""

    async def extract(
        self, kind: Kind, media_type: str | None, url: str | None, payload: bytes
    ) -> ExtractedText | None:
        del media_type, url
        self.asked += 1
        self.begun.set()
        if self.refusal is not None:
            raise self.refusal
        if kind is Kind.WEB_PAGE:
            text = page_text(payload)
            return ExtractedText(text=text, sections=headings(text), extractor="small 1") if text.strip() else None
        if kind is Kind.SEARCH_RESULTS:
            return ExtractedText(text=payload, sections=headings(payload), extractor="small 1")
        if kind in {Kind.TEXT, Kind.CODE_OR_FILE} and (sections := headings(payload)):
            return ExtractedText(text=None, sections=sections, extractor="small 1")
        return None


def page_text(page: bytes) -> bytes:
    """The text of a page."""
    return _TAG.sub(lambda tag: "#" * int(tag[2][1]) + " " if tag[2] and not tag[1] else "", page.decode()).encode()


def headings(text: bytes) -> tuple[Section, ...]:
    """The sections of Markdown."""
    found: list[tuple[int, int, int, str]] = []
    at = 0
    lines = text.decode().splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        heading = _HEADING.match(line)
        if heading is not None:
            found.append((len(heading[1]), at, number, heading[2].strip()))
        at += len(line.encode())
    out: list[Section] = []
    for place, (level, start, line, title) in enumerate(found):
        after = next((f for f in found[place + 1 :] if f[0] <= level), (0, at, len(lines) + 1, ""))
        out.append(
            Section(
                name=f"s{place + 1}",
                title=title,
                level=level,
                start=start,
                end=after[1],
                line=line,
                lines=after[2] - line,
            )
        )
    return tuple(out)
