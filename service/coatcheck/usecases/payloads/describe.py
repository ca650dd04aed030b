"""Describe an artifact again: its metadata, and its card at any budget, cut from what was recognised at ingest."""

import hashlib
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from msgspec import Struct, structs

from coatcheck.core.artifact import Artifact, Caller, PayloadSample, ReceiptRecord
from coatcheck.core.card import Card
from coatcheck.core.encoding.payload_encoder import sample_ranges
from coatcheck.core.policies.policy import NO_RULES, Rules
from coatcheck.core.redact.mask import Mask
from coatcheck.core.survey import unpack_survey
from coatcheck.core.tokens import Tokenizer
from coatcheck.runtime.work_placement import in_pool
from coatcheck.storing.card_text import CardText
from coatcheck.storing.content import OpenContent
from coatcheck.storing.draft import RenderedCard, budget_of, cut, policy_of, prepare, remake_draft
from coatcheck.storing.find import Find
from coatcheck.storing.redaction import RedactionPolicy


class Described(Struct, frozen=True):
    """An artifact and its card."""

    artifact: Artifact
    card: Card
    text: str
    """The card as the model reads it."""
    tokens: int
    """Of `text`."""
    receipt: ReceiptRecord | None = None
    """What a model got in its place when it was stored, as it may be seen now; None: nothing, or not known."""
    is_unchanged: bool = False
    """Whether `text` is exactly what that model got."""


@dataclass(frozen=True)
class Describe:
    """Returns an artifact's metadata and card. Reads only the two ends of the text that the card is cut from."""

    find: Find
    open_content: OpenContent
    tokenizer: Tokenizer
    pool: Executor
    card_tokens: int
    """The budget if neither the caller nor a policy sets one."""
    redacting: RedactionPolicy
    card_text: CardText | None = None
    rules: Callable[[], Rules] = lambda: NO_RULES

    async def __call__(
        self,
        caller: Caller,
        number: int,
        *,
        budget: int | None = None,
        query: str | None = None,
        tools: bool = True,
        as_received: bool = False,
    ) -> Described:
        """Returns the artifact and its card.

        Args:
            caller: the caller.
            number: the artifact.
            budget: tokens of the card, 64 to 8192; None takes the policy's, or the service's default.
            query: what the caller looks for, which the excerpts then follow; None: nothing in particular.
            tools: whether the model that reads the card has the declared tool; if not, the card names no tool.
            as_received: whether the three are those of the card that was made when the payload was stored, if known.

        Raises:
            CoatcheckError: `artifact_gone`, `artifact_not_found`, `integrity`.
        """
        entry = await self.find(
            caller,
            number,
            with_bytes=True,
            with_view=self.card_text is not None,
            with_survey=True,
            with_receipt=True,
        )
        # A record without a digest is of a search without a card: it has only the query.
        record = entry.receipt if entry.receipt is not None and entry.receipt.sha256 else None
        if as_received and record is not None and record.budget is not None:
            budget, query, tools = record.budget, record.query, record.tools
        if self.card_text is not None:
            # Older code may have stored the artifact without the form of its text, which a card needs.
            entry = await self.card_text.describe(entry)
        a = entry.artifact
        content = self.open_content(entry)
        # The two ends and the stored survey are enough to cut the card again; the payload itself may be gigabytes.
        head, tail = sample_ranges(a.measure.size)
        sample = PayloadSample(await content.read(*head), await content.read(*tail), a.measure.size)
        text = None if self.card_text is None else await self.card_text.find_card_source(entry)
        survey = None if entry.survey is None else unpack_survey(entry.survey)
        mask = self.redacting.mask_of(a)

        def work() -> RenderedCard:
            draft, tokens, tokenizer = prepare(remake_draft(a, sample, text, survey), mask), budget, self.tokenizer
            if tokens is None:
                policy = policy_of(self.rules(), draft)
                tokens = budget_of(draft, policy, self.card_tokens, tokenizer=tokenizer, mask=mask)
            return cut(draft, budget=tokens, query=query, tokenizer=tokenizer, mask=mask, tools=tools)

        rendered_card = await in_pool(self.pool, work)
        # What was recognised now replaces what an older engine recognised; then secrets are masked in both.
        visible_artifact = a if rendered_card.facts is None else structs.replace(a, facts=rendered_card.facts)
        visible_artifact = self.redacting.mask_listed_artifact(visible_artifact)
        is_unchanged = record is not None and hashlib.sha256(rendered_card.text.encode()).digest() == record.sha256
        # The receipt was masked by the policy of its time; what the present policy hides is hidden in it, too.
        if record is not None and mask is not None:
            record = structs.replace(
                record, **{name: _mask_lines(mask, getattr(record, name)) for name in ("text", "query")}
            )
        return Described(
            visible_artifact, rendered_card.card, rendered_card.text, rendered_card.tokens, record, is_unchanged
        )


def _mask_lines(mask: Mask, text: str | None) -> str | None:
    """Returns a text of several lines as it may be shown: without secrets in and across lines."""
    return None if text is None else "\n".join(mask.lines(tuple(mask.text(text).split("\n"))))
