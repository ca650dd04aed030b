"""Take a payload, keep it, answer with what the model should read instead.

Crash story, in order: the intent is durable before the first byte of a blob; the bytes are durable before the commit;
the commit is durable before the answer. A crash before the commit leaves an intent, which the reaper turns into a dead
blob; a crash after it leaves an artifact that nobody was told of, which posting again finds.
"""

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from datetime import timedelta

import msgspec
from msgspec import UNSET, Struct, UnsetType

from coatcheck.core import ids
from coatcheck.core.artifact import ENGINE, Artifact, Caller, Facts, Gone, Kind, Said, Sample
from coatcheck.core.card import Card
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.expiry import check_idle_ttl
from coatcheck.core.intake import Intake
from coatcheck.core.kinds.cutter import Plan
from coatcheck.core.tokens import Tokenizer
from coatcheck.ports import (
    BlobStore,
    Catalog,
    Clock,
    Fenced,
    Found,
    IdempotencyKey,
    KeyReused,
    StoreArtifact,
    Stored,
)
from coatcheck.usecases.draft import Cut, Draft, counted_beside, cut, drafted, look, redrafted
from coatcheck.usecases.find import gone, not_found
from coatcheck.usecases.outage import REFUSALS, Outage
from coatcheck.usecases.pool import in_pool
from coatcheck.usecases.receive import WORTH_ASKING, Oversize, Reception, blocks, fenced
from coatcheck.usecases.settle import Settle
from coatcheck.usecases.shelter import Shelter, unstored
from coatcheck.usecases.trust import Trust

log = logging.getLogger(__name__)

KEY_LIFE = timedelta(hours=24)
"""How long an idempotency key is remembered."""


class Offer(Struct, frozen=True, kw_only=True):
    """What a caller asks with a payload."""

    said: Said = Said()
    query: str | None = None
    """What the agent was looking for; excerpts follow it."""
    ttl: int | None | UnsetType = UNSET
    """Seconds; None keeps for ever; unset takes the service's default."""
    idle_ttl: int | None | UnsetType = UNSET
    pinned: bool = False
    card_tokens: int | None = None
    inline_tokens: int | None = None
    keep_ends: bool = False
    key: str | None = None
    """The Idempotency-Key."""
    notices: tuple["Notice", ...] = ()
    """What the face had to change to accept the request; passed on to the caller."""


class Notice(Struct, frozen=True):
    """Something the caller should know although the request succeeded. The code is permanent."""

    code: str
    message: str


class Receipt(Struct, frozen=True, kw_only=True):
    """What an ingest answers."""

    id: str
    created: bool
    """False: this very artifact was there already."""
    stored: bool = True
    """False: storage refused the payload, as a warning says; the card stands for it all the same."""
    inline: bool
    """Whether `text` is the payload itself, byte for byte."""
    text: str
    """Exactly what to put into the tool result."""
    tokens: int
    """Of `text`."""
    card: Card
    warnings: tuple[Notice, ...] = ()


@dataclass(frozen=True, kw_only=True)
class IngestPlaces:
    """What the composition hands to an ingest."""

    catalog: Catalog
    blobs: BlobStore
    clock: Clock
    pool: Executor
    tokenizer: Tokenizer
    new_blob_id: Callable[[], str]
    lease: timedelta
    inline_bytes: int
    payload_limit: int
    ttl: int
    card_tokens: int
    inline_tokens: int
    shelter: Shelter
    catalog_outage: Outage
    blobs_outage: Outage
    afterwards: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])


class Ingest:
    """The verb."""

    def __init__(self, places: IngestPlaces) -> None:
        self._p = places
        self._trust = Trust(places.catalog, places.blobs, places.clock)
        self._settle = Settle(places.catalog, self._trust, places.catalog_outage, places.blobs_outage)

    async def __call__(
        self,
        caller: Caller,
        source: AsyncIterator[bytes],
        offer: Callable[[], Offer],
        *,
        keep_ends: bool = False,
    ) -> Receipt:
        """Store a payload and answer its receipt; return only when it is durable, or say that it is not stored.

        When storage does not take it, the receipt says so (`stored` is False, with the refusal as a warning), the card
        is made all the same, and a payload of up to 4 MiB stored bytes waits in memory to be stored later.

        Args:
            caller: who offers it; names the namespace.
            source: the payload's identity bytes. Whatever it raises is raised here, and nothing is stored.
            offer: asked once, when the source has ended: a form's fields may follow its file.
            keep_ends: whether a payload over the limit keeps its two ends instead of being refused.

        Raises:
            CoatcheckError: `payload_too_large`, `idempotency_key_reused`, `artifact_gone` (the key's artifact was
                deleted), `invalid_request` (an idle TTL under a minute), `upload_fenced`.
        """
        oversize = Oversize(self._p.payload_limit, keep_ends=keep_ends)
        async with Reception(self._p, caller, Intake(self._p.tokenizer)) as reception:
            last = b""
            async for block in blocks(oversize.within(source)):
                if last:
                    await reception.take(last)
                last = block
            asked = offer()
            if asked.idle_ttl is not UNSET:
                check_idle_ttl(asked.idle_ttl)
            await reception.taken()
            ended = reception.intake.size + len(last) >= WORTH_ASKING
            if ended:
                await reception.end(last)
                before = await self._before(caller, reception.intake, asked)
                if before is not None:
                    return await self._again(before, reception.intake, asked)
            return await self._store_and_cut(caller, reception, oversize, asked, last, ended=ended)

    async def _store_and_cut(
        self, caller: Caller, reception: Reception, oversize: Oversize, asked: Offer, last: bytes, *, ended: bool
    ) -> Receipt:
        """Draft in a worker thread, which cuts the card while this one commits: neither needs the other."""
        loop = asyncio.get_running_loop()
        drafting: asyncio.Future[tuple[bytes, Draft]] = loop.create_future()

        def work() -> Cut:
            stored = b""

            def digest() -> tuple[Facts, Sample, Plan]:
                nonlocal stored
                stored = b"" if ended else reception.intake.end(last)
                return look(reception.intake, asked.said)

            seen = counted_beside(self._p.pool, reception.intake, last, digest)
            measure = reception.intake.measure(dropped=oversize.dropped, dropped_at=oversize.dropped_at)
            draft = drafted(caller.namespace, asked.said, measure, seen)
            loop.call_soon_threadsafe(_announce, drafting, (stored, draft))
            return self._cut(draft, asked)

        cutting = asyncio.ensure_future(in_pool(self._p.pool, work))
        try:
            await asyncio.wait([drafting, cutting], return_when=asyncio.FIRST_COMPLETED)
            if not drafting.done():
                cutting.result()  # raises: the draft is announced before the cutting can end
            stored_bytes, draft = drafting.result()
            if not ended:
                await reception.ended(stored_bytes)
            stored = await self._kept(caller, reception, asked, draft)
        finally:
            await asyncio.wait([cutting])
        if isinstance(stored, CoatcheckError):
            return await self._refused(caller, reception, asked, draft, stored)
        final = self._final(stored.artifact, draft)
        if final is not draft:
            return self._receipt(stored, asked, final, await in_pool(self._p.pool, self._cut, final, asked))
        return self._receipt(stored, asked, draft, cutting.result())

    async def _kept(self, caller: Caller, reception: Reception, asked: Offer, draft: Draft) -> Stored | CoatcheckError:
        """What the commit answers, or why storage does not take it."""
        try:
            await reception.durable()
            stored = await reception.settled(self._commit(caller, reception, asked, draft))
        except CoatcheckError as error:
            if error.code not in REFUSALS:
                raise
            reception.refusal = error
            return error
        self._p.shelter.forget(caller.namespace, ids.number(draft.identity))  # it waits no more, if it did
        return stored

    async def _refused(
        self, caller: Caller, reception: Reception, asked: Offer, draft: Draft, why: CoatcheckError
    ) -> Receipt:
        """The receipt of what could not be stored. It may still be, later: the shelter keeps what it has room for."""
        held = reception.held()
        change = self._change(caller, reception, asked, draft, None)
        waits = held is not None and self._p.shelter.keep(draft.id, change, held)
        del held
        log.debug("%s is not stored%s: %s", draft.id, ", and waits" if waits else "", why.detail)
        cut = await in_pool(self._p.pool, self._cut, draft, asked, stored=False)
        asked = msgspec.structs.replace(asked, notices=(*asked.notices, Notice(str(why.code), _not_stored(why))))
        artifact = Stored(unstored(draft.id, change), created=True, blob_used=False)
        return msgspec.structs.replace(self._receipt(artifact, asked, draft, cut), stored=False)

    async def _before(self, caller: Caller, intake: Intake, asked: Offer) -> Artifact | None:
        """This very artifact, if it is there already and asking costs less than counting its tokens again."""
        if asked.key is not None:
            return None
        said = asked.said
        wanted = ids.identity(caller.namespace, said.session, said.tool_call_id, intake.sha256)
        try:
            with self._p.catalog_outage.watched():
                found = await self._p.catalog.find(caller.namespace, ids.number(wanted), self._p.clock.now())
            if not isinstance(found, Found):
                return None
            a = found.artifact
            known = ids.identity(a.namespace, a.said.session, a.said.tool_call_id, a.measure.sha256)
            if known != wanted:
                return None
            with self._p.blobs_outage.watched():
                return a if await self._trust.holds(a.namespace, a.blob) else None
        except CoatcheckError as error:
            if error.code not in REFUSALS:
                raise
            return None  # asking was only to spare work; storing will say what is wrong

    async def _again(self, artifact: Artifact, intake: Intake, asked: Offer) -> Receipt:
        """The receipt of what was there already."""
        stored = Stored(artifact, created=False, blob_used=False)
        draft = redrafted(artifact, intake.sample())
        return self._receipt(stored, asked, draft, await in_pool(self._p.pool, self._cut, draft, asked))

    @staticmethod
    def _final(artifact: Artifact, draft: Draft) -> Draft:
        """The draft, unless something else was there already or its ID had to be probed: what was said first stays."""
        a = artifact
        same = (a.id, a.said, a.measure, a.facts) == (draft.id, draft.said, draft.measure, draft.facts)
        return draft if same else redrafted(a, draft.sample)

    def _cut(self, draft: Draft, asked: Offer, *, stored: bool = True) -> Cut:
        """The card, at the budget and query asked now."""
        budget = self._p.card_tokens if asked.card_tokens is None else asked.card_tokens
        return cut(draft, budget=budget, query=asked.query, tokenizer=self._p.tokenizer, stored=stored)

    async def _commit(self, caller: Caller, reception: Reception, asked: Offer, draft: Draft) -> Stored:
        key = None
        if asked.key is not None:
            expires_at = self._p.clock.now() + KEY_LIFE
            key = IdempotencyKey(key=asked.key, fingerprint=_fingerprint(draft.identity, asked), expires_at=expires_at)
            with self._p.catalog_outage.watched():
                replay = await self._replay(caller, key)
            if replay is not None:
                return replay
        return _settled(await self._settle(self._change(caller, reception, asked, draft, key)))

    def _change(
        self, caller: Caller, reception: Reception, asked: Offer, draft: Draft, key: IdempotencyKey | None
    ) -> StoreArtifact:
        blob, inline = reception.blob()
        return StoreArtifact(
            namespace=caller.namespace,
            identity=draft.identity,
            said=asked.said,
            measure=draft.measure,
            facts=draft.facts,
            engine=ENGINE,
            blob=blob,
            inline=inline,
            ttl=self._p.ttl if asked.ttl is UNSET else asked.ttl,
            idle_ttl=None if asked.idle_ttl is UNSET else asked.idle_ttl,
            pinned=asked.pinned,
            now=self._p.clock.now(),
            key=key,
        )

    async def _replay(self, caller: Caller, key: IdempotencyKey) -> Stored | None:
        """The answer that this key had before. A repeated request never revives what was deleted since."""
        now = self._p.clock.now()
        record = await self._p.catalog.find_key(caller.namespace, key.key, now)
        if record is None:
            return None
        if record.fingerprint != key.fingerprint:
            raise _reused()
        found = await self._p.catalog.find(caller.namespace, record.number, now)
        if isinstance(found, Found):
            # Its bytes are lost: ours may take their place, which the commit answers as it would this.
            whole = await self._trust.holds(caller.namespace, found.artifact.blob)
            return Stored(found.artifact, created=record.created, blob_used=False) if whole else None
        raise gone(found) if isinstance(found, Gone) else not_found()

    def _receipt(self, stored: Stored, asked: Offer, draft: Draft, cut: Cut) -> Receipt:
        inline = self._inline(draft, asked)
        notices = list(asked.notices)
        if draft.measure.dropped:
            notices.append(
                Notice(
                    "middle_dropped",
                    f"{draft.measure.dropped:,} bytes between the two ends were over the limit and not kept.",
                )
            )
        return Receipt(
            id=stored.artifact.id,
            created=stored.created,
            inline=inline is not None,
            text=cut.text if inline is None else inline,
            tokens=cut.tokens if inline is None else draft.measure.tokens.count,
            card=cut.card,
            warnings=tuple(notices),
        )

    def _inline(self, draft: Draft, asked: Offer) -> str | None:
        """The payload itself, when it is whole, text and small enough to stay in the conversation."""
        m = draft.measure
        limit = self._p.inline_tokens if asked.inline_tokens is None else asked.inline_tokens
        small = m.tokens.exact and m.tokens.count <= limit and limit > 0 and not m.dropped
        text = m.utf8 and draft.facts.kind not in {Kind.IMAGE, Kind.BINARY} and draft.sample.whole
        return draft.sample.head.decode() if small and text else None


def _announce(drafting: "asyncio.Future[tuple[bytes, Draft]]", draft: tuple[bytes, Draft]) -> None:
    if not drafting.done():  # cancelled, when nobody waits any more
        drafting.set_result(draft)


def _fingerprint(identity: bytes, asked: Offer) -> bytes:
    """What makes a request that request: the artifact's identity and everything asked with it."""
    return hashlib.sha256(identity + msgspec.json.encode(asked)).digest()


def _settled(answer: Stored | Gone | Fenced | KeyReused | None) -> Stored:
    if isinstance(answer, Stored):
        return answer
    if isinstance(answer, Fenced):
        raise fenced()
    if isinstance(answer, KeyReused):
        raise _reused()
    raise not_found() if answer is None else gone(answer)


def _not_stored(why: CoatcheckError) -> str:
    reasons = {Code.STORAGE_FULL: "The disk is full", Code.OVERLOADED: "Storage is too busy"}
    first = reasons.get(why.code, "Storage does not answer")
    return f"{first}: the payload is not stored, and the card says so. The card itself is complete."


def _reused() -> CoatcheckError:
    return CoatcheckError(
        Code.IDEMPOTENCY_KEY_REUSED,
        "This Idempotency-Key was used for a different request. Use a new key for a new request.",
    )
