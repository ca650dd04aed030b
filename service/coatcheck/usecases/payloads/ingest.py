"""Take in a payload, keep it, and return what the model should read instead.

`storing/ingestion.py` says what a crash leaves behind. `store_blobs` stores the bytes that are encoded in a text, such
as pictures, each by an ingest of its own; bytes that could not be stored stay in the text.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Self

from msgspec.structs import replace

from coatcheck.core.artifact import Caller, DeclaredMetadata
from coatcheck.core.card.compose import MAX_BUDGET
from coatcheck.core.encoding.payload_encoder import PayloadEncoder
from coatcheck.core.errors import CoatcheckError
from coatcheck.core.parts.blobs import identify_blobs
from coatcheck.core.policies.policy import value_or
from coatcheck.runtime.concurrency_limiter import Sender
from coatcheck.runtime.work_placement import SMALL, WorkPlacement
from coatcheck.storing.blob_health import BlobHealth
from coatcheck.storing.card_text import CardText
from coatcheck.storing.commit_artifact import CommitArtifact
from coatcheck.storing.content import OpenContent
from coatcheck.storing.ingest_deps import IngestDeps
from coatcheck.storing.ingest_request import IngestRequest, Receipt
from coatcheck.storing.ingestion import Ingestion, IngestSteps
from coatcheck.storing.oversize import OversizeGuard
from coatcheck.storing.redaction import RedactedIngest
from coatcheck.storing.stored_before import StoredBefore
from coatcheck.storing.upload_session import UploadSession
from coatcheck_client.contract.blobs import Blob, with_ids


class Ingest:
    """Stores payloads and returns their receipts."""

    def __init__(
        self, deps: IngestDeps, card_text: CardText | None = None, open_content: OpenContent | None = None
    ) -> None:
        """Without `card_text`, no text views are made, and every card is rendered from the payload alone."""
        self._deps = deps
        health = BlobHealth(deps.catalog, deps.blobs, deps.clock)
        self._steps = IngestSteps(
            deps=deps,
            placement=WorkPlacement(deps.pool, deps.is_warm),
            card_text=card_text,
            stored_before=StoredBefore(deps, card_text, health),
            commit=CommitArtifact(deps.catalog, health, deps.catalog_breaker, deps.blobs_breaker, deps.rooms),
            open_content=open_content or OpenContent(deps.catalog, deps.blobs, deps.pool),
        )

    async def __call__(
        self,
        caller: Caller,
        source: AsyncIterator[bytes],
        request: IngestRequest,
        *,
        complete_request: Callable[[], IngestRequest] | None = None,
        sender: Sender | None = None,
    ) -> Receipt:
        """Returns a payload's receipt, once the payload is durable or known not to be stored.

        If storage does not take the payload, `stored` in the receipt is False, and a warning says why. The card is made
        all the same, and a payload of up to 4 MiB stored bytes waits in memory to be stored later. If too many payloads
        are being ingested, the receipt says so in the same way, but the payload does not wait in memory; if it has more
        than 512 KiB, its card says nothing about its middle but sizes.

        Args:
            caller: who offers the payload; names the namespace.
            source: the payload's identity bytes. An error that the source raises is raised here, and nothing is stored.
            request: what the caller requests and declares; with `complete_request`, only the part that is known before
                the first byte arrives.
            complete_request: returns the whole request. It is called once, when the source has ended, because the
                fields of a form may follow its file.
            sender: who sends the payload while it is read; None: the payload is in memory already.

        Raises:
            CoatcheckError: `overloaded` if so many payloads are being ingested that there is no slot for a card either;
                `truncated_body` if a slow sender lost its slot to others; `payload_too_large`; `quota_exceeded`;
                `namespace_deleting`; `secret_refused`; `forbidden` for a session that the caller may not see;
                `compared_not_found`; `idempotency_key_reused`; `artifact_gone` if the key's artifact was deleted;
                `invalid_request`, such as for an idle TTL under a minute; `upload_fenced`.
        """
        limiters = self._deps.limiters
        # A small payload needs a slot only once it has arrived, so that its slow sender holds no slot.
        opening = await _Opening.read(source)
        # A limiter shares its slots among holders, so that one caller with many uploads does not shut out the rest.
        holder = _holder(caller, request.declared)
        # A payload that has arrived cannot stall, so the limiter need not watch its sender.
        sender = None if opening.is_whole else sender
        limiter = limiters.payloads if sender is None else limiters.uploads
        busy: CoatcheckError | None = None
        try:
            slot = await limiter.acquire(holder, sender)
        except CoatcheckError as error:
            # Digesting and rendering need a slot too, but of another limiter: a card is made even if nothing is stored.
            busy = error
            slot = await limiters.cards.acquire(holder, sender)
        with slot:
            receipt = await self._take_in(caller, opening, request, complete_request, busy)
        self._count(receipt)
        return receipt

    async def shorten(
        self, caller: Caller, source: AsyncIterator[bytes], request: IngestRequest, receipt: Receipt, room: int
    ) -> Receipt:
        """Returns the receipt of a payload that was just ingested, with a card of at most `room` tokens as its text.

        Args:
            caller: who offered the payload.
            source: the same payload again.
            request: the request of that ingest.
            receipt: the receipt of that ingest.
            room: maximum tokens of the card, at least 64.

        Raises:
            CoatcheckError: as the ingest itself.
        """
        # The idempotency key is left out: it would be refused as reused with other parameters.
        budget = min(room, MAX_BUDGET)
        shorter = replace(request, key=None, inline_tokens=0, card_tokens=budget, standalone=True, always_cut=True)
        opening = await _Opening.read(source)
        with await self._deps.limiters.payloads.acquire(_holder(caller, request.declared)):
            again = await self._take_in(caller, opening, shorter)
        # The account counted the first card, which nobody will read.
        if receipt.stored and receipt.created:
            self._deps.ledger.gave(caller.namespace, request.declared.session, again.tokens - receipt.tokens)
        # If storage came back or failed between the two ingests, only the new receipt says what is true now.
        if again.stored != receipt.stored:
            return replace(again, created=receipt.created or again.created)
        return replace(receipt, inline=again.inline, text=again.text, tokens=again.tokens, card=again.card)

    async def _take_in(
        self,
        caller: Caller,
        opening: "_Opening",
        request: IngestRequest,
        complete_request: Callable[[], IngestRequest] | None = None,
        busy: CoatcheckError | None = None,
    ) -> Receipt:
        """Stores a payload, or only makes its card if `busy` says why nothing is stored. The caller holds a slot."""
        deps, declared = self._deps, request.declared
        redacted = RedactedIngest(deps.redacting, caller.namespace, declared, deps.pool)
        # If both ends are to be kept, the limit of the declared kind already cuts the stream. Otherwise the stream may
        # have as many bytes as any kind allows, and the commit refuses a payload that is too large for its kind.
        limit = self.limit(caller, declared if request.keep_ends else None)
        oversize = OversizeGuard(limit, keep_ends=request.keep_ends)
        encoder = PayloadEncoder(deps.tokenizer, stores=busy is None, media_type=declared.media_type)
        async with UploadSession(deps, caller, encoder, refusal=busy) as upload:
            ingestion = Ingestion(self._steps, caller, upload, oversize, redacted, request)
            return await ingestion.run(opening.pieces(), complete_request)

    def limit(self, caller: Caller, declared: DeclaredMetadata | None = None) -> int:
        """Returns the maximum bytes of a payload of any kind from this caller.

        With `declared`, returns the maximum by the policies for this metadata. If the payload turns out to be of
        another kind than declared, other policies may apply.
        """
        rules, limits = self._deps.rules(), [self._deps.payload_limit]
        if (ceiling := rules.ceiling(caller.namespace)) is not None:
            limits.append(ceiling)
        if declared is not None and rules:
            policy = rules.of_payload(caller.namespace, declared)
            if (policy_limit := value_or(policy.max_artifact_bytes, None)) is not None:
                limits.append(policy_limit)
        return min(limits)

    def _count(self, receipt: Receipt) -> None:
        outcome = "unstored" if not receipt.stored else "stored" if receipt.created else "repeated"
        # The tokens of an inline payload are not counted, because it saves no tokens.
        card, shown_tokens = receipt.card, None if receipt.inline or not receipt.text else receipt.tokens
        self._deps.meter.record_ingest(card.kind, outcome, card.size, card.tokens.count, shown_tokens)


class _Opening:
    """A payload, read so far that it is known whether the payload is small.

    A small payload needs no slot until it has arrived, so that its slow sender holds nothing that others wait for.
    """

    def __init__(self, source: AsyncIterator[bytes], first: list[bytes], *, is_whole: bool) -> None:
        self._source = source
        self._first = first
        self.is_whole = is_whole
        """Whether the payload has arrived completely."""

    @classmethod
    async def read(cls, source: AsyncIterator[bytes]) -> Self:
        """Reads a payload to its end, or until at least SMALL bytes were read."""
        first: list[bytes] = []
        size = 0
        async for piece in source:
            first.append(piece)
            size += len(piece)
            if size >= SMALL:
                return cls(source, first, is_whole=False)
        return cls(source, first, is_whole=True)

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yields the payload from its beginning. Can be used only once, because the pieces are not kept."""
        for piece in self._first:
            yield piece
        self._first.clear()
        if not self.is_whole:
            async for piece in self._source:
                yield piece


def _holder(caller: Caller, declared: DeclaredMetadata) -> str | None:
    """Returns the name of a slot's holder: the caller's key, or else its address, or else the session."""
    return caller.key_id or caller.address or declared.session


Store = Callable[[bytes, str | None], Awaitable[Receipt]]
"""Stores bytes with their media type, which is None if it is not known."""


async def store_blobs(store: Store, text: bytes) -> bytes:
    """Stores the large encoded bytes in a text, and returns the text with names in place of these bytes.

    If nothing was stored, returns `text` itself.

    Raises:
        CoatcheckError: whatever `store` raises.
    """
    ids: list[tuple[Blob, str | None]] = []
    for blob in await asyncio.to_thread(identify_blobs, text):
        receipt = await store(await asyncio.to_thread(blob.decode, text), blob.media_type)
        ids.append((blob, receipt.id if receipt.stored else None))
    # A name in the text is a promise that the bytes can be read, so bytes that were not stored stay in the text.
    return with_ids(text, ids) if any(artifact_id for _, artifact_id in ids) else text
