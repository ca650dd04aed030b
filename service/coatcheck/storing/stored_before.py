"""Looks up what is already stored for a payload that has just arrived.

The look-ups find the same artifact, the answer to the same idempotency key, an earlier card of the same bytes, and the
text view of the card. They only save work or repeat an answer. So most of them ignore a refusal of storage, which the
commit will report.
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
from coatcheck.storing.content import UNREADABLE
from coatcheck.storing.draft import Draft
from coatcheck.storing.find import gone_error, not_found
from coatcheck.storing.ingest_deps import IngestDeps


class StoredBefore:
    """Looks up artifacts, answers and cards that earlier requests stored."""

    def __init__(self, deps: IngestDeps, card_text: CardText | None, health: BlobHealth) -> None:
        """`card_text` finds the text views of cards; None: every card is cut from its payload."""
        self._deps = deps
        self._card_text = card_text
        self._health = health

    async def artifact(self, caller: Caller, identity: bytes) -> Artifact | None:
        """Returns the live artifact with this identity, whose bytes exist.

        Returns None if there is no such artifact, if its bytes are lost, or if storage refuses the look-up.
        """
        d = self._deps
        try:
            with d.catalog_breaker.guard_call():
                entry = await d.catalog.find(caller.namespace, ids.number(identity), d.clock.now())
            if not isinstance(entry, FoundArtifact):
                return None
            a = entry.artifact
            # The number is shorter than the identity, so another artifact may have the same number.
            if ids.identity(a.namespace, a.declared.session, a.declared.tool_call_id, a.measure.sha256) != identity:
                return None
            # If the artifact's bytes are lost, this post must be committed to repair them.
            with d.guard_read(a.blob):
                return a if await self._health.holds(a.namespace, a.blob) else None
        except CoatcheckError as error:
            if error.code not in REFUSALS:
                raise
            return None

    async def answer(self, caller: Caller, key: IdempotencyKey) -> IngestResult | None:
        """Returns the earlier answer for this key; None if the key is new, or the artifact's bytes are lost.

        Raises:
            CoatcheckError: `idempotency_key_reused` if the key was used for another request; `artifact_gone` or
                `artifact_not_found` if the artifact has been removed since, because a repeated request must not revive
                it; `storage_unavailable`.
        """
        d = self._deps
        with d.catalog_breaker.guard_call():
            now = d.clock.now()
            record = await d.catalog.find_key(caller.namespace, key.key, now)
            if record is None:
                return None
            # The key is checked before the artifact: its reuse is an error even if the first artifact is gone.
            if record.fingerprint != key.fingerprint:
                raise key_reused()
            entry = await d.catalog.find(caller.namespace, record.number, now)
            if not isinstance(entry, FoundArtifact):
                raise gone_error(entry) if isinstance(entry, Gone) else not_found()
        # If the artifact's bytes are lost, the commit may replace them by the bytes of this post, and then gives the
        # same answer.
        with d.guard_read(entry.artifact.blob):
            if not await self._health.holds(caller.namespace, entry.artifact.blob):
                return None
        return IngestResult(entry.artifact, created=record.created, blob_used=False, replayed=True)

    async def find_given_card(self, draft: Draft, terms: GivenCard) -> RepeatedCard | None:
        """Returns a card that another tool call gave the draft's session for the same bytes.

        Returns None if no such card covers the budget and the query in `terms`, or if storage refuses the look-up.
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
        # Only artifacts of other tool calls count, because a repeated call gets the same artifact and card anyway.
        for a in earlier:
            earlier_card = a.facts.given
            # The same bytes have different cards if they are of different kinds, for example a page and plain text.
            is_another = a.declared.tool_call_id != declared.tool_call_id and spec_of(a.facts.kind) is spec_of(
                draft.facts.kind
            )
            if earlier_card is not None and is_another and earlier_card.covers(terms):
                return RepeatedCard(a.id, earlier_card)
        return None

    async def card_source(self, caller: Caller, artifact: Artifact, otherwise: CardSource | None) -> CardSource | None:
        """Returns the text view from which the artifact's card is cut; None: the card is cut from the payload.

        Returns `otherwise` if the artifact is gone, if its stored bytes are damaged, or if storage refuses the look-up.
        """
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
            if error.code not in UNREADABLE:
                raise
            return otherwise


def key_reused() -> CoatcheckError:
    """Returns the error for an idempotency key that was used for another request."""
    return CoatcheckError(
        Code.IDEMPOTENCY_KEY_REUSED,
        "This Idempotency-Key was used for a different request. Use a new key for a new request.",
    )
