"""Makes the receipt of a payload: the payload itself or its card, and notices for the caller."""

import hashlib
from typing import Final

from msgspec import UNSET

from coatcheck.core.artifact import ENGINE, MAX_KEPT_TEXT, Artifact, ReceiptRecord
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.policies.policy import Policy, RetentionTerms, Rules, resolve_terms, value_or
from coatcheck.core.read_answer import MAX_TOKENS, is_read_answer
from coatcheck.core.redact.mask import Mask
from coatcheck.ports.artifacts import IngestResult
from coatcheck.storing.compare import PREVIOUS
from coatcheck.storing.draft import Draft, RenderedCard, policy_of
from coatcheck.storing.ingest_request import IngestRequest, Receipt
from coatcheck_client.contract.answers import Notice


def receipt_of(
    result: IngestResult, request: IngestRequest, draft: Draft, rendered: RenderedCard, *, rules: Rules, ttl: int
) -> Receipt:
    """Returns the receipt of a payload.

    Args:
        result: the artifact that the commit created or found. If storage refused the payload, it is the artifact that
            the commit would have created.
        request: the request.
        draft: the draft of the artifact, as the answer shows it.
        rendered: the card, and the text that the model reads.
        rules: the present policies.
        ttl: seconds that a payload is kept if neither the request nor a policy says so.
    """
    notices = list(request.notices)
    if draft.measure.dropped:
        notices.append(
            Notice(
                "middle_dropped",
                f"{draft.measure.dropped:,} bytes between the two ends were over the limit and not kept.",
            )
        )
    # A notice about retention terms is given only when the artifact is created: a repeated post does not change them.
    life = resolve_terms(policy_of(rules, draft), ttl=request.ttl, idle_ttl=request.idle_ttl, otherwise=ttl)
    if life.is_capped and result.created:
        notices.append(
            Notice(
                "ttl_capped", f"The policy keeps the payload no longer than {life.ttl:,} seconds, less than requested."
            )
        )
    if not result.created:
        notices += _not_taken(result.artifact, request, life)
    return Receipt(
        expires_at=result.artifact.expires_at,
        id=result.artifact.id,
        created=result.created,
        replayed=result.replayed,
        inline=rendered.inline,
        text=rendered.text,
        tokens=rendered.tokens,
        same_as=rendered.same_as,
        card=rendered.card,
        warnings=tuple(notices),
    )


def record_of(
    rendered: RenderedCard, request: IngestRequest, policy: Policy, mask: Mask | None
) -> ReceiptRecord | None:
    """Returns the record of the text that a model gets, which is stored with the artifact.

    If no card is cut, the record has only the query of the request; without a query, there is no record.

    Args:
        rendered: the card, and the text that the model reads.
        request: the request.
        policy: the policy for the payload.
        mask: masks the secrets of the payload; None: nothing is masked.
    """
    query = request.query if request.query is None or mask is None else mask.text(request.query)
    # No model gets a card, so there is no text to recognise later. Only the query of a web search is kept.
    if not request.with_card:
        return None if query is None else ReceiptRecord(engine=ENGINE, sha256=b"", tokens=0, query=query)
    digest = hashlib.sha256(rendered.text.encode()).digest()
    # The model gets the payload itself, so there is no budget, and the text need not be kept a second time.
    if rendered.inline:
        return ReceiptRecord(engine=ENGINE, sha256=digest, tokens=rendered.tokens)
    # The digest is always kept, because it suffices to recognise the text. The text is kept only if the policy says so.
    is_kept = value_or(policy.keep_card_text, otherwise=False) and len(rendered.text) <= MAX_KEPT_TEXT
    return ReceiptRecord(
        engine=ENGINE,
        sha256=digest,
        tokens=rendered.tokens,
        budget=rendered.budget,
        query=query,
        tools=request.tools,
        text=rendered.text if is_kept else None,
    )


def is_inline(text: str, tokens: int, limit: int) -> bool:
    """Returns whether a payload's whole text is returned instead of a card.

    A text of at most `limit` tokens is returned as it is. So is an answer of this service to a read, up to `MAX_TOKENS`
    tokens: if the model got a card of such an answer, it would have to read the same part again.
    """
    return 0 < limit >= tokens or (tokens <= MAX_TOKENS and text.startswith(("[art_", "art_")) and is_read_answer(text))


_CHANGED: Final = frozenset({"labels", "ttl", "idle_ttl", "pin"})
"""Parameters that a PATCH request can change later."""


def _not_taken(artifact: Artifact, request: IngestRequest, life: RetentionTerms) -> list[Notice]:
    """Returns a notice of the parameters that were not applied, because the artifact existed with other values."""
    # Each entry compares the requested value with the stored one. A repeated post with the same values is no conflict.
    conflicts = {
        "labels": not set(request.declared.labels) <= set(artifact.declared.labels),
        "ttl": request.ttl is not UNSET and life.ttl != artifact.ttl,
        "idle_ttl": request.idle_ttl is not UNSET and life.idle_ttl != artifact.idle_ttl,
        "pin": request.pinned and not artifact.pinned,
        "compare_to": request.compare_to not in {None, PREVIOUS, artifact.declared.compared_to},
    }
    names = [name for name, is_lost in conflicts.items() if is_lost]
    if not names:
        return []
    how = " PATCH the artifact to change labels, ttl, idle_ttl and pin." if _CHANGED.intersection(names) else ""
    message = f"It was stored before, and keeps what was said of it first in: {', '.join(names)}."
    return [Notice("parameters_not_applied", message + how)]


def not_stored(why: CoatcheckError, *, ends: bool) -> str:
    """Returns the message of a receipt that explains why the payload is not stored.

    `ends` says whether the card shows only the two ends of the payload.
    """
    reasons = {Code.STORAGE_FULL: "The disk is full", Code.OVERLOADED: "The service is too busy"}
    first = f"{reasons.get(why.code, 'Storage does not answer')}: the payload is not stored, and the card says so."
    card = "Its sizes are right, but it shows only the two ends." if ends else "The card itself is complete."
    again = " Post the payload again after the time in Retry-After." if why.code is Code.OVERLOADED else ""
    return f"{first} {card}{again}"
