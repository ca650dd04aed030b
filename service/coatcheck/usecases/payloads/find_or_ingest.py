"""Find the stored artifacts of the payloads of a history, or store the payloads; return their cards.

A history is sent again with every turn, and almost all of its payloads are already stored. So the payloads are first
looked up by their identities, which takes a digest of each payload and one query for all of them, and their cards are
cached. A payload that is not found is ingested like any other payload. Its identity is the same as if it had been
posted when the tool returned it. A payload that cannot be stored has no ID.

Crash story: each payload is stored by an ingest, which can be repeated without harm.
"""

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final

from msgspec import UNSET, Struct, UnsetType, structs

from coatcheck.core import ids
from coatcheck.core.artifact import (
    DECLARED,
    ENGINE,
    SAMPLE_BYTES,
    UNDESCRIBED,
    Artifact,
    Caller,
    DeclaredMetadata,
    PayloadSample,
)
from coatcheck.core.caches import BoundedCache
from coatcheck.core.card import MIN_BUDGET, CardSource, may_show_text
from coatcheck.core.context.body.encoding import MessageLines, plain
from coatcheck.core.context.replaceable import PlannedPayload
from coatcheck.core.encoding.payload_encoder import sample_ranges
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.kinds import recognise
from coatcheck.core.kinds.spec import MESSAGES
from coatcheck.core.metadata_bounds import adjust_metadata
from coatcheck.core.parts.fields import find_fields
from coatcheck.core.parts.form import open_payload
from coatcheck.core.redact.mask import Mask
from coatcheck.core.survey import survey_of
from coatcheck.core.text.long_text import LongText, is_text
from coatcheck.core.views import parts
from coatcheck.core.views.parts import PartsPayload
from coatcheck.runtime.work_placement import SMALL, in_pool
from coatcheck.storing.blob_health import BlobHealth
from coatcheck.storing.card_text import CardText
from coatcheck.storing.content import UNREADABLE
from coatcheck.storing.draft import cut, remake_draft
from coatcheck.storing.find import Find
from coatcheck.storing.ingest_deps import IngestDeps
from coatcheck.storing.ingest_request import IngestRequest
from coatcheck.storing.upload_session import BLOCK
from coatcheck.usecases.payloads.ingest import Ingest
from coatcheck_client.contract.answers import Notice
from coatcheck_client.contract.cards import withheld

log = logging.getLogger(__name__)

_CONCURRENT_PAYLOADS: Final = 16
"""Maximum payloads of one request that are looked up or stored at the same time."""
_CARD_CACHE_BYTES: Final = 8 * 1024**2
"""Maximum bytes of cached cards, which is about three thousand cards."""
_ABSENT: Final = frozenset({Code.ARTIFACT_NOT_FOUND, Code.ARTIFACT_GONE})
"""Error codes for an artifact that a history refers to and that no longer exists."""


class PayloadRetention(Struct, frozen=True, kw_only=True):
    """How the payloads of a history are to be stored."""

    session: str | None = None
    """The session of the artifacts; None: they are in no session. The session is part of an artifact's identity, so
    later calls for the same history must name the same session."""
    labels: tuple[str, ...] = ()
    ttl: int | None | UnsetType = UNSET
    """Seconds until an artifact expires; None: it does not expire by age; unset: as a policy or the settings say."""
    idle_ttl: int | None | UnsetType = UNSET
    """Seconds without a read after which an artifact expires; None and unset as for `ttl`."""
    pinned: bool = False


class PayloadCard(Struct, frozen=True, kw_only=True):
    """The artifact and card of a payload, or why it could not be stored."""

    id: str | None
    """The artifact's ID; None: the payload could not be stored, for the reason in `notices`."""
    text: str | None = None
    """The card, or the notice that replaces a payload that is withheld; None: no card was requested, or there is none
    because the payload could not be stored."""
    tokens: int = 0
    """Tokens of the card."""
    is_stored: bool = True
    """False: storage refused the payload. The card says so, and the artifact may not be readable by its ID."""
    created: bool = False
    """Whether this call stored the payload."""
    notices: tuple[Notice, ...] = ()


class _Request(Struct, frozen=True):
    """The part of a request that is the same for all payloads of a history."""

    keep: PayloadRetention
    budget: int
    """Maximum tokens of a card."""
    live: dict[int, Artifact]
    """The artifacts that were stored before this request, by number."""
    tools: bool
    """Whether cards may name the tool with which a model reads the payload."""


class _Step(Struct, frozen=True):
    """The values about one payload that the steps of its answer share."""

    caller: Caller
    identity: bytes
    source: "_Source"
    declared: DeclaredMetadata
    budget: int | None
    """Maximum tokens of the card; None: no card is needed."""
    request: _Request


class _Key(Struct, frozen=True):
    """Key of a cached card: everything that the card depends on. The artifact's ID stands for the payload."""

    namespace: str
    id: str
    declared: DeclaredMetadata
    engine: int
    """Number of the engine that describes the payload; another engine may render another card."""
    budget: int | None
    """Maximum tokens of the card; None: no card is needed, only the artifact."""
    masked: bool = False
    """Whether secrets are masked in the card."""
    tools: bool = True
    """Whether the card may name the tool with which a model reads the payload."""


class _CachedCard(Struct, frozen=True):
    """A cached card; its text is empty if no card was needed."""

    text: str
    tokens: int


class FindOrIngest:
    """Finds the stored artifacts of payloads, or stores the payloads."""

    def __init__(self, ingest: Ingest, deps: IngestDeps, find: Find, card_text: CardText | None) -> None:
        """Stores its arguments.

        Args:
            ingest: stores payloads.
            deps: the dependencies of ingest.
            find: finds artifacts, without the fallback buffer: a payload that waits in memory does not count as stored.
            card_text: finds the texts that cards are rendered from; None: cards are rendered from the payload alone.
        """
        self._ingest = ingest
        self._find = find
        self._card_text = card_text
        self._deps = deps
        self._health = BlobHealth(self._deps.catalog, self._deps.blobs, self._deps.clock)
        self._cards: BoundedCache[_Key, _CachedCard] = BoundedCache("cards", _CARD_CACHE_BYTES)

    async def __call__(
        self,
        caller: Caller,
        payloads: Sequence[PlannedPayload],
        keep: PayloadRetention,
        budget: int,
        *,
        tools: bool = True,
    ) -> dict[str, PayloadCard]:
        """Returns the artifact and the card of each payload, by the payload's key.

        An error that keeps a payload from being stored is not raised, so that the other payloads are still stored: the
        error is in the notices of that payload's card.

        Args:
            caller: the caller.
            payloads: the payloads of the history.
            keep: how to store the payloads.
            budget: maximum tokens of a card; only payloads that a card will replace get one.
            tools: whether cards may name a tool; False if the model that reads them has no tool.
        """
        # One query looks up all payloads, because most payloads of a history are already stored.
        identities = await in_pool(self._deps.pool, _identities, caller.namespace, payloads, keep.session)
        request = _Request(keep, budget, await self._live(caller, identities), tools)
        # All workers share one iterator, so the number of workers bounds how many payloads are in memory at once.
        waiting = iter(zip(payloads, identities, strict=True))
        cards: dict[str, PayloadCard] = {}

        async def work() -> None:
            for payload, identity in waiting:
                cards[payload.key] = (
                    _make_unstored_card(payload, identity)
                    if isinstance(identity, CoatcheckError)
                    else await self._one(caller, payload, identity, request)
                )

        async with asyncio.TaskGroup() as group:
            for _ in range(min(_CONCURRENT_PAYLOADS, len(payloads))):
                group.create_task(work())
        return cards

    async def _live(self, caller: Caller, identities: Sequence[bytes | CoatcheckError]) -> dict[int, Artifact]:
        """Returns the live artifacts with these identities, by number; none while the catalogue does not answer."""
        numbers = [ids.number(each) for each in identities if not isinstance(each, CoatcheckError)]
        try:
            with self._deps.catalog_breaker.guard_call():
                return await self._find.live(caller, numbers)
        except CoatcheckError as error:  # the look-up only saves work; if storage is down, storing reports it
            log.debug("looking up the payloads of a history failed: %s", error.detail)
            return {}

    async def _one(self, caller: Caller, payload: PlannedPayload, identity: bytes, request: "_Request") -> PayloadCard:
        """Returns the artifact and card of one payload, and stores the payload if it was not found.

        Raises no CoatcheckError: the error is in the notices of the returned card.
        """
        try:
            parted, source = await self._open_source(payload)
            declared = _make_declared(payload, parted, request.keep)
            budget = max(request.budget, MIN_BUDGET) if payload.needs_card else None
            step = _Step(caller, identity, source, declared, budget, request)
            card = await self._recall_card(step, request.live.get(ids.number(identity)))
            return card or await self._ingest_payload(step)
        except CoatcheckError as error:
            return _make_unstored_card(payload, error)

    async def _open_source(self, payload: PlannedPayload) -> tuple[PartsPayload, "_Source"]:
        # Small texts are prepared on the event loop: handing them to a thread would take longer.
        small = is_text(payload.content) and len(payload.content) <= SMALL
        return _make_source(payload) if small else await in_pool(self._deps.pool, _make_source, payload)

    async def _recall_card(self, step: "_Step", artifact: Artifact | None) -> PayloadCard | None:
        """Returns the card of a stored artifact; None if the payload must be ingested.

        The payload must be ingested if no artifact was found, or if the found artifact has another payload, a corrupt
        blob or no middle, or if its bytes cannot be read.
        """
        # Storing the payload again repairs a corrupt blob.
        if artifact is None or artifact.blob.condemned:
            return None
        stored, sha256 = artifact.declared, artifact.measure.sha256
        if ids.identity(artifact.namespace, stored.session, stored.tool_call_id, sha256) != step.identity:
            return None
        try:
            return await self._card_of(step, artifact)
        except CoatcheckError as error:
            if error.code not in _ABSENT | UNREADABLE:
                raise
            return None  # the look-up only saves work; if storage is down, storing reports it

    async def _card_of(self, step: "_Step", a: Artifact) -> PayloadCard | None:
        """Returns the card of a stored artifact, described as this history declares it."""
        declared, data, budget = _own(a.declared, step.declared), step.source.data, step.budget
        mask = self._deps.redacting.mask_of(a)
        # An artifact that is not described yet is described when its card is rendered, by this engine.
        engine = ENGINE if a.engine == UNDESCRIBED else a.engine
        key = _Key(a.namespace, a.id, declared, engine, budget, masked=mask is not None, tools=step.request.tools)
        cached_card = self._cards.get(key)
        if cached_card is None:
            # The blob is checked when the card is not cached, not with every turn in which the history is sent again.
            with self._deps.guard_read(a.blob):
                if not await self._health.holds(a.namespace, a.blob):
                    return None
            cached_card = _CachedCard("", 0)
            if budget is not None:
                if declared is not a.declared:
                    a = await in_pool(self._deps.pool, _redeclare_artifact, a, declared, data)
                view = await self._view_of(step.caller, a)
                cached_card = await in_pool(self._deps.pool, self._cut, a, data, view, key, mask)
            self._cards.put(key, cached_card)
        return PayloadCard(id=a.id, text=cached_card.text if budget is not None else None, tokens=cached_card.tokens)

    async def _view_of(self, caller: Caller, a: Artifact) -> CardSource | None:
        if self._card_text is None or not may_show_text(a.facts, a.measure.size):
            return None
        with self._deps.catalog_breaker.guard_call():
            entry = await self._find(caller, ids.parse(a.id), with_bytes=True, with_view=True)
        return await self._card_text.find_card_source(entry)

    def _cut(self, a: Artifact, data: bytes, view: CardSource | None, key: _Key, mask: Mask | None) -> _CachedCard:
        head, tail = sample_ranges(len(data))
        sample = PayloadSample(data[head[0] : head[1]], data[tail[0] : tail[1]], len(data))
        survey = survey_of(_text_of(a, data), 2 * SAMPLE_BYTES, a.facts.fields)
        rendered_card = cut(
            remake_draft(a, sample, view, survey),
            budget=key.budget or 0,
            query=None,
            tokenizer=self._deps.tokenizer,
            mask=mask,
            tools=key.tools,
        )
        return _CachedCard(rendered_card.text, rendered_card.tokens)

    async def _ingest_payload(self, step: "_Step") -> PayloadCard:
        caller, request, budget = step.caller, step.request, step.budget
        ingest_request = IngestRequest(
            declared=step.declared,
            ttl=request.keep.ttl,
            idle_ttl=request.keep.idle_ttl,
            pinned=request.keep.pinned,
            card_tokens=budget,
            # No payload is returned whole: that would leave the history as large as it was.
            inline_tokens=0,
            with_card=budget is not None,
            standalone=True,
            tools=request.tools,
        )
        receipt = await self._ingest(caller, self._stream_blocks(step.source), ingest_request)
        if receipt.stored and not receipt.created:  # another request has just stored it, perhaps with other metadata
            live = await self._live(caller, [step.identity])
            if (card := await self._recall_card(step, live.get(ids.number(step.identity)))) is not None:
                return card
        # If secrets may be masked, it is not known here whether this card was masked, so the card is not cached. The
        # next look-up caches it.
        if receipt.created and receipt.stored and self._deps.redacting.never:
            key = _Key(caller.namespace, receipt.id, step.declared, ENGINE, budget, tools=request.tools)
            self._cards.put(key, _CachedCard(receipt.text, receipt.tokens))
        return PayloadCard(
            id=receipt.id,
            text=receipt.text if budget is not None else None,
            tokens=receipt.tokens,
            is_stored=receipt.stored,
            created=receipt.created,
            notices=receipt.warnings,
        )

    async def _stream_blocks(self, source: "_Source") -> AsyncIterator[bytes]:
        """Yields the bytes of a payload; messages are written in a worker thread, one block at a time."""
        blocks = _blocks(source)
        if source.message_lines is None:
            for block in blocks:
                yield block
            return
        while block := await in_pool(self._deps.pool, next, blocks, b""):
            yield block


def _make_unstored_card(payload: PlannedPayload, error: CoatcheckError) -> PayloadCard:
    log.debug("a payload of a history is not stored: %s", error.detail)
    # No part of a payload that was refused because of a secret may stand in the history, not even its beginning.
    text = withheld(f"{payload.tokens:,} tokens") if error.code is Code.SECRET_REFUSED else None
    return PayloadCard(id=None, text=text, is_stored=False, notices=(Notice(str(error.code), error.detail),))


def _own(existing: DeclaredMetadata, declared: DeclaredMetadata) -> DeclaredMetadata:
    """Returns the declared metadata of a stored artifact with the values that this history declares.

    Returns `existing` itself if the values do not differ. An artifact keeps the metadata that was declared last, which
    may differ from this history's. The card in a history must depend on that history alone.
    """
    own = {name: getattr(declared, name) for name in DECLARED}
    same = all(getattr(existing, name) == value for name, value in own.items())
    return existing if same else structs.replace(existing, **own)


def _redeclare_artifact(a: Artifact, declared: DeclaredMetadata, data: bytes) -> Artifact:
    """Returns the artifact with other declared metadata, and with the facts that are recognised by that metadata."""
    data = _text_of(a, data)
    head, tail = sample_ranges(len(data))
    sample = PayloadSample(data[head[0] : head[1]], data[tail[0] : tail[1]], len(data))
    fields = find_fields(sample.head)
    facts = recognise(sample, declared, survey_of(data, 2 * SAMPLE_BYTES, fields), fields=fields)
    facts = structs.replace(facts, fetch=facts.fetch or a.facts.fetch, redacted=a.facts.redacted)
    return structs.replace(a, declared=declared, facts=facts.of_form(a.facts.form, declared))


def _text_of(a: Artifact, data: bytes) -> bytes:
    """Returns the readable text of a payload: the decoded text, if the payload has a form, or else the payload."""
    return data if a.facts.form is None else open_payload(a.facts.form, data)


class _Source(Struct, frozen=True):
    """The bytes of a payload."""

    data: bytes
    """The payload; empty if the payload consists of messages, which are written only when the payload is stored."""
    message_lines: MessageLines | None = None
    """The messages that the payload consists of, for which no card is rendered from `data`; None: `data` is the
    payload."""


def _make_source(payload: PlannedPayload) -> tuple[PartsPayload, _Source]:
    """Returns the payload with its media type, URL and title, and its bytes, as ingest would read the same content."""
    content = payload.content
    if isinstance(content, MessageLines):
        return PartsPayload(data=b""), _Source(b"", content)
    parted = PartsPayload(data=content.data) if isinstance(content, LongText) else parts.payload(plain(content))
    return parted, _Source(parted.data)


def _identities(
    namespace: str, payloads: Sequence[PlannedPayload], session: str | None
) -> list[bytes | CoatcheckError]:
    """Returns the identity of each payload, or the error for which the payload cannot be stored."""
    return [_identity(namespace, payload, session) for payload in payloads]


def _identity(namespace: str, payload: PlannedPayload, session: str | None) -> bytes | CoatcheckError:
    # The bytes are discarded here and made again when the payload is stored: keeping the bytes of all payloads would
    # take as much memory as the history.
    digest = hashlib.sha256()
    try:
        _, source = _make_source(payload)
    except CoatcheckError as error:
        return error
    for piece in (source.data,) if source.message_lines is None else source.message_lines:
        digest.update(piece)
    return ids.identity(namespace, session, _read_metadata(payload)["tool_call_id"], digest.digest())


def _make_declared(payload: PlannedPayload, parted: PartsPayload, keep: PayloadRetention) -> DeclaredMetadata:
    media = {"media_type": parted.media_type, "url": parted.url, "title": payload.title or parted.title}
    return DeclaredMetadata(
        session=keep.session,
        labels=keep.labels,
        failed=payload.failed or parted.failed,
        kind=MESSAGES if isinstance(payload.content, MessageLines) else None,
        **_read_metadata(payload),
        **adjust_metadata(media)[0],
    )


def _read_metadata(payload: PlannedPayload) -> dict[str, Any]:
    """Returns the metadata of a payload that the history contains, within the bounds that ingest accepts."""
    metadata = {"tool_name": payload.tool or None, "tool_call_id": payload.call_id or None, "command": payload.command}
    return adjust_metadata(metadata)[0]


def _blocks(source: _Source) -> Iterator[bytes]:
    """Yields the bytes of a payload in blocks of about `BLOCK` bytes."""
    if source.message_lines is None:
        yield from (source.data[at : at + BLOCK] for at in range(0, len(source.data), BLOCK))
        return
    block = bytearray()
    for piece in source.message_lines:
        block += piece
        if len(block) >= BLOCK:
            yield bytes(block)
            block.clear()
    if block:
        yield bytes(block)
