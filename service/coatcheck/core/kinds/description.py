"""What a describer gets of a payload, and what it returns, once, when the payload is stored.

Values are verbatim; make them inert before showing them to a model.
"""

from collections.abc import Iterable
from functools import cached_property
from typing import Final

from msgspec import Struct

from coatcheck.core.artifact import DeclaredMetadata, PayloadSample
from coatcheck.core.outline.model import Entry
from coatcheck.core.structure.json_values import JsonReading, read_json
from coatcheck.core.survey.survey import Survey
from coatcheck_client.contract.inert import one_line

SECTION_CHARS: Final = 60
"""Maximum characters of a section's title in a call."""
_PARTS: Final = 24


class PayloadProbe(Struct, dict=True):
    """A payload while it is recognised: what several steps need is read once, on demand."""

    sample: PayloadSample
    """The payload's ends, or all of it."""
    declared: DeclaredMetadata
    """What the caller declared about it."""
    survey: Survey | None = None
    """What every byte says, if the sample is not all of it."""
    lines: PayloadSample | None = None
    """The sample as it is written; `sample` has only the messages of lines that have fields."""

    @cached_property
    def json(self) -> JsonReading | None:
        """The payload read as JSON as far as possible; None if it does not begin like JSON."""
        return read_json(self.sample.head, whole=self.sample.whole)


class Description(Struct, frozen=True, kw_only=True):
    """Facts about a payload. Each is true of the whole payload, or names its part, or is absent."""

    lead: tuple[str, ...] = ()
    """Lines for the card before what a survey says."""
    facts: tuple[str, ...] = ()
    """Lines for the card, most important first."""
    title: str | None = None
    url: str | None = None
    language: str | None = None
    media_type: str | None = None
    path: str | None = None
    """A JSONPath to the values that a reader most likely wants next."""
    parts: tuple[tuple[str, int, int], ...] = ()
    """Titles of parts that can be read by `section`, largest first, with the first line and number of lines of each."""
    document: bool = False
    """Whether these are headings."""


NOTHING = Description()
OUTLINE: Final = (("outline", 1, 1 << 62),)
"""The parts of a payload whose list of parts is worth reading first: that list, whatever the card shows."""


def may_name(title: str) -> bool:
    """Returns whether a title is short enough for the call that a card names, and inert."""
    return len(title) <= SECTION_CHARS and title == one_line(title)


def select_named_parts(entries: Iterable[Entry]) -> tuple[tuple[str, int, int], ...]:
    """Returns the first entries that the call on a card may name, to keep as `parts`."""
    parts = [(each.title, each.lines) for each in entries if each.lines is not None and may_name(each.title)]
    return tuple([(title, lines.first, lines.last - lines.first + 1) for title, lines in parts[:_PARTS]])
