"""Answer a host's hook after a tool call: store what is bulky in the response and return the response with cards.

A hook never costs the host anything: whatever cannot be stored in time, or cannot be read back at once, stays as it is.
Only a text that is refused because of a secret in it is withheld. Nothing that is certainly small enough is stored.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any, Final

from msgspec import UNSET, Struct, UnsetType

from coatcheck.core import hooks
from coatcheck.core.artifact import Caller, DeclaredMetadata
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.metadata_bounds import adjust_metadata
from coatcheck.core.views import parts
from coatcheck.storing.ingest_request import IngestRequest
from coatcheck.usecases.payloads.ingest import Ingest
from coatcheck_client.contract.cards import withheld
from coatcheck_client.contract.identifiers import SESSION_CHARS, bound_identifier

log = logging.getLogger(__name__)

SECONDS: Final = 5.0
"""Longest time that a host waits: it runs the hook after each call, and the agent stands still meanwhile."""
SMALL: Final = 1_000
"""Size in bytes up to which a text is not worth a card, whatever the limits are."""
_PIECE: Final = 512 * 1024


class HookRequest(Struct, frozen=True, kw_only=True):
    """What the hook's address says in addition to the event."""

    card_tokens: int | None = None
    inline_tokens: int | None = None
    labels: tuple[str, ...] = ()
    ttl: int | None | UnsetType = UNSET


async def answer_hook(
    ingest: Ingest, caller: Caller, said: object, request: HookRequest, seconds: float = SECONDS
) -> dict[str, Any]:
    """Returns the hook's output: an empty object if nothing changes. Failures to store are not raised."""
    event = hooks.event_of(said)
    if event is None:
        return {}
    cards: list[tuple[hooks.Slot, str]] = []
    try:
        async with asyncio.timeout(seconds):
            for slot in hooks.slots(event):
                card = await _card(ingest, caller, event, slot, request)
                if card is not None:
                    cards.append((slot, card))
    except (CoatcheckError, TimeoutError) as e:
        log.warning("a tool's output stays unchanged: %s", e or "storing took too long")
    if not cards:
        return {}
    return hooks.answer(event, hooks.replaced(event.response, cards))


async def _card(
    ingest: Ingest, caller: Caller, event: hooks.HookEvent, slot: hooks.Slot, request: HookRequest
) -> str | None:
    """Returns the card of a slot; None if its text stays."""
    if slot.size <= max(SMALL, request.inline_tokens or 0):  # a token has at least one byte
        return None
    parted = await asyncio.to_thread(parts.payload, slot.content)
    given = {"tool_name": event.tool_name, "tool_call_id": event.call_id, "url": event.url, "command": event.command}
    described, _ = adjust_metadata(given)
    session = None if event.session is None else bound_identifier(event.session, SESSION_CHARS)
    offer = IngestRequest(
        said=DeclaredMetadata(session=session, labels=request.labels, **described),
        ttl=request.ttl,
        card_tokens=request.card_tokens,
        inline_tokens=request.inline_tokens,
    )
    try:
        receipt = await ingest(caller, _pieces(parted.data), lambda: offer)
    except CoatcheckError as e:
        if e.code is not Code.SECRET_REFUSED:
            raise
        return withheld(f"{slot.size:,} bytes")
    return receipt.text if receipt.stored and not receipt.inline else None


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(data), _PIECE):
        yield data[at : at + _PIECE]
