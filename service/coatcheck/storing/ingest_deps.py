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
from coatcheck.ports.clock import Clock
from coatcheck.ports.telemetry import Meter, Tracer
from coatcheck.runtime.circuit_breaker import CircuitBreaker
from coatcheck.runtime.concurrency_limiter import ConcurrencyLimiter
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


@dataclass(frozen=True, kw_only=True)
class IngestDeps:
    """The dependencies of an ingest."""

    catalog: Catalog
    blobs: BlobStore
    clock: Clock
    pool: Executor
    tokenizer: Tokenizer
    new_blob_id: Callable[[], str]
    lease: timedelta
    inline_bytes: int
    payload_limit: int
    ttl: int
    card_tokens: int
    inline_tokens: int
    fallback: FallbackBuffer
    catalog_breaker: CircuitBreaker
    blobs_breaker: CircuitBreaker
    ledger: Ledger = field(default_factory=Ledger)
    """Counts sessions' tokens."""
    afterwards: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    is_warm: Callable[[], bool] = lambda: True
    """Returns whether everything that small payloads need is loaded; until then, no work on them occupies the event
    loop."""
    approaching: ApproachingCommits = field(default_factory=ApproachingCommits)
    rooms: QuotaEnforcer = field(default_factory=NoQuota)
    slots: ConcurrencyLimiter = field(default_factory=lambda: ConcurrencyLimiter("payloads", AT_ONCE, WAITING))
    meter: Meter = UNMETERED
    tracer: Tracer = UNTRACED
    rules: Callable[[], Rules] = lambda: NO_RULES
    """Returns the present policies."""
    redacting: RedactionPolicy | None = None
    """What is masked of secrets, in cards and before storing; None: nothing."""
