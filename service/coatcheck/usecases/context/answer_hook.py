"""Answer a host's hook after a tool call: store what is bulky in the response and return the response with cards.

A hook never costs the host anything: whatever cannot be stored in time, or cannot be read back at once, stays as it is.
Only a text that is refused because of a secret in it is withheld. Nothing that is certainly small enough is stored.
"""

import asyncio
import logging
from typing import Any, Final

from msgspec import UNSET, Struct, UnsetType

from coatcheck.core import hooks
from coatcheck.core.artifact import FETCH, Caller, DeclaredMetadata, PageFetch
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.metadata_bounds import adjust_metadata
from coatcheck.core.views import parts
from coatcheck.storing.ingest_request import IngestRequest, Receipt
from coatcheck.storing.upload_session import split_blocks
from coatcheck.usecases.payloads.ingest import Ingest, store_blobs
from coatcheck.usecases.web_search.budget_search import SearchResults, SearchResultsRequest
from coatcheck_client.contract.cards import withheld
from coatcheck_client.contract.identifiers import SESSION_CHARS, bound_identifier
from coatcheck_client.contract.searches import is_search

log = logging.getLogger(__name__)

SECONDS: Final = 5.0
"""Longest time that a host waits: it runs the hook after each call, and the agent stands still meanwhile."""
SMALL_BYTES: Final = 1_000
"""Size in bytes up to which a text is not worth a card, whatever the limits are."""


class HookRequest(Struct, frozen=True, kw_only=True):
    """What the hook's address says in addition to the event."""

    card_tokens: int | None = None
    inline_tokens: int | None = None
    labels: tuple[str, ...] = ()
    ttl: int | None | UnsetType = UNSET


async def answer_hook(
    ingest: Ingest,
    caller: Caller,
    body: object,
    request: HookRequest,
    seconds: float = SECONDS,
    *,
    searches: SearchResults | None = None,
) -> dict[str, Any]:
    """Returns the hook's output: an empty object if nothing changes. Failures to store are not raised.

    A host cannot replace an output again once its turn is over, so a web search becomes its summary at once;
    without `searches`, a card like any other.
    """
    event = hooks.event_of(body)
    if event is None:
        return {}
    cards: list[tuple[hooks.Slot, str]] = []
    try:
        async with asyncio.timeout(seconds):
            for slot in hooks.find_texts(event):
                card = await _card(ingest, caller, event, slot, request, searches)
                if card is not None:
                    cards.append((slot, card))
    except (CoatcheckError, TimeoutError) as e:
        log.warning("a tool's output stays unchanged: %s", e or "storing took too long")
    if not cards:
        return {}
    return hooks.answer(event, hooks.insert_cards(event.response, cards))


async def _card(
    ingest: Ingest,
    caller: Caller,
    event: hooks.HookEvent,
    slot: hooks.Slot,
    request: HookRequest,
    searches: SearchResults | None,
) -> str | None:
    """Returns the card of a slot, or its text with names in place of bytes in it; None if its text stays."""
    least = max(SMALL_BYTES, request.inline_tokens or 0)  # a token has at least one byte
    if slot.size <= least:
        return None
    parted = await asyncio.to_thread(parts.payload, slot.content)

    async def store(data: bytes, media_type: str | None, url: str | None = None) -> Receipt:
        page = event.fetch or PageFetch()
        media = {"url": url or event.url or page.url, "title": parted.title or page.title}
        ingest_request = _build_request(event, request, {"media_type": media_type, **media})
        return await ingest(caller, split_blocks(data), ingest_request)

    try:
        text = parted.data.decode("utf-8", "replace")
        if searches is not None and slot.at is None and await asyncio.to_thread(is_search, text, event.tool_name):
            base_request = _build_request(event, request, {})
            ask = SearchResultsRequest(declared=base_request.declared, query=event.query or "", ttl=request.ttl)
            search_answer = (await searches(caller, parted.data, ask)).answer
            return search_answer.summary.text if search_answer.stored or search_answer.id is None else None
        data = parted.data if slot.at is not None else await store_blobs(store, parted.data)
        receipt = None if len(data) <= least else await store(data, parted.media_type, parted.url)
    except CoatcheckError as e:
        if e.code is not Code.SECRET_REFUSED:
            raise
        return withheld(f"{slot.size:,} bytes")
    if receipt is not None and receipt.stored and not receipt.inline:
        return receipt.text
    is_shorter = data is not parted.data or (slot.at is not None and receipt is not None and receipt.inline)
    return data.decode("utf-8", "replace") if is_shorter else None


def _build_request(event: hooks.HookEvent, request: HookRequest, media: dict[str, str | None]) -> IngestRequest:
    metadata = {"tool_name": event.tool_name, "tool_call_id": event.call_id, "command": event.command, **media}
    page_fetch = None if event.fetch is None else event.fetch.with_requested_url(event.url)
    fetch = {} if page_fetch is None else {name: getattr(page_fetch, name) for name in FETCH}
    session = None if event.session is None else bound_identifier(event.session, SESSION_CHARS)
    return IngestRequest(
        declared=DeclaredMetadata(session=session, labels=request.labels, **adjust_metadata(metadata)[0], **fetch),
        ttl=request.ttl,
        card_tokens=request.card_tokens,
        inline_tokens=request.inline_tokens,
    )
