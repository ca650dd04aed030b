"""The text view that a card is cut from instead of the payload's own bytes, and for which payloads it is.

Which it is never depends on when a card is cut: a view that somebody's reading made later changes no card.
"""

from typing import Final

from msgspec import Struct

from coatcheck.core.artifact import DetectedMetadata, Kind, Measure, PayloadSample
from coatcheck.core.kinds.spec import spec_of
from coatcheck.core.media.documents import is_document
from coatcheck.core.views.view import LINKS, Section, ViewMeasure

TEXT_BYTES: Final = 2 * 1024**2
"""Payloads up to this have their text view made before their card is cut, in about 60 ms for each MiB."""
_EXTRACTORS: Final = ("markup-removed", "markup-dropped", "search-results", "parts")


class CardSource(Struct, frozen=True):
    """A text view as far as a card may look at it."""

    sample: PayloadSample
    measure: ViewMeasure
    end: int
    """Byte behind which nothing is shown: a page's links are no evidence of what it says."""

    @property
    def evidence(self) -> PayloadSample:
        """The part that excerpts are cut from."""
        sample = self.sample
        return (
            PayloadSample(sample.head[: self.end], b"", self.end, sample.masked)
            if sample.whole and self.end < sample.size
            else sample
        )

    def sizes(self) -> Measure:
        """Returns the view's sizes in the form of a payload's, of which nothing was dropped."""
        m = self.measure
        return Measure(size=m.size, lines=m.lines, chars=m.chars, tokens=m.tokens, sha256=b"", utf8=True)


def text_of(sample: PayloadSample, measure: ViewMeasure, sections: tuple[Section, ...], kind: Kind) -> CardSource:
    """A view as a card looks at it."""
    last = sections[-1] if sections and spec_of(kind).links_last else None
    links = last is not None and last.title == LINKS and last.start > 0
    return CardSource(sample, measure, last.start if last is not None and links else sample.size)


def may_show_text(facts: DetectedMetadata, size: int) -> bool:
    """Returns whether the card of a payload may be cut from its text view."""
    spec = spec_of(facts.kind)
    document = spec.text_view != "document" or is_document(facts.media_type)
    return spec.card_view and document and 0 < size <= TEXT_BYTES


def shows_text(facts: DetectedMetadata, size: int, extractor: str) -> bool:
    """Returns the same, once it is known who made the view: JSON that was only indented is shown as it is."""
    made = spec_of(facts.kind).text_view == "document" or extractor.startswith(_EXTRACTORS)
    return may_show_text(facts, size) and made
