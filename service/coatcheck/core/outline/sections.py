"""The sections of a view as entries: headings, search results, parts of a tool result."""

from typing import Final

from coatcheck.core.outline.model import Entry, What, make_title
from coatcheck.core.views.view import Section
from coatcheck.core.views.window import Extent, LineExtent
from coatcheck_client.contract.inert import one_line

_KINDS: Final[dict[str, What]] = {"r": "result", "p": "part"}


def of_sections(sections: tuple[Section, ...]) -> list[Entry]:
    """Returns an entry for each section."""
    return [
        Entry(
            what=_KINDS.get(section.name[:1], "heading"),
            section=section.name,
            title=make_title(section.title),
            level=section.level,
            lines=LineExtent(section.line, section.line + section.lines - 1),
            bytes=Extent(section.start, section.end),
            url=None if section.url is None else one_line(section.url),
        )
        for section in sections
    ]
