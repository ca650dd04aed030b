"""Takes one payload in: received, recognised, committed, answered; the same steps for every size.

`work_placement.py` decides where each step runs, `upload_session.py` where the bytes go. Crash story, in order: the
intent is durable before the first byte of a blob; the bytes are durable before the commit; the commit is durable before
the answer. A crash before the commit leaves an intent, which the reaper turns into a dead blob; a crash after it leaves
an artifact that nobody was told about, which posting again finds.
"""

import hashlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import ParamSpec, TypeVar

from msgspec import UNSET, structs

from coatcheck.core import ids
from coatcheck.core.artifact import Artifact, Caller, GivenCard, Gone, Kind, Measure
from coatcheck.core.card import CardSource
from coatcheck.core.encoding.payload_encoder import PayloadEncoder
from coatcheck.core.errors import CoatcheckError
from coatcheck.core.keys import own_key, require_session
from coatcheck.core.policies.expiry import check_idle_ttl
from coatcheck.core.policies.policy import Policy, kept
from coatcheck.core.policies.policy import said as decided
from coatcheck.core.reads.view_inputs import has_plain_view, is_plain, view_inputs
from coatcheck.core.redact.mask import Mask
from coatcheck.core.survey.survey import pack_survey
from coatcheck.ports.artifacts import IdempotencyKey, IngestResult, KeyConflict, StoreArtifact, UploadFenced
from coatcheck.runtime.circuit_breaker import REFUSALS
from coatcheck.runtime.work_placement import WorkPlacement
from coatcheck.storing.card_text import CardText, TextViewDraft
from coatcheck.storing.commit_artifact import CommitArtifact, Settled
from coatcheck.storing.compare import earlier_run
from coatcheck.storing.content import OpenContent
from coatcheck.storing.draft import (
    Draft,
    RenderedCard,
    Seen,
    budget_of,
    cut,
    drafted,
    is_whole,
    look,
    masked_draft,
    may_repeat,
    policy_for,
    policy_of,
    redrafted,
    uncut,
    whole_text,
)
from coatcheck.storing.fallback_buffer import unstored
from coatcheck.storing.find import gone, not_found
from coatcheck.storing.ingest_deps import IngestDeps
from coatcheck.storing.ingest_request import IngestRequest, Notice, Receipt, fingerprint
from coatcheck.storing.oversize import OversizeGuard, too_large
from coatcheck.storing.receipts import is_inline, not_stored, receipt_of, record_of
from coatcheck.storing.redacted_ingest import RedactedIngest
from coatcheck.storing.stored_before import StoredBefore, key_reused
from coatcheck.storing.upload_session import UploadSession, blocks, fenced

log = logging.getLogger(__name__)

KEY_LIFE = timedelta(hours=24)
"""How long an idempotency key is remembered."""
WORTH_ASKING = 256 * 1024
"""Size from which looking for an existing artifact is cheaper than recognising it again; this is always done for files,
so that none is written twice in vain."""

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class IngestSteps:
    """What all ingestions of a service share."""

    deps: IngestDeps
    placement: WorkPlacement
    card_text: CardText | None
    before: StoredBefore
    commit: CommitArtifact
    open_content: OpenContent


class Ingestion:
    """One payload. `run` is called once."""

    def __init__(
        self,
        steps: IngestSteps,
        caller: Caller,
        upload: UploadSession,
        oversize: OversizeGuard,
        redacted: RedactedIngest,
    ) -> None:
        """`upload` is already entered, and `redacted` knows what is masked before storing."""
        self._steps = steps
        self._deps = steps.deps
        self._caller = caller
        self._upload = upload
        self._encoder: PayloadEncoder = upload.intake
        self._oversize = oversize
        self._redacted = redacted
        self._request = IngestRequest()
        self._view: TextViewDraft | None = None

    async def run(self, source: AsyncIterator[bytes], offer: Callable[[], IngestRequest]) -> Receipt:
        """Stores the payload and returns its receipt; see `Ingest`."""
        with self._deps.tracer.stage("receive"):
            last = await self._receive(source)
        self._request = _masked(offer(), self._redacted)
        require_session(self._caller, self._request.said.session)
        if self._request.idle_ttl is not UNSET:
            check_idle_ttl(self._request.idle_ttl)
        with self._deps.tracer.stage("draft"):
            with self._deps.approaching:
                await self._end(last)
                known = await self._known()
                if known is not None:
                    return known
                seen = await self._work(look, self._encoder, self._request.said, self._request.earlier, self._is_carded)
            await self._make_view(seen)
            with self._deps.approaching:
                draft = await self._with_terms(await self._work(self._draft, seen))
                rendered = await self._work(self._rendered, draft)
            stored = await self._store(draft, rendered)
            if isinstance(stored, CoatcheckError):
                return await self._refused(draft, stored)
            return await self._answer(draft, stored, rendered)

    async def _work(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._steps.placement.run(self._encoder.size, work, *args, **kwargs)

    async def _receive(self, source: AsyncIterator[bytes]) -> bytes:
        """Takes all blocks except the last one, and returns that."""
        last = b""
        async for block in blocks(self._oversize.within(self._redacted.through(source))):
            if last:
                await self._upload.take(last)
            last = block
        return last

    async def _end(self, last: bytes) -> None:
        """Digests the last block after the others."""
        await self._upload.taken()
        size = self._encoder.size + len(last)
        await self._upload.end(await self._steps.placement.run(size, self._encoder.end, last))

    async def _known(self) -> Receipt | None:
        """Returns the receipt of an existing artifact, if it is worth looking for; also finds what to compare with."""
        request, encoder = self._request, self._encoder
        sheds = self._upload.sheds
        # What is not stored now may have been stored before: then its card must not deny that.
        worth_asking = self._upload.begun or encoder.size >= WORTH_ASKING or sheds
        if not worth_asking and request.compare_to is None:
            return None
        said = request.said
        identity = ids.identity(self._caller.namespace, said.session, said.tool_call_id, encoder.sha256)
        artifact = await self._steps.before.artifact(self._caller, identity)
        if artifact is not None and (sheds or not artifact.lacks_form):
            if not sheds and (request.key is not None or said.beside(artifact.said) != artifact.said):
                return None
            text = await self._steps.before.card_source(self._caller, artifact, None) if request.carded else None
            draft = await self._work(_redraft, encoder, artifact, text)
            return await self._receipt(IngestResult(artifact, created=False, blob_used=False), draft)
        if request.compare_to is not None and (encoder.sample().whole or not sheds):  # lines of the middle are unknown
            earlier = await earlier_run(self._deps, self._caller, request, identity, self._steps.open_content)
            if earlier is not None:
                said = structs.replace(said, compared_to=earlier.id)
                self._request = structs.replace(request, said=said, earlier=earlier)
        return None

    async def _make_view(self, seen: Seen) -> None:
        """Makes the text view that the card may show. No worker thread waits for it: slow pages would occupy all."""
        request, encoder, cards = self._request, self._encoder, self._steps.card_text
        facts, sample, *_ = seen
        payload = encoder.text
        if cards is None or self._oversize.dropped:
            return
        is_wanted = cards.wants(facts, sample, payload)
        if not is_wanted and not (self._redacted.searches_text and not has_plain_view(facts.kind)):
            return
        extracted = request.extracted
        if extracted is None and payload is not None:
            extracted = await cards.extract(request.said, facts, payload)
        if extracted is not None and extracted.text is not None:
            await self._redacted.check_text(extracted.text)
        if not is_wanted:
            return
        self._view = await self._work(cards.made, extracted, facts, sample, carded=request.carded)

    def _is_carded(self, measure: Measure, kind: Kind) -> bool:
        """Returns whether a card is cut of the payload, as far as can be told before its commit."""
        namespace, said, redacting = self._caller.namespace, self._request.said, self._deps.redacting
        if redacting is not None and redacting.mode(namespace, said, kind) != "off":
            return True  # masking may make it longer
        limit = self._inline_limit(policy_for(self._deps.rules(), namespace, said, kind))
        inline = is_whole(measure, kind) and not self._oversize.dropped and 0 < limit >= measure.tokens.count
        return self._request.carded and not inline

    def _inline_limit(self, policy: Policy) -> int:
        limit = self._request.inline_tokens
        return decided(policy.inline_tokens, self._deps.inline_tokens) if limit is None else limit

    def _draft(self, seen: Seen) -> Draft:
        """Returns the artifact as it is to be stored."""
        request = self._request
        measure = self._encoder.measure(dropped=self._oversize.dropped, dropped_at=self._oversize.dropped_at)
        if request.redacted:
            seen = (structs.replace(seen[0], redacted=request.redacted), *seen[1:])
        text = None if self._view is None else self._view.text
        draft = drafted(self._caller.namespace, request.said, measure, seen, text)
        mask = self._mask(draft)
        if mask is None:
            return draft
        # Lists show what is stored, and a model may see them: so detected metadata is stored masked.
        veil = masked_draft(mask, draft.said, draft.facts, draft.sample, draft.survey, draft.text)
        return replace(draft, facts=veil.plain, veil=veil)

    async def _with_terms(self, draft: Draft) -> Draft:
        """Returns the draft with the card that its receipt gives, or the earlier one that stands for it."""
        request, said = self._request, self._request.said
        if said.session is None or said.tool_call_id is None or not (request.carded and request.tools):
            return draft
        if request.standalone is True or not may_repeat(draft):
            return draft
        terms = await self._work(lambda: None if self._inline(draft, self._mask(draft)) else self._terms(draft))
        if terms is None:
            return draft
        earlier = None if self._upload.sheds else await self._steps.before.given_card(draft, terms)
        named = {"given": terms} if earlier is None else {"repeats": earlier}
        return replace(draft, facts=structs.replace(draft.facts, **named), terms=terms)

    def _terms(self, draft: Draft) -> GivenCard:
        """Returns what the card of this request is cut for."""
        if draft.terms is not None:
            return draft.terms
        deps, request, budget = self._deps, self._request, self._request.card_tokens
        if budget is None:
            policy, mask = policy_of(deps.rules(), draft), self._mask(draft)
            budget = budget_of(draft, policy, deps.card_tokens, tokenizer=deps.tokenizer, mask=mask)
        query = " ".join((request.query or "").split())
        return GivenCard(budget, hashlib.sha256(query.encode()).hexdigest()[:16] if query else "")

    def _mask(self, draft: Draft) -> Mask | None:
        redacting = self._deps.redacting
        return None if redacting is None else redacting.mask(draft.namespace, draft.said, draft.facts.kind)

    async def _store(self, draft: Draft, rendered: RenderedCard) -> IngestResult | CoatcheckError:
        """Returns the commit's result, or why storage refused the payload."""
        try:
            await self._upload.durable()
            stored = await self._upload.settled(self._commit(draft, rendered))
        except CoatcheckError as error:
            if error.code not in REFUSALS:
                raise
            self._upload.refusal = error
            return error
        self._deps.fallback.forget(self._caller.namespace, ids.number(draft.identity))  # it no longer waits, if it did
        return stored

    async def _commit(self, draft: Draft, rendered: RenderedCard) -> IngestResult:
        key = None
        if self._request.key is not None:
            key = IdempotencyKey(
                key=own_key(self._caller, self._request.key),
                fingerprint=fingerprint(draft.identity, self._request),
                expires_at=self._deps.clock.now() + KEY_LIFE,
            )
            replay = await self._steps.before.answer(self._caller, key)
            if replay is not None:
                return replay
        return _settled(await self._steps.commit(self._change(draft, rendered, key)))

    def _change(self, draft: Draft, rendered: RenderedCard, key: IdempotencyKey | None = None) -> StoreArtifact:
        deps, request = self._deps, self._request
        policy = policy_of(deps.rules(), draft)
        most = decided(policy.max_artifact_bytes, None)
        if most is not None and draft.measure.size > most:
            raise too_large(most, kind=draft.facts.kind if request.keep_ends else None)
        life = kept(policy, ttl=request.ttl, idle_ttl=request.idle_ttl, otherwise=deps.ttl)
        blob, inline = self._upload.blob()
        return StoreArtifact(
            namespace=self._caller.namespace,
            identity=draft.identity,
            said=request.said,
            measure=draft.measure,
            facts=draft.facts,
            engine=draft.engine,
            blob=blob,
            inline=inline,
            ttl=life.ttl,
            idle_ttl=life.idle_ttl,
            pinned=request.pinned,
            now=deps.clock.now(),
            key=key,
            survey=None if draft.survey is None else pack_survey(draft.survey),
            text_view=None if self._view is None else self._view.new,
            receipt=record_of(rendered, request, policy, self._mask(draft)),
        )

    async def _answer(self, draft: Draft, stored: IngestResult, rendered: RenderedCard) -> Receipt:
        """Returns the receipt for the draft as stored, or for an existing artifact that keeps something of its own."""
        if self._steps.card_text is not None and (stored.created or stored.redeclared):
            await self._steps.card_text.keep(stored.artifact, self._view)
        a, text = _answered(stored, draft), draft.text
        if self._request.carded and not stored.created:
            text = await self._steps.before.card_source(self._caller, a, draft.text)
        same = (a.id, a.said, a.measure, a.facts, text) == (
            draft.id,
            draft.said,
            draft.measure,
            draft.facts,
            draft.text,
        )
        if not same:
            draft = redrafted(a, draft.sample, text, draft.survey)
        receipt = await self._receipt(stored, draft, rendered if same else None)
        if stored.created:
            a = stored.artifact
            self._deps.ledger.took(a.namespace, a.said.session, a.measure.tokens.count, receipt.tokens)
        return receipt

    async def _refused(self, draft: Draft, why: CoatcheckError) -> Receipt:
        """Returns the receipt of a payload that could not be stored.

        The buffer keeps it, if there is room, to store it later.
        """
        if draft.facts.repeats is not None:  # its card says what is not stored, so it has one of its own
            draft = replace(draft, facts=structs.replace(draft.facts, given=self._terms(draft), repeats=None))
        rendered = await self._work(self._rendered, draft, stored=False)
        held = self._upload.held()
        change = self._change(draft, rendered)
        waits = held is not None and self._deps.fallback.keep(draft.id, change, held)
        del held
        log.debug("%s is not stored%s: %s", draft.id, ", and waits" if waits else "", why.detail)
        told = not_stored(why, ends=self._upload.sheds and not draft.sample.whole)
        notices = (*self._request.notices, Notice(str(why.code), told))
        self._request = structs.replace(self._request, notices=notices)
        artifact = IngestResult(unstored(draft.id, change), created=True, blob_used=False)
        receipt = await self._receipt(artifact, draft, rendered)
        return structs.replace(receipt, stored=False, expires_at=None)

    async def _receipt(self, result: IngestResult, draft: Draft, rendered: RenderedCard | None = None) -> Receipt:
        """Returns the receipt, with the payload itself if it is small, and otherwise with its card."""
        deps, request = self._deps, self._request
        rendered = rendered or await self._work(self._rendered, draft)
        return receipt_of(result, request, draft, rendered, rules=deps.rules(), ttl=deps.ttl)

    def _inline(self, draft: Draft, mask: Mask | None) -> tuple[str, int] | None:
        """Returns the whole payload as a model may read it, and its tokens; None if its card replaces it."""
        whole = whole_text(draft, mask, self._deps.tokenizer)
        limit = self._inline_limit(policy_of(self._deps.rules(), draft))
        return whole if whole is not None and is_inline(*whole, limit) else None

    def _rendered(self, draft: Draft, *, stored: bool = True) -> RenderedCard:
        """Returns what replaces the payload, at the requested budget and for the requested query."""
        request, mask, repeats = self._request, self._mask(draft), draft.facts.repeats
        whole = self._inline(draft, mask)
        if whole is not None:
            return RenderedCard(uncut(draft), *whole, inline=True)
        if not request.carded:
            return RenderedCard(uncut(draft), "", 0)
        terms = self._terms(draft)
        is_repeat = stored and request.tools and request.standalone is not True
        return cut(
            draft,
            budget=terms.budget,
            query=request.query,
            tokenizer=self._deps.tokenizer,
            stored=stored,
            tools=request.tools,
            mask=mask,
            earlier=repeats.id if repeats is not None and is_repeat and repeats.card.covers(terms) else None,
        )


def _redraft(encoder: PayloadEncoder, artifact: Artifact, text: CardSource | None) -> Draft:
    """Returns a stored artifact as a draft, with the survey of its text."""
    opened = None if artifact.facts.form is None else encoder.open(artifact.said.media_type)
    return redrafted(artifact, encoder.sample(), text, (encoder if opened is None else opened[1]).survey())


def _masked(request: IngestRequest, redacted: RedactedIngest) -> IngestRequest:
    """Returns the request as it is to be stored, with a notice if secrets of the payload are not."""
    said = redacted.said(request.said)
    if redacted.notice is not None:
        notices = (*request.notices, Notice("secrets_masked", redacted.notice))
        # A view that was made of the original payload contains its secrets.
        return structs.replace(request, said=said, redacted=redacted.done, notices=notices, extracted=None)
    return request if said is request.said else structs.replace(request, said=said)


def _answered(stored: IngestResult, draft: Draft) -> Artifact:
    """Returns the artifact as the answer shows it: as this request declares it, even if that is not what is stored.

    It is shown as stored if the request declares nothing, or replays one before the last. Its card would then cite
    positions in another view than the one that is read, if the kinds have different ones.
    """
    a = stored.artifact
    said = draft.said.beside(a.said)
    if said == a.said:
        return a
    facts = draft.facts.beside(a.facts)
    alike = is_plain(facts) and is_plain(a.facts)
    if not alike and view_inputs(said, facts) != view_inputs(a.said, a.facts):
        return a
    return structs.replace(a, said=said, facts=facts, engine=draft.engine)


def _settled(answer: Settled) -> IngestResult:
    if isinstance(answer, IngestResult):
        return answer
    if isinstance(answer, UploadFenced):
        raise fenced()
    if isinstance(answer, KeyConflict):
        raise key_reused()
    raise gone(answer) if isinstance(answer, Gone) else not_found()
