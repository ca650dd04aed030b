"""The dependencies of ingests: stores, threads, limits, policies and counters."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from coatcheck.core.artifact import Blob
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
"""Default number of slots, both of the limiter for received payloads and of the limiter for uploads."""
WAITING: Final = 256
"""Default number of callers that may wait for a slot of either limiter."""
_CARDS: Final = 16
"""Number of payloads that get a card without being stored at the same time. Each takes up to 4 MiB of memory."""
_CARDS_WAITING: Final = 64
"""Number of payloads that may wait to get a card without being stored. Each takes 64 KiB of memory."""
_CARD_SECONDS: Final = STALL_SECONDS + 1
"""Maximum seconds that a payload waits to get a card without being stored, long enough for a silent sender to lose its
slot."""


class IngestLimiters:
    """The limiters of concurrent ingests.

    Payloads that have arrived and uploads that are still being sent have limiters of their own, so that a payload that
    has arrived never waits for the sender of another one.
    """

    def __init__(self, at_once: int = AT_ONCE, waiting: int = WAITING, patience: float = PATIENCE) -> None:
        """Creates the limiters.

        Args:
            at_once: number of slots, both of the limiter for received payloads and of the limiter for uploads.
            waiting: number of callers that may wait for a slot of either limiter.
            patience: maximum seconds that a caller waits for a slot of either limiter.
        """
        self.payloads = ConcurrencyLimiter("payloads", at_once, waiting, patience)
        """Limits payloads that had arrived completely when they needed a slot."""
        half = -(-at_once // 2)
        self.uploads = ConcurrencyLimiter("uploads", at_once, waiting, patience, max_per_key=half)
        """Limits payloads that were still being sent when they needed a slot. A caller may hold half of the slots."""
        self.cards = ConcurrencyLimiter("cards", _CARDS, _CARDS_WAITING, _CARD_SECONDS, max_seconds=STALL_SECONDS)
        """Limits payloads that got no slot of the other two limiters in time. They get a card, but are not stored."""

    @property
    def running(self) -> int:
        """Number of payloads being ingested, without those that only get a card."""
        return self.payloads.running + self.uploads.running

    @property
    def waiting(self) -> int:
        """Number of payloads waiting for a slot, without those that can only get a card."""
        return self.payloads.waiting + self.uploads.waiting

    @property
    def granted_count(self) -> int:
        """Number of payloads that have got a slot so far, without slots for a card only."""
        return self.payloads.granted_count + self.uploads.granted_count

    @property
    def stalled_count(self) -> int:
        """Number of uploads that have lost their slots so far because their senders were silent."""
        return self.uploads.stalled_count + self.cards.stalled_count


@dataclass(frozen=True, kw_only=True)
class IngestDeps:
    """The dependencies of an ingest."""

    catalog: Catalog
    blobs: BlobStore
    """Stores payloads that are too large for the catalogue."""
    clock: Clock
    pool: Executor
    """Runs the work on large payloads: hashing, compressing, counting."""
    tokenizer: Tokenizer
    new_blob_id: Callable[[], str]
    """Returns a new blob ID at each call."""
    lease: timedelta
    """How long an upload may go without progress before it is reaped."""
    inline_bytes: int
    """Stored bytes up to which a payload is kept in the catalogue."""
    payload_limit: int
    """Maximum bytes of a payload, before compression."""
    ttl: int
    """Seconds that an artifact is kept if neither the request nor a policy says so."""
    card_tokens: int
    """Token budget of a card if neither the request nor a policy sets one."""
    inline_tokens: int
    """Maximum tokens of a payload that is returned without a card, if neither the request nor a policy sets it."""
    fallback: FallbackBuffer
    """Keeps payloads in memory that wait for storage."""
    redacting: RedactionPolicy
    """Decides whether secrets are masked, in cards and before payloads are stored."""
    catalog_breaker: CircuitBreaker
    blobs_breaker: CircuitBreaker
    ledger: Ledger = field(default_factory=Ledger)
    """Counts the tokens of sessions."""
    afterwards: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    """Clean-up tasks that continue after the caller has got an answer. A task leaves the set when it ends."""
    is_warm: Callable[[], bool] = lambda: True
    """Returns whether everything that the work on small payloads needs is loaded. Until then, such work runs in threads
    and not on the event loop."""
    approaching: ApproachingCommits = field(default_factory=ApproachingCommits)
    rooms: QuotaEnforcer = field(default_factory=NoQuota)
    """Knows the quotas of namespaces, and evicts artifacts to make room."""
    limiters: IngestLimiters = field(default_factory=IngestLimiters)
    meter: Meter = UNMETERED
    tracer: Tracer = UNTRACED
    rules: Callable[[], Rules] = lambda: NO_RULES
    """Returns the present policies."""

    def guard_read(self, blob: Blob) -> AbstractContextManager[None]:
        """Returns a guard for a call that needs the bytes of a blob: `CircuitBreaker.guard_call` of the blob store.

        Inline bytes come with their row, so a call for them says nothing about the blob store, and needs no guard.
        """
        return nullcontext() if blob.placement == "inline" else self.blobs_breaker.guard_call()
