"""Looks for what is stored already when a payload arrives: the same artifact, its key's answer, its card's view.

Looking only saves work or repeats an answer. If storage refuses, the commit reports it, not this.
"""

from coatcheck.core import ids
from coatcheck.core.artifact import Artifact, Caller, GivenCard, Gone, RepeatedCard
from coatcheck.core.card import CardSource
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.kinds.spec import spec_of
from coatcheck.ports.artifacts import IdempotencyKey, IngestResult
from coatcheck.ports.catalog import FoundArtifact, PayloadKey
from coatcheck.runtime.circuit_breaker import REFUSALS
from coatcheck.storing.blob_health import BlobHealth
from coatcheck.storing.card_text import CardText
from coatcheck.storing.draft import Draft
from coatcheck.storing.find import gone_error, not_found
from coatcheck.storing.ingest_deps import IngestDeps


class StoredBefore:
    """Finds what was stored before."""

    def __init__(self, deps: IngestDeps, card_text: CardText | None, health: BlobHealth) -> None:
        """Without `card_text`, every card is cut from its payload."""
        self._deps = deps
        self._card_text = card_text
        self._health = health

    async def artifact(self, caller: Caller, identity: bytes) -> Artifact | None:
        """Returns the artifact with this identity, with all its bytes.

        None if there is none, or this cannot be determined.
        """
        d = self._deps
        try:
            with d.catalog_breaker.guard_call():
                entry = await d.catalog.find(caller.namespace, ids.number(identity), d.clock.now())
            if not isinstance(entry, FoundArtifact):
                return None
            a = entry.artifact
            # The number is shorter than the identity, so another artifact may have it.
            if ids.identity(a.namespace, a.declared.session, a.declared.tool_call_id, a.measure.sha256) != identity:
                return None
            # Answering from an artifact whose bytes are lost would keep this post from repairing it.
            with d.blobs_breaker.guard_call():
                return a if await self._health.holds(a.namespace, a.blob) else None
        except CoatcheckError as error:
            if error.code not in REFUSALS:
                raise
            return None

    async def answer(self, caller: Caller, key: IdempotencyKey) -> IngestResult | None:
        """Returns the earlier answer for this key; None if the key is new or the artifact has lost its bytes.

        Raises:
            CoatcheckError: `idempotency_key_reused` for another request; `artifact_gone`, `artifact_not_found` if the
                artifact was removed since: a repeated request revives nothing.
        """
        d = self._deps
        with d.catalog_breaker.guard_call():
            now = d.clock.now()
            record = await d.catalog.find_key(caller.namespace, key.key, now)
            if record is None:
                return None
            # Before the artifact: a reused key is an error of the caller whatever became of the first request.
            if record.fingerprint != key.fingerprint:
                raise key_reused()
            entry = await d.catalog.find(caller.namespace, record.number, now)
            if not isinstance(entry, FoundArtifact):
                raise gone_error(entry) if isinstance(entry, Gone) else not_found()
            # If its bytes are lost, ours may replace them, which the commit answers like this.
            if not await self._health.holds(caller.namespace, entry.artifact.blob):
                return None
            return IngestResult(entry.artifact, created=record.created, blob_used=False, replayed=True)

    async def find_given_card(self, draft: Draft, terms: GivenCard) -> RepeatedCard | None:
        """Returns the card that the draft's session was given before for these bytes, by another call.

        None if there is none that covers what is asked for now, or this cannot be determined.
        """
        d, declared = self._deps, draft.declared
        payload = PayloadKey(
            namespace=draft.namespace,
            session=declared.session or "",
            sha256=draft.measure.sha256,
            size=draft.measure.size,
        )
        try:
            with d.catalog_breaker.guard_call():
                earlier = await d.catalog.find_given_cards(payload, d.clock.now())
        except CoatcheckError as error:
            if error.code not in REFUSALS:
                raise
            return None
        # A call ID of its own: a repeated call gets the same artifact, and so the same card, anyway.
        for a in earlier:
            earlier_card = a.facts.given
            # Two readings of the same bytes, say as a page and as plain text, have different cards.
            is_another = a.declared.tool_call_id != declared.tool_call_id and spec_of(a.facts.kind) is spec_of(
                draft.facts.kind
            )
            if earlier_card is not None and is_another and earlier_card.covers(terms):
                return RepeatedCard(a.id, earlier_card)
        return None

    async def card_source(self, caller: Caller, artifact: Artifact, otherwise: CardSource | None) -> CardSource | None:
        """Returns the text view that the artifact's card is cut from; `otherwise` while storage does not answer."""
        d = self._deps
        try:
            with d.catalog_breaker.guard_call():
                entry = await d.catalog.find(
                    caller.namespace, ids.parse(artifact.id), d.clock.now(), with_bytes=True, with_view=True
                )
            if not isinstance(entry, FoundArtifact):
                return otherwise
            return None if self._card_text is None else await self._card_text.find_card_source(entry)
        except CoatcheckError as error:
            if error.code not in REFUSALS:
                raise
            return otherwise


def key_reused() -> CoatcheckError:
    """Returns the error for an idempotency key that was used for another request."""
    return CoatcheckError(
        Code.IDEMPOTENCY_KEY_REUSED,
        "This Idempotency-Key was used for a different request. Use a new key for a new request.",
    )
