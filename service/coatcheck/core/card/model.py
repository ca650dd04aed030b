"""A card as data: the same facts as its text, for programs."""

from typing import Literal

from msgspec import Struct, field

from coatcheck.core.artifact import Kind, Marker, Tokens
from coatcheck.core.views.view import ViewMeasure


class ByteRange(Struct, frozen=True):
    """Half-open, in bytes of the view."""

    start: int
    end: int


class LineRange(Struct, frozen=True):
    """1-based and inclusive. A line counts when any byte of it is in the range."""

    first: int
    last: int


class Excerpt(Struct, frozen=True, kw_only=True):
    """Text of the payload inside a card."""

    text: str
    view: Literal["raw", "text"]
    """Which view's bytes and lines these are: `raw`, the payload, or `text`, what a reader reads of it."""
    bytes: ByteRange
    lines: LineRange
    exact: bool
    """Whether `text` is the decoded range, character for character; false where `inert` changed one."""
    cut: Literal["", "start", "end", "both"] = ""
    """Which of its ends lies inside a line."""


class Omission(Struct, frozen=True, kw_only=True):
    """A range that no excerpt shows. Excerpts and omissions together are the whole payload, or all of its text view."""

    bytes: ByteRange
    lines: LineRange
    whole_lines: int
    """Lines of which nothing is shown."""


class NextCall(Struct, frozen=True):
    """The call that reads on, ready to be made."""

    tool: str
    arguments: dict[str, str | int]


class Card(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a model gets instead of a payload. A pure function of the payload, what was said of it, and the budget."""

    id: str
    kind: Kind
    media_type: str | None = None
    title: str | None = None
    url: str | None = None
    canonical_url: str | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None
    command: str | None = None
    """What was run, or the tool's arguments in short."""
    compared_to: str | None = None
    """ID of the earlier artifact that this one was compared with."""
    size: int
    chars: int
    lines: int
    tokens: Tokens
    text: ViewMeasure | None = None
    """Sizes of the text view, where excerpts, omissions and the next call are in that instead of the payload."""
    sha256: str | None = None
    """Hexadecimal; for payloads that are not text."""
    markers: tuple[Marker, ...] = ()
    shape: tuple[str, ...] = ()
    """As much of the shape as the text shows."""
    excerpts: list[Excerpt] = field(default_factory=list[Excerpt])
    omitted: list[Omission] = field(default_factory=list[Omission])
    redacted: str = ""
    """Which secrets are masked in this card, in words; empty where none are."""
    dropped: int = 0
    """Bytes of the original that were never kept; they lie at `dropped_at` in what was."""
    dropped_at: int = 0
    next: NextCall | None = None
    """None when everything is shown, and for what cannot be read as text."""
    engine: int
