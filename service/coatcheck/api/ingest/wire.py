"""Wire types of ingest: what a request declares about a payload, and its receipt."""

from datetime import datetime
from typing import Annotated, Any, ClassVar

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from coatcheck.api.ingest.schemas import CONTENT, STORE_EXAMPLE
from coatcheck.api.parameters import (
    CallId,
    CardTokens,
    Command,
    CompareTo,
    ContentType,
    FetchedAt,
    FinalUrl,
    IdleTtl,
    InlineTokens,
    KindLabel,
    LabelList,
    MediaType,
    Oversize,
    Pin,
    Query,
    Session,
    Status,
    Title,
    ToolLabel,
    Tools,
    Ttl,
    UrlLabel,
)
from coatcheck.api.views import Id, Text, TextTokens, WarningView, copy_fields, warnings_view
from coatcheck.core.card import Card
from coatcheck.core.card.compose import MIN_BUDGET
from coatcheck.storing.ingest_request import Receipt


class DeclaredParameters(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a caller may declare about a payload; also the query of the raw route and the fields of a form."""

    media_type: MediaType = None
    tool_name: ToolLabel = None
    tool_call_id: CallId = None
    command: Command = None
    session: Session | None = None
    url: UrlLabel = None
    status: Status | None = None
    final_url: FinalUrl | None = None
    content_type: ContentType | None = None
    fetched_at: FetchedAt | None = None
    title: Title = None
    kind: KindLabel = None
    labels: LabelList = ()
    query: Query | None = None
    ttl: Ttl | UnsetType = UNSET
    idle_ttl: IdleTtl | UnsetType = UNSET
    pin: Pin = False
    card_tokens: CardTokens | None = None
    inline_tokens: InlineTokens | None = None
    oversize: Oversize = "reject"
    compare_to: CompareTo | None = None
    tools: Tools = "read_artifact"


class RawQuery(DeclaredParameters, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The query parameters of `POST /v1/artifacts/raw`."""

    allow_empty: Annotated[
        bool, Meta(description="Store an empty body. Otherwise it is refused, because it is usually a missing file.")
    ] = False


class StoreBody(DeclaredParameters, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A payload and its metadata."""

    EXAMPLES: ClassVar = [STORE_EXAMPLE]
    WRITTEN: ClassVar = {"content": CONTENT}

    content: str | list[Any] | dict[str, Any]


class StoreForm(DeclaredParameters, kw_only=True, forbid_unknown_fields=False, omit_defaults=True):
    """A payload and its metadata as a form. The payload's part is named `file` or `content`, or has a file name."""

    WRITTEN: ClassVar = {
        "file": {"description": "The payload.", "type": "string", "contentMediaType": "application/octet-stream"}
    }

    file: Any


class BatchBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Payloads to store in one request."""

    EXAMPLES: ClassVar = [{"items": [STORE_EXAMPLE]}]
    WRITTEN: ClassVar = {
        "items": {
            "description": "The bodies of single requests.",
            "items": {"$ref": "#/components/schemas/StoreRequest"},
        }
    }

    items: Annotated[list[Raw], Meta(min_length=1, max_length=100)]
    """Decoded one by one, so that each can fail separately."""
    max_total_tokens: (
        Annotated[
            int,
            Meta(
                ge=MIN_BUDGET,
                le=1_000_000,
                description="Maximum tokens of the `text`s of all receipts together. If they exceed it, the largest "
                "are returned as cards, or as smaller cards, which share what the rest leave; at least 64 per item.",
                examples=[12_000],
            ),
        ]
        | None
    ) = None


class ReceiptView(Struct, frozen=True, kw_only=True):
    """The answer to an ingest."""

    id: Id
    stored: Annotated[
        bool,
        Meta(
            description="Whether the payload is durable and can be read again by this ID. If not, `warnings` says "
            "why: `storage_unavailable`, `storage_full` or `overloaded`; it may be stored a little later, from memory."
        ),
    ]
    expires_at: Annotated[
        datetime | None,
        Meta(
            description="When it expires, with the administrator's policies applied. Null: kept forever, "
            "pinned, or not stored."
        ),
    ]
    inline: Annotated[bool, Meta(description="Whether `text` is the payload itself, byte for byte.")]
    text: Text
    tokens: TextTokens
    same_as: Annotated[
        str | None,
        Meta(
            description="ID of the artifact of the same bytes whose card `text` refers to, in two lines, because the "
            "session was given it before. Null: `text` is a card, or the payload."
        ),
    ]
    card: Annotated[
        Card,
        Meta(
            description="The card as data. For an inline payload, or beside `same_as`, it has only names and sizes; "
            "`GET …/card` renders a full one."
        ),
    ]
    content: Annotated[
        list[Any] | None,
        Meta(
            description="If there were images among the parts: the parts to put into the tool result in place of "
            "`text`, in their original form: one with `text`, and the images. For Gemini, the images go beside the "
            "response, in `parts`. Null: there are no images."
        ),
    ] = None
    image_tokens: Annotated[
        int,
        Meta(
            ge=0,
            description="Tokens of these images by their provider's latest rule; 1,000 for one of unknown size. Not in "
            "`tokens`.",
        ),
    ] = 0
    warnings: tuple[WarningView, ...] = ()


class BatchItem(Struct, frozen=True, omit_defaults=True):
    """The answer to one item of a batch: a receipt or a problem."""

    WRITTEN: ClassVar = {"problem": {"$ref": "#/components/schemas/Problem"}}

    status: Annotated[
        int, Meta(ge=200, le=599, description="The status that a request for this item alone would have had.")
    ]
    receipt: ReceiptView | UnsetType = UNSET
    problem: dict[str, Any] | UnsetType = UNSET


class BatchView(Struct, frozen=True):
    """The answer to a batch."""

    results: tuple[BatchItem, ...]


def receipt_view(receipt: Receipt) -> ReceiptView:
    """Returns a receipt as callers see it."""
    pictures, warnings = receipt.pictures, warnings_view(receipt.warnings)
    if pictures is None:
        return copy_fields(ReceiptView, receipt, warnings=warnings)
    content, tokens = pictures.beside(receipt.text, inline=receipt.inline), pictures.tokens
    return copy_fields(ReceiptView, receipt, content=content, image_tokens=tokens, warnings=warnings)
