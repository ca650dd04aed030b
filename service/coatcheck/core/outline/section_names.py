"""Sections of a view by name: which one is meant, which exist, and how an answer names one.

Names are cited as `art_…#r3`. Pure; no bytes are read.
"""

from typing import Final

from msgspec import Struct

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.outline.titles import meant_titles
from coatcheck.core.views.view import Section
from coatcheck.core.views.window import Extent, LineExtent
from coatcheck_client.contract.inert import one_line

_NAMED: Final = 6
"""Sections that a refusal names."""
_TITLE_CHARS: Final = 40


class SectionPart(Struct, frozen=True, kw_only=True):
    """A section as answers name it."""

    name: str
    title: str
    level: int
    """1 is the top level."""
    lines: LineExtent
    """Its lines in the view."""
    bytes: Extent
    """Its bytes in the view."""
    url: str | None = None


def part(section: Section) -> SectionPart:
    """Returns a section as answers name it."""
    return SectionPart(
        name=section.name,
        title=section.title,
        level=section.level,
        lines=LineExtent(section.line, section.line + section.lines - 1),
        bytes=Extent(section.start, section.end),
        url=section.url,
    )


def nth_section(sections: tuple[Section, ...], wanted: str) -> int | None:
    """Returns the index of the section that `wanted` means; None if there is none, or several.

    A section is meant by its name (`s3`, `#S3`), by its title, or by the title's beginning, in upper or lower case.
    """
    meant = meant_sections(sections, wanted)
    return meant[0] if len(meant) == 1 else None


def meant_sections(sections: tuple[Section, ...], wanted: str) -> list[int]:
    """Returns the indices of all sections that `wanted` may mean, in order."""
    plain = wanted.strip().removeprefix("#").casefold()
    named = [number for number, section in enumerate(sections) if section.name.casefold() == plain]
    return named[:1] or meant_titles([section.title for section in sections], wanted)


def no_section(artifact_id: str, wanted: str, sections: tuple[Section, ...]) -> CoatcheckError:
    """Returns `section_not_found`, naming the sections that may be meant, or else the first ones."""
    if not sections:
        return CoatcheckError(
            Code.SECTION_NOT_FOUND, f"{artifact_id} has no sections. Read it without `section`, by lines.", sections=0
        )
    meant = [sections[number] for number in meant_sections(sections, wanted)]
    others = sorted(sections, key=lambda section: section.aside)
    return not_found(
        artifact_id, wanted, list(map(_named, meant or others)), ambiguous=bool(meant), total=len(sections)
    )


def not_found(artifact_id: str, wanted: str, candidates: list[str], *, ambiguous: bool, total: int) -> CoatcheckError:
    """Returns `section_not_found` with the first candidates. `ambiguous`: all of them may be meant."""
    shown = shortened(wanted)
    named = ", ".join(candidates[:_NAMED])
    more = f" and {len(candidates) - _NAMED} more" if len(candidates) > _NAMED else ""
    if ambiguous:
        detail = f'"{shown}" may be any of {len(candidates)} sections of {artifact_id}: {named}{more}.'
    else:
        detail = f'{artifact_id} has no section "{shown}". It has {named}{more}.'
    return CoatcheckError(Code.SECTION_NOT_FOUND, f"{detail} Name one of them, or leave section out.", sections=total)


def shortened(text: str) -> str:
    """Returns a caller's word or a title on one line, in at most 40 characters."""
    shown = one_line(text[: _TITLE_CHARS * 2])
    return shown if len(shown) <= _TITLE_CHARS else f"{shown[: _TITLE_CHARS - 1]}…"


def _named(section: Section) -> str:
    title = shortened(section.title)
    return f"{section.name} ({title})" if title else section.name
