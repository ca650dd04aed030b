"""What is answered to a payload: inline or by its card, with what the caller should know besides."""

from typing import Final

from msgspec import UNSET

from coatcheck.core.artifact import Artifact
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.kinds.spec import spec_of
from coatcheck.core.policy import RetentionTerms, kept
from coatcheck.core.policy import said as decided
from coatcheck.core.read_answer import is_read_answer
from coatcheck.ports.artifacts import IngestResult
from coatcheck.usecases.compare import PREVIOUS
from coatcheck.usecases.draft import Draft, RenderedCard, policy_of
from coatcheck.usecases.ingest_deps import IngestDeps
from coatcheck.usecases.ingest_request import IngestRequest, Notice, Receipt
from coatcheck.usecases.read_bounds import MAX_TOKENS


class Receipts:
    """Writes them."""

    def __init__(self, deps: IngestDeps) -> None:
        self._p = deps

    def of(self, stored: IngestResult, asked: IngestRequest, draft: Draft, cut: RenderedCard) -> Receipt:
        """The receipt of a payload that is stored, or that stands as if it were."""
        inline = self._inline(draft, asked, cut)
        notices = list(asked.notices)
        if draft.measure.dropped:
            notices.append(
                Notice(
                    "middle_dropped",
                    f"{draft.measure.dropped:,} bytes between the two ends were over the limit and not kept.",
                )
            )
        life = kept(policy_of(self._p.rules(), draft), ttl=asked.ttl, idle_ttl=asked.idle_ttl, otherwise=self._p.ttl)
        if life.cut and stored.created:
            notices.append(
                Notice("ttl_cut", f"The policy keeps it no longer than {life.ttl:,} seconds, less than was asked for.")
            )
        if not stored.created:
            notices += _not_taken(stored.artifact, asked, life)
        return Receipt(
            expires_at=stored.artifact.expires_at,
            id=stored.artifact.id,
            created=stored.created,
            replayed=stored.replayed,
            inline=inline is not None,
            text=cut.text if inline is None else inline,
            tokens=cut.tokens if inline is None else _inline_tokens(draft, cut),
            card=cut.card,
            warnings=tuple(notices),
        )

    def _inline(self, draft: Draft, asked: IngestRequest, cut: RenderedCard) -> str | None:
        """The payload itself, when it is whole, text, and either small enough or an answer that was read from here."""
        m = draft.measure
        limit = asked.inline_tokens
        if limit is None:
            limit = decided(policy_of(self._p.rules(), draft).inline_tokens, self._p.inline_tokens)
        whole = m.tokens.exact and not m.dropped and draft.sample.whole
        if not (whole and m.utf8 and spec_of(draft.facts.kind).readable):
            return None
        tokens = _inline_tokens(draft, cut)
        if limit > 0 and tokens <= limit:
            return cut.inline or draft.sample.head.decode()
        if tokens > MAX_TOKENS or not draft.sample.head.startswith((b"[art_", b"art_")):
            return None
        text = cut.inline or draft.sample.head.decode()
        return text if is_read_answer(text) else None  # a card of it would have to be read again, for ever


_CHANGED: Final = frozenset({"labels", "ttl", "idle_ttl", "pin"})
"""What a PATCH changes."""


def _not_taken(artifact: Artifact, asked: IngestRequest, life: RetentionTerms) -> list[Notice]:
    """What is asked now of a payload that was there already, where something else was asked first: that stays."""
    lost = {
        "labels": not set(asked.said.labels) <= set(artifact.said.labels),
        "ttl": asked.ttl is not UNSET and life.ttl != artifact.ttl,
        "idle_ttl": asked.idle_ttl is not UNSET and life.idle_ttl != artifact.idle_ttl,
        "pin": asked.pinned and not artifact.pinned,
        "compare_to": asked.compare_to not in {None, PREVIOUS, artifact.said.compared_to},
    }
    names = [name for name, is_lost in lost.items() if is_lost]
    if not names:
        return []
    how = " PATCH the artifact to change labels, ttl, idle_ttl and pin." if _CHANGED.intersection(names) else ""
    told = f"It was stored before, and keeps what was said of it first in: {', '.join(names)}."
    return [Notice("said_before", told + how)]


def not_stored(why: CoatcheckError) -> str:
    """Why a payload is not stored, for its receipt."""
    reasons = {Code.STORAGE_FULL: "The disk is full", Code.OVERLOADED: "Storage is too busy"}
    first = reasons.get(why.code, "Storage does not answer")
    return f"{first}: the payload is not stored, and the card says so. The card itself is complete."


def _inline_tokens(draft: Draft, cut: RenderedCard) -> int:
    return draft.measure.tokens.count if cut.inline is None else cut.inline_tokens
