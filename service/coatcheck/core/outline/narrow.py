"""Finds the entry of an outline that a caller means, and the corresponding part of the view."""

from collections.abc import Sequence

from coatcheck.core.outline.model import Entry
from coatcheck.core.outline.section_names import no_section, not_found, shorten_label
from coatcheck.core.outline.titles import match_titles
from coatcheck.core.views.view import Section


def choose_entry(entries: Sequence[Entry], query: str, artifact_id: str) -> int:
    """Returns the index of the entry that `query` means, by its title, a name in it or its beginning.

    Raises:
        CoatcheckError: `section_not_found` if there is none, or several.
    """
    matches = match_titles([entry.title for entry in entries], query, names=True)
    if len(matches) == 1:
        return matches[0]
    if not entries:
        raise no_section(artifact_id, query, ())
    candidates = [_label_entry(entries[number]) for number in matches or range(len(entries))]
    raise not_found(artifact_id, query, candidates, ambiguous=bool(matches), total=len(entries))


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
                name=entry.section or shorten_label(entry.title),
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


def _label_entry(entry: Entry) -> str:
    title = shorten_label(entry.title)
    where = "" if entry.lines is None else f" (line {entry.lines.first})"
    return f"{title}{where}" if entry.section is None else f"{entry.section} ({title})"
