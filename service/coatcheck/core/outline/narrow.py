"""Finds the entry of an outline that a caller means, and the corresponding part of the view."""

from collections.abc import Sequence

from coatcheck.core.outline.model import Entry
from coatcheck.core.outline.section_names import no_section, not_found, shortened
from coatcheck.core.outline.titles import meant_titles
from coatcheck.core.views.view import Section


def chosen(entries: Sequence[Entry], wanted: str, artifact_id: str) -> int:
    """Returns the index of the entry that `wanted` means, by its title, a name in it or its beginning.

    Raises:
        CoatcheckError: `section_not_found` if there is none, or several.
    """
    meant = meant_titles([entry.title for entry in entries], wanted, names=True)
    if len(meant) == 1:
        return meant[0]
    if not entries:
        raise no_section(artifact_id, wanted, ())
    candidates = [_named(entries[number]) for number in meant or range(len(entries))]
    raise not_found(artifact_id, wanted, candidates, ambiguous=bool(meant), total=len(entries))


def section_of(entries: Sequence[Entry], number: int) -> tuple[tuple[Section, ...], int | None]:
    """Returns the entries with lines as sections of their view, and which of them is entry `number`.

    Returns None, and no sections, if that entry has no lines.
    """
    if entries[number].lines is None or entries[number].bytes is None:
        return (), None
    sections: list[Section] = []
    nth = 0
    for place, entry in enumerate(entries):
        lines, extent = entry.lines, entry.bytes
        if lines is None or extent is None:
            continue
        if place == number:
            nth = len(sections)
        sections.append(
            Section(
                name=entry.section or shortened(entry.title),
                title=entry.title if entry.section else "",
                level=entry.level,
                start=extent.start,
                end=extent.end,
                line=lines.first,
                lines=lines.last - lines.first + 1,
                url=entry.url,
            )
        )
    return tuple(sections), nth


def _named(entry: Entry) -> str:
    title = shortened(entry.title)
    where = "" if entry.lines is None else f" (line {entry.lines.first})"
    return f"{title}{where}" if entry.section is None else f"{entry.section} ({title})"
