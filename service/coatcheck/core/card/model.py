"""A card as data: the input from which it is made, and the facts that its text states, for programs."""

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
"""Part of their usual share that facts get in a brief card. In kinds whose facts usually get at least this share, they
keep the whole share."""
BRIEF: Final = 300
"""Budget in tokens below which a card is brief: every word counts, and less important ones are left out."""


class CardInput(Struct, frozen=True, dict=True):
    """The input from which a card is made."""

    id: str
    """The ID that a reader will use."""
    declared: DeclaredMetadata
    measure: Measure
    """Sizes of the payload."""
    facts: DetectedMetadata
    """The detected metadata of the payload, as `recognise` returns it."""
    sample: PayloadSample
    """The ends of the payload, or all of it."""
    budget: int
    """Maximum tokens of the card's text, as the tokenizer counts them: 64 to 8,192."""
    tokenizer: Tokenizer
    query: str | None = None
    """The reader's query, if any: parts that answer it are preferred."""
    survey: Survey | None = None
    """The survey of the bytes between the two ends, for a payload that is not completely in the sample."""
    text: CardSource | None = None
    """The payload's text view, if excerpts, omissions and the next call are to refer to it."""
    is_stored: bool = True
    """Whether the payload is stored and can be read; otherwise the card says that it cannot."""
    tools: bool = True
    """Whether the reader has the tool that reads artifacts; otherwise the card suggests no call."""

    @property
    def evidence(self) -> PayloadSample:
        """The bytes from which excerpts are taken: the payload, or its text view."""
        return self.sample if self.text is None else self.text.sample

    @property
    def asides(self) -> tuple[Section, ...]:
        """Parts of the text view that are not its main text, in order."""
        return () if self.text is None else self.text.asides

    @property
    def fields(self) -> LineFields | None:
        """Fields of each line that are hidden; None if there are none, or excerpts are from an extractor's view."""
        return self.facts.fields if self.text is None or self.text.is_surveyed else None

    @cached_property
    def sizes(self) -> Measure:
        """Sizes of the payload, or of its text view; those of a view do not include dropped bytes."""
        if self.text is None:
            return self.measure
        m = self.text.measure
        return Measure(size=m.size, lines=m.lines, chars=m.chars, tokens=m.tokens, sha256=b"", utf8=True)

    @property
    def brief(self) -> bool:
        """Whether the card is brief, so that every word counts."""
        return self.budget < BRIEF

    @property
    def spec(self) -> KindSpec:
        """The specification of the payload's kind."""
        return spec_of(self.facts.kind)

    @property
    def facts_share(self) -> float:
        """Maximum share that facts get of the tokens that remain after the names.

        It is 0 if the view has parts, because the facts then describe only the JSON around the parts.
        """
        if self.text is not None and self.text.is_parts:
            return 0.0
        share = self.spec.facts_share * (_BRIEFLY if self.brief and self.spec.facts_share < _BRIEFLY else 1)
        return max(share, share_of(self.facts.shape))

    @property
    def readable(self) -> bool:
        """Whether the payload is text, or has a text view."""
        return self.text is not None or self.spec.readable

    @property
    def allows_excerpts(self) -> bool:
        """Whether excerpts may be shown: the payload is readable, not empty, and facts do not take the whole card."""
        has_only_facts = self.spec.readable and self.facts_share == 1 and self.facts.shape
        return self.readable and self.measure.size > 0 and not has_only_facts


class Excerpt(Struct, frozen=True, kw_only=True):
    """A verbatim part of the payload, or of its text view, inside a card."""

    text: str
    view: Literal["raw", "text"]
    """The view to which `bytes` and `lines` refer: `raw` is the payload itself, `text` is its readable text."""
    bytes: Extent
    lines: LineExtent
    exact: bool
    """Whether `text` is the decoded range, character for character; false if any character was changed for display."""
    cut: Literal["", "start", "end", "both"] = ""
    """Which ends of the excerpt are inside a line."""


class Omission(Struct, frozen=True, kw_only=True):
    """A range that no excerpt shows. Excerpts and omissions together cover the payload, or its text view."""

    bytes: Extent
    lines: LineExtent
    whole_lines: int
    """Number of lines of which no part is shown."""


class NextCall(Struct, frozen=True):
    """The call that a card suggests for reading on, with all arguments."""

    tool: str
    arguments: dict[str, str | int]


class Card(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The bounded description that a model gets instead of a payload. It depends only on the card's input."""

    id: str
    kind: Kind
    media_type: str | None = None
    title: str | None = None
    url: str | None = None
    canonical_url: str | None = None
    status: int | None = None
    """HTTP status of the response with the page."""
    final_url: str | None = None
    """URL to which redirects from `url` led."""
    content_type: str | None = None
    """Content type that the page's server declared."""
    tool_name: str | None = None
    tool_call_id: str | None = None
    command: str | None = None
    """The command that was run, or the tool's arguments, shortened."""
    compared_to: str | None = None
    """ID of the earlier artifact with which this artifact was compared."""
    size: int
    chars: int
    lines: int
    tokens: TokenCount
    text: ViewMeasure | None = None
    """Sizes of the text view, if excerpts, omissions and the next call refer to it instead of the payload."""
    sha256: str | None = None
    """SHA-256 of the payload in hexadecimal; None for text."""
    markers: tuple[Marker, ...] = ()
    shape: tuple[str, ...] = ()
    """The facts about the payload's structure that the card's text has."""
    excerpts: list[Excerpt] = field(default_factory=list[Excerpt])
    omitted: list[Omission] = field(default_factory=list[Omission])
    redacted: str = ""
    """Words on how many secrets are masked in this card, and by which rules; empty if none are."""
    dropped: int = 0
    """Number of bytes of the original that were never stored. They followed byte `dropped_at` of the stored bytes."""
    dropped_at: int = 0
    next: NextCall | None = None
    """The suggested call; None if everything is shown, or the rest cannot be read or resembles what is shown."""
    engine: int
