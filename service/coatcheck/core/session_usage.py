"""Sessions' token accounts: values only. Every count is in tokens of the service's own tokenizer."""

from datetime import datetime
from typing import Final

from msgspec import Struct

GAUGES: Final = ("persisted_tokens", "transient_tokens", "window_tokens", "search_tokens", "search_cap")
"""Fields of the context that was measured last; they replace earlier ones together."""


class UsageDelta(Struct, kw_only=True):
    """What is added to a session's account; the gauges are replaced, all of them, by a later measurement."""

    artifacts: int = 0
    """Payloads that were ingested, each counted once however often it is posted."""
    raw_tokens: int = 0
    """Tokens of those payloads."""
    given_tokens: int = 0
    """Tokens of what was returned instead: cards, markers, small payloads themselves, budgeted search results."""
    reads: int = 0
    read_tokens: int = 0
    """Tokens of answers that read from artifacts."""
    compactions: int = 0
    unsent_tokens: int = 0
    """Tokens by which compacted requests were smaller, summed over all requests."""
    persisted_tokens: int | None = None
    """Baseline and persisted tokens of the context that was last compacted or measured; None: there was none."""
    transient_tokens: int | None = None
    """Tokens of that turn's tool payload that will not stay."""
    window_tokens: int | None = None
    """The usable window of that measurement; None: it was not known."""
    search_tokens: int | None = None
    """Tokens of the texts of web searches in that turn."""
    search_cap: int | None = None
    """Maximum tokens of these texts."""

    def add(self, other: "UsageDelta") -> None:
        """Adds what happened later."""
        self.artifacts += other.artifacts
        self.raw_tokens += other.raw_tokens
        self.given_tokens += other.given_tokens
        self.reads += other.reads
        self.read_tokens += other.read_tokens
        self.compactions += other.compactions
        self.unsent_tokens += other.unsent_tokens
        if other.persisted_tokens is not None:
            for gauge in GAUGES:
                setattr(self, gauge, getattr(other, gauge))


class SessionUsage(Struct, frozen=True, kw_only=True):
    """A session's account."""

    spent: UsageDelta
    since: datetime | None
    """When it was first written to; None: nothing was counted."""
    at: datetime | None
    """When it was last written to."""
