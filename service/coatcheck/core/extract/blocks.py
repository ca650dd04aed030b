"""Builds a readable text of headings, lists, tables, code and links, block by block, together with its sections.

The text resembles Markdown, so that a reader recognises its structure, but has no escapes: the words are unchanged. The
caller finds the blocks in a page; this module decides how they look and where sections begin. Its work is linear in the
size of the text.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import Final, final
from urllib.parse import urldefrag, urljoin, urlsplit

from msgspec import Struct

from coatcheck.core.views.view import LINKS, MAX_SECTIONS, TITLE_CHARS, ExtractedText, Section


class SectionStart(Struct):
    """The beginning of a part of a view, which is always at the start of a line."""

    title: str
    level: int
    """Level of the part, from 1; a larger number is a lower level."""
    at: int
    """Offset in the view, in bytes."""
    line: int
    """Number of the part's first line, from 1."""
    url: str | None = None
    aside: bool = False
    """Whether the part is an aside, which is not about the page's subject."""
    end: int | None = None
    """Offset at which the part ends, and all parts inside it; None: at the next part of the same or a higher level."""
    end_line: int = 0
    """Number of the line after the part's last line; meaningless while `end` is None."""


def one_line(text: str) -> str:
    """Returns a title on one line, with blanks folded. A title of more than TITLE_CHARS characters is cut, with `…`."""
    flat = " ".join(text[: 8 * TITLE_CHARS].split())
    return flat if len(flat) <= TITLE_CHARS else f"{flat[: TITLE_CHARS - 1]}…"


def sections(starts: Sequence[SectionStart], *, prefix: str, size: int, lines: int) -> tuple[Section, ...]:
    """Returns named sections in order.

    A section without an end of its own extends to the next section of the same or a higher level, the last one to the
    end of the view. If there are more than MAX_SECTIONS, only the sections of the highest levels are kept, and the
    first ones if the highest level alone has too many.

    Args:
        starts: the parts, in order; no two begin at the same byte.
        prefix: `s`, `r` or `p`: the beginning of the sections' names, before a number from 1.
        size: size of the view in bytes.
        lines: number of lines of the view.
    """
    # One pass with a stack of the open parts. A part ends where the next part of the same or a higher level begins, at
    # its own end, or at the end of the part around it, whichever comes first.
    ends: list[tuple[int, int]] = [(size, lines + 1)] * len(starts)
    open_parts: list[int] = []
    for place, start in enumerate(starts):
        while open_parts and (ends[open_parts[-1]][0] <= start.at or starts[open_parts[-1]].level >= start.level):
            last = open_parts.pop()
            ends[last] = min(ends[last], (start.at, start.line))
        ends[place] = ends[open_parts[-1]] if open_parts else ends[place]
        if start.end is not None:
            ends[place] = min(ends[place], (start.end, start.end_line))
        open_parts.append(place)
    selection = _select_starts(starts)
    return tuple(
        Section(
            name=f"{prefix}{number}",
            title=one_line(starts[place].title),
            level=starts[place].level,
            start=starts[place].at,
            end=ends[place][0],
            line=starts[place].line,
            lines=ends[place][1] - starts[place].line,
            url=starts[place].url,
            aside=starts[place].aside,
        )
        for number, place in enumerate(selection, 1)
    )


def _select_starts(starts: Sequence[SectionStart]) -> Sequence[int]:
    """Returns the numbers of the parts to keep: all parts or, if they are too many, the parts of the highest levels.

    If the highest level alone has too many parts, the first of them are kept.
    """
    if len(starts) <= MAX_SECTIONS:
        return range(len(starts))
    counts = Counter(start.level for start in starts)
    levels = sorted(counts)
    totals = list(accumulate(counts[level] for level in levels))
    deepest = levels[max(0, bisect_right(totals, MAX_SECTIONS) - 1)]
    return [place for place, start in enumerate(starts) if start.level <= deepest][:MAX_SECTIONS]


class TextWriter:
    """Writes a text whose parts become sections, in the order of the calls of `begin`. Linear in the text's size."""

    def __init__(self) -> None:
        self.size = 0
        """Number of bytes written so far."""
        self._lines = 0
        self._pieces: list[bytes] = []
        self._starts: list[SectionStart] = []

    def begin(self, title: str, level: int = 1, *, url: str | None = None, aside: bool = False) -> None:
        """Begins a section at the current end of the text, which must be the start of a line."""
        self._starts.append(SectionStart(title, level, self.size, self._lines + 1, url, aside))

    def write(self, data: bytes) -> None:
        """Writes whole lines, as UTF-8."""
        self._pieces.append(data)
        self.size += len(data)
        self._lines += data.count(b"\n")

    def put(self, text: str) -> bool:
        """Writes text and ends its line. Always returns True, because there is always room for it."""
        self.write(f"{text}\n".encode("utf-8", "replace"))
        return True

    def finish(self, extractor: str, prefix: str = "p", *, partial: bool = False) -> ExtractedText | None:
        """Returns the view; None if nothing was written. A section's name is `prefix` and a number from 1."""
        if not self.size:
            return None
        text_sections = sections(self._starts, prefix=prefix, size=self.size, lines=self._lines)
        return ExtractedText(text=b"".join(self._pieces), sections=text_sections, extractor=extractor, partial=partial)


_MAX_LINKS: Final = 200
"""Maximum links of one group that are listed. Chosen, not measured: a page with more links is a directory."""
_LINK_CHARS: Final = 80
"""Maximum characters of a link's words."""
_URL_CHARS: Final = 1_000
"""Maximum characters of a URL that is listed; longer URLs carry state or data."""
_MAX_LEVEL: Final = 6
"""Lowest level of a heading, as in HTML and Markdown. Also the maximum levels by which lists are indented."""
_INNER: Final = _MAX_LEVEL + 1
"""Level of an aside that interrupts the article, below all levels of headings."""
MAIN: Final = "Article"
"""Label that is written where the text returns from an aside to the article."""


@final
class Blocks(TextWriter):
    """A page's text under construction. Every method is linear in its input."""

    def __init__(self, base: str | None) -> None:
        """`base` is the page's URL, against which relative links are resolved."""
        super().__init__()
        self._base = base
        self._here = urldefrag(base).url if base else ""
        self._aside: SectionStart | None = None
        """The open aside; None if the text is in the article."""
        self._links: dict[str, dict[str, str]] = {}
        """The words of each link by its URL, by the title of the aside with the link; the article's title is empty."""
        self._tight = False
        """Whether the last block was a list item or a table row, which no empty line separates from the next one."""
        self._needs_gap = False
        """Whether an empty line must precede another block."""

    @property
    def in_aside(self) -> bool:
        """Whether an aside is open."""
        return self._aside is not None

    def begin_aside(self, title: str, *, outer: bool) -> None:
        """Begins an aside, which is a section. If it is not `outer`, it lies within the section around it."""
        self._gap()
        self.begin(title, 1 if outer else _INNER, aside=True)
        self._aside = self._starts[-1]
        self._put(f"[{title}]")

    def end_aside(self) -> None:
        """Ends the open aside, if there is one, so that the article continues."""
        if self._aside is not None:
            self._gap()
            self._put(f"[{MAIN}]\n")
            self._close_aside(self._aside)

    def _close_aside(self, aside: SectionStart) -> None:
        aside.end, aside.end_line = self.size, self._lines + 1
        self._aside = None
        self._tight = self._needs_gap = False

    def heading(self, level: int, text: str) -> None:
        """Adds a heading, unless it has no words. Except within an inner aside, it begins a section."""
        flat = " ".join(text.split())
        if flat:
            level = min(max(level, 1), _MAX_LEVEL)
            self._gap()
            around = 0 if self._aside is None else self._aside.level
            if around != _INNER:
                self.begin(flat, level + around, aside=around > 0)
            self._put(f"{'#' * level} {flat}")

    def paragraph(self, text: str) -> None:
        """Adds a paragraph; line feeds are kept, other blanks are folded."""
        self._add(_fold_blanks(text))

    def quote(self, text: str) -> None:
        """Adds a quotation, each of its lines marked with `>`."""
        self._add(_fold_blanks(text), mark="> ", indent="> ")

    def item(self, text: str, *, depth: int = 0, number: int | None = None) -> None:
        """Adds a list item. `depth` is the number of lists around its list; `number` is None in a bullet list."""
        indent = "  " * min(depth, _MAX_LEVEL)
        mark = "-" if number is None else f"{number}."
        self._add(_fold_blanks(text), mark=f"{indent}{mark} ", indent=f"{indent}  ", tight=True)

    def row(self, cells: list[str]) -> None:
        """Adds a table row on one line. A row of a single cell becomes a paragraph."""
        flat = [" ".join(cell.split()) for cell in cells]
        if len([cell for cell in flat if cell]) == 1 and len(flat) <= 1:
            self.paragraph(flat[0])
        elif any(flat):
            self._gap(tight=True)
            self._put(f"| {' | '.join(flat)} |")

    def code(self, text: str) -> None:
        """Adds a block of code between fences, with its lines unchanged."""
        body = text.strip("\r\n").rstrip()
        if body.strip():
            self._gap()
            fence = "```" if "```" not in body else "~~~~"
            self._put(f"{fence}\n{body}\n{fence}")

    def link(self, text: str, url: str) -> None:
        """Records a link for the list at the end of the text.

        Ignores links to the page itself, links other than HTTP, overlong URLs, and links beyond `_MAX_LINKS` in a
        group.
        """
        group = self._links.setdefault("" if self._aside is None else self._aside.title, {})
        if len(group) >= _MAX_LINKS or not url or len(url) > _URL_CHARS or url[0] == "#":
            return
        try:
            full = urldefrag(urljoin(self._base or "", url.strip())).url
            parts = urlsplit(full)
        except ValueError:
            return
        if parts.scheme in {"http", "https"} and parts.netloc and full != self._here and full not in group:
            group[full] = " ".join(text[: 4 * _LINK_CHARS].split())[:_LINK_CHARS]

    def add_links(self) -> None:
        """Ends the text with the list of its links: first the links of the article, then the links of each aside."""
        if self._aside is not None:
            self._close_aside(self._aside)
        if not self.size or not any(self._links.values()):
            return
        self._gap()
        self.begin(LINKS, aside=True)
        self._put(f"# {LINKS}")
        for title in sorted(self._links):  # the links of the article come first, as its title is empty
            if title and self._links[title]:
                self._gap()
                self.begin(f"{LINKS} of {title}", 2, aside=True)
                self._put(f"## {LINKS} of {title}")
            self._tight = False
            for url, words in self._links[title].items():
                self._gap(tight=True)
                self._put(f"- {words}: {url}" if words else f"- {url}")

    def _add(self, text: str, *, mark: str = "", indent: str = "", tight: bool = False) -> None:
        """Adds a block of lines: the first line after `mark`, the others after `indent`. Ignores an empty text."""
        if text:
            self._gap(tight=tight)
            self._put(f"{mark}{text.replace(chr(10), chr(10) + indent)}")

    def _gap(self, *, tight: bool = False) -> None:
        """Adds an empty line between blocks, but not between two items or two rows."""
        if self._needs_gap and not (tight and self._tight):
            self.put("")
        self._tight = tight

    def _put(self, text: str) -> None:
        self.put(text)
        self._needs_gap = True


def _fold_blanks(text: str) -> str:
    """Returns a text with blanks folded in every line, without empty lines."""
    if "\n" not in text:
        return " ".join(text.split())
    return "\n".join(flat for line in text.split("\n") if (flat := " ".join(line.split())))
