"""What ingests need: stores, threads, limits, policies and counters."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from coatcheck.core.policies.policy import NO_RULES, Rules
from coatcheck.core.tokens import Tokenizer
from coatcheck.ports.blobs import BlobStore
from coatcheck.ports.catalog import Catalog
from coatcheck.ports.telemetry import Clock, Meter, Tracer
from coatcheck.runtime.circuit_breaker import CircuitBreaker
from coatcheck.runtime.concurrency_limiter import PATIENCE, STALL_SECONDS, ConcurrencyLimiter
from coatcheck.runtime.noop_telemetry import UNMETERED, UNTRACED
from coatcheck.storing.commit_artifact import ApproachingCommits
from coatcheck.storing.evict import NoQuota, QuotaEnforcer
from coatcheck.storing.fallback_buffer import FallbackBuffer
from coatcheck.storing.ledger import Ledger
from coatcheck.storing.redaction import RedactionPolicy

AT_ONCE: Final = 64
"""Default number of concurrent ingests ..."""
WAITING: Final = 256
"""... and of those that may wait for their turn."""
_CARDS: Final = 16
"""Payloads that get a card without being stored, at once: they have up to 4 MiB each in memory ..."""
_CARDS_WAITING: Final = 64
"""... and payloads that may wait for that, with 64 KiB each ..."""
_CARD_SECONDS: Final = STALL_SECONDS + 1
"""... for so many seconds, in which a sender gives way to them."""


class IngestLimiters:
    """What limits concurrent ingests. What has arrived is never kept waiting by what is still being sent."""

    def __init__(self, at_once: int = AT_ONCE, waiting: int = WAITING, patience: float = PATIENCE) -> None:
        """Creates the limiters; `waiting` callers may wait for each, for `patience` seconds."""
        self.payloads = ConcurrencyLimiter("payloads", at_once, waiting, patience)
        """Payloads that have arrived."""
        half = -(-at_once // 2)
        self.uploads = ConcurrencyLimiter("uploads", at_once, waiting, patience, max_per_key=half)
        """Payloads of which there is more to come than was read before they needed a slot."""
        self.cards = ConcurrencyLimiter("cards", _CARDS, _CARDS_WAITING, _CARD_SECONDS, max_seconds=STALL_SECONDS)
        """Payloads that got neither in time: they get their card, and are not stored."""

    @property
    def running(self) -> int:
        """Number of payloads being ingested."""
        return self.payloads.running + self.uploads.running

    @property
    def waiting(self) -> int:
        """Number of payloads waiting for a slot."""
        return self.payloads.waiting + self.uploads.waiting

    @property
    def granted_count(self) -> int:
        """Number of payloads that got a slot so far."""
        return self.payloads.granted_count + self.uploads.granted_count

    @property
    def stalled_count(self) -> int:
        """Number of uploads that gave way so far because their senders were silent."""
        return self.uploads.stalled_count + self.cards.stalled_count


@dataclass(frozen=True, kw_only=True)
class IngestDeps:
    """The dependencies of an ingest."""

    catalog: Catalog
    blobs: BlobStore
    """Stores payloads that are too large for the catalogue."""
    clock: Clock
    pool: Executor
    """Runs the digesting."""
    tokenizer: Tokenizer
    new_blob_id: Callable[[], str]
    """Returns names that are used once."""
    lease: timedelta
    """How long an upload may make no progress."""
    inline_bytes: int
    """Stored bytes up to which a payload is kept in the catalogue."""
    payload_limit: int
    """Maximum bytes of a payload as it was sent."""
    ttl: int
    card_tokens: int
    inline_tokens: int
    fallback: FallbackBuffer
    """Memory for payloads that have to wait for storage."""
    redacting: RedactionPolicy
    """Decides what is masked of secrets, in cards and before storing."""
    catalog_breaker: CircuitBreaker
    blobs_breaker: CircuitBreaker
    ledger: Ledger = field(default_factory=Ledger)
    """Counts sessions' tokens."""
    afterwards: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    """Clean-up that continues after the caller was answered. Tasks leave it when they end."""
    is_warm: Callable[[], bool] = lambda: True
    """Returns whether everything that small payloads need is loaded; until then, no work on them occupies the event
    loop."""
    approaching: ApproachingCommits = field(default_factory=ApproachingCommits)
    rooms: QuotaEnforcer = field(default_factory=NoQuota)
    """Knows how much a namespace may hold, and evicts."""
    limiters: IngestLimiters = field(default_factory=IngestLimiters)
    meter: Meter = UNMETERED
    tracer: Tracer = UNTRACED
    rules: Callable[[], Rules] = lambda: NO_RULES
    """Returns the present policies."""
