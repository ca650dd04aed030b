"""The text view: what a reader reads of a payload, its sections, and who extracted it.

A view is derived once and kept: its ranges and sections are citations, so that a later extractor never changes the
view of an artifact that has one. Only another declaration of what the payload is replaces it. For plain text the view
is the payload itself. Values only; extracts nothing.
"""

from typing import Final, Literal

import msgspec
from msgspec import Struct

from coatcheck.core.artifact import Tokens

TEXT: Final = "text"
"""The name of the only derived view."""
MAX_SECTIONS: Final = 2_000
"""Sections of one view; what has more keeps those of the highest levels."""
TITLE_CHARS: Final = 200
"""Characters of a section's title."""

TextForm = Literal["same", "mixed", "prose", "page", "search_results", "json", "document"]
"""How a payload is read as text. Of the first three the view is the payload itself: `same` has no sections, `mixed` has
headings where its name or the text itself tells that it is a document, `prose` has those that are found. `page`,
`search_results` and `json` are laid out anew; `document` is opened by what knows its format."""
AS_IS: Final[frozenset[TextForm]] = frozenset({"same", "mixed", "prose"})
"""Forms of which the view is the payload itself."""
LINKS: Final = "Links"
"""Title of the last section of a page's text, which says where its links lead."""


class Section(Struct, frozen=True, kw_only=True, array_like=True):
    """A named part of a view. Cited as `art_…#r3`.

    Names are unique in a view: `s1`, `s2`, … headings in document order; `r1`, … search results in the order given;
    `p1`, … parts of a multi-part tool result, pages, sheets, files of an archive, tables of a database. Sections of one
    level do not overlap; a heading's section reaches to the next heading of its level or above.
    """

    name: str
    title: str
    """One line; at most TITLE_CHARS; empty where the part has none."""
    level: int
    """1 is the top."""
    start: int
    end: int
    """Half-open, in bytes of the view; at starts of lines, or the end."""
    line: int
    """The first line, from 1, in the view."""
    lines: int
    """Lines that begin in it."""
    url: str | None = None


class ViewMeasure(Struct, frozen=True, kw_only=True):
    """Sizes of a view, counted as Measure counts."""

    size: int
    lines: int
    chars: int
    tokens: Tokens


class ExtractedText(Struct, frozen=True, kw_only=True):
    """What an extractor answers: the view as UTF-8, or None where the view is the payload itself."""

    text: bytes | None
    sections: tuple[Section, ...] = ()
    extractor: str
    """Name and version of what made it, such as `trafilatura 2.3.1`, `markup-removed 1`, `parts 1`."""
    partial: bool = False
    """The payload is not all in it: it was too large, or broken."""


class View(Struct, frozen=True, kw_only=True):
    """A view that is kept."""

    name: str
    extractor: str
    partial: bool
    sections: tuple[Section, ...]
    measure: ViewMeasure


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(tuple[Section, ...]).decode


def pack_sections(sections: tuple[Section, ...]) -> bytes:
    """Sections as they are stored."""
    return _encode(sections)


def unpack_sections(packed: bytes) -> tuple[Section, ...]:
    """The reverse.

    Raises:
        msgspec.MsgspecError: for bytes that `pack_sections` did not make.
    """
    return _decode(packed)
