"""Wire types of web searches: a response with its limits, quotations to check, and the answers."""

from typing import Annotated, Any, ClassVar, Final, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from coatcheck.api.parameters import CallId, DomainNames, IdleTtl, LabelList, Pin, Session, ToolLabel, Ttl, UrlLabel
from coatcheck.core.ids import EXAMPLE_ID, SECTION_LENGTH
from coatcheck.core.search.limits import BOUNDS, Limits
from coatcheck.core.views.window import Extent, LineExtent
from coatcheck.usecases.web_search.verify_citations import MOST, Checked
from coatcheck_client.contract.quotations import QUOTE_CHARS

_SEARCH_EXAMPLE: Final = {
    "response": {
        "results": [
            {"title": "Tides", "url": "https://example.org/tides", "content": "The Moon draws the sea twice a day."}
        ]
    },
    "query": "how do tides form",
    "session": "run-42",
}


def _limit(name: str, description: str) -> Meta:
    """Returns the bounds of a limit, and which setting decides if a caller does not set it."""
    least, most = BOUNDS[name]
    default = f"Default: the policy's, or the service's setting ({getattr(Limits(), name)} unless changed)."
    return Meta(ge=least, le=most, description=f"{description} {default}")


class SearchResultsBody(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The body of `POST /v1/search-results`."""

    EXAMPLES: ClassVar = [_SEARCH_EXAMPLE]

    response: Annotated[
        Raw,
        Meta(
            description="The provider's response body as it came: JSON, or a string with its text. Stored byte "
            "for byte; a string is stored as the text it contains."
        ),
    ]
    query: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=4000,
                description="What was searched for; it decides passages and their order. Default: the query that the "
                "provider repeats.",
                examples=["how do tides form"],
            ),
        ]
        | None
    ) = None
    session: Session | None = None
    tool_name: ToolLabel = None
    tool_call_id: CallId = None
    url: UrlLabel = None
    labels: LabelList = ()
    max_results: (
        Annotated[
            int,
            _limit("max_results", "Results whose text is shown; the others are listed by title and address."),
        ]
        | None
    ) = None
    max_tokens_per_result: (
        Annotated[int, _limit("max_tokens_per_result", "Maximum tokens of one result, including the line above it.")]
        | None
    ) = None
    max_total_tokens: Annotated[int, _limit("max_total_tokens", "Maximum tokens of `text`.")] | None = None
    allowed_domains: Annotated[
        DomainNames,
        Meta(
            description="If given, only results of these domains and their subdomains are shown or listed. The "
            "response is stored whole all the same.",
            examples=[["example.org"]],
        ),
    ] = ()
    excluded_domains: Annotated[
        DomainNames, Meta(description="Results of these domains and their subdomains are neither shown nor listed.")
    ] = ()
    format: Annotated[
        Literal["text", "anthropic", "openai"],
        Meta(
            description="The form of `content`: `anthropic` gives `search_result` blocks that can be cited, the "
            "others give text."
        ),
    ] = "text"
    turn: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=100,
                description="The caller's name for this turn, in which a policy may limit the number of searches; kept "
                "as the label `turn:…`.",
                examples=["7"],
            ),
        ]
        | None
    ) = None
    across_session: Annotated[
        bool, Meta(description="Whether to hide what the session already has from earlier searches.")
    ] = True
    ttl: Ttl | UnsetType = UNSET
    idle_ttl: IdleTtl | UnsetType = UNSET
    pin: Pin = False


_Citation = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=SECTION_LENGTH + 64,
        description="What is cited: a section, or an artifact's ID.",
        examples=[f"{EXAMPLE_ID}#r1"],
    ),
]


class RangeBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """A part of a text view, as answers give it. Bytes take precedence over characters; other members are ignored."""

    bytes: Extent | None = None
    chars: Extent | None = None
    lines: LineExtent | None = None
    tokens: Extent | None = None


class QuotationBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """One quotation of `POST /v1/citations/verify`."""

    quote: Annotated[str, Meta(min_length=1, max_length=QUOTE_CHARS, description="The words as quoted.")]
    citation: _Citation | None = None
    range: RangeBody | None = None


class VerifyBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """The body of `POST /v1/citations/verify`. Quotations are decoded one by one, so that each can fail separately."""

    EXAMPLES: ClassVar = [
        {"quotes": [{"quote": "The Moon draws the sea twice a day.", "citation": f"{EXAMPLE_ID}#r1"}]}
    ]
    WRITTEN: ClassVar = {"quotes": {"items": {"$ref": "#/components/schemas/Quotation"}}}

    quotes: Annotated[list[Raw], Meta(min_length=1, max_length=MOST)]
    citation: Annotated[_Citation | None, Meta(description="What a quotation cites if it does not say so itself.")] = (
        None
    )


class QuotationView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to one quotation: what was found, or a problem."""

    WRITTEN: ClassVar = {"problem": {"$ref": "#/components/schemas/Problem"}}

    checked: Checked | UnsetType = UNSET
    problem: dict[str, Any] | UnsetType = UNSET


class VerifiedView(Struct, frozen=True):
    """The results for quotations, in the order given."""

    results: tuple[QuotationView, ...]
