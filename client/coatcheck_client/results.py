"""The service's answers, as values. Members that this release does not know are ignored.

Tokens are counted in o200k_base. A value that is unknown is None. The service's OpenAPI document describes every
member.
"""
# ruff: noqa: PLC0414 - types that the service shares are exported from here, too

from datetime import datetime
from typing import Any

from msgspec import Struct, field

from coatcheck_client.contract.answers import ArtifactHold as ArtifactHold
from coatcheck_client.contract.answers import Notice as Notice
from coatcheck_client.contract.answers import PayloadSize as PayloadSize
from coatcheck_client.contract.answers import ReceiptRecord as ReceiptRecord
from coatcheck_client.contract.answers import TokenCount as TokenCount

Members = dict[str, Any]
"""A JSON object whose members the OpenAPI document describes."""


class MembersPage(Struct, frozen=True):
    """A page of a list of objects."""

    items: tuple[Members, ...]
    next: str | int | None = None


class Card(Struct, frozen=True, kw_only=True):
    """The content of a card, for programs."""

    id: str
    kind: str
    size: int
    chars: int
    lines: int
    tokens: TokenCount
    engine: int
    media_type: str | None = None
    title: str | None = None
    url: str | None = None
    canonical_url: str | None = None
    status: int | None = None
    final_url: str | None = None
    content_type: str | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None
    command: str | None = None
    compared_to: str | None = None
    text: Members | None = None
    sha256: str | None = None
    markers: tuple[Members, ...] = ()
    shape: tuple[str, ...] = ()
    excerpts: tuple[Members, ...] = ()
    omitted: tuple[Members, ...] = ()
    dropped: int = 0
    dropped_at: int = 0
    next: Members | None = None
    redacted: str = ""


class Receipt(Struct, frozen=True, kw_only=True):
    """The answer to a put. `text` is what to put into the tool result, whether the payload was stored or not."""

    id: str
    """The artifact ID; empty if the put failed, or if a policy refused the web search."""
    stored: bool
    """False: the payload cannot be read back now, and perhaps never; `warnings` say why."""
    inline: bool
    """Whether `text` is the payload itself."""
    text: str
    tokens: int
    """Tokens of `text`; an estimate if the put failed."""
    card: Card | None
    """The card's content; None if the put failed, and for a web search's text."""
    expires_at: datetime | None = None
    """When the artifact expires; None: it is kept forever, pinned, or was not stored."""
    same_as: str | None = None
    """ID of the artifact of the same bytes to whose card `text` refers, in two lines.

    None: `text` is a card, or the payload.
    """
    content: list[Any] | None = None
    """What to put into the tool result in place of `text` if there were images among the parts; None: no images."""
    image_tokens: int = 0
    """Tokens of these images, which `tokens` does not include."""
    warnings: tuple[Notice, ...] = ()


class Artifact(Struct, frozen=True, kw_only=True):
    """An artifact's metadata."""

    id: str
    kind: str
    media_type: str | None
    tool_name: str | None
    tool_call_id: str | None
    session: str | None
    url: str | None
    title: str | None
    labels: tuple[str, ...]
    size: PayloadSize
    utf8: bool
    sha256: str
    created_at: datetime
    expires_at: datetime | None
    ttl: int | None
    idle_ttl: int | None
    pinned: bool
    command: str | None = None
    compared_to: str | None = None
    """ID of the artifact with which this one was compared when it was stored."""
    same_as: str | None = None
    """ID of the artifact to whose card the first receipt referred, in two lines."""
    status: int | None = None
    """The HTTP status with which the page was fetched."""
    final_url: str | None = None
    """The URL to which redirects led from `url`."""
    redirected: bool = False
    """Whether `final_url` is another page than `url`, not only another spelling of it."""
    content_type: str | None = None
    """The content type that the page's server stated."""
    fetched_at: datetime | None = None
    holds: tuple[ArtifactHold, ...] | None = None
    """Holds that keep the artifact from being deleted; None: unknown, as storage is away or the service is older."""


class _Text(Struct, frozen=True, kw_only=True):
    """The first members of answers about an artifact: its ID, and a text for a model with its tokens."""

    id: str
    text: str
    tokens: int


class _Part(_Text, frozen=True, kw_only=True):
    """The first members of answers about a view of an artifact: also the view, and the section if one was named."""

    view: str
    section: Members | None


class CardText(_Text, frozen=True, kw_only=True):
    """A card at a certain budget."""

    card: Card


class Described(Struct, frozen=True, kw_only=True):
    """An artifact's metadata and its card."""

    artifact: Artifact
    text: str
    tokens: int
    card: Card
    receipt: ReceiptRecord | None = None
    """The text that a model got in the payload's place when it was stored; None: it got none, or that is unknown."""


class Listing(Struct, frozen=True, kw_only=True):
    """A page of artifacts, newest first. `next` is the cursor of the next page, and None on the last page."""

    items: tuple[Artifact, ...]
    next: str | None
    partial: bool = False


class ReadNext(Struct, frozen=True, kw_only=True):
    """Where a read continues."""

    cursor: str
    offset: int
    unit: str
    bytes: int


class Read(_Part, frozen=True, kw_only=True):
    """A part of an artifact."""

    unit: str
    window: Members
    total: Members
    complete: bool
    cut: str
    next: ReadNext | None
    encoding: str = "utf-8"
    partial: bool = False


class Found(_Part, frozen=True, kw_only=True):
    """The lines that match a pattern."""

    message: str | None
    matches: tuple[Members, ...]
    windows: tuple[Members, ...]
    shown: int
    total: int | None
    at_least: int
    complete: bool
    stopped: str
    next: Members | None


class Passages(_Part, frozen=True, kw_only=True):
    """The passages that answer a question."""

    windows: tuple[Members, ...]
    terms: tuple[str, ...]
    missing: tuple[str, ...]
    searched: Members
    partial: bool
    stopped: str
    notices: tuple[str, ...]


class Values(_Text, frozen=True, kw_only=True):
    """The values that a path selects in a JSON artifact."""

    view: str
    """The view in whose bytes the positions of `values` count."""
    values: tuple[Members, ...]
    total: int
    total_exact: bool
    complete: bool
    stopped: str
    next: str | None
    partial: bool
    notices: tuple[str, ...]
    message: str | None


class Outline(_Part, frozen=True, kw_only=True):
    """The outline of an artifact: its parts, and where they are."""

    kind: str
    entries: tuple[Members, ...]
    total: int
    total_exact: bool
    next: int | None
    searched: Members
    partial: bool
    notices: tuple[str, ...]
    message: str | None


class SearchResults(Struct, frozen=True, kw_only=True):
    """A web search's response within its budget: `text` is for this turn, `summary` for the turns after it."""

    _id: str | None = field(name="id")
    stored: bool
    text: str
    tokens: int
    payload: Members
    content: str | list[Any]
    summary: Members
    provider: str
    query: str
    results: tuple[Members, ...]
    listed: tuple[Members, ...]
    folded: tuple[Members, ...]
    counts: Members
    unknown: tuple[str, ...]
    limits: Members
    warnings: tuple[Notice, ...]

    @property
    def id(self) -> str:
        """The artifact ID; empty: searches are off, or there were too many, as `warnings` say."""
        return self._id or ""


def receipt_of_search(answer: SearchResults, searches: str) -> Receipt:
    """Returns the receipt of a put that was answered as a web search; `searches` says which of its texts to return."""
    whole = searches == "passages"
    return Receipt(
        id=answer.id,
        stored=answer.stored,
        inline=False,
        text=answer.text if whole else answer.summary["text"],
        tokens=answer.tokens if whole else answer.summary["token_estimate"],
        card=None,
        warnings=answer.warnings,
    )


class Verdict(Struct, frozen=True, kw_only=True):
    """The result for one quotation: what was found, or a problem."""

    checked: Members | None = None
    problem: Members | None = None


class Compacted(Struct, frozen=True, kw_only=True):
    """A request body with cards and markers in place of its large contents, and a report of what was changed."""

    body: Any
    report: Members
    meters: Members
    payloads: tuple[Members, ...]
    warnings: tuple[Notice, ...] = ()
