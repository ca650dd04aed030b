"""Answer a host's hook after a tool call: store bulky texts of the response, and return the response with cards.

A hook never loses any of the host's output: a text that cannot be stored in time, or could not be read back at once,
stays in the response. The only exception is a text that the service refuses because the text contains a secret: a
notice replaces this text. A text is not stored if its size in bytes already shows that it is small enough to stay.
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
"""Maximum seconds that a host waits for the answer. The host runs the hook after each tool call, and the agent does
nothing in the meantime."""
SMALL_BYTES: Final = 1_000
"""Size in bytes up to which a text is never replaced by a card, whatever limits the request sets."""


class HookRequest(Struct, frozen=True, kw_only=True):
    """Options that the query of the hook's URL sets, in addition to the event in the body."""

    card_tokens: int | None = None
    """Maximum tokens of a card; None: as a policy or the settings say."""
    inline_tokens: int | None = None
    """Tokens up to which a text stays whole; None: as a policy or the settings say."""
    labels: tuple[str, ...] = ()
    ttl: int | None | UnsetType = UNSET
    """Seconds until a stored text expires; None: never; unset: as a policy or the settings say."""


async def answer_hook(
    ingest: Ingest,
    caller: Caller,
    body: object,
    request: HookRequest,
    seconds: float = SECONDS,
    *,
    searches: SearchResults | None = None,
) -> dict[str, Any]:
    """Returns the hook's output; an empty object if the response stays unchanged. A failure to store is not raised.

    With `searches`, the response of a web search is replaced by its summary at once, because a host cannot replace an
    output again after the turn. Without `searches`, the response of a web search gets a card like any other output.

    Args:
        ingest: stores the texts.
        caller: who stores them.
        body: the decoded JSON that the host sent.
        request: the options of the hook's URL.
        seconds: the time that storing may take in all; texts that are not stored by then stay.
        searches: shortens responses of web searches.
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
    """Returns the text that replaces the text of a slot; None if that text stays.

    The new text is a card, the summary of a web search, a notice that a text was withheld, or the old text in which
    names replace the encoded bytes.
    """
    small_size = max(SMALL_BYTES, request.inline_tokens or 0)  # a token has at least one byte
    if slot.size <= small_size:
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
            search = SearchResultsRequest(declared=base_request.declared, query=event.query or "", ttl=request.ttl)
            search_answer = (await searches(caller, parted.data, search)).answer
            return search_answer.summary.text if search_answer.stored or search_answer.id is None else None
        data = parted.data if slot.at is not None else await store_blobs(store, parted.data)
        receipt = None if len(data) <= small_size else await store(data, parted.media_type, parted.url)
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
