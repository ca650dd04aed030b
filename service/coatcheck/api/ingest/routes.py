"""Taking payloads in: as JSON, as a form, as the body itself, and many at once."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from litestar import Request, Response, post
from litestar.di import NamedDependency
from litestar.types import Scope

from coatcheck.api.artifacts.wire import BatchItem, BatchView, answer, receipt_view
from coatcheck.api.http.body import body_too_large, content_length, is_coded, open_body
from coatcheck.api.http.forms import Form, boundary
from coatcheck.api.http.headers import field, media_type
from coatcheck.api.http.json_body import as_sent, decode_aside
from coatcheck.api.http.limits import RequestLimits
from coatcheck.api.http.memory_budget import MemoryReservation
from coatcheck.api.http.problems import TABLE, members
from coatcheck.api.http.query import from_pairs, read_query
from coatcheck.api.http.rates import allowance_of
from coatcheck.api.http.request_parts import caller, idempotency_key, require_json
from coatcheck.api.ingest import docs
from coatcheck.api.ingest.requests import stand_in, to_declared, to_ingest_request
from coatcheck.api.parameters import BatchBody, EmptyQuery, RawQuery, StoreBody
from coatcheck.api.services import RouteContext, Services
from coatcheck.core import parts
from coatcheck.core.artifact import Caller
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.usecases.ingest_request import IngestRequest, Notice, Receipt
from coatcheck.usecases.upload_session import too_large

_PIECE = 512 * 1024
_FORM_ROOM = 1024 * 1024
"""Bytes that a form's fields and separators may add to the payload's."""
_UNSAID = "application/x-www-form-urlencoded"
"""What curl's --data-binary says of any body: nothing."""
MENDED = Notice(
    "lone_surrogates_replaced",
    "The JSON held halves of surrogate pairs, which are no characters; each was replaced by U+FFFD.",
)


@post("/v1/artifacts", opt={"doc": docs.STORE})
async def store(request: Request[Any, Any, Any], desk: NamedDependency[RouteContext]) -> Response[bytes]:
    """Store a payload given as JSON or as a form."""
    scope = request.scope
    read_query(scope, EmptyQuery)
    if media_type(scope) == "multipart/form-data":
        return _answer(scope, await _store_form(request, desk.services, desk.limits))
    require_json(scope, "multipart/form-data")
    key = idempotency_key(scope)
    with desk.budget.room() as room:
        asked, mended = await decode_aside(await _json(request, desk.limits, room), StoreBody)
        return _answer(scope, await _store(desk.services, caller(scope), asked, key=key, mended=mended))


@post("/v1/artifacts/raw", opt={"doc": docs.STORE_RAW})
async def store_raw(request: Request[Any, Any, Any], desk: NamedDependency[RouteContext]) -> Response[bytes]:
    """Store the body as it is."""
    scope = request.scope
    asked = read_query(scope, RawQuery)
    given = field(scope, b"content-type")
    if given is not None and media_type(scope) == _UNSAID:
        given = None
    offer = to_ingest_request(asked, to_declared(asked, media_type=given), key=idempotency_key(scope))
    limit = min(desk.limits.payload, desk.services.ingest.limit(caller(scope)))
    _refuse_early(scope, limit, keep_ends=offer.keep_ends)
    body = open_body(scope, request.receive, desk.limits)
    receipt = await desk.services.ingest(caller(scope), body, lambda: offer, keep_ends=offer.keep_ends)
    return _answer(scope, receipt)


@post("/v1/artifacts:batch", status_code=200, opt={"doc": docs.STORE_BATCH})
async def store_batch(request: Request[Any, Any, Any], desk: NamedDependency[RouteContext]) -> Response[bytes]:
    """Store many payloads; each gets its own receipt or problem."""
    scope = request.scope
    read_query(scope, EmptyQuery)
    require_json(scope)
    key = idempotency_key(scope)
    who = caller(scope)
    places = asyncio.Semaphore(desk.limits.batch_at_once)

    async def one(index: int, raw: bytes) -> BatchItem:
        async with places:
            item_key = None if key is None else f"{key}#{index}"
            return await _item(desk, who, raw, item_key, request.scope["state"]["request_id"])

    with desk.budget.room() as room:
        items = await _items(await _json(request, desk.limits, room))
        results = await asyncio.gather(*(one(index, raw) for index, raw in enumerate(items)))
    return answer(BatchView(tuple(results)))


async def _items(data: bytes) -> list[bytes]:
    """The items of a batch, each as it was sent."""
    asked, mended = await decode_aside(data, BatchBody)
    if mended:
        return await asyncio.to_thread(as_sent, data, asked.items)
    return [bytes(item) for item in asked.items]


async def _item(desk: RouteContext, who: Caller, raw: bytes, key: str | None, request_id: str) -> BatchItem:
    """One item of a batch. A bug in it fails the batch; an expected failure is its own answer."""
    try:
        asked, mended = await decode_aside(raw, StoreBody)
        receipt = await _store(desk.services, who, asked, key=key, mended=mended)
    except CoatcheckError as e:
        desk.journal.failed(e, request_id, "/v1/artifacts:batch")
        return BatchItem(TABLE[e.code].status, problem=members(e, None))
    return BatchItem(_status(receipt), receipt_view(receipt))


async def _json(request: Request[Any, Any, Any], limits: RequestLimits, room: MemoryReservation) -> bytes:
    length = content_length(request.scope)
    if length is not None and length > limits.json_body:
        raise body_too_large(limits.json_body)
    return await open_body(request.scope, request.receive, limits).whole(limits.json_body, room)


async def _store(services: Services, who: Caller, asked: StoreBody, *, key: str | None, mended: bool) -> Receipt:
    # How much there is to do does not show from outside, and a thread costs little beside what ingest does.
    parted = await asyncio.to_thread(parts.payload, asked.content)
    asked = stand_in(asked, parted)
    said = to_declared(asked, failed=parted.failed)
    offer = to_ingest_request(asked, said, key=key, notices=(MENDED,) if mended else ())
    return await services.ingest(who, _pieces(parted.data), lambda: offer, keep_ends=offer.keep_ends)


async def _store_form(request: Request[Any, Any, Any], services: Services, limits: RequestLimits) -> Receipt:
    scope = request.scope
    key = idempotency_key(scope)
    form = Form(open_body(scope, request.receive, limits), boundary(field(scope, b"content-type") or ""), limits)
    await form.open()
    before = from_pairs(form.fields, RawQuery)
    keep_ends = before.oversize == "keep_ends"
    limit = min(limits.payload, services.ingest.limit(caller(scope)))
    _refuse_early(scope, limit + _FORM_ROOM, keep_ends=keep_ends)
    offer = _form_offer(form, key, before)
    return await services.ingest(caller(scope), form, offer, keep_ends=keep_ends, before=to_declared(before))


def _form_offer(form: Form, key: str | None, before: RawQuery) -> Callable[[], IngestRequest]:
    """What a form asks, once all of it has been read."""

    def offer() -> IngestRequest:
        asked = from_pairs(form.fields, RawQuery)
        if asked.oversize != before.oversize:
            raise CoatcheckError(
                Code.INVALID_REQUEST, "'oversize' must come before the file in the form.", field="oversize"
            )
        said = to_declared(asked, media_type=form.media_type, title=form.filename)
        return to_ingest_request(asked, said, key=key)

    return offer


def _refuse_early(scope: Scope, limit: int, *, keep_ends: bool) -> None:
    """Refuse by the announced length, before a byte of the body is asked for."""
    length = content_length(scope)
    if length is not None and length > limit and not keep_ends and not is_coded(scope):
        raise too_large(limit)


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(data), _PIECE):
        yield data[at : at + _PIECE]


def _answer(scope: Scope, receipt: Receipt) -> Response[bytes]:
    """The place of what was handed over, and what became of it. What was paid for before is not paid for again."""
    allowance = allowance_of(scope)
    if receipt.replayed and allowance is not None:
        allowance.give_back()
    headers = {"location": f"/v1/artifacts/{receipt.id}"}
    return answer(receipt_view(receipt), status=_status(receipt), headers=headers)


def _status(receipt: Receipt) -> int:
    """201 for what is new, 200 for what was there already, 202 for what storage has not taken."""
    if not receipt.stored:
        return 202
    return 201 if receipt.created else 200
