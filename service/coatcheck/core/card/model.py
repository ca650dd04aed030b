"""A card as data: what it is made of, and the facts of its text, for programs."""

from functools import cached_property
from typing import Final, Literal

from msgspec import Struct, field

from coatcheck.core.artifact import DeclaredMetadata, DetectedMetadata, Kind, LineFields, Marker, Measure, PayloadSample
from coatcheck.core.card.text import CardSource
from coatcheck.core.kinds.spec import KindSpec, spec_of
from coatcheck.core.records.describe import share_of
from coatcheck.core.survey import Survey
from coatcheck.core.tokens import Tokenizer
from coatcheck.core.views.view import Section, ViewMeasure
from coatcheck.core.views.window import Extent, LineExtent
from coatcheck_client.contract.answers import TokenCount

_BRIEFLY: Final = 0.5
"""What part of their share facts beside excerpts of an outcome get where every word counts."""
BRIEF: Final = 300
"""Budget in tokens below which every word counts."""


class CardInput(Struct, frozen=True, dict=True):
    """What a card is made of."""

    id: str
    """The ID that a reader will use."""
    declared: DeclaredMetadata
    measure: Measure
    """Sizes of the payload."""
    facts: DetectedMetadata
    """What `recognise` found."""
    sample: PayloadSample
    """The ends of the payload, or all of it."""
    budget: int
    """64 to 8,192 tokens in the tokenizer's encoding, which the text never exceeds."""
    tokenizer: Tokenizer
    query: str | None = None
    """If given, what answers it is worth more."""
    survey: Survey | None = None
    """What was found between the ends of a payload that is not completely in the sample."""
    text: CardSource | None = None
    """Its text view, if excerpts, omissions and the next call are to refer to that."""
    is_stored: bool = True
    """Whether the payload can be read further; otherwise the card says that it cannot."""
    tools: bool = True
    """Whether the reader has the declared tool; otherwise the card names none."""

    @property
    def evidence(self) -> PayloadSample:
        """What excerpts are cut from: the payload, or its text view."""
        return self.sample if self.text is None else self.text.sample

    @property
    def asides(self) -> tuple[Section, ...]:
        """Parts of the text view beside what the payload is about, in order."""
        return () if self.text is None else self.text.asides

    @property
    def fields(self) -> LineFields | None:
        """What is not shown of each line; None where excerpts are cut from a view that an extractor made."""
        return self.facts.fields if self.text is None or self.text.is_surveyed else None

    @cached_property
    def sizes(self) -> Measure:
        """Sizes of the payload, or those of its text view, without dropped bytes."""
        if self.text is None:
            return self.measure
        m = self.text.measure
        return Measure(size=m.size, lines=m.lines, chars=m.chars, tokens=m.tokens, sha256=b"", utf8=True)

    @property
    def brief(self) -> bool:
        """Whether every word counts."""
        return self.budget < BRIEF

    @property
    def spec(self) -> KindSpec:
        """The row of the payload's kind."""
        return spec_of(self.facts.kind)

    @property
    def facts_share(self) -> float:
        """Share of the tokens after the names that facts may get; none beside parts, as JSON is only around them."""
        if self.text is not None and self.text.is_parts:
            return 0.0
        share = self.spec.facts_share * (_BRIEFLY if self.brief and self.spec.facts_share < _BRIEFLY else 1)
        return max(share, share_of(self.facts.shape))

    @property
    def readable(self) -> bool:
        """Whether it is text, or has a text view."""
        return self.text is not None or self.spec.readable

    @property
    def allows_excerpts(self) -> bool:
        """Whether excerpts may be shown: it is text, and not one whose facts are all that a card has of it."""
        has_only_facts = self.spec.readable and self.facts_share == 1 and self.facts.shape
        return self.readable and self.measure.size > 0 and not has_only_facts


class Excerpt(Struct, frozen=True, kw_only=True):
    """Text of the payload inside a card."""

    text: str
    view: Literal["raw", "text"]
    """The view to which bytes and lines refer: `raw`, the payload, or `text`, its readable text."""
    bytes: Extent
    lines: LineExtent
    exact: bool
    """Whether `text` is the decoded range, character for character; false if `inert` changed any."""
    cut: Literal["", "start", "end", "both"] = ""
    """Which of its ends is inside a line."""


class Omission(Struct, frozen=True, kw_only=True):
    """A range that no excerpt shows. Excerpts and omissions together cover the payload, or its text view."""

    bytes: Extent
    lines: LineExtent
    whole_lines: int
    """Number of lines of which nothing is shown."""


class NextCall(Struct, frozen=True):
    """The call that reads on, ready to be made."""

    tool: str
    arguments: dict[str, str | int]


class Card(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a model gets instead of a payload. A pure function of the payload, its declared metadata, and the budget."""

    id: str
    kind: Kind
    media_type: str | None = None
    title: str | None = None
    url: str | None = None
    canonical_url: str | None = None
    status: int | None = None
    """The HTTP status with which the page came."""
    final_url: str | None = None
    """Where redirects led from `url`."""
    content_type: str | None = None
    """What the page's server called it."""
    tool_name: str | None = None
    tool_call_id: str | None = None
    command: str | None = None
    """What was run, or the tool's arguments, shortened."""
    compared_to: str | None = None
    """ID of the earlier artifact that this one was compared with."""
    size: int
    chars: int
    lines: int
    tokens: TokenCount
    text: ViewMeasure | None = None
    """Sizes of the text view, if excerpts, omissions and the next call refer to that instead of the payload."""
    sha256: str | None = None
    """Hexadecimal; for payloads other than text."""
    markers: tuple[Marker, ...] = ()
    shape: tuple[str, ...] = ()
    """The part of the shape that the text shows."""
    excerpts: list[Excerpt] = field(default_factory=list[Excerpt])
    omitted: list[Omission] = field(default_factory=list[Omission])
    redacted: str = ""
    """Which secrets are masked in this card, in words; empty if none are."""
    dropped: int = 0
    """Bytes of the original that were never kept; they were at `dropped_at` of what was."""
    dropped_at: int = 0
    next: NextCall | None = None
    """None if everything is shown, or the payload cannot be read as text."""
    engine: int
