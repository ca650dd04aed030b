"""The service's answers as values. Members that this release does not know are ignored.

Tokens are of o200k_base. Unknown values are None. The service's OpenAPI document describes every member.
"""
# ruff: noqa: PLC0414 - what the service shares is exported from here, too

from datetime import datetime
from typing import Any

from msgspec import Struct

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
    """The answer to a put. `text` is what to put into the tool result, whatever happened to the payload."""

    id: str | None
    """The artifact ID; None if the service could not be reached."""
    stored: bool
    """False: it cannot be read back, at least not now; `warnings` says why, and so does `text`."""
    inline: bool
    """Whether `text` is the payload itself."""
    text: str
    tokens: int
    """Tokens of `text`; an estimate if the service could not be reached."""
    card: Card | None
    """None if the service could not be reached, and for a web search's text."""
    expires_at: datetime | None = None
    """When it expires; None: kept forever, or not stored."""
    same_as: str | None = None
    """ID of the artifact of the same bytes whose card `text` refers to, in two lines; None: it is a card or payload."""
    content: list[Any] | None = None
    """If there were images among the parts: what to put into the tool result in place of `text`."""
    image_tokens: int = 0
    """Tokens of these images; not included in `tokens`."""
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
    """ID of the artifact that it was compared with when it was stored."""
    same_as: str | None = None
    """ID of the artifact whose card the first receipt referred to, in two lines."""
    status: int | None = None
    """The HTTP status with which the page came."""
    final_url: str | None = None
    """Where redirects led from `url`."""
    redirected: bool = False
    """Whether that is another page, not only another spelling of the address."""
    content_type: str | None = None
    """What the page's server called it."""
    fetched_at: datetime | None = None
    holds: tuple[ArtifactHold, ...] | None = None
    """The holds that keep it from being deleted; None: unknown, because storage is away or the service is older."""


class _Text(Struct, frozen=True, kw_only=True):
    """What answers about an artifact begin with: its ID, and a text for a model."""

    id: str
    text: str
    tokens: int


class _Part(_Text, frozen=True, kw_only=True):
    """What answers about a view of it have, too."""

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
    """What a model got in its place when it was stored; None: nothing, or not known."""


class Listing(Struct, frozen=True, kw_only=True):
    """A page of artifacts, newest first; `next` is the cursor of the next page, None on the last."""

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
    """What a path selects in a JSON artifact."""

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
    """What is in an artifact, and where."""

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
    """A web search within its budget: `text` for this turn, `summary` for those after it."""

    id: str | None
    """None: searches are off, or there were too many, as `warnings` say."""
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


def receipt_of_search(answer: SearchResults, searches: str) -> Receipt:
    """Returns the receipt of a put that was answered as a web search; `searches` says with which of its texts."""
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
    """The result for one quotation: what was found, or the problem."""

    checked: Members | None = None
    problem: Members | None = None


class Compacted(Struct, frozen=True, kw_only=True):
    """A request body with cards and markers in place of what was large, and what was done to it."""

    body: Any
    report: Members
    meters: Members
    payloads: tuple[Members, ...]
    warnings: tuple[Notice, ...] = ()
