"""Sections of a view by name: which one is meant, which exist, and how an answer names one.

Names are cited as `art_…#r3`. Pure; no bytes are read.
"""

from typing import Final

from msgspec import Struct

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.outline.titles import match_titles
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


def nth_section(sections: tuple[Section, ...], query: str) -> int | None:
    """Returns the index of the section that `query` means; None if there is none, or several.

    A section is meant by its name (`s3`, `#S3`), by its title, or by the title's beginning, in upper or lower case.
    """
    matches = match_sections(sections, query)
    return matches[0] if len(matches) == 1 else None


def match_sections(sections: tuple[Section, ...], query: str) -> list[int]:
    """Returns the indices of all sections that `query` may mean, in order."""
    plain = query.strip().removeprefix("#").casefold()
    name_matches = [number for number, section in enumerate(sections) if section.name.casefold() == plain]
    return name_matches[:1] or match_titles([section.title for section in sections], query)


def no_section(artifact_id: str, query: str, sections: tuple[Section, ...]) -> CoatcheckError:
    """Returns `section_not_found`, naming the sections that may be meant, or else the first ones."""
    if not sections:
        return CoatcheckError(
            Code.SECTION_NOT_FOUND, f"{artifact_id} has no sections. Read it without `section`, by lines.", sections=0
        )
    matching_sections = [sections[number] for number in match_sections(sections, query)]
    others = sorted(sections, key=lambda section: section.aside)
    return not_found(
        artifact_id,
        query,
        list(map(_label_section, matching_sections or others)),
        ambiguous=bool(matching_sections),
        total=len(sections),
    )


def not_found(artifact_id: str, query: str, candidates: list[str], *, ambiguous: bool, total: int) -> CoatcheckError:
    """Returns `section_not_found` with the first candidates. `ambiguous`: all of them may be meant."""
    label = shorten_label(query)
    names = ", ".join(candidates[:_NAMED])
    more = f" and {len(candidates) - _NAMED} more" if len(candidates) > _NAMED else ""
    if ambiguous:
        detail = f'"{label}" may be any of {len(candidates)} sections of {artifact_id}: {names}{more}.'
    else:
        detail = f'{artifact_id} has no section "{label}". It has {names}{more}.'
    return CoatcheckError(Code.SECTION_NOT_FOUND, f"{detail} Name one of them, or leave section out.", sections=total)


def shorten_label(text: str) -> str:
    """Returns a caller's word or a title on one line, in at most 40 characters."""
    label = one_line(text[: _TITLE_CHARS * 2])
    return label if len(label) <= _TITLE_CHARS else f"{label[: _TITLE_CHARS - 1]}…"


def _label_section(section: Section) -> str:
    title = shorten_label(section.title)
    return f"{section.name} ({title})" if title else section.name
