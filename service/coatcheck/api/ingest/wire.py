"""Wire types of ingest (parameters, bodies and receipts), and their conversion to and from the types of the use case.

The schemas of payloads in bodies are written by hand, because a payload may have the shape of any provider's content.
"""

from datetime import datetime
from typing import Annotated, Any, ClassVar, Final

from msgspec import UNSET, Meta, Raw, Struct, UnsetType, structs

from coatcheck.api.parameters import (
    CallId,
    CardTokens,
    Command,
    CompareTo,
    ContentType,
    FetchedAt,
    FinalUrl,
    Id,
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
    Text,
    TextTokens,
    Title,
    ToolLabel,
    Tools,
    Ttl,
    UrlLabel,
    describe,
    plain,
    seconds_or_unset,
)
from coatcheck.core import ids
from coatcheck.core.artifact import FETCH, DeclaredMetadata
from coatcheck.core.card import Card
from coatcheck.core.card.compose import MIN_BUDGET
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.metadata_bounds import CLOCK_SKEW, as_address, as_content_type
from coatcheck.core.views.parts import PartsPayload
from coatcheck.storing.compare import PREVIOUS
from coatcheck.storing.ingest_request import IngestRequest, Receipt
from coatcheck_client.contract.answers import Notice

Node = dict[str, Any]
_REF: Final = "#/components/schemas/"
"""Prefix of references between schemas."""

BYTES: Final[Node] = {"description": "The payload.", "contentMediaType": "application/octet-stream"}
"""Schema of a raw body."""
PART: Final[Node] = {
    "description": (
        "A part as OpenAI, Anthropic, Gemini, MCP or LangChain write it: text, image, audio, document, search result, "
        "resource."
    ),
    "anyOf": [{"type": "string"}, {"type": "object"}],
}
"""Schema of a part. It allows any members, because providers add members to their parts."""
CONTENT: Final[Node] = {
    "description": "The payload.",
    "anyOf": [
        {"type": "string", "description": "Text."},
        {
            "type": "object",
            "description": "Bytes.",
            "properties": {
                "base64": {"type": "string", "contentEncoding": "base64", "description": "Standard or URL-safe."}
            },
            "required": ["base64"],
            "additionalProperties": False,
        },
        {"type": "array", "description": "Parts.", "minItems": 1, "items": {"$ref": _REF + "Part"}},
        {
            "type": "object",
            "description": "A tool result as a provider writes it, with its parts in it.",
            "examples": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "exit code 1"}],
        },
    ],
}
"""Schema of `content`. The field's Python type says less than the OpenAPI document should."""
STORE_EXAMPLE: Final[Node] = {
    "content": "FAILED tests/test_import.py::test_checksum\n1 failed, 211 passed in 8.41s\n",
    "tool_name": "bash",
    "tool_call_id": "call_8f2a",
    "session": "run-42",
    "query": "why did the build fail",
}
"""The example of every body that stores a payload."""


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
    """UNSET: as policies and settings say; None: forever."""
    idle_ttl: IdleTtl | UnsetType = UNSET
    """UNSET: as policies and settings say; None: no idle expiry."""
    pin: Pin = False
    card_tokens: CardTokens | None = None
    """None: as policies and settings say."""
    inline_tokens: InlineTokens | None = None
    """None: as policies and settings say."""
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
    """By field, the schema that completes the one generated from the field's type. Other models have WRITTEN, too."""

    content: str | list[Any] | dict[str, Any]


class StoreForm(DeclaredParameters, kw_only=True, forbid_unknown_fields=False, omit_defaults=True):
    """A payload and its metadata as a form. The payload's part is named `file` or `content`, or has a file name."""

    WRITTEN: ClassVar = {
        "file": {"description": "The payload.", "type": "string", "contentMediaType": "application/octet-stream"}
    }

    file: Any
    """Only for the OpenAPI document: a form is never decoded into this model, as its file is streamed."""


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
    """Items as raw JSON. They are decoded one by one, so that each can fail separately."""
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
    warnings: tuple[Notice, ...] = ()


class BatchItem(Struct, frozen=True, omit_defaults=True):
    """The answer to one item of a batch: a receipt or a problem."""

    WRITTEN: ClassVar = {"problem": {"$ref": "#/components/schemas/Problem"}}

    status: Annotated[
        int, Meta(ge=200, le=599, description="The status that a request for this item alone would have had.")
    ]
    receipt: ReceiptView | UnsetType = UNSET
    problem: dict[str, Any] | UnsetType = UNSET
    """UNSET if there is a receipt."""


class BatchView(Struct, frozen=True):
    """The answer to a batch."""

    results: tuple[BatchItem, ...]


def receipt_view(receipt: Receipt) -> ReceiptView:
    """Returns a receipt as callers see it."""
    pictures = receipt.pictures
    return ReceiptView(
        id=receipt.id,
        stored=receipt.stored,
        expires_at=receipt.expires_at,
        inline=receipt.inline,
        text=receipt.text,
        tokens=receipt.tokens,
        same_as=receipt.same_as,
        card=receipt.card,
        content=None if pictures is None else pictures.beside(receipt.text, inline=receipt.inline),
        image_tokens=0 if pictures is None else pictures.tokens,
        warnings=receipt.warnings,
    )


def to_ingest_request(
    parameters: DeclaredParameters, declared: DeclaredMetadata, *, key: str | None, notices: tuple[Notice, ...] = ()
) -> IngestRequest:
    """Returns the ingest request of an HTTP request.

    Raises:
        CoatcheckError: `invalid_request` for an invalid duration; `invalid_artifact_id` if `compare_to` is neither an
            ID nor `previous`.
    """
    # Refuse a malformed ID before the payload is read. Whether the artifact exists is checked later.
    if parameters.compare_to is not None and parameters.compare_to != PREVIOUS:
        ids.parse(parameters.compare_to)
    return IngestRequest(
        declared=declared,
        query=parameters.query,
        ttl=seconds_or_unset(parameters.ttl, "ttl"),
        idle_ttl=seconds_or_unset(parameters.idle_ttl, "idle_ttl"),
        pinned=parameters.pin,
        card_tokens=parameters.card_tokens,
        inline_tokens=parameters.inline_tokens,
        keep_ends=parameters.oversize == "keep_ends",
        compare_to=parameters.compare_to,
        tools=parameters.tools != "none",
        key=key,
        notices=notices,
    )


def to_declared(
    parameters: DeclaredParameters,
    now: datetime,
    *,
    media_type: str | None = None,
    title: str | None = None,
    failed: bool = False,
) -> tuple[DeclaredMetadata, tuple[Notice, ...]]:
    """Returns the declared metadata of a request, and a warning if some of it had to be adjusted.

    Args:
        parameters: the request.
        now: the present moment; a page cannot have been fetched later.
        media_type: the media type if the request declares none.
        title: the title if the request declares none.
        failed: whether a provider's result says that the tool failed.

    Raises:
        CoatcheckError: `invalid_request` if the session has a control character, or if a field of the page fetch is
            malformed or in the future.
    """
    # Models rely on how a page was fetched, so malformed fields of the fetch are refused (decision 0051). Metadata that
    # only describes the payload is adjusted: it must never cause a payload to be refused (decision 0010).
    if parameters.final_url is not None and as_address(parameters.final_url) is None:
        raise _senseless("final_url", "an absolute URL that begins with http:// or https://")
    if parameters.content_type is not None and as_content_type(parameters.content_type) is None:
        raise _senseless("content_type", "a media type, such as text/html; charset=utf-8")
    if parameters.fetched_at is not None and parameters.fetched_at > now + CLOCK_SKEW:
        raise _senseless("fetched_at", f"in the past: here it is {now:%Y-%m-%dT%H:%M:%SZ}")
    fetch = {name: getattr(parameters, name) for name in FETCH}
    adjusted, notices = describe(
        {
            "media_type": parameters.media_type or media_type,
            "tool_name": parameters.tool_name,
            "tool_call_id": parameters.tool_call_id,
            "command": parameters.command,
            "url": parameters.url,
            "title": parameters.title or title,
            "kind": parameters.kind,
            "labels": parameters.labels,
        }
    )
    return DeclaredMetadata(session=plain(parameters.session, "session"), failed=failed, **fetch, **adjusted), notices


def _senseless(name: str, what: str) -> CoatcheckError:
    return CoatcheckError(Code.INVALID_REQUEST, f"'{name}' must be {what}.", field=name)


def stand_in(body: StoreBody, parted: PartsPayload) -> StoreBody:
    """Returns the request, with metadata from the content in place of metadata that the caller left out."""
    return structs.replace(
        body,
        media_type=body.media_type or parted.media_type,
        tool_call_id=body.tool_call_id or parted.tool_call_id,
        tool_name=body.tool_name or parted.tool_name,
        url=body.url or parted.url,
        title=body.title or parted.title,
    )
