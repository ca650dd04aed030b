"""Web searches within a budget: a response in, what to read of it out; and whether quotations stand there."""

from typing import Final

from coatcheck.api.checks import checked_labels, plain
from coatcheck.api.durations import given_seconds
from coatcheck.api.http.access import INGEST, READ
from coatcheck.api.http.json_body import MENDED, as_sent, decode_aside
from coatcheck.api.http.limits import MIB
from coatcheck.api.http.problems import members
from coatcheck.api.http.request_parts import idempotency_key, require_json
from coatcheck.api.ingest.routes import STORING
from coatcheck.api.route import BODY, JSON, JSON_BODY, Answer, Call, Reply, route
from coatcheck.api.search.wire import QuotationBody, QuotationView, SearchResultsBody, VerifiedView, VerifyBody
from coatcheck.api.views import copy_fields
from coatcheck.core.artifact import DeclaredMetadata
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.search import Limits
from coatcheck.core.window import Extent
from coatcheck.usecases.search_results import SearchResultsAnswer, SearchResultsRequest
from coatcheck.usecases.verify_citations import Checked, Quotation

_QUOTATIONS: Final = 4 * MIB
"""Bytes of a body with quotations: a hundred of the longest, escaped."""


@route(
    "POST /v1/search-results",
    scope=INGEST,
    tag="Searching",
    headers=("Idempotency-Key",),
    body={JSON: SearchResultsBody},
    answers={
        201: Answer("Stored.", headers=("Location",)),
        200: Answer("This very response was there already.", headers=("Location",)),
        202: Answer(
            "Storage did not take it: `stored` is false, and the text cites sections alone.", headers=("Location",)
        ),
    },
    problems=(*BODY, *STORING, Code.ARTIFACT_NOT_FOUND, Code.INVALID_JSON, Code.INVALID_CONTENT, Code.INTEGRITY),
)
async def budget_search_results(call: Call) -> Reply[SearchResultsAnswer]:
    """Budget a web search.

    Takes the response of any search provider as it came, stores it as one artifact with a section for each result
    (`r1`, `r2`, …), and answers what a model should read this turn (`text`), within hard limits: the passages of the
    best results that answer the query, the others by title and address. What is the same is folded, also what the
    session has already; everything that was dropped, folded or cut is counted.

    `summary` is what to persist for later turns: verbatim sentences, each with its citation and exact range, and the
    sources. Ranges lie in the artifact's text view: read on with `view=text` and `section=r2`. The same response,
    query, limits and session before it give the same answer, byte for byte.

    A response that is not understood is kept as it came, with the warning `no_results`. Other warnings:
    `search_response` (what the provider says went wrong, and what could not be read), `session_partly_seen` (earlier
    sources were not all looked at), `stored_as_other` (the same payload is declared as something else, so that
    sections cannot be read), `said_before` (it was stored before, and something that is said of it now was not
    taken).
    """
    require_json(call.scope)
    key = idempotency_key(call.scope)
    with call.context.budget.room() as room:
        data = await call.whole_body(call.limits.json_body, room)
        asked, mended = await decode_aside(data, SearchResultsBody)
        payload, is_json, mended_too = await _payload(bytes(asked.response))
        ask = _search_ask(asked, key, is_json=is_json, mended=mended or mended_too)
        made = await call.services.search_results(call.caller, payload, ask)
    status = 202 if not made.answer.stored else 201 if made.created else 200
    return Reply(made.answer, status, {"location": f"/v1/artifacts/{made.answer.id}"})


@route(
    "POST /v1/citations/verify",
    scope=READ,
    tag="Searching",
    body={JSON: VerifyBody},
    schemas={"Quotation": QuotationBody, "QuotationView": QuotationView},
    answers={200: "One result for each quotation."},
    problems=JSON_BODY,
)
async def verify_citations(call: Call) -> VerifiedView:
    """Check quotations.

    Whether each quotation stands in the text view of what it cites, where exactly, and what is different. `exact`: to
    the letter; `normalised`: but for blanks, quotation marks, dashes and an ellipsis; `fuzzy`: most of its words in
    order, with the differences; `absent`. `moved` says that it stands outside the section or the range that was
    cited. Each quotation is answered by itself: one whose artifact is gone has a `problem`.
    """
    with call.context.budget.room() as room:
        data = await call.json_bytes(_QUOTATIONS, room)
        asked, mended = await decode_aside(data, VerifyBody)
        items = as_sent(data, asked.quotes) if mended else [bytes(item) for item in asked.quotes]
        read = [await _quotation(item, asked.citation) for item in items]
        good = [each for each in read if isinstance(each, Quotation)]
        checked = iter(await call.services.verify_citations(call.caller, good))
    results = [next(checked) if isinstance(each, Quotation) else each for each in read]
    return VerifiedView(tuple(map(_view, results)))


async def _payload(data: bytes) -> tuple[bytes, bool, bool]:
    """The response exactly as it came, whether it is JSON, and whether it was mended.

    A string stands for the text that it holds.
    """
    if data[:1] != b'"':
        return data, True, False
    text, mended = await decode_aside(data, str)
    return text.encode(), False, mended


def _search_ask(asked: SearchResultsBody, key: str | None, *, is_json: bool, mended: bool) -> SearchResultsRequest:
    return SearchResultsRequest(
        said=DeclaredMetadata(
            media_type=JSON if is_json else None,
            tool_name=plain(asked.tool_name, "tool_name"),
            tool_call_id=plain(asked.tool_call_id, "tool_call_id"),
            session=plain(asked.session, "session"),
            url=plain(asked.url, "url"),
            labels=checked_labels(asked.labels),
        ),
        query=asked.query or "",
        limits=copy_fields(Limits, asked),
        form=asked.format,
        across_session=asked.across_session,
        ttl=given_seconds(asked.ttl, "ttl"),
        idle_ttl=given_seconds(asked.idle_ttl, "idle_ttl"),
        pinned=asked.pin,
        key=key,
        notices=(MENDED,) if mended else (),
    )


async def _quotation(item: bytes, citation: str | None) -> Quotation | CoatcheckError:
    """One item of the list, or what is wrong with it."""
    try:
        asked, _ = await decode_aside(item, QuotationBody)
    except CoatcheckError as error:
        return error
    cited = asked.citation or citation
    if cited is None:
        return CoatcheckError(
            Code.INVALID_REQUEST, "Say what is cited: an artifact ID, or a section such as art_…#r1.", field="citation"
        )
    try:
        return Quotation(
            quote=asked.quote,
            citation=cited,
            bytes=_extent(asked.range.bytes if asked.range else None),
            chars=_extent(asked.range.chars if asked.range else None),
        )
    except CoatcheckError as error:
        return error


def _extent(asked: Extent | None) -> Extent | None:
    if asked is not None and not 0 <= asked.start <= asked.end:
        raise CoatcheckError(
            Code.INVALID_REQUEST, "A range goes from start, at least 0, to an end that is not before it.", field="range"
        )
    return asked


def _view(result: Checked | CoatcheckError) -> QuotationView:
    if isinstance(result, CoatcheckError):
        return QuotationView(problem=members(result, None))
    return QuotationView(checked=result)
