"""The text view: the readable text of a payload, its sections, and its extractor.

A view is derived once and stored, because its ranges and sections are cited. It is made again if the payload is
declared differently, and if it is read while its version is old, so that a search does not miss text that a newer
version shows. For plain text, the view is the payload itself.
"""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec
from msgspec import Struct

from coatcheck_client.contract.answers import TokenCount

ViewName = Literal["raw", "text"]
"""Name of a view: `raw` is the payload itself, `text` its text view."""
TEXT: Final = "text"
"""The name of the only derived view."""
MAX_SECTIONS: Final = 2_000
"""Maximum sections of one view. If there are more, the sections of the highest levels are kept."""
TITLE_CHARS: Final = 200
"""Maximum characters of a section's title."""

TextForm = Literal["same", "mixed", "prose", "page", "search_results", "json", "document"]
"""How a payload is read as text. For the first three forms, the view is the payload itself: `same` has no sections;
`mixed` has headings as sections if the name or the text shows that it is a document; `prose` has all headings that are
found. `page`, `search_results` and `json` are formatted. `document` is opened by an adapter for its format."""
AS_IS: Final[frozenset[TextForm]] = frozenset({"same", "mixed", "prose"})
"""Forms whose view is the payload itself."""
VERSION: Final = 5
"""Version of the code that makes views. It is raised when the view of an unchanged payload would change. Views from
before there were versions have version 0."""
MISSING: Final = "missing 1"
"""Extractor of a view that only says that the required program or library is not installed, which may change."""
OPENED: Final = "opened 1"
"""Extractor of a view that is the payload's text, taken out of its charset, line ends and envelope."""
LINKS: Final = "Links"
"""Title of the last section of a page's text, which lists link targets."""


class Section(Struct, frozen=True, kw_only=True, array_like=True):
    """A named part of a view, cited as `art_…#r3`.

    Names are unique in a view: `s1`, `s2`, … headings in document order; `r1`, … search results in the given order;
    `p1`, … parts of a multi-part tool result, pages, sheets, files of an archive, tables of a database. Sections of one
    level do not overlap; a heading's section extends to the next heading of the same or an outer level.
    """

    name: str
    title: str
    """The title in one line, of at most TITLE_CHARS characters; empty if the part has no title."""
    level: int
    """Level of the section; 1 is the top level."""
    start: int
    end: int
    """`start` and `end` are a half-open range of bytes of the view. Both are at the start of a line, or at the end."""
    line: int
    """Number of the section's first line in the view, from 1."""
    lines: int
    """Number of lines that begin in the section."""
    url: str | None = None
    aside: bool = False
    """Whether the section is not about the page's subject: navigation, a footer, a list of links. Cards, and reads from
    the beginning, skip such a section; patterns and queries search it."""


def outer_asides(sections: Sequence[Section]) -> tuple[Section, ...]:
    """Returns the asides that are not inside another aside, in order."""
    asides: list[Section] = []
    for section in sections:
        if section.aside and (not asides or section.start >= asides[-1].end):
            asides.append(section)
    return tuple(asides)


class ViewMeasure(Struct, frozen=True, kw_only=True):
    """Sizes of a view, counted like those of a Measure."""

    size: int
    lines: int
    chars: int
    tokens: TokenCount


class ExtractedText(Struct, frozen=True, kw_only=True):
    """An extractor's result: the view as UTF-8, or None if the view is the payload itself."""

    text: bytes | None
    sections: tuple[Section, ...] = ()
    extractor: str
    """Name and version of the extractor, such as `markup-removed 6` or `parts 3`."""
    partial: bool = False
    """Whether a part of the payload is missing in the view, because the payload was too large or broken."""


class View(Struct, frozen=True, kw_only=True):
    """A stored view."""

    name: str
    extractor: str
    partial: bool
    """Whether a part of the payload is missing in the view."""
    sections: tuple[Section, ...]
    measure: ViewMeasure
    version: int = VERSION
    """Version of the code that made the view."""

    @property
    def is_old(self) -> bool:
        """Whether the current code might make a different view of the same payload."""
        return self.version < VERSION or self.extractor == MISSING


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(tuple[Section, ...]).decode


def pack_sections(sections: tuple[Section, ...]) -> bytes:
    """Returns sections in their stored form."""
    return _encode(sections)


def unpack_sections(data: bytes) -> tuple[Section, ...]:
    """Returns the sections that `pack_sections` packed.

    Raises:
        msgspec.MsgspecError: the bytes are no packed sections.
    """
    return _decode(data)
