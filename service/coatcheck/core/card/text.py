"""The text view from which a card is made instead of the payload's own bytes, and which payloads get such a card.

The choice never depends on when a card is made: a view that a later read makes does not change a card.
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
"""Maximum bytes of a payload whose text view is made before its card. This takes about 60 ms per MiB."""
_EXTRACTORS: Final = ("markup-removed", "markup-dropped", "search-results", "parts", "notebook")


class CardSource(Struct, frozen=True):
    """The parts of a text view that a card uses."""

    sample: PayloadSample
    measure: ViewMeasure
    sections: tuple[Section, ...] = ()
    """Sections of the view that are not asides."""
    asides: tuple[Section, ...] = ()
    """The outermost asides, in order; they are shown only if they answer a query."""
    is_parts: bool = False
    """Whether the sections are parts of the payload, whose own structure is only a frame around the parts."""
    is_surveyed: bool = False
    """Whether the payload's survey describes this text."""

    @property
    def begin(self) -> int:
        """Offset at which the main text begins: 0, or the end of an aside at the beginning."""
        return next((aside.end for aside in self.asides[:1] if aside.start == 0), 0)

    @property
    def inner(self) -> list[Section]:
        """Returns the sections that contain no other sections, longest first."""
        levels = [*[each.level for each in self.sections[1:]], 0]
        inner = [each for each, level in zip(self.sections, levels, strict=False) if level <= each.level]
        return sorted(inner, key=lambda each: (-each.lines, each.start))

    def headings(self, start: int, room: int) -> Iterator[str]:
        """Yields facts that name the outermost headings from byte `start` on, each fact shorter than the one before.

        A fact that names only the largest headings has about `room` tokens or fewer. Yields nothing if secrets are
        masked, because a title may contain one.
        """
        after = () if self.sample.masked else tuple([each for each in self.sections if each.start >= start])
        entries = [entry for entry in of_sections(after) if entry.what == "heading"]
        return contents(entries, f" from line {after[0].line}" if after else "", room)

    def name_of(self, section: Section) -> str:
        """Returns the words that name a section in a call: its title, the beginning of a long title, or its name.

        The title is used only if no other section, asides included, is meant by it, and if nothing is masked.
        """
        words = section.title
        if len(words) > SECTION_CHARS:
            words = words[: words.rfind(" ", 0, SECTION_CHARS + 1)]
        candidates = (*self.sections, *self.asides)
        number = nth_section(candidates, words)
        alone = number is not None and candidates[number] == section
        return words if alone and not self.sample.masked and may_name(words) else section.name


def text_of(sample: PayloadSample, measure: ViewMeasure, sections: tuple[Section, ...], extractor: str) -> CardSource:
    """Returns a text view in the form that a card uses."""
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
    """Returns whether the card of a payload may be made from its text view, before the extractor is known."""
    if facts.form is not None:
        return size > 0
    spec = spec_of(facts.kind)
    document = spec.text_view != "document" or is_document(facts.media_type)
    return spec.card_view and document and 0 < size <= TEXT_BYTES


def shows_text(facts: DetectedMetadata, size: int, extractor: str) -> bool:
    """Returns whether the card is made from the text view, given the extractor that made the view.

    JSON that was only indented is shown as it is.
    """
    is_document = facts.form is not None or spec_of(facts.kind).text_view == "document"
    return may_show_text(facts, size) and (is_document or extractor.startswith(_EXTRACTORS))
