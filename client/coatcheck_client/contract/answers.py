"""Parts of the service's answers that the service and its clients share, as values. Pure.

A client must be able to read the answers of later services. So this module only describes which values are possible,
and checks nothing: bounds and patterns are in `extra_json_schema`, which the OpenAPI document repeats and a decoder
ignores.
"""

from datetime import datetime
from typing import Annotated, Final

from msgspec import Meta, Struct

VERSION_FIELD: Final = "coatcheck-version"
"""Name of the header field in which every answer says the service's release."""
_Count = Annotated[int, Meta(extra_json_schema={"minimum": 0})]
"""A number that is never negative."""


class Notice(Struct, frozen=True):
    """A warning about a request that succeeded."""

    code: Annotated[str, Meta(description="Permanent name.", examples=["lone_surrogates_replaced"])]
    message: Annotated[str, Meta(description="A sentence.")]


class TokenCount(Struct, frozen=True):
    """A token count."""

    count: _Count
    exact: Annotated[bool, Meta(description="False for an estimate.")]
    encoding: Annotated[str, Meta(examples=["o200k_base"])] = "o200k_base"


class PayloadSize(Struct, frozen=True, kw_only=True):
    """How large the payload is."""

    bytes: _Count
    chars: _Count
    lines: Annotated[_Count, Meta(description="Line feeds, plus one if the last line does not end in one.")]
    tokens: TokenCount
    dropped_bytes: Annotated[
        _Count, Meta(description="Bytes between the two ends that were never kept; 0 when the payload is whole.")
    ]


class ArtifactHold(Struct, frozen=True, kw_only=True):
    """A hold that keeps an artifact from being deleted."""

    id: Annotated[str, Meta(examples=["hold_00ff12ab34cd56ef"], extra_json_schema={"pattern": "^hold_[0-9a-f]{16}$"})]
    covers: Annotated[
        str,
        Meta(
            description="This artifact, its session or its namespace.",
            extra_json_schema={"enum": ["artifact", "namespace", "session"]},
        ),
    ]
    reason: str
    until: Annotated[datetime | None, Meta(description="Null: until it is released.")]


class ReceiptRecord(Struct, frozen=True, kw_only=True):
    """Describes the text with which a put was answered, for a model to read in place of the payload."""

    engine: Annotated[int, Meta(description="The engine that made it; `card.engine` is the one of `text`.")]
    sha256: Annotated[
        str, Meta(description="Digest of the text, in UTF-8.", extra_json_schema={"pattern": "^[0-9a-f]{64}$"})
    ]
    tokens: Annotated[_Count, Meta(description="Tokens of `text` in o200k_base.", examples=[312])]
    budget: Annotated[
        int | None, Meta(description="Token budget of the card. Null: the text was the payload itself, not a card.")
    ]
    query: Annotated[str | None, Meta(description="What the card was made for.")]
    tools: Annotated[bool, Meta(description="False: the card names no tool (`tools=none`).")]
    text: Annotated[
        str | None,
        Meta(description="The card's text, masked like everything that is read, if `keep_card_text` kept it."),
    ]
