"""What a compaction did to a body, for the caller: every change, what it saved, and what to send along with it."""

from msgspec import Struct

from coatcheck.core.context.body.encoding import Value
from coatcheck.core.context.counting import ContextTokens
from coatcheck.core.context.notice import OmittedHistory
from coatcheck.core.context.replaceable import UnreplacedItem
from coatcheck.core.context.window import CompactionBudget


class BodyChange(Struct, frozen=True, kw_only=True):
    """One place that has changed."""

    pointer: str
    """In the new body (RFC 6901)."""
    message: int
    """The number of its message in the given body."""
    to: str
    """`card`, `marker`, `placeholder`, `line` for a read, `summary` for a search, `ends` for a message, or `cut` if
    storing failed."""
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
    """Tokens before the first change, which are still cached."""
    rewritten_tokens: int
    """Tokens from the first change on, which are paid for again."""
    advice: str


class BudgetExcess(Struct, frozen=True, kw_only=True):
    """What keeps a body from its limit."""

    tokens: int
    """Tokens above the limit."""
    largest: list[UnreplacedItem]
    """What would have to go, largest first; sizes are those in the given body."""


class CompactionReport(Struct, frozen=True, kw_only=True):
    """What a compaction changed, what it left, and why."""

    format: str
    changed: bool
    first_changed: int | None
    """The number of the first message, in the given body, that has changed or is left out."""
    changes: list[BodyChange]
    left: list[UnreplacedItem]
    """Large things that stay, with reasons."""
    copied: list[str]
    """Where the model repeated a marker in a call that is still open: its real text must be read back first."""
    omitted: OmittedHistory | None
    """What is left out, including earlier compactions; None if nothing is."""
    omitted_now: int
    """Number of messages that this compaction left out."""
    before: ContextTokens
    after: ContextTokens
    tokens_before: int
    tokens_after: int
    fits: bool | None
    """Whether the result is within its budget's limit; None without a budget."""
    budget: CompactionBudget | None
    """The budget that applied; None if neither the policy, a window nor the model determines one."""
    over: BudgetExcess | None
    """By how much the result exceeds the limit, and why; None if it does not."""
    invalid_thinking: list[str]
    """Pointers, in the new body, to thinking blocks that were bound to something that has changed."""
    send: RequestAdditions | None
    cache: PromptCacheEffect
    notes: list[str]
    repaired: list[str] = []
    """What was mended on request before the compaction, a sentence each with its pointer into the given body. All other
    pointers and numbers are of the repaired body."""
