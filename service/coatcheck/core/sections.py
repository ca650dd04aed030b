"""The sections of a view by name: which one is meant, what there is instead, and how an answer names one.

Names are cited as `art_…#r3`. Pure; it reads no bytes and knows no artifact but by its ID.
"""

from typing import Final

from msgspec import Struct

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.text.inert import one_line
from coatcheck.core.views import Section
from coatcheck.core.window import Extent, LineExtent

_NAMED: Final = 6
"""Sections that a refusal names."""
_TITLE_CHARS: Final = 40


class SectionPart(Struct, frozen=True, kw_only=True):
    """A section as answers name it."""

    name: str
    title: str
    level: int
    """1 is the top."""
    lines: LineExtent
    """In the view."""
    bytes: Extent
    """In the view."""
    url: str | None = None


def part(section: Section) -> SectionPart:
    """What an answer says of a section."""
    return SectionPart(
        name=section.name,
        title=section.title,
        level=section.level,
        lines=LineExtent(section.line, section.line + section.lines - 1),
        bytes=Extent(section.start, section.end),
        url=section.url,
    )


def nth_section(sections: tuple[Section, ...], wanted: str) -> int | None:
    """The place of the section with this name (`s3`, `#S3`), or else the only one with this title; None: there is none.

    Models copy titles as often as names; a title that several sections have names none of them.
    """
    plain = wanted.strip().removeprefix("#").lower()
    for number, section in enumerate(sections):
        if section.name.lower() == plain:
            return number
    titled = [n for n, section in enumerate(sections) if " ".join(section.title.split()).lower() == plain]
    return titled[0] if len(titled) == 1 and plain else None


def no_section(artifact_id: str, wanted: str, sections: tuple[Section, ...]) -> CoatcheckError:
    """`section_not_found`, with the first that there are."""
    shown = one_line(wanted[: _TITLE_CHARS * 2])[:_TITLE_CHARS]
    if not sections:
        return CoatcheckError(
            Code.SECTION_NOT_FOUND, f"{artifact_id} has no sections. Read it without `section`, by lines.", sections=0
        )
    named = ", ".join(map(_named, sections[:_NAMED]))
    more = f" and {len(sections) - _NAMED} more" if len(sections) > _NAMED else ""
    return CoatcheckError(
        Code.SECTION_NOT_FOUND,
        f'{artifact_id} has no section "{shown}". It has {named}{more}. Name one of them, or leave section out.',
        sections=len(sections),
    )


def _named(section: Section) -> str:
    title = one_line(section.title[: _TITLE_CHARS * 2])
    title = title if len(title) <= _TITLE_CHARS else f"{title[: _TITLE_CHARS - 1]}…"
    return f"{section.name} ({title})" if title else section.name
