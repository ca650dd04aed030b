"""What a session's tokens came to: values only. Every count is in tokens of the service's own tokenizer."""

from datetime import datetime

from msgspec import Struct


class UsageDelta(Struct, kw_only=True):
    """What is added to a session's account; the two gauges are replaced where they are known."""

    artifacts: int = 0
    """Payloads that were taken in, each once however often it comes again."""
    raw_tokens: int = 0
    """Of those payloads."""
    given_tokens: int = 0
    """Of what was answered in their place: cards, markers, small payloads themselves, budgeted search results."""
    reads: int = 0
    read_tokens: int = 0
    """Of answers that read back from artifacts."""
    compactions: int = 0
    unsent_tokens: int = 0
    """That compacted requests were smaller than they came, added up over all requests."""
    persisted_tokens: int | None = None
    """Baseline and persisted tokens of the context that was compacted or measured last; None: none was."""
    transient_tokens: int | None = None
    """Tool payload of that turn that will not stay."""

    def add(self, other: "UsageDelta") -> None:
        """Add what happened later."""
        self.artifacts += other.artifacts
        self.raw_tokens += other.raw_tokens
        self.given_tokens += other.given_tokens
        self.reads += other.reads
        self.read_tokens += other.read_tokens
        self.compactions += other.compactions
        self.unsent_tokens += other.unsent_tokens
        if other.persisted_tokens is not None:
            self.persisted_tokens, self.transient_tokens = other.persisted_tokens, other.transient_tokens


class SessionUsage(Struct, frozen=True, kw_only=True):
    """A session's account."""

    spent: UsageDelta
    since: datetime | None
    """When it was first written to; None: nothing was counted."""
    at: datetime | None
    """When it was written to last."""
