"""What answers say: the wire shapes of receipts, artifacts, cards and lists, and how they are made from values.

Times are RFC 3339 in UTC; digests are hexadecimal; what is unknown is null, not missing.
"""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from litestar import Response
from msgspec import UNSET, Meta, Struct, UnsetType

from coatcheck.core.artifact import Artifact, Kind
from coatcheck.core.card import Card
from coatcheck.usecases.describe import Described
from coatcheck.usecases.ingest_request import Notice, Receipt
from coatcheck.usecases.verify_citations import Checked

Id = Annotated[str, Meta(pattern="^art_[0-9]{18}$", description="Artifact ID.", examples=["art_482913077564201876"])]
TextTokens = Annotated[int, Meta(ge=0, description="Tokens of `text` in o200k_base.", examples=[312])]
Text = Annotated[str, Meta(description="Exactly what to put into the tool result.")]


class Warned(Struct, frozen=True):
    """Something to know although the request succeeded."""

    code: Annotated[str, Meta(description="Permanent name.", examples=["lone_surrogates_replaced"])]
    message: Annotated[str, Meta(description="A sentence.")]


class ReceiptView(Struct, frozen=True, kw_only=True):
    """What an ingest answers."""

    id: Id
    stored: Annotated[
        bool,
        Meta(
            description="Whether the payload is durable and can be read again under this ID. If not, `warnings` says "
            "why: `storage_unavailable`, `storage_full` or `overloaded`; it may be stored a little later, from memory."
        ),
    ]
    expires_at: Annotated[
        datetime | None,
        Meta(
            description="The moment from which it answers `gone`, policies of the administrator considered. Null: kept "
            "for ever, pinned, or not stored."
        ),
    ]
    inline: Annotated[bool, Meta(description="Whether `text` is the payload itself, byte for byte.")]
    text: Text
    tokens: TextTokens
    card: Card
    warnings: tuple[Warned, ...] = ()


class TokensView(Struct, frozen=True):
    """A token count."""

    count: Annotated[int, Meta(ge=0)]
    exact: Annotated[bool, Meta(description="False for an estimate.")]
    encoding: Annotated[str, Meta(examples=["o200k_base"])]


class SizeView(Struct, frozen=True, kw_only=True):
    """How large the payload is."""

    bytes: Annotated[int, Meta(ge=0)]
    chars: Annotated[int, Meta(ge=0)]
    lines: Annotated[int, Meta(ge=0, description="Line feeds, and a last piece without one.")]
    tokens: TokensView
    dropped_bytes: Annotated[
        int, Meta(ge=0, description="Bytes between the two ends that were never kept; 0 when the payload is whole.")
    ]


class ArtifactView(Struct, frozen=True, kw_only=True):
    """An artifact's metadata."""

    id: Id
    kind: Kind
    media_type: str | None
    tool_name: str | None
    tool_call_id: str | None
    command: str | None
    session: str | None
    url: str | None
    title: str | None
    labels: tuple[str, ...]
    compared_to: Annotated[str | None, Meta(description="ID of the artifact that it was compared with at ingest.")]
    size: SizeView
    utf8: Annotated[bool, Meta(description="Whether the payload is valid UTF-8.")]
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$", description="Digest of the payload.")]
    created_at: datetime
    expires_at: Annotated[datetime | None, Meta(description="Null: pinned, or kept for ever.")]
    ttl: Annotated[int | None, Meta(description="Seconds from creation; null keeps for ever.")]
    idle_ttl: Annotated[int | None, Meta(description="Seconds without a read; null: no idle expiry.")]
    pinned: bool


class CardView(Struct, frozen=True, kw_only=True):
    """A card at some budget."""

    id: Id
    text: Text
    tokens: TextTokens
    card: Card


class DescribedView(Struct, frozen=True, kw_only=True):
    """An artifact's metadata and its card."""

    artifact: ArtifactView
    text: Text
    tokens: TextTokens
    card: Card


class ListView(Struct, frozen=True, omit_defaults=True):
    """A page of artifacts, newest first."""

    items: tuple[ArtifactView, ...]
    next: Annotated[
        str | None,
        Meta(
            description="Give it as `cursor` for the next page; null on the last. A page before that may be short, or "
            "empty where few artifacts match: go on until it is null."
        ),
    ]
    partial: Annotated[
        bool,
        Meta(
            description="With `q`, and only when true: artifacts that were stored lately may be missing, because they "
            "wait for the full-text index. The same request finds them later."
        ),
    ] = False


class DeletedView(Struct, frozen=True):
    """What deleting a session did."""

    deleted: Annotated[int, Meta(ge=0, description="Artifacts that were live and are now gone.")]


class HealthView(Struct, frozen=True):
    """That the service lives, or is ready."""

    status: Annotated[str, Meta(examples=["ready"])]


class BatchItem(Struct, frozen=True, omit_defaults=True):
    """The answer to one item of a batch: a receipt or a problem."""

    status: Annotated[int, Meta(ge=200, le=599, description="What a request for this item alone would have answered.")]
    receipt: ReceiptView | UnsetType = UNSET
    problem: dict[str, Any] | UnsetType = UNSET


class BatchView(Struct, frozen=True):
    """What a batch answers."""

    results: tuple[BatchItem, ...]


class QuotationView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to one quotation: what was found, or a problem."""

    checked: Checked | UnsetType = UNSET
    problem: dict[str, Any] | UnsetType = UNSET


class VerifiedView(Struct, frozen=True):
    """What became of quotations, in the order given."""

    results: tuple[QuotationView, ...]


class ToolsView(Struct, frozen=True):
    """Tools as a provider wants them declared."""

    tools: Annotated[tuple[dict[str, Any], ...], Meta(description="Exactly what to put into the `tools` of a request.")]


class OpenApi(Struct, frozen=True):
    """An OpenAPI document (for its own schema see the OpenAPI specification)."""

    openapi: Annotated[str, Meta(examples=["3.1.1"])]


def answer(view: Struct, *, status: int = 200, headers: dict[str, str] | None = None) -> Response[bytes]:
    """A JSON response."""
    return Response(
        content=msgspec.json.encode(view), status_code=status, media_type="application/json", headers=headers
    )


def receipt_view(receipt: Receipt) -> ReceiptView:
    """An ingest's answer as callers see it."""
    return ReceiptView(
        id=receipt.id,
        stored=receipt.stored,
        expires_at=receipt.expires_at,
        inline=receipt.inline,
        text=receipt.text,
        tokens=receipt.tokens,
        card=receipt.card,
        warnings=tuple(_warned(notice) for notice in receipt.warnings),
    )


def _warned(notice: Notice) -> Warned:
    return Warned(notice.code, notice.message)


def described_view(described: Described) -> DescribedView:
    """An artifact and its card as callers see them."""
    return DescribedView(
        artifact=artifact_view(described.artifact),
        text=described.text,
        tokens=described.tokens,
        card=described.card,
    )


def artifact_view(artifact: Artifact) -> ArtifactView:
    """An artifact as callers see it; what was recognised stands in for what was not said."""
    said, facts, measure = artifact.said, artifact.facts, artifact.measure
    return ArtifactView(
        id=artifact.id,
        kind=facts.kind,
        media_type=said.media_type or facts.media_type,
        tool_name=said.tool_name,
        tool_call_id=said.tool_call_id,
        command=said.command,
        session=said.session,
        url=said.url or facts.url,
        title=said.title or facts.title,
        labels=said.labels,
        compared_to=said.compared_to,
        size=SizeView(
            bytes=measure.size,
            chars=measure.chars,
            lines=measure.lines,
            tokens=TokensView(measure.tokens.count, measure.tokens.exact, measure.tokens.encoding),
            dropped_bytes=measure.dropped,
        ),
        utf8=measure.utf8,
        sha256=measure.sha256.hex(),
        created_at=artifact.created_at,
        expires_at=artifact.expires_at,
        ttl=artifact.ttl,
        idle_ttl=artifact.idle_ttl,
        pinned=artifact.pinned,
    )
