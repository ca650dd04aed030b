"""Routes of web searches: budget the response of a search, and check quotations."""

from typing import Annotated, Any, ClassVar, Final, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from coatcheck.api.http.access import INGEST, READ
from coatcheck.api.http.json_body import MENDED, as_sent, decode_aside
from coatcheck.api.http.limits import MIB
from coatcheck.api.http.problems import members
from coatcheck.api.http.request_parts import idempotency_key, require_json
from coatcheck.api.parameters import (
    CallId,
    DomainNames,
    IdleTtl,
    LabelList,
    Pin,
    Session,
    ToolLabel,
    Ttl,
    UrlLabel,
    describe,
    plain,
    seconds_or_unset,
)
from coatcheck.api.route import BODY, JSON, JSON_BODY, STORING, Answer, Reply, RouteCall, route
from coatcheck.core.artifact import DeclaredMetadata
from coatcheck.core.errors import CoatcheckError, Code, invalid_request
from coatcheck.core.ids import EXAMPLE_ID, SECTION_LENGTH
from coatcheck.core.search.model import BOUNDS, SearchLimits
from coatcheck.core.views.window import Extent, LineExtent
from coatcheck.usecases.web_search.budget_search import SearchResultsAnswer, SearchResultsRequest
from coatcheck.usecases.web_search.verify_citations import MAX_QUOTATIONS, Quotation, QuotationCheck
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
"""A minimal request that shows the shape of a search response."""


def _limit(name: str, description: str) -> Meta:
    """Returns the bounds of a limit, with a description that names its default."""
    least, most = BOUNDS[name]
    default = f"Default: the policy's, or the service's setting ({getattr(SearchLimits(), name)} unless changed)."
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


class QuotationRange(Struct, kw_only=True, forbid_unknown_fields=True):
    """A part of a text view, as answers give it. Bytes take precedence over characters; other members are ignored."""

    bytes: Extent | None = None
    chars: Extent | None = None
    lines: LineExtent | None = None
    tokens: Extent | None = None


class QuotationBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """One quotation of `POST /v1/citations/verify`."""

    quote: Annotated[str, Meta(min_length=1, max_length=QUOTE_CHARS, description="The words as quoted.")]
    citation: _Citation | None = None
    range: QuotationRange | None = None


class VerifyBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """The body of `POST /v1/citations/verify`. Quotations are decoded one by one, so that each can fail separately."""

    EXAMPLES: ClassVar = [
        {"quotes": [{"quote": "The Moon draws the sea twice a day.", "citation": f"{EXAMPLE_ID}#r1"}]}
    ]
    WRITTEN: ClassVar = {"quotes": {"items": {"$ref": "#/components/schemas/Quotation"}}}

    quotes: Annotated[list[Raw], Meta(min_length=1, max_length=MAX_QUOTATIONS)]
    citation: Annotated[_Citation | None, Meta(description="What a quotation cites if it does not say so itself.")] = (
        None
    )


class QuotationView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to one quotation: what was found, or a problem."""

    WRITTEN: ClassVar = {"problem": {"$ref": "#/components/schemas/Problem"}}

    checked: QuotationCheck | UnsetType = UNSET
    problem: dict[str, Any] | UnsetType = UNSET


class QuotationsView(Struct, frozen=True):
    """The results for quotations, in the order given."""

    results: tuple[QuotationView, ...]


_QUOTATIONS_BYTES: Final = 4 * MIB
"""Maximum bytes of a body with quotations: enough for a hundred quotations of maximum length, with escapes."""


@route(
    "POST /v1/search-results",
    scope=INGEST,
    tag="Searching",
    headers=("Idempotency-Key",),
    body={JSON: SearchResultsBody},
    answers={
        201: Answer("Stored.", headers=("Location",)),
        200: Answer("This response was stored already.", headers=("Location",)),
        202: Answer(
            "Storage did not accept it: `stored` is false, and the text cites only sections. Or it was not taken, and "
            "`id` is null: searches are off, or there were too many, as the text and a warning say.",
            headers=("Location",),
        ),
    },
    problems=(*BODY, *STORING, Code.ARTIFACT_NOT_FOUND, Code.INVALID_JSON, Code.INVALID_CONTENT, Code.INTEGRITY),
)
async def budget_search_results(call: RouteCall) -> Reply[SearchResultsAnswer]:
    """Budget a web search.

    Takes the response of any search provider as it came, stores it as one artifact with a section for each result
    (`r1`, `r2`, …), and returns what a model should read this turn (`text`), within hard limits: the passages of the
    best results that answer the query, and the other results by title and address. Duplicates are folded, including
    what the session already has; everything dropped, folded or cut is counted.

    `summary` is what to keep for later turns: verbatim sentences, each with its citation and exact range, and the
    sources. Ranges refer to the artifact's text view: read further with `view=text` and `section=r2`. The same
    response, query, limits and earlier session give the same answer, byte for byte.

    A search that failed has the warning `search_failed`, and `text` and `summary` give the reason. A response that is
    not understood has `not_understood`, and an excerpt of it is in `text`. These two, and a search that found nothing,
    also have `no_results`. Other warnings: `search_response` (what could not be read), `session_partly_examined` (not
    all earlier sources were examined), `kind_conflict` (the same payload is declared as something else, so its sections
    cannot be read), `parameters_not_applied` (it was stored before, and something declared now was not applied),
    `search_disabled` and `too_many_searches` (by a policy or setting, nothing was read or stored, as the text says).
    """
    require_json(call.scope)
    key = idempotency_key(call.scope)
    with call.context.budget.reserve() as reservation:
        data = await call.whole_body(call.limits.json_body, reservation)
        body, mended = await decode_aside(data, SearchResultsBody)
        payload, is_json, text_mended = await _payload(bytes(body.response))
        request = _request(body, key, is_json=is_json, mended=mended or text_mended)
        result = await call.services.search_results(call.caller, payload, request)
    if result.answer.id is None:
        return Reply(result.answer, 202)
    status = 202 if not result.answer.stored else 201 if result.created else 200
    return Reply(result.answer, status, {"location": f"/v1/artifacts/{result.answer.id}"})


@route(
    "POST /v1/citations/verify",
    scope=READ,
    tag="Searching",
    body={JSON: VerifyBody},
    schemas={"Quotation": QuotationBody, "QuotationView": QuotationView},
    answers={200: "One result for each quotation."},
    problems=JSON_BODY,
)
async def verify_citations(call: RouteCall) -> QuotationsView:
    """Check quotations.

    Checks whether each quotation appears in the text view of what it cites, where exactly, and what differs. `exact`:
    literally; `normalised`: except for whitespace, quotation marks, dashes and an ellipsis; `fuzzy`: most of its
    words in order, with the differences; `absent`. `moved` says that it appears outside the cited section or range.
    Each quotation is checked on its own: one whose artifact is gone has a `problem`.
    """
    with call.context.budget.reserve() as reservation:
        data = await call.json_bytes(_QUOTATIONS_BYTES, reservation)
        body, mended = await decode_aside(data, VerifyBody)
        # Decode each quotation separately, from the bytes as they were sent: one that is malformed fails alone.
        items = as_sent(data, body.quotes) if mended else [bytes(item) for item in body.quotes]
        quotations = [await _quotation(item, body.citation) for item in items]
        good = [each for each in quotations if isinstance(each, Quotation)]
        # The well-formed quotations are checked together. Then all results are put into the order of the request.
        checked = iter(await call.services.verify_citations(call.caller, good))
    results = [next(checked) if isinstance(each, Quotation) else each for each in quotations]
    return QuotationsView(tuple(map(_view, results)))


async def _payload(data: bytes) -> tuple[bytes, bool, bool]:
    """Returns the bytes of a search response, whether they are JSON, and whether they had to be mended.

    JSON is returned exactly as received; of a JSON string, only its text is returned.
    """
    if data[:1] != b'"':
        return data, True, False
    text, mended = await decode_aside(data, str)
    return text.encode(), False, mended


def _request(body: SearchResultsBody, key: str | None, *, is_json: bool, mended: bool) -> SearchResultsRequest:
    metadata = {"tool_name": body.tool_name, "tool_call_id": body.tool_call_id, "url": body.url, "labels": body.labels}
    adjusted, notices = describe(metadata)
    declared = DeclaredMetadata(
        media_type=JSON if is_json else None, session=plain(body.session, "session"), **adjusted
    )
    return SearchResultsRequest(
        declared=declared,
        query=body.query or "",
        max_results=body.max_results,
        max_tokens_per_result=body.max_tokens_per_result,
        max_total_tokens=body.max_total_tokens,
        allowed_domains=body.allowed_domains,
        excluded_domains=body.excluded_domains,
        form=body.format,
        across_session=body.across_session,
        ttl=seconds_or_unset(body.ttl, "ttl"),
        idle_ttl=seconds_or_unset(body.idle_ttl, "idle_ttl"),
        pinned=body.pin,
        turn=body.turn,
        key=key,
        notices=(*((MENDED,) if mended else ()), *notices),
    )


async def _quotation(item: bytes, citation: str | None) -> Quotation | CoatcheckError:
    """Returns the quotation in an item of the list, or the error if the item is malformed."""
    try:
        body, _ = await decode_aside(item, QuotationBody)
    except CoatcheckError as error:
        return error
    # A quotation's own citation takes precedence over the request's citation.
    cited = body.citation or citation
    if cited is None:
        return invalid_request("Name what is cited: an artifact ID, or a section such as art_…#r1.", field="citation")
    try:
        return Quotation(
            quote=body.quote,
            citation=cited,
            bytes=_extent(body.range.bytes if body.range else None),
            chars=_extent(body.range.chars if body.range else None),
        )
    except CoatcheckError as error:
        return error


def _extent(extent: Extent | None) -> Extent | None:
    if extent is not None and not 0 <= extent.start <= extent.end:
        raise invalid_request(
            "A range needs a start of at least 0 and an end that is not before the start.", field="range"
        )
    return extent


def _view(result: QuotationCheck | CoatcheckError) -> QuotationView:
    if isinstance(result, CoatcheckError):
        return QuotationView(problem=members(result, None))
    return QuotationView(checked=result)
