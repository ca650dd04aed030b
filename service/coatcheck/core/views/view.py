"""The text view: the readable text of a payload, its sections, and its extractor.

A view is derived once and kept, because its ranges and sections are citations. It is replaced when the payload is
declared differently, and when it is read after its version has passed: a search must not deny what a later version
shows. For plain text, the view is the payload itself.
"""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec
from msgspec import Struct

from coatcheck_client.contract.answers import TokenCount

ViewName = Literal["raw", "text"]
"""The payload itself, or its text view."""
TEXT: Final = "text"
"""The name of the only derived view."""
MAX_SECTIONS: Final = 2_000
"""Maximum sections of one view; if there are more, those of the highest levels are kept."""
TITLE_CHARS: Final = 200
"""Maximum characters of a section's title."""

TextForm = Literal["same", "mixed", "prose", "page", "search_results", "json", "document"]
"""How a payload is read as text. For the first three, the view is the payload itself: `same` has no sections, `mixed`
has headings if its name or the text itself shows that it is a document, `prose` has those that are found. `page`,
`search_results` and `json` are formatted; `document` is opened by an adapter for its format."""
AS_IS: Final[frozenset[TextForm]] = frozenset({"same", "mixed", "prose"})
"""Forms whose view is the payload itself."""
VERSION: Final = 3
"""Version of the code that makes views. It rises when one of the same payload becomes another; that of views which were
kept before views had one is 0."""
MISSING: Final = "missing 1"
"""Extractor of a view that only says that what would make it is not installed, which may change."""
OPENED: Final = "opened 1"
"""Extractor of a view that is the payload's text, out of its charset, line ends and envelope."""
LINKS: Final = "Links"
"""Title of the last section of a page's text, which lists link targets."""


class Section(Struct, frozen=True, kw_only=True, array_like=True):
    """A named part of a view, cited as `art_…#r3`.

    Names are unique in a view: `s1`, `s2`, … headings in document order; `r1`, … search results in the given order;
    `p1`, … parts of a multi-part tool result, pages, sheets, files of an archive, tables of a database. Sections of one
    level do not overlap; a heading's section extends to the next heading of its level or above.
    """

    name: str
    title: str
    """One line of at most TITLE_CHARS; empty if the part has none."""
    level: int
    """1 is the top level."""
    start: int
    end: int
    """Half-open, in bytes of the view; at starts of lines, or the end."""
    line: int
    """The first line, from 1, in the view."""
    lines: int
    """Number of lines that begin in it."""
    url: str | None = None
    aside: bool = False
    """Whether it is beside what the page is about: its navigation, its footer, its list of links. Cards and reads from
    the beginning pass over it; patterns and queries do not."""


def outer_asides(sections: Sequence[Section]) -> tuple[Section, ...]:
    """Returns the asides that are in no other, in order."""
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
    """Name and version of the extractor, such as `trafilatura 2.3.1`, `markup-removed 1`, `parts 1`."""
    partial: bool = False
    """Whether part of the payload is missing, because it was too large or broken."""


class View(Struct, frozen=True, kw_only=True):
    """A view that is kept."""

    name: str
    extractor: str
    partial: bool
    """Whether a part of the payload is missing in it."""
    sections: tuple[Section, ...]
    measure: ViewMeasure
    version: int = VERSION
    """Version of the code that made it."""

    @property
    def is_old(self) -> bool:
        """Whether the present code may make another view of the same payload."""
        return self.version < VERSION or self.extractor == MISSING


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(tuple[Section, ...]).decode


def pack_sections(sections: tuple[Section, ...]) -> bytes:
    """Returns sections in their stored form."""
    return _encode(sections)


def unpack_sections(data: bytes) -> tuple[Section, ...]:
    """Unpacks the result of `pack_sections`.

    Raises:
        msgspec.MsgspecError: for other bytes.
    """
    return _decode(data)
