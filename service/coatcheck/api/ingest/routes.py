"""Routes that store payloads: as JSON, as a form, as the raw body, and in batches."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

from litestar.types import Scope
from msgspec import UNSET, UnsetType, structs

from coatcheck.api.http.access import INGEST
from coatcheck.api.http.body import content_length, is_coded, open_body
from coatcheck.api.http.error_table import TABLE
from coatcheck.api.http.forms import Form, boundary
from coatcheck.api.http.json_body import MENDED, as_sent, decode_aside
from coatcheck.api.http.problems import members
from coatcheck.api.http.rates import allowance_of
from coatcheck.api.http.request_parts import field, from_pairs, idempotency_key, media_type, require_json
from coatcheck.api.ingest.wire import (
    BYTES,
    PART,
    BatchBody,
    BatchItem,
    BatchView,
    DeclaredParameters,
    RawQuery,
    ReceiptView,
    StoreBody,
    StoreForm,
    receipt_view,
    stand_in,
    to_declared,
    to_ingest_request,
)
from coatcheck.api.route import BODY, FORM, JSON, STORING, Answer, Reply, RouteCall, route
from coatcheck.core.card.compose import MIN_BUDGET
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.pictures import Pictures, pictures_of
from coatcheck.core.search.model import shares
from coatcheck.core.views import parts
from coatcheck.runtime.work_placement import SMALL
from coatcheck.storing.ingest_request import IngestRequest, Receipt
from coatcheck.storing.oversize import too_large

_PIECE = 512 * 1024
"""Size in bytes of the pieces into which a payload in memory is divided."""
_FORM_ROOM = 1024 * 1024
"""Maximum bytes that a form's fields and separators may add to the payload."""
_CURL_DEFAULT_TYPE = "application/x-www-form-urlencoded"
"""The media type that curl's --data-binary sends with any body. It says nothing about the body."""
_RECEIPTS: Final = {
    201: Answer("Stored.", headers=("Location",)),
    200: Answer(
        "This artifact existed already. What this request declares (media type, tool name, "
        "command, URL, title, kind) replaces the earlier declaration as a whole; a request that "
        "declares nothing changes nothing. Labels, expiry, pin and `compare_to` stay as first "
        "requested: if this request differs in them, the warning `parameters_not_applied` names them.",
        headers=("Location",),
    ),
    202: Answer(
        "Not stored: `stored` is false and a warning says why. The text can be used, and says that the payload cannot "
        "be read back. If storage did not accept it, it may still be stored later, from memory, and counts as stored "
        "only then. The warning `overloaded` comes with `Retry-After`, which says when to post it again; the card of a "
        "payload over 512 KiB then may show only its two ends.",
        headers=("Location", "Retry-After"),
    ),
}
"""Answers of the routes that store a single payload."""


@route(
    "POST /v1/artifacts",
    direct=True,
    scope=INGEST,
    tag="Ingest",
    headers=("Idempotency-Key",),
    body={JSON: StoreBody, FORM: StoreForm},
    schemas={"Part": PART},
    answers=_RECEIPTS,
    problems=(*BODY, *STORING, Code.INVALID_JSON, Code.INVALID_CONTENT),
)
async def store_artifact(call: RouteCall) -> Reply[ReceiptView]:
    """Store a payload.

    Stores the raw output of a tool, a search or a page fetch, and returns exactly what to put into the tool result: the
    payload itself if it is small, otherwise an evidence card.

    The same payload for the same tool call in the same session is the same artifact: it has the same ID, and the same
    card as long as the same metadata is declared. In a form, the payload is the part that has a file name or is named
    `file` or `content`; `oversize` must come before it, other fields may follow it. The file name becomes the title if
    no other title is given.

    A list of parts, or a provider's whole tool result, becomes one payload. A single part of text or bytes is stored as
    that text or those bytes. Several parts of plain text are joined in order, separated by a line feed unless the
    earlier part already ends in one. Anything else is stored as a JSON array of the parts, with sorted keys and without
    `cache_control` and `prompt_cache_breakpoint`; an object of unknown shape is stored as that object. If the result
    reports that the tool failed, that is stored too. If there are images among the parts, `content` has them beside the
    text, in the form in which they were sent. Unpaired surrogates, which no encoding can represent, become U+FFFD, with
    the warning `lone_surrogates_replaced`.
    """
    if media_type(call.scope) == FORM:
        return _reply(call.scope, await _store_form(call))
    require_json(call.scope, FORM)
    key = idempotency_key(call.scope)
    # The body stays in memory until the payload is stored, and so does the reservation.
    with call.context.budget.reserve() as reservation:
        data = await call.whole_body(call.limits.json_body, reservation)
        return _reply(call.scope, await _store(call, data, key))


@route(
    "POST /v1/artifacts/raw",
    direct=True,
    scope=INGEST,
    tag="Ingest",
    headers=("Idempotency-Key",),
    body={"application/octet-stream": "Bytes"},
    schemas={"Bytes": BYTES},
    answers=_RECEIPTS,
    problems=(
        *(code for code in BODY if code not in {Code.UNSUPPORTED_MEDIA_TYPE, Code.BODY_TOO_LARGE}),
        *STORING,
        Code.INVALID_CONTENT,
    ),
)
async def store_raw_artifact(call: RouteCall, query: RawQuery) -> Reply[ReceiptView]:
    """Store the body as it is.

    The body is the payload and is streamed; its Content-Type is the media type (`application/x-www-form-urlencoded`,
    curl's default for any body, counts as none). `curl --data-binary @build.log '…/v1/artifacts/raw?tool_name=make'`
    works. A stream over the limit is refused, or keeps its two ends with `oversize=keep_ends`. An empty body is
    refused, because curl sends one for a file that does not exist; `allow_empty=true` stores it.
    """
    content_type = field(call.scope, b"content-type")
    if content_type is not None and media_type(call.scope) == _CURL_DEFAULT_TYPE:
        content_type = None
    declared, notices = to_declared(query, call.services.clock.now(), media_type=content_type)
    request = to_ingest_request(query, declared, key=idempotency_key(call.scope), notices=notices)
    _refuse_early(call, keep_ends=request.keep_ends)
    body = open_body(call.scope, call.receive, call.limits)
    # Only the end of a body shows whether it is empty. Nothing is committed before that.
    source = body if query.allow_empty else _not_empty(body)
    receipt = await call.services.ingest(call.caller, source, request, sender=body.sender)
    return _reply(call.scope, receipt)


@route(
    "POST /v1/artifacts:batch",
    scope=INGEST,
    tag="Ingest",
    headers=("Idempotency-Key",),
    body={JSON: BatchBody},
    schemas={"BatchItem": BatchItem},
    answers={200: "One result for each item."},
    problems=(*BODY, Code.INVALID_IDEMPOTENCY_KEY, Code.INVALID_JSON),
)
async def store_artifacts(call: RouteCall) -> BatchView:
    """Store many payloads.

    Each item is the body of a single request and gets its own receipt or its own problem, in the order of the items.
    Item n uses the Idempotency-Key of the request followed by `#` and n, counted from 0. `max_total_tokens` limits what
    all receipts together add to the context: many outputs, each small enough to be returned unchanged, can be too large
    together.
    """
    require_json(call.scope)
    key = idempotency_key(call.scope)
    semaphore = asyncio.Semaphore(call.limits.batch_at_once)

    async def one(index: int, raw: bytes) -> Receipt | CoatcheckError:
        # Without the semaphore, a batch of a hundred items would take the resources of a hundred requests.
        async with semaphore:
            return await _item(call, raw, None if key is None else f"{key}#{index}", UNSET if most is None else True)

    async def shorter(raw: bytes, receipt: Receipt | CoatcheckError, room: int) -> Receipt | CoatcheckError:
        if isinstance(receipt, CoatcheckError) or receipt.tokens <= room:
            return receipt
        async with semaphore:
            return await _shorter(call, raw, receipt, room)

    # The reservation spans both rounds, because the second round reads the payloads from the same bytes.
    with call.context.budget.reserve() as reservation:
        items, most = await _items(await call.whole_body(call.limits.json_body, reservation))
        results = await asyncio.gather(*(one(index, raw) for index, raw in enumerate(items)))
        # Now all texts are known, so that large ones can share the tokens that small ones leave.
        if most is not None:
            rooms = shares([0 if isinstance(each, CoatcheckError) else each.tokens for each in results], most)
            results = await asyncio.gather(*map(shorter, items, results, rooms))
    return BatchView(tuple(map(_result, results)))


async def _items(data: bytes) -> tuple[list[bytes], int | None]:
    """Returns the items of a batch, each as it was sent, and the token limit of all answers together; None: no limit.

    Raises:
        CoatcheckError: `invalid_request` if the limit is too small for a card of every item.
    """
    batch, mended = await decode_aside(data, BatchBody)
    most, least = batch.max_total_tokens, MIN_BUDGET * len(batch.items)
    if most is not None and most < least:
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            f"max_total_tokens must be at least {MIN_BUDGET} for each item: {least:,} for {len(batch.items)}.",
            field="max_total_tokens",
        )
    if mended:
        return await asyncio.to_thread(as_sent, data, batch.items), most
    return [bytes(item) for item in batch.items], most


async def _item(call: RouteCall, raw: bytes, key: str | None, standalone: bool | UnsetType) -> Receipt | CoatcheckError:
    """Stores one item of a batch. `standalone` is true if the second round may still shorten the item's card.

    Returns an expected failure as the item's answer; an unexpected exception fails the whole batch.
    """
    try:
        return await _store(call, raw, key, standalone)
    except CoatcheckError as e:
        call.context.log.log_failure(e, call.scope["state"]["request_id"], "/v1/artifacts:batch")
        return e


def _result(receipt: Receipt | CoatcheckError) -> BatchItem:
    if isinstance(receipt, CoatcheckError):
        return BatchItem(TABLE[receipt.code].status, problem=members(receipt, None))
    return BatchItem(_status(receipt), receipt_view(receipt))


async def _shorter(call: RouteCall, raw: bytes, receipt: Receipt, room: int) -> Receipt | CoatcheckError:
    """Returns the receipt with a card of at most `room` tokens in place of its text.

    Returns an expected failure as the item's answer, like `_item`.
    """
    try:
        payload, request, _ = await _read(call, raw, None)
        return await call.services.ingest.shorten(call.caller, _pieces(payload), request, receipt, room)
    except CoatcheckError as e:
        call.context.log.log_failure(e, call.scope["state"]["request_id"], "/v1/artifacts:batch")
        return e


async def _store(call: RouteCall, data: bytes, key: str | None, standalone: bool | UnsetType = UNSET) -> Receipt:
    """Stores the payload of a JSON body and returns its receipt."""
    payload, request, pictures = await _read(call, data, key)
    request = structs.replace(request, standalone=standalone)
    receipt = await call.services.ingest(call.caller, _pieces(payload), request)
    return structs.replace(receipt, pictures=pictures)


async def _read(call: RouteCall, data: bytes, key: str | None) -> tuple[bytes, IngestRequest, Pictures | None]:
    """Returns the payload of a JSON body, its ingest request, and its images; None: it has no images."""
    body, mended = await decode_aside(data, StoreBody)
    # Joining the parts of a large body on the event loop would delay other requests.
    if len(data) > SMALL:
        parted = await asyncio.to_thread(parts.payload, body.content)
    else:
        parted = parts.payload(body.content)
    pictures = pictures_of(parts.parts_of(body.content))
    body = stand_in(body, parted)
    declared, notices = to_declared(body, call.services.clock.now(), failed=parted.failed)
    request = to_ingest_request(body, declared, key=key, notices=(*((MENDED,) if mended else ()), *notices))
    return parted.data, request, pictures


async def _store_form(call: RouteCall) -> Receipt:
    """Stores the payload of a form and returns its receipt."""
    scope = call.scope
    key = idempotency_key(scope)
    body = open_body(scope, call.receive, call.limits)
    form = Form(body, boundary(field(scope, b"content-type") or ""), call.limits)
    await form.open()
    # Fields may also follow the file. The early request has the fields before the file, of which some must be known
    # before the file's first byte.
    before = from_pairs(form.fields, DeclaredParameters)
    early_request = to_ingest_request(before, to_declared(before, call.services.clock.now())[0], key=key)
    _refuse_early(call, keep_ends=early_request.keep_ends, extra=_FORM_ROOM)
    complete_request = _form_request(call, form, key, before)
    return await call.services.ingest(
        call.caller, form, early_request, complete_request=complete_request, sender=body.sender
    )


def _form_request(
    call: RouteCall, form: Form, key: str | None, before: DeclaredParameters
) -> Callable[[], IngestRequest]:
    """Returns a function that builds the ingest request of a form. Call it once the whole form has been read.

    The function raises CoatcheckError `invalid_request` if `oversize` follows the file.
    """

    def request() -> IngestRequest:
        # By now, the fields after the file have been read, too.
        parameters = from_pairs(form.fields, DeclaredParameters)
        # The file was read with the early value of `oversize`. A later field cannot change that.
        if parameters.oversize != before.oversize:
            raise CoatcheckError(
                Code.INVALID_REQUEST, "'oversize' must come before the file in the form.", field="oversize"
            )
        declared, notices = to_declared(
            parameters, call.services.clock.now(), media_type=form.media_type, title=form.filename
        )
        return to_ingest_request(parameters, declared, key=key, notices=notices)

    return request


def _refuse_early(call: RouteCall, *, keep_ends: bool, extra: int = 0) -> None:
    """Refuses a body that announces too large a length, before any of it is read.

    Args:
        call: the request.
        keep_ends: whether a payload of any length is accepted, as only its two ends are kept.
        extra: bytes that a form may have around the payload.

    Raises:
        CoatcheckError: `payload_too_large`.
    """
    limit = min(call.limits.payload, call.services.ingest.limit(call.caller)) + extra
    # The length of a compressed body says nothing about the payload's size.
    length = content_length(call.scope)
    if length is not None and length > limit and not keep_ends and not is_coded(call.scope):
        raise too_large(limit)


async def _not_empty(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yields the pieces of a body; raises CoatcheckError `invalid_content` at its end if there were none."""
    empty = True
    async for piece in body:
        empty = False
        yield piece
    if empty:
        raise CoatcheckError(
            Code.INVALID_CONTENT,
            "The body is empty. curl sends an empty body for a file that does not exist. "
            "Add allow_empty=true to store it.",
        )


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(data), _PIECE):
        yield data[at : at + _PIECE]


def _reply(scope: Scope, receipt: Receipt) -> Reply[ReceiptView]:
    """Returns the reply with the receipt and its Location.

    If the request repeats an earlier one, its bytes are given back to the caller's allowance, because the caller was
    already charged for the earlier request.
    """
    allowance = allowance_of(scope)
    if receipt.replayed and allowance is not None:
        allowance.give_back()
    headers = {"location": f"/v1/artifacts/{receipt.id}"}
    if any(notice.code == Code.OVERLOADED for notice in receipt.warnings):
        headers["retry-after"] = str(TABLE[Code.OVERLOADED].retry_after)
    return Reply(receipt_view(receipt), _status(receipt), headers)


def _status(receipt: Receipt) -> int:
    """Returns 201 for a new artifact, 200 for one that existed before, 202 if the payload is not stored."""
    if not receipt.stored:
        return 202
    return 201 if receipt.created else 200
