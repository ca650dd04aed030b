"""What a compaction did to a body, for the caller: every change, what it saved, and what must be sent along with it."""

from msgspec import Struct

from coatcheck.core.context.body.shape import Value
from coatcheck.core.context.counting import Sizes
from coatcheck.core.context.notice import Omitted
from coatcheck.core.context.replaceable import Left
from coatcheck.core.context.window import Budget


class Change(Struct, frozen=True, kw_only=True):
    """One place that is different."""

    pointer: str
    """In the new body (RFC 6901)."""
    message: int
    """The number of its message in the body that was given."""
    to: str
    """`card`, `marker`, `placeholder`, `line` for a read, `summary` for a search, `ends` for a message, or `cut` where
    storing failed."""
    why: str
    tool: str | None
    call_id: str | None
    artifact_id: str | None
    tokens_before: int
    tokens_after: int


class Send(Struct, frozen=True, kw_only=True):
    """What the caller must add to this and every later request of the conversation."""

    headers: dict[str, str]
    body: dict[str, Value]
    """Top-level fields to set, each with all it must contain."""


class Cache(Struct, frozen=True, kw_only=True):
    """What the change means for the provider's prompt cache."""

    kept_tokens: int
    """Before the first change: still cached where it was."""
    rewritten_tokens: int
    """From the first change on: paid for once more."""
    advice: str


class Over(Struct, frozen=True, kw_only=True):
    """What keeps a body from its limit."""

    tokens: int
    """By how many it misses the limit."""
    largest: list[Left]
    """What would have to go, the largest first: sizes are of the body that was given."""


class Report(Struct, frozen=True, kw_only=True):
    """All of it."""

    format: str
    changed: bool
    first_changed: int | None
    """The number of the first message, in the body that was given, that is different or left out."""
    changes: list[Change]
    left: list[Left]
    """Large things that stay, with reasons."""
    copied: list[str]
    """Where the model repeated a marker in a call that is still open: its real text must be read back first."""
    omitted: Omitted | None
    """What is left out, earlier compactions included; None when nothing is."""
    omitted_now: int
    """Messages that this compaction left out."""
    before: Sizes
    after: Sizes
    tokens_before: int
    tokens_after: int
    fits: bool | None
    """Whether the result is within its budget's limit; None without a budget."""
    budget: Budget | None
    """What the body was kept within; None where neither the policy, a window nor the model says one."""
    over: Over | None
    """By how much the result misses the limit, and why; None where it does not."""
    invalid_thinking: list[str]
    """Pointers, in the new body, to thinking blocks that were bound to what is different now."""
    send: Send | None
    cache: Cache
    notes: list[str]
