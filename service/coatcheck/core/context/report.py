"""The report of a compaction for its caller: every change, the tokens that it saved, and what to send with the body."""

from msgspec import Struct

from coatcheck.core.context.body.encoding import Value
from coatcheck.core.context.counting import ContextTokens
from coatcheck.core.context.notice import OmittedHistory
from coatcheck.core.context.replaceable import UnreplacedItem
from coatcheck.core.context.window import CompactionBudget


class BodyChange(Struct, frozen=True, kw_only=True):
    """One place that has changed."""

    pointer: str
    """Pointer into the new body (RFC 6901)."""
    message: int
    """Number of the change's message in the given body."""
    to: str
    """Kind of the replacement: `card`, `marker`, `placeholder`, `line` for a read, `summary` for a search, `ends` for a
    message, or `cut` if storing failed."""
    why: str
    tool: str | None
    call_id: str | None
    artifact_id: str | None
    tokens_before: int
    tokens_after: int


class RequestAdditions(Struct, frozen=True, kw_only=True):
    """What the caller must add to this and every later request of the conversation."""

    headers: dict[str, str]
    body: dict[str, Value]
    """Top-level fields to set, each with its complete value."""


class PromptCacheEffect(Struct, frozen=True, kw_only=True):
    """What the change means for the provider's prompt cache."""

    kept_tokens: int
    """Tokens before the first change, which are still in the cache."""
    rewritten_tokens: int
    """Tokens from the first change on, which must be paid for again."""
    advice: str


class BudgetExcess(Struct, frozen=True, kw_only=True):
    """By how much a body exceeds its limit, and which of its parts are the largest."""

    tokens: int
    """Tokens by which the body exceeds its limit."""
    largest: list[UnreplacedItem]
    """The largest parts that stay, largest first: some of them would have to go. Their sizes are those in the given
    body."""


class CompactionReport(Struct, frozen=True, kw_only=True):
    """What a compaction changed, what it left, and why."""

    format: str
    changed: bool
    first_changed: int | None
    """Number, in the given body, of the first message that has changed or is left out; None if nothing changed."""
    changes: list[BodyChange]
    left: list[UnreplacedItem]
    """Large values that stay, with reasons."""
    copied: list[str]
    """Pointers to arguments of open calls in which the model repeated a marker: the real text must be read back
    first."""
    omitted: OmittedHistory | None
    """The messages that are left out, including those of earlier compactions; None if there are none."""
    omitted_now: int
    """Number of messages that this compaction left out."""
    before: ContextTokens
    after: ContextTokens
    tokens_before: int
    tokens_after: int
    fits: bool | None
    """Whether the new body is within its budget's limit; None without a budget."""
    budget: CompactionBudget | None
    """The budget that applied; None if neither the policy nor a window nor the model's name determines a budget."""
    over: BudgetExcess | None
    """By how many tokens the new body exceeds the limit, and why; None if it does not."""
    invalid_thinking: list[str]
    """Pointers, in the new body, to thinking blocks that were bound to content that has changed."""
    send: RequestAdditions | None
    cache: PromptCacheEffect
    notes: list[str]
    repaired: list[str] = []
    """Faults that were mended on request before the compaction: a sentence for each, with its pointer into the given
    body. All other pointers and numbers refer to the repaired body."""
