"""Web searches within a budget: a response in, what to read of it out; and whether quotations stand there."""

from typing import Any, Final

from litestar import Request, Response, post
from litestar.di import NamedDependency
from msgspec import UNSET

from coatcheck.api.artifacts.wire import QuotationView, VerifiedView, answer
from coatcheck.api.http.body import body_too_large, content_length, open_body
from coatcheck.api.http.json_body import as_sent, decode_aside
from coatcheck.api.http.limits import MIB
from coatcheck.api.http.problems import members
from coatcheck.api.http.query import read_query
from coatcheck.api.http.request_parts import caller, idempotency_key, require_json
from coatcheck.api.ingest.requests import checked_labels, duration, plain
from coatcheck.api.ingest.routes import MENDED
from coatcheck.api.parameters import EmptyQuery
from coatcheck.api.search import docs
from coatcheck.api.search.wire import QuotationBody, SearchResultsBody, VerifyBody
from coatcheck.api.services import RouteContext
from coatcheck.core.artifact import DeclaredMetadata
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.search import Limits
from coatcheck.core.window import Extent
from coatcheck.usecases.search_results import SearchResultsRequest
from coatcheck.usecases.verify_citations import Checked, Quotation

_QUOTATIONS: Final = 4 * MIB
"""Bytes of a body with quotations: a hundred of the longest, escaped."""
_JSON: Final = "application/json"


@post("/v1/search-results", opt={"doc": docs.SEARCH_RESULTS})
async def budget_search_results(
    request: Request[Any, Any, Any], desk: NamedDependency[RouteContext]
) -> Response[bytes]:
    """Store a search's response; answer what to read of it."""
    scope = request.scope
    read_query(scope, EmptyQuery)
    require_json(scope)
    key = idempotency_key(scope)
    limit = desk.limits.json_body
    length = content_length(scope)
    if length is not None and length > limit:
        raise body_too_large(limit)
    with desk.budget.room() as room:
        data = await open_body(scope, request.receive, desk.limits).whole(limit, room)
        asked, mended = await decode_aside(data, SearchResultsBody)
        payload, is_json, mended_too = await _payload(bytes(asked.response))
        ask = _search_ask(asked, key, is_json=is_json, mended=mended or mended_too)
        made = await desk.services.search_results(caller(scope), payload, ask)
    status = 202 if not made.answer.stored else 201 if made.created else 200
    return answer(made.answer, status=status, headers={"location": f"/v1/artifacts/{made.answer.id}"})


@post("/v1/citations/verify", status_code=200, opt={"doc": docs.VERIFY})
async def verify_citations(request: Request[Any, Any, Any], desk: NamedDependency[RouteContext]) -> Response[bytes]:
    """Whether quotations stand in what they cite. Each is answered by itself."""
    scope = request.scope
    read_query(scope, EmptyQuery)
    require_json(scope)
    length = content_length(scope)
    if length is not None and length > _QUOTATIONS:
        raise body_too_large(_QUOTATIONS)
    with desk.budget.room() as room:
        data = await open_body(scope, request.receive, desk.limits).whole(_QUOTATIONS, room)
        asked, mended = await decode_aside(data, VerifyBody)
        items = as_sent(data, asked.quotes) if mended else [bytes(item) for item in asked.quotes]
        read = [await _quotation(item, asked.citation) for item in items]
        good = [each for each in read if isinstance(each, Quotation)]
        checked = iter(await desk.services.verify_citations(caller(scope), good))
    results = [next(checked) if isinstance(each, Quotation) else each for each in read]
    return answer(VerifiedView(tuple(map(_view, results))))


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
            media_type=_JSON if is_json else None,
            tool_name=plain(asked.tool_name, "tool_name"),
            tool_call_id=plain(asked.tool_call_id, "tool_call_id"),
            session=plain(asked.session, "session"),
            url=plain(asked.url, "url"),
            labels=checked_labels(asked.labels),
        ),
        query=asked.query or "",
        limits=Limits(
            max_results=asked.max_results,
            max_tokens_per_result=asked.max_tokens_per_result,
            max_total_tokens=asked.max_total_tokens,
        ),
        form=asked.format,
        across_session=asked.across_session,
        ttl=asked.ttl if asked.ttl is UNSET else duration(asked.ttl, "ttl"),
        idle_ttl=asked.idle_ttl if asked.idle_ttl is UNSET else duration(asked.idle_ttl, "idle_ttl"),
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
