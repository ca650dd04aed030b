"""Take a payload, keep it, answer with what the model should read instead.

Crash story, in order: the intent is durable before the first byte of a blob; the bytes are durable before the commit;
the commit is durable before the answer. A crash before the commit leaves an intent, which the reaper turns into a dead
blob; a crash after it leaves an artifact that nobody was told of, which posting again finds.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET

from coatcheck.core import ids
from coatcheck.core.artifact import ENGINE, Artifact, Caller, DeclaredMetadata, Gone
from coatcheck.core.card import CardSource
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.expiry import check_idle_ttl
from coatcheck.core.keys import own_key, require_session
from coatcheck.core.payload_encoder import PayloadEncoder
from coatcheck.core.policy import Policy, kept
from coatcheck.core.policy import said as decided
from coatcheck.core.redact.mask import Mask
from coatcheck.core.survey.survey import pack_survey
from coatcheck.core.view_inputs import is_plain, view_inputs
from coatcheck.core.views import ExtractedText
from coatcheck.ports.artifacts import IdempotencyKey, IngestResult, KeyConflict, StoreArtifact, UploadFenced
from coatcheck.ports.catalog import FoundArtifact
from coatcheck.usecases.blob_health import BlobHealth
from coatcheck.usecases.card_text import CardText, TextViewDraft
from coatcheck.usecases.circuit_breaker import REFUSALS
from coatcheck.usecases.commit_artifact import CommitArtifact
from coatcheck.usecases.compare import earlier_run
from coatcheck.usecases.content import OpenContent
from coatcheck.usecases.draft import (
    Draft,
    RenderedCard,
    Seen,
    cut,
    drafted,
    look,
    masked_draft,
    policy_of,
    redrafted,
    uncut,
)
from coatcheck.usecases.fallback_buffer import unstored
from coatcheck.usecases.find import gone, not_found
from coatcheck.usecases.ingest_deps import IngestDeps
from coatcheck.usecases.ingest_request import IngestRequest, Notice, Receipt, fingerprint
from coatcheck.usecases.pool import in_pool
from coatcheck.usecases.receipts import Receipts, not_stored
from coatcheck.usecases.redacted_ingest import RedactedIngest
from coatcheck.usecases.upload_session import WORTH_ASKING, OversizeGuard, UploadSession, blocks, fenced, too_large

log = logging.getLogger(__name__)

KEY_LIFE = timedelta(hours=24)
"""How long an idempotency key is remembered."""


_Kept = tuple[IngestResult | CoatcheckError, Draft, TextViewDraft | None, RenderedCard]
"""What became of a draft, and the card of it."""


class _Looked(NamedTuple):
    """A payload whose view is still to be made."""

    stored: bytes
    seen: Seen


_TURNS: Final = 3
"""Turns of the event loop in which a commit gets to the database's own thread; fewer would only take longer."""


class Ingest:
    """The verb."""

    def __init__(
        self, deps: IngestDeps, card_text: CardText | None = None, open_content: OpenContent | None = None
    ) -> None:
        """Make the verb; without `card_text` no text views are made, and every card is cut from its payload."""
        self._p = deps
        self._card_text = card_text
        self._running = 0
        self._open = open_content or OpenContent(deps.catalog, deps.blobs, deps.pool)
        self._receipts = Receipts(deps)
        self._trust = BlobHealth(deps.catalog, deps.blobs, deps.clock)
        self._settle = CommitArtifact(deps.catalog, self._trust, deps.catalog_breaker, deps.blobs_breaker, deps.rooms)

    async def __call__(
        self,
        caller: Caller,
        source: AsyncIterator[bytes],
        offer: Callable[[], IngestRequest],
        *,
        keep_ends: bool = False,
        before: DeclaredMetadata | None = None,
    ) -> Receipt:
        """Store a payload and answer its receipt; return only when it is durable, or say that it is not stored.

        When storage does not take it, the receipt says so (`stored` is False, with the refusal as a warning), the card
        is made all the same, and a payload of up to 4 MiB stored bytes waits in memory to be stored later.

        Args:
            caller: who offers it; names the namespace.
            source: the payload's identity bytes. Whatever it raises is raised here, and nothing is stored.
            offer: asked once, when the source has ended: a form's fields may follow its file.
            before: what was said before the payload's first byte, where the offer may say more; None: all of it.
            keep_ends: whether a payload over the limit keeps its two ends instead of being refused.

        Raises:
            CoatcheckError: `overloaded` when too many others are being taken in, before anything is asked of the
                source; `payload_too_large`, `idempotency_key_reused`, `artifact_gone` (the key's artifact was
                deleted), `invalid_request` (an idle TTL under a minute), `upload_fenced`.
        """
        async with self._p.slots:
            self._running += 1
            try:
                redacting = self._p.redacting
                known = None if redacting is None else before or offer().said
                incoming = RedactedIngest(redacting, caller.namespace, known, self._p.pool)
                receipt = await self._taken(caller, incoming, source, offer, keep_ends=keep_ends)
            finally:
                self._running -= 1
        self._count(receipt)
        return receipt

    def _count(self, receipt: Receipt) -> None:
        outcome = "unstored" if not receipt.stored else "stored" if receipt.created else "repeated"
        card, shown = receipt.card, None if receipt.inline or not receipt.text else receipt.tokens
        self._p.meter.ingested(card.kind, outcome, card.size, card.tokens.count, shown)

    def limit(self, caller: Caller) -> int:
        """Bytes of a payload from this caller that are refused whatever the payload turns out to be."""
        ceiling = self._p.rules().ceiling(caller.namespace)
        return self._p.payload_limit if ceiling is None else min(ceiling, self._p.payload_limit)

    async def _taken(
        self,
        caller: Caller,
        incoming: RedactedIngest,
        source: AsyncIterator[bytes],
        offer: Callable[[], IngestRequest],
        *,
        keep_ends: bool,
    ) -> Receipt:
        oversize = OversizeGuard(self.limit(caller), keep_ends=keep_ends)
        async with UploadSession(self._p, caller, PayloadEncoder(self._p.tokenizer)) as reception:
            with self._p.tracer.stage("receive"):
                last = await _received(reception, oversize.within(incoming.through(source)))
            asked = _masked(offer(), incoming)
            require_session(caller, asked.said.session)
            if asked.idle_ttl is not UNSET:
                check_idle_ttl(asked.idle_ttl)
            await reception.taken()
            ended = reception.intake.size + len(last) >= WORTH_ASKING or asked.compare_to is not None
            if ended:
                await reception.end(last)
                before = await self._before(caller, reception.intake, asked)
                if before is not None and asked.key is None and asked.said.beside(before.said) == before.said:
                    return await self._again(caller, before, reception.intake, asked)
                if before is None and asked.compare_to is not None:
                    asked = await self._compared(caller, reception.intake, asked)
            return await self._store_and_cut(caller, reception, oversize, asked, last, ended=ended)

    async def _store_and_cut(
        self,
        caller: Caller,
        reception: UploadSession,
        oversize: OversizeGuard,
        asked: IngestRequest,
        last: bytes,
        *,
        ended: bool,
    ) -> Receipt:
        with self._p.tracer.stage("draft"):
            if ended or self._running > 1:
                got = await self._apart(caller, reception, oversize, asked, last, ended=ended)
            else:
                got = await self._here(caller, reception, oversize, asked, last)
        stored, draft, made, cut = got
        if isinstance(stored, CoatcheckError):
            return await self._refused(caller, reception, asked, draft, made, stored)
        if self._card_text is not None and (stored.created or stored.redeclared):
            await self._card_text.keep(stored.artifact, made)
        artifact, text = _answered(stored, draft), draft.text
        if asked.carded and not stored.created:
            text = await self._kept_of(caller, artifact, draft.text)
        final = self._final(artifact, draft, text)
        if final is not draft:
            draft, cut = final, await in_pool(self._p.pool, self._cut, final, asked)
        receipt = self._receipts.of(stored, asked, draft, cut)
        if stored.created:
            a = stored.artifact
            self._p.ledger.took(a.namespace, a.said.session, a.measure.tokens.count, receipt.tokens)
        return receipt

    async def _apart(
        self,
        caller: Caller,
        reception: UploadSession,
        oversize: OversizeGuard,
        asked: IngestRequest,
        last: bytes,
        *,
        ended: bool,
    ) -> _Kept:
        """Draft in a worker thread, which cuts the card while this one commits: neither needs the other.

        While a view is being made no worker thread waits for it: a few slow pages would take all of them.
        """
        intake, loop = reception.intake, asyncio.get_running_loop()
        drafting: asyncio.Future[tuple[bytes, Draft, TextViewDraft | None]] = loop.create_future()

        def work() -> RenderedCard | _Looked:
            looked = _Looked(b"" if ended else intake.end(last), look(intake, asked.said, asked.earlier))
            return looked if self._wants(looked.seen, intake, oversize) else finish(looked, None)

        def finish(looked: _Looked, extracted: ExtractedText | None) -> RenderedCard:
            made = self._made(asked, extracted, looked.seen)
            draft = self._veiled(_draft_of(caller, asked, intake, oversize, looked.seen, made))
            loop.call_soon_threadsafe(_announce, drafting, (looked.stored, draft, made))
            return self._cut(draft, asked)

        async def worked() -> RenderedCard:
            done = await in_pool(self._p.pool, work)
            if isinstance(done, RenderedCard):
                return done
            extracted = await self._extracted(asked, done.seen, intake)
            return await in_pool(self._p.pool, finish, done, extracted)

        cutting = asyncio.ensure_future(worked())
        try:
            await asyncio.wait([drafting, cutting], return_when=asyncio.FIRST_COMPLETED)
            if not drafting.done():
                cutting.result()  # raises: the draft is announced before the cutting can end
            stored_bytes, draft, made = drafting.result()
            if not ended:
                await reception.ended(stored_bytes)
            stored = await self._kept(caller, reception, asked, draft, made)
        except asyncio.CancelledError:
            cutting.cancel()  # a view that nobody waits for may take seconds
            raise
        finally:
            await _at_its_end(cutting)
        return stored, draft, made, cutting.result()

    async def _here(
        self, caller: Caller, reception: UploadSession, oversize: OversizeGuard, asked: IngestRequest, last: bytes
    ) -> _Kept:
        """The same for a small payload while no other is being taken in: only what others can do meanwhile is theirs.

        Waking another thread and being woken by it takes longer than a part of the work itself. The loop is held for
        about as long as a worker thread would keep the interpreter from it.
        """
        intake = reception.intake
        made: TextViewDraft | None = None
        stored_bytes = intake.end(last)
        seen = look(intake, asked.said, asked.earlier)
        if self._wants(seen, intake, oversize):
            extracted = await self._extracted(asked, seen, intake)
            made = await in_pool(self._p.pool, self._made, asked, extracted, seen)
        draft = self._veiled(_draft_of(caller, asked, intake, oversize, seen, made))
        await reception.ended(stored_bytes)
        keeping = asyncio.ensure_future(self._kept(caller, reception, asked, draft, made))
        try:
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            cut = self._cut(draft, asked)
            return await keeping, draft, made, cut
        finally:
            await _at_its_end(keeping)

    def _wants(self, seen: Seen, intake: PayloadEncoder, oversize: OversizeGuard) -> bool:
        """Whether the card may show a text view."""
        facts, sample, _ = seen
        return (
            self._card_text is not None
            and not oversize.dropped
            and self._card_text.wants(facts, sample, intake.payload)
        )

    async def _extracted(self, asked: IngestRequest, seen: Seen, intake: PayloadEncoder) -> ExtractedText | None:
        if self._card_text is None or intake.payload is None or asked.extracted is not None:
            return asked.extracted
        return await self._card_text.extracted(asked.said, seen[0], intake.payload)

    def _made(self, asked: IngestRequest, extracted: ExtractedText | None, seen: Seen) -> TextViewDraft | None:
        if self._card_text is None:
            return None
        return self._card_text.made(extracted, seen[0], seen[1], carded=asked.carded)

    async def _kept_of(self, caller: Caller, artifact: Artifact, text: CardSource | None) -> CardSource | None:
        """The view that the card of what was there already is cut from: the one that is kept, or the one made now."""
        try:
            with self._p.catalog_breaker.watched():
                found = await self._p.catalog.find(
                    caller.namespace,
                    ids.parse(artifact.id),
                    self._p.clock.now(),
                    with_bytes=True,
                    with_view=True,
                )
            if not isinstance(found, FoundArtifact):
                return text
            return None if self._card_text is None else await self._card_text.found(found)
        except CoatcheckError as error:
            if error.code not in REFUSALS:
                raise
            return text

    async def _kept(
        self, caller: Caller, reception: UploadSession, asked: IngestRequest, draft: Draft, made: TextViewDraft | None
    ) -> IngestResult | CoatcheckError:
        """What the commit answers, or why storage does not take it."""
        try:
            await reception.durable()
            stored = await reception.settled(self._commit(caller, reception, asked, draft, made))
        except CoatcheckError as error:
            if error.code not in REFUSALS:
                raise
            reception.refusal = error
            return error
        self._p.fallback.forget(caller.namespace, ids.number(draft.identity))  # it waits no more, if it did
        return stored

    async def _refused(
        self,
        caller: Caller,
        reception: UploadSession,
        asked: IngestRequest,
        draft: Draft,
        made: TextViewDraft | None,
        why: CoatcheckError,
    ) -> Receipt:
        """The receipt of what could not be stored. It may still be, later: the shelter keeps what it has room for."""
        held = reception.held()
        change = self._change(caller, reception, asked, draft, made, None)
        waits = held is not None and self._p.fallback.keep(draft.id, change, held)
        del held
        log.debug("%s is not stored%s: %s", draft.id, ", and waits" if waits else "", why.detail)
        cut = await in_pool(self._p.pool, self._cut, draft, asked, stored=False)
        asked = msgspec.structs.replace(asked, notices=(*asked.notices, Notice(str(why.code), not_stored(why))))
        artifact = IngestResult(unstored(draft.id, change), created=True, blob_used=False)
        return msgspec.structs.replace(self._receipts.of(artifact, asked, draft, cut), stored=False, expires_at=None)

    async def _before(self, caller: Caller, intake: PayloadEncoder, asked: IngestRequest) -> Artifact | None:
        """This very artifact, if it is there already."""
        said = asked.said
        wanted = ids.identity(caller.namespace, said.session, said.tool_call_id, intake.sha256)
        try:
            with self._p.catalog_breaker.watched():
                found = await self._p.catalog.find(caller.namespace, ids.number(wanted), self._p.clock.now())
            if not isinstance(found, FoundArtifact):
                return None
            a = found.artifact
            known = ids.identity(a.namespace, a.said.session, a.said.tool_call_id, a.measure.sha256)
            if known != wanted:
                return None
            with self._p.blobs_breaker.watched():
                return a if await self._trust.holds(a.namespace, a.blob) else None
        except CoatcheckError as error:
            if error.code not in REFUSALS:
                raise
            return None  # asking was only to spare work; storing will say what is wrong

    async def _again(self, caller: Caller, artifact: Artifact, intake: PayloadEncoder, asked: IngestRequest) -> Receipt:
        """The receipt of what was there already."""
        stored = IngestResult(artifact, created=False, blob_used=False)
        text = await self._kept_of(caller, artifact, None) if asked.carded else None
        draft = redrafted(artifact, intake.sample(), text, intake.survey())
        return self._receipts.of(stored, asked, draft, await in_pool(self._p.pool, self._cut, draft, asked))

    async def _compared(self, caller: Caller, intake: PayloadEncoder, asked: IngestRequest) -> IngestRequest:
        """The offer with what the payload is compared with, if there is anything."""
        said = asked.said
        identity = ids.identity(caller.namespace, said.session, said.tool_call_id, intake.sha256)
        earlier = await earlier_run(self._p, caller, asked, identity, self._open)
        if earlier is None:
            return asked
        said = msgspec.structs.replace(said, compared_to=earlier.id)
        return msgspec.structs.replace(asked, said=said, earlier=earlier)

    @staticmethod
    def _final(artifact: Artifact, draft: Draft, text: CardSource | None) -> Draft:
        """The draft, unless its ID had to be probed, or it was there already and keeps something of its own."""
        a, d = artifact, draft
        same = (a.id, a.said, a.measure, a.facts, text) == (d.id, d.said, d.measure, d.facts, d.text)
        return draft if same else redrafted(a, draft.sample, text, draft.survey)

    def _cut(self, draft: Draft, asked: IngestRequest, *, stored: bool = True) -> RenderedCard:
        """The card, at the budget and query asked now."""
        if not asked.carded:
            return uncut(draft)
        budget = asked.card_tokens
        if budget is None:
            budget = decided(policy_of(self._p.rules(), draft).card_tokens, self._p.card_tokens)
        return cut(
            draft,
            budget=budget,
            query=asked.query,
            tokenizer=self._p.tokenizer,
            stored=stored,
            tools=asked.tools,
            mask=self._mask(draft),
        )

    def _veiled(self, draft: Draft) -> Draft:
        """The same with what was recognised as a model may see it: lists come from what is stored of that."""
        mask = self._mask(draft)
        if mask is None:
            return draft
        veil = masked_draft(mask, draft.said, draft.facts, draft.sample, draft.survey, draft.text)
        return replace(draft, facts=veil.plain, veil=veil)

    def _mask(self, draft: Draft) -> Mask | None:
        redacting = self._p.redacting
        return None if redacting is None else redacting.mask(draft.namespace, draft.said, draft.facts.kind)

    async def _commit(
        self, caller: Caller, reception: UploadSession, asked: IngestRequest, draft: Draft, made: TextViewDraft | None
    ) -> IngestResult:
        key = None
        if asked.key is not None:
            expires_at = self._p.clock.now() + KEY_LIFE
            key = IdempotencyKey(
                key=own_key(caller, asked.key), fingerprint=fingerprint(draft.identity, asked), expires_at=expires_at
            )
            with self._p.catalog_breaker.watched():
                replay = await self._replay(caller, key)
            if replay is not None:
                return replay
        return _settled(await self._settle(self._change(caller, reception, asked, draft, made, key)))

    def _change(
        self,
        caller: Caller,
        reception: UploadSession,
        asked: IngestRequest,
        draft: Draft,
        made: TextViewDraft | None,
        key: IdempotencyKey | None,
    ) -> StoreArtifact:
        policy = policy_of(self._p.rules(), draft)
        _refuse_large(draft, policy)
        life = kept(policy, ttl=asked.ttl, idle_ttl=asked.idle_ttl, otherwise=self._p.ttl)
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
            ttl=life.ttl,
            idle_ttl=life.idle_ttl,
            pinned=asked.pinned,
            now=self._p.clock.now(),
            key=key,
            survey=None if draft.survey is None else pack_survey(draft.survey),
            text_view=None if made is None else made.new,
        )

    async def _replay(self, caller: Caller, key: IdempotencyKey) -> IngestResult | None:
        """The answer that this key had before. A repeated request never revives what was deleted since."""
        now = self._p.clock.now()
        record = await self._p.catalog.find_key(caller.namespace, key.key, now)
        if record is None:
            return None
        if record.fingerprint != key.fingerprint:
            raise _reused()
        found = await self._p.catalog.find(caller.namespace, record.number, now)
        if isinstance(found, FoundArtifact):
            # Its bytes are lost: ours may take their place, which the commit answers as it would this.
            whole = await self._trust.holds(caller.namespace, found.artifact.blob)
            if not whole:
                return None
            return IngestResult(found.artifact, created=record.created, blob_used=False, replayed=True)
        raise gone(found) if isinstance(found, Gone) else not_found()


def _answered(stored: IngestResult, draft: Draft) -> Artifact:
    """The artifact as the answer shows it: by what this request declares, also where that is not what is stored.

    It is not where the request declares nothing, or is a replay of one before the last. Its card would then cite places
    of another view than the one that is read, if the kinds have different ones: that card is cut by what is stored.
    """
    a = stored.artifact
    said = draft.said.beside(a.said)
    if said == a.said:
        return a
    facts = draft.facts.beside(a.facts)
    alike = is_plain(facts.kind) and is_plain(a.facts.kind)
    if not alike and view_inputs(said, facts) != view_inputs(a.said, a.facts):
        return a
    return msgspec.structs.replace(a, said=said, facts=facts)


async def _received(reception: UploadSession, source: AsyncIterator[bytes]) -> bytes:
    """Take all blocks but the last, which is answered."""
    last = b""
    async for block in blocks(source):
        if last:
            await reception.take(last)
        last = block
    return last


def _masked(asked: IngestRequest, incoming: RedactedIngest) -> IngestRequest:
    """The offer as it is to be stored, with a notice where secrets of the payload are not."""
    said = incoming.said(asked.said)
    if incoming.notice is not None:
        did, notices = incoming.done, (*asked.notices, Notice("secrets_masked", incoming.notice))
        # A view that was made of the payload as it came has its secrets.
        return msgspec.structs.replace(asked, said=said, redacted=did, notices=notices, extracted=None)
    return asked if said is asked.said else msgspec.structs.replace(asked, said=said)


def _draft_of(
    caller: Caller,
    asked: IngestRequest,
    intake: PayloadEncoder,
    oversize: OversizeGuard,
    seen: Seen,
    made: TextViewDraft | None,
) -> Draft:
    measure = intake.measure(dropped=oversize.dropped, dropped_at=oversize.dropped_at)
    if asked.redacted:
        seen = (msgspec.structs.replace(seen[0], redacted=asked.redacted), *seen[1:])
    return drafted(caller.namespace, asked.said, measure, seen, None if made is None else made.text)


def _refuse_large(draft: Draft, policy: Policy) -> None:
    """Refuse a payload over its policy's limit, once it is known what it is."""
    most = decided(policy.max_artifact_bytes, None)
    if most is not None and draft.measure.size > most:
        raise too_large(most)


async def _at_its_end(task: "asyncio.Future[Any]") -> None:
    """Return when a task has ended. What it raised is raised where its result is wanted, if it still is."""
    await asyncio.wait([task])
    if not task.cancelled():
        task.exception()


def _announce(
    drafting: "asyncio.Future[tuple[bytes, Draft, TextViewDraft | None]]",
    draft: tuple[bytes, Draft, TextViewDraft | None],
) -> None:
    if not drafting.done():  # cancelled, when nobody waits any more
        drafting.set_result(draft)


def _settled(answer: IngestResult | Gone | UploadFenced | KeyConflict | None) -> IngestResult:
    if isinstance(answer, IngestResult):
        return answer
    if isinstance(answer, UploadFenced):
        raise fenced()
    if isinstance(answer, KeyConflict):
        raise _reused()
    raise not_found() if answer is None else gone(answer)


def _reused() -> CoatcheckError:
    return CoatcheckError(
        Code.IDEMPOTENCY_KEY_REUSED,
        "This Idempotency-Key was used for a different request. Use a new key for a new request.",
    )
