"""Describe a stored artifact: return its metadata and its card, which is rendered again for any token budget."""

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
    """Tokens of `text`."""
    receipt: ReceiptRecord | None = None
    """The text that a model got in place of the payload when the payload was stored. The secrets that the present
    policy masks are masked in it. None: the model got no text, or the text is not known."""
    is_unchanged: bool = False
    """Whether `text` is exactly the text that the model got when the payload was stored."""


@dataclass(frozen=True)
class Describe:
    """Returns an artifact's metadata and card. Reads only the beginning and the end of the payload, not all of it."""

    find: Find
    open_content: OpenContent
    tokenizer: Tokenizer
    pool: Executor
    card_tokens: int
    """Maximum tokens of a card if neither the caller nor a policy sets a budget."""
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
            number: number of the artifact.
            budget: maximum tokens of the card, 64 to 8192; None: the policy's budget, or else the service's default.
            query: words by which the excerpts of the card are chosen; None: no particular words.
            tools: whether the model that reads the card has the declared tool; if not, the card names no tool.
            as_received: whether to use the budget, query and tools of the card that was made when the payload was
                stored, if they are known, instead of the arguments.

        Raises:
            CoatcheckError: `artifact_gone`, `artifact_not_found`, `integrity`, `storage_unavailable`; `invalid_request`
                for a budget out of bounds.
        """
        entry = await self.find(
            caller,
            number,
            with_bytes=True,
            with_view=self.card_text is not None,
            with_survey=True,
            with_receipt=True,
        )
        # A record without a digest belongs to a web search, for which no card was made: the record has only the query.
        record = entry.receipt if entry.receipt is not None and entry.receipt.sha256 else None
        if as_received and record is not None and record.budget is not None:
            budget, query, tools = record.budget, record.query, record.tools
        if self.card_text is not None:
            # An older release may have stored the artifact without the form of its text, which a card needs.
            entry = await self.card_text.describe(entry)
        artifact = entry.artifact
        content = self.open_content(entry)
        # The beginning, the end and the stored survey are enough to render the card again; the payload may be
        # gigabytes.
        head, tail = sample_ranges(artifact.measure.size)
        sample = PayloadSample(await content.read(*head), await content.read(*tail), artifact.measure.size)
        text = None if self.card_text is None else await self.card_text.find_card_source(entry)
        survey = None if entry.survey is None else unpack_survey(entry.survey)
        mask = self.redacting.mask_of(artifact)

        def work() -> RenderedCard:
            draft, tokens = prepare(remake_draft(artifact, sample, text, survey), mask), budget
            if tokens is None:
                policy = policy_of(self.rules(), draft)
                tokens = budget_of(draft, policy, self.card_tokens, tokenizer=self.tokenizer, mask=mask)
            return cut(draft, budget=tokens, query=query, tokenizer=self.tokenizer, mask=mask, tools=tools)

        rendered_card = await in_pool(self.pool, work)
        # The facts that this engine recognised replace those of an older engine. Then secrets are masked in them.
        facts = artifact.facts if rendered_card.facts is None else rendered_card.facts
        visible_artifact = self.redacting.mask_listed_artifact(structs.replace(artifact, facts=facts))
        is_unchanged = record is not None and hashlib.sha256(rendered_card.text.encode()).digest() == record.sha256
        # The receipt was masked by the policy of its time. The secrets that the present policy masks are masked now.
        if record is not None and mask is not None:
            record = structs.replace(
                record, **{name: _mask_lines(mask, getattr(record, name)) for name in ("text", "query")}
            )
        return Described(
            visible_artifact, rendered_card.card, rendered_card.text, rendered_card.tokens, record, is_unchanged
        )


def _mask_lines(mask: Mask, text: str | None) -> str | None:
    """Returns a text of several lines without its secrets, also those that span several lines; None for None."""
    return None if text is None else "\n".join(mask.lines(tuple(mask.text(text).split("\n"))))
