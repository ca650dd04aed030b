"""The text view that a card is cut from instead of the payload's own bytes, and for which payloads.

The choice never depends on when a card is cut: a view that is made later, by a read, changes no card.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from coatcheck.core.artifact import DetectedMetadata, PayloadSample
from coatcheck.core.kinds.description import SECTION_CHARS, may_name
from coatcheck.core.kinds.spec import spec_of
from coatcheck.core.media.documents import is_document
from coatcheck.core.outline.section_names import nth_section, of_sections
from coatcheck.core.outline.summary import contents
from coatcheck.core.views.view import OPENED, Section, ViewMeasure, outer_asides

TEXT_BYTES: Final = 2 * 1024**2
"""Payloads up to this size have their text view made before their card is cut, in about 60 ms per MiB."""
_EXTRACTORS: Final = ("markup-removed", "markup-dropped", "search-results", "parts", "notebook")


class CardSource(Struct, frozen=True):
    """A text view, as far as a card may use it."""

    sample: PayloadSample
    measure: ViewMeasure
    sections: tuple[Section, ...] = ()
    """Those of the view that are no asides."""
    asides: tuple[Section, ...] = ()
    """The outermost asides, in order: shown only if they answer a query."""
    is_parts: bool = False
    """Whether the payload's own structure is only what is around these parts."""
    is_surveyed: bool = False
    """Whether the payload's survey is of this text."""

    @property
    def begin(self) -> int:
        """Byte where what the payload is about begins."""
        return next((aside.end for aside in self.asides[:1] if aside.start == 0), 0)

    @property
    def inner(self) -> list[Section]:
        """Returns the sections without others in them, longest first."""
        levels = [*[each.level for each in self.sections[1:]], 0]
        inner = [each for each, level in zip(self.sections, levels, strict=False) if level <= each.level]
        return sorted(inner, key=lambda each: (-each.lines, each.start))

    def headings(self, start: int, room: int) -> Iterator[str]:
        """Yields facts that name the outermost headings from byte `start` on, each shorter than the one before.

        The largest headings alone have about `room` tokens. Nothing if a title may contain what is masked.
        """
        after = () if self.sample.masked else tuple([each for each in self.sections if each.start >= start])
        entries = [entry for entry in of_sections(after) if entry.what == "heading"]
        return contents(entries, f" from line {after[0].line}" if after else "", room)

    def name_of(self, section: Section) -> str:
        """Returns what names a section in a call: its title, or the words that a long one begins with, or its name.

        Words must mean it alone, also beside asides, and must contain nothing masked.
        """
        words = section.title
        if len(words) > SECTION_CHARS:
            words = words[: words.rfind(" ", 0, SECTION_CHARS + 1)]
        candidates = (*self.sections, *self.asides)
        number = nth_section(candidates, words)
        alone = number is not None and candidates[number] == section
        return words if alone and not self.sample.masked and may_name(words) else section.name


def text_of(sample: PayloadSample, measure: ViewMeasure, sections: tuple[Section, ...], extractor: str) -> CardSource:
    """Returns a view in the form that a card uses."""
    main_sections = tuple([each for each in sections if not each.aside])
    return CardSource(
        sample,
        measure,
        main_sections,
        outer_asides(sections),
        is_parts=extractor.startswith("parts"),
        is_surveyed=extractor == OPENED,
    )


def may_show_text(facts: DetectedMetadata, size: int) -> bool:
    """Returns whether the card of a payload may be cut from its text view."""
    if facts.form is not None:
        return size > 0
    spec = spec_of(facts.kind)
    document = spec.text_view != "document" or is_document(facts.media_type)
    return spec.card_view and document and 0 < size <= TEXT_BYTES


def shows_text(facts: DetectedMetadata, size: int, extractor: str) -> bool:
    """Returns the final answer, given the extractor: JSON that was only indented is shown as it is."""
    is_document = facts.form is not None or spec_of(facts.kind).text_view == "document"
    return may_show_text(facts, size) and (is_document or extractor.startswith(_EXTRACTORS))
