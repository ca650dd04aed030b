"""Ingests one payload: receives it, recognises it, commits it and answers, in the same steps for every size.

`work_placement.py` decides where each step runs, and `upload_session.py` decides where the bytes go. Crash story: the
intent is durable before the first byte of a blob, the bytes are durable before the commit, and the commit is durable
before the answer. A crash before the commit leaves an intent, which the reaper turns into a dead blob. A crash after
the commit leaves an artifact whose ID no caller knows; when the payload is posted again, the artifact is found.
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
from coatcheck.core.policies.policy import Policy, check_idle_ttl, resolve_terms, value_or
from coatcheck.core.read_answer import has_plain_view, is_plain, view_inputs
from coatcheck.core.redact.mask import Mask
from coatcheck.core.survey import pack_survey
from coatcheck.ports.artifacts import IdempotencyKey, IngestResult, KeyConflict, StoreArtifact, UploadFenced
from coatcheck.runtime.circuit_breaker import REFUSALS
from coatcheck.runtime.work_placement import WorkPlacement
from coatcheck.storing.card_text import CardText, TextViewDraft
from coatcheck.storing.commit_artifact import CommitAnswer, CommitArtifact
from coatcheck.storing.compare import earlier_run
from coatcheck.storing.content import OpenContent
from coatcheck.storing.draft import (
    Draft,
    RenderedCard,
    Seen,
    budget_of,
    cut,
    is_whole,
    look,
    make_draft,
    make_masked_draft,
    may_repeat,
    policy_of,
    remake_draft,
    uncut,
    whole_text,
)
from coatcheck.storing.fallback_buffer import make_artifact
from coatcheck.storing.find import gone_error, not_found
from coatcheck.storing.ingest_deps import IngestDeps
from coatcheck.storing.ingest_request import IngestRequest, Receipt, fingerprint
from coatcheck.storing.oversize import OversizeGuard, too_large
from coatcheck.storing.receipts import is_inline, not_stored, receipt_of, record_of
from coatcheck.storing.redaction import RedactedIngest
from coatcheck.storing.stored_before import StoredBefore, key_reused
from coatcheck.storing.upload_session import UploadSession, blocks, fenced_error
from coatcheck_client.contract.answers import Notice

log = logging.getLogger(__name__)

KEY_LIFE = timedelta(hours=24)
"""How long an idempotency key is remembered."""
WORTH_ASKING = 256 * 1024
"""Size in bytes from which it is cheaper to look for an existing artifact than to recognise the payload again. If the
bytes went to the blob store, the look-up is made whatever their size, so that no file is kept twice."""

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class IngestSteps:
    """The dependencies that all ingestions of a service share."""

    deps: IngestDeps
    """Stores, threads and limits."""
    placement: WorkPlacement
    """Decides by the payload's size whether a step runs on the event loop or in a worker thread."""
    card_text: CardText | None
    """Makes the text views from which cards are cut; None: every card is cut from its payload."""
    stored_before: StoredBefore
    commit: CommitArtifact
    open_content: OpenContent
    """Opens the earlier artifact with which a new one is compared."""


class Ingestion:
    """The ingestion of one payload. Call `run` once."""

    def __init__(
        self,
        steps: IngestSteps,
        caller: Caller,
        upload: UploadSession,
        oversize: OversizeGuard,
        redacted: RedactedIngest,
        request: IngestRequest,
    ) -> None:
        """`upload` must already be entered; `redacted` masks or refuses secrets before they are stored."""
        self._steps = steps
        self._deps = steps.deps
        self._caller = caller
        self._upload = upload
        self._encoder: PayloadEncoder = upload.encoder
        self._oversize = oversize
        self._redacted = redacted
        self._request = request
        self._view: TextViewDraft | None = None

    async def run(
        self, source: AsyncIterator[bytes], complete_request: Callable[[], IngestRequest] | None = None
    ) -> Receipt:
        """Stores the payload that `source` yields, and returns its receipt.

        `complete_request` returns the request once all of it has arrived; None: it was complete from the beginning.
        `Ingest` documents the errors.
        """
        with self._deps.tracer.stage("receive"):
            last = await self._receive(source)
        # The fields of a form may follow its file, so the request is complete only after the last byte.
        request = self._request if complete_request is None else complete_request()
        self._request = _mask_request(request, self._redacted)
        require_session(self._caller, self._request.declared.session)
        if self._request.idle_ttl is not UNSET:
            check_idle_ttl(self._request.idle_ttl)
        with self._deps.tracer.stage("draft"):
            # From here on the sender cannot delay this ingest, so a writer that groups commits may wait for this one.
            with self._deps.approaching:
                await self._end(last)
                receipt = await self._find_existing()
                if receipt is not None:
                    return receipt
                findings = await self._work(
                    look, self._encoder, self._request.declared, self._request.earlier, self._gets_card
                )
            # The text view of a slow page may take seconds. Meanwhile the commit does not count as approaching, or all
            # others would wait for it.
            await self._make_view(findings)
            with self._deps.approaching:
                draft = await self._with_terms(await self._work(self._draft, findings))
                rendered = await self._work(self._render_card, draft)
            # The card is rendered before the commit, so that the record of its text is stored together with the
            # artifact.
            result = await self._store(draft, rendered)
            if isinstance(result, CoatcheckError):
                return await self._handle_refusal(draft, result)
            return await self._answer(draft, result, rendered)

    async def _work(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._steps.placement.run(self._encoder.size, work, *args, **kwargs)

    async def _receive(self, source: AsyncIterator[bytes]) -> bytes:
        """Passes all blocks except the last one to the upload, and returns the last one."""
        # One block is kept back, because the encoder must know which block is the last.
        last = b""
        async for block in blocks(self._oversize.within(self._redacted.through(source))):
            if last:
                await self._upload.take(last)
            last = block
        return last

    async def _end(self, last: bytes) -> None:
        """Passes the last block to the upload, after all others have been digested."""
        await self._upload.wait_until_digested()
        size = self._encoder.size + len(last)
        await self._upload.end(await self._steps.placement.run(size, self._encoder.end, last))

    async def _find_existing(self) -> Receipt | None:
        """Returns the receipt of an existing artifact; None if there is none, or a look-up is not worth its cost.

        Also finds the earlier run with which the payload is to be compared, and adds this run to the request.
        """
        request, encoder = self._request, self._encoder
        sheds = self._upload.sheds
        # A payload that only gets a card now may have been stored before. Then its card must not say that it is not
        # stored.
        worth_asking = self._upload.begun or encoder.size >= WORTH_ASKING or sheds
        if not worth_asking and request.compare_to is None:
            return None
        declared = request.declared
        identity = ids.identity(self._caller.namespace, declared.session, declared.tool_call_id, encoder.sha256)
        artifact = await self._steps.stored_before.artifact(self._caller, identity)
        if artifact is not None and (sheds or not artifact.lacks_form):
            # An idempotency key or a new declaration must be stored. Both need the commit, which finds the artifact
            # anyway.
            if not sheds and (
                request.key is not None or declared.keeping_first_time_fields(artifact.declared) != artifact.declared
            ):
                return None
            text = (
                await self._steps.stored_before.card_source(self._caller, artifact, None) if request.with_card else None
            )
            draft = await self._work(_redraft, encoder, artifact, text)
            return await self._receipt(IngestResult(artifact, created=False, blob_used=False), draft)
        # If only the two ends of the payload are in memory, its other lines are unknown and cannot be compared.
        if request.compare_to is not None and (encoder.sample().whole or not sheds):
            earlier = await earlier_run(self._deps, self._caller, request, identity, self._steps.open_content)
            if earlier is not None:
                # `previous` is resolved only here, and the ID that it stands for is stored. Otherwise later runs would
                # change the artifact with which this one was compared.
                declared = structs.replace(declared, compared_to=earlier.id)
                self._request = structs.replace(request, declared=declared, earlier=earlier)
        return None

    async def _make_view(self, findings: Seen) -> None:
        """Makes the text view that the card may show.

        No worker thread waits for the extractor, because slow pages would then occupy all threads.
        """
        request, encoder, cards = self._request, self._encoder, self._steps.card_text
        facts, sample, *_ = findings
        payload = encoder.text
        if cards is None or self._oversize.dropped:
            return
        is_wanted = cards.wants(facts, sample, payload)
        # Even if no card shows the view, it is made if the text that readers will get must be searched for secrets.
        if not is_wanted and not (self._redacted.searches_text and not has_plain_view(facts.kind)):
            return
        extracted = request.extracted
        if extracted is None and payload is not None:
            extracted = await cards.extract(request.declared, facts, payload)
        # The text is searched before anything is kept. Some secrets can only be found in it, for example a secret that
        # markup divides in the payload.
        if extracted is not None and extracted.text is not None:
            await self._redacted.check_text(extracted.text)
        if not is_wanted:
            return
        self._view = await self._work(cards.make_draft, extracted, facts, sample, with_card=request.with_card)

    def _gets_card(self, measure: Measure, kind: Kind) -> bool:
        """Returns whether a card may be cut from the payload, as far as this is known before the commit."""
        namespace, declared = self._caller.namespace, self._request.declared
        if self._deps.redacting.mode(namespace, declared, kind) != "off":
            return True  # markers of masked secrets may make the text too long to be answered inline
        limit = self._inline_limit(self._deps.rules().of_payload(namespace, declared, kind))
        inline = is_whole(measure, kind) and not self._oversize.dropped and 0 < limit >= measure.tokens.count
        return self._request.with_card and not inline

    def _inline_limit(self, policy: Policy) -> int:
        limit = self._request.inline_tokens
        return value_or(policy.inline_tokens, self._deps.inline_tokens) if limit is None else limit

    def _draft(self, findings: Seen) -> Draft:
        """Returns the draft of the artifact to store, from the findings of `look`."""
        request = self._request
        measure = self._encoder.measure(dropped=self._oversize.dropped, dropped_at=self._oversize.dropped_at)
        if request.redacted:
            findings = (structs.replace(findings[0], redacted=request.redacted), *findings[1:])
        text = None if self._view is None else self._view.text
        draft = make_draft(self._caller.namespace, request.declared, measure, findings, text)
        mask = self._mask(draft)
        if mask is None:
            return draft
        # Secrets are masked in the detected metadata that is stored, because lists show it as it is, and a model may
        # see a list.
        masked_copy = make_masked_draft(mask, draft.declared, draft.facts, draft.sample, draft.survey, draft.text)
        return replace(draft, facts=masked_copy.plain, masked_draft=masked_copy)

    async def _with_terms(self, draft: Draft) -> Draft:
        """Returns the draft with a record of its card in the detected metadata, where later ingests find the record.

        The record describes the card in the receipt, or the earlier card to which the receipt refers instead. The draft
        is returned unchanged if its card may neither refer to an earlier card nor be referred to by a later one.
        """
        request, declared = self._request, self._request.declared
        # Without a session, nobody is known to have seen an earlier card. Without a tool call ID, equal bytes are the
        # same artifact, so no other artifact can have an earlier card.
        if declared.session is None or declared.tool_call_id is None or not (request.with_card and request.tools):
            return draft
        if request.standalone is True or not may_repeat(draft):
            return draft
        terms = await self._work(lambda: None if self._inline(draft, self._mask(draft)) else self._terms(draft))
        if terms is None:
            return draft
        # A payload that will not be stored gets a card of its own, so no earlier card is searched for.
        earlier = None if self._upload.sheds else await self._steps.stored_before.find_given_card(draft, terms)
        changes = {"given": terms} if earlier is None else {"repeats": earlier}
        return replace(draft, facts=structs.replace(draft.facts, **changes), terms=terms)

    def _terms(self, draft: Draft) -> GivenCard:
        """Returns the budget and the digest of the query for which the card of this request is cut."""
        if draft.terms is not None:
            return draft.terms
        deps, request, budget = self._deps, self._request, self._request.card_tokens
        if budget is None:
            policy, mask = policy_of(deps.rules(), draft), self._mask(draft)
            budget = budget_of(draft, policy, deps.card_tokens, tokenizer=deps.tokenizer, mask=mask)
        # Queries that differ only in white space count as the same. A short digest is enough to compare queries, and
        # keeps their text out of the row.
        query = " ".join((request.query or "").split())
        return GivenCard(budget, hashlib.sha256(query.encode()).hexdigest()[:16] if query else "")

    def _mask(self, draft: Draft) -> Mask | None:
        return self._deps.redacting.mask(draft.namespace, draft.declared, draft.facts.kind)

    async def _store(self, draft: Draft, rendered: RenderedCard) -> IngestResult | CoatcheckError:
        """Returns the commit's result, or the error with which storage refused the payload."""
        try:
            await self._upload.durable()
            result = await self._upload.run_commit(self._commit(draft, rendered))
        except CoatcheckError as error:
            if error.code not in REFUSALS:
                raise
            # With a `refusal`, the upload session removes its bytes in the background: a store that refuses may take
            # long to answer.
            self._upload.refusal = error
            return error
        # An earlier post of this payload may still wait in the fallback buffer.
        self._deps.fallback.forget(self._caller.namespace, ids.number(draft.identity))
        return result

    async def _commit(self, draft: Draft, rendered: RenderedCard) -> IngestResult:
        key = None
        if self._request.key is not None:
            key = IdempotencyKey(
                key=own_key(self._caller, self._request.key),
                fingerprint=fingerprint(draft.identity, self._request),
                expires_at=self._deps.clock.now() + KEY_LIFE,
            )
            # This look-up comes as late as possible, after the bytes are durable. So a retry that arrives during the
            # first request finds the answer of that request here, or else at the commit.
            replay = await self._steps.stored_before.answer(self._caller, key)
            if replay is not None:
                return replay
        return _require_result(await self._steps.commit(self._change(draft, rendered, key)))

    def _change(self, draft: Draft, rendered: RenderedCard, key: IdempotencyKey | None = None) -> StoreArtifact:
        deps, request = self._deps, self._request
        policy = policy_of(deps.rules(), draft)
        most = value_or(policy.max_artifact_bytes, None)
        # The policy may depend on the kind, which was not known while the bytes arrived. So its limit of bytes is
        # applied only here.
        if most is not None and draft.measure.size > most:
            raise too_large(most, kind=draft.facts.kind if request.keep_ends else None)
        life = resolve_terms(policy, ttl=request.ttl, idle_ttl=request.idle_ttl, otherwise=deps.ttl)
        blob, inline = self._upload.blob()
        return StoreArtifact(
            namespace=self._caller.namespace,
            identity=draft.identity,
            declared=request.declared,
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

    async def _answer(self, draft: Draft, result: IngestResult, rendered: RenderedCard) -> Receipt:
        """Returns the receipt of the artifact that the commit created or found."""
        if self._steps.card_text is not None and (result.created or result.redeclared):
            await self._steps.card_text.keep(result.artifact, self._view)
        a, text = _resolve_artifact(result, draft), draft.text
        if self._request.with_card and not result.created:
            text = await self._steps.stored_before.card_source(self._caller, a, draft.text)
        # The card was rendered before the commit. It is right only if the stored artifact equals the draft.
        same = (a.id, a.declared, a.measure, a.facts, text) == (
            draft.id,
            draft.declared,
            draft.measure,
            draft.facts,
            draft.text,
        )
        if not same:
            draft = remake_draft(a, draft.sample, text, draft.survey)
        receipt = await self._receipt(result, draft, rendered if same else None)
        # Accounts count each artifact once, however often its payload is posted.
        if result.created:
            a = result.artifact
            self._deps.ledger.took(a.namespace, a.declared.session, a.measure.tokens.count, receipt.tokens)
        return receipt

    async def _handle_refusal(self, draft: Draft, why: CoatcheckError) -> Receipt:
        """Returns the receipt of a payload that storage refused.

        If the fallback buffer has room, it keeps the payload and stores it later.
        """
        # A card that says that the payload is not stored cannot be replaced by a reference to an earlier card.
        if draft.facts.repeats is not None:
            draft = replace(draft, facts=structs.replace(draft.facts, given=self._terms(draft), repeats=None))
        rendered = await self._work(self._render_card, draft, is_stored=False)
        # The card is rendered first, because it is the answer. It is the same whether or not the buffer takes the
        # bytes.
        stored_bytes = self._upload.read_held_bytes()
        change = self._change(draft, rendered)
        waits = stored_bytes is not None and self._deps.fallback.keep(draft.id, change, stored_bytes)
        del stored_bytes
        log.debug("%s is not stored%s: %s", draft.id, ", and waits" if waits else "", why.detail)
        message = not_stored(why, ends=self._upload.sheds and not draft.sample.whole)
        notices = (*self._request.notices, Notice(str(why.code), message))
        self._request = structs.replace(self._request, notices=notices)
        # A receipt needs an artifact, so this is the one that the commit would have created.
        artifact = IngestResult(make_artifact(draft.id, change), created=True, blob_used=False)
        receipt = await self._receipt(artifact, draft, rendered)
        return structs.replace(receipt, stored=False, expires_at=None)

    async def _receipt(self, result: IngestResult, draft: Draft, rendered: RenderedCard | None = None) -> Receipt:
        """Returns the receipt, with the payload itself if it is small, otherwise with its card.

        `rendered` is the card, if it was rendered already; None: it is rendered now.
        """
        deps, request = self._deps, self._request
        rendered = rendered or await self._work(self._render_card, draft)
        return receipt_of(result, request, draft, rendered, rules=deps.rules(), ttl=deps.ttl)

    def _inline(self, draft: Draft, mask: Mask | None) -> tuple[str, int] | None:
        """Returns the whole payload as a model may read it, and its tokens; None if a card replaces the payload."""
        if self._request.always_cut is True:
            return None
        whole = whole_text(draft, mask, self._deps.tokenizer)
        limit = self._inline_limit(policy_of(self._deps.rules(), draft))
        return whole if whole is not None and is_inline(*whole, limit) else None

    def _render_card(self, draft: Draft, *, is_stored: bool = True) -> RenderedCard:
        """Returns the payload itself if it is small, otherwise its card for the request's budget and query."""
        request, mask, repeats = self._request, self._mask(draft), draft.facts.repeats
        whole = self._inline(draft, mask)
        if whole is not None:
            return RenderedCard(uncut(draft), *whole, inline=True)
        if not request.with_card:
            return RenderedCard(uncut(draft), "", 0)
        terms = self._terms(draft)
        # The text may refer to an earlier card only if the payload is stored, the model has tools to read that card,
        # and the caller does not require a card that stands alone.
        is_repeat = is_stored and request.tools and request.standalone is not True
        return cut(
            draft,
            budget=terms.budget,
            query=request.query,
            tokenizer=self._deps.tokenizer,
            is_stored=is_stored,
            tools=request.tools,
            mask=mask,
            earlier=repeats.id if repeats is not None and is_repeat and repeats.card.covers(terms) else None,
        )


def _redraft(encoder: PayloadEncoder, artifact: Artifact, text: CardSource | None) -> Draft:
    """Returns a stored artifact as a draft, with the survey of the text in the payload that was just received."""
    opened_payload = None if artifact.facts.form is None else encoder.open(artifact.declared.media_type)
    return remake_draft(
        artifact, encoder.sample(), text, (encoder if opened_payload is None else opened_payload[1]).survey()
    )


def _mask_request(request: IngestRequest, redacted: RedactedIngest) -> IngestRequest:
    """Returns the request with its metadata masked as it is to be stored, and a notice if the payload was masked."""
    declared = redacted.resolve_declared(request.declared)
    if redacted.notice is not None:
        notices = (*request.notices, Notice("secrets_masked", redacted.notice))
        # A text view that the caller made from the original payload contains its secrets, so it is not used.
        return structs.replace(
            request, declared=declared, redacted=redacted.mask_summary, notices=notices, extracted=None
        )
    return request if declared is request.declared else structs.replace(request, declared=declared)


def _resolve_artifact(result: IngestResult, draft: Draft) -> Artifact:
    """Returns the artifact as the answer shows it: with the declaration of this request, even if another one is stored.

    If the two declarations lead to different text views, the artifact is returned as stored: a card must cite positions
    in the view that readers get.
    """
    a = result.artifact
    declared = draft.declared.keeping_first_time_fields(a.declared)
    if declared == a.declared:
        return a
    facts = draft.facts.keeping_first_time_fields(a.facts)
    alike = is_plain(facts) and is_plain(a.facts)
    if not alike and view_inputs(declared, facts) != view_inputs(a.declared, a.facts):
        return a
    return structs.replace(a, declared=declared, facts=facts, engine=draft.engine)


def _require_result(answer: CommitAnswer) -> IngestResult:
    if isinstance(answer, IngestResult):
        return answer
    if isinstance(answer, UploadFenced):
        raise fenced_error()
    if isinstance(answer, KeyConflict):
        raise key_reused()
    raise gone_error(answer) if isinstance(answer, Gone) else not_found()
