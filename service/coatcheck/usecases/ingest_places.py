"""What taking payloads in needs: stores, threads, limits, and who decides and counts."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from coatcheck.core.policy import NO_RULES, Rules
from coatcheck.core.tokens import Tokenizer
from coatcheck.ports.blobs import BlobStore
from coatcheck.ports.catalog import Catalog
from coatcheck.ports.clock import Clock
from coatcheck.ports.watching import Meter, Tracer
from coatcheck.usecases.accounts import Ledger
from coatcheck.usecases.make_room import Boundless, Rooms
from coatcheck.usecases.outage import Outage
from coatcheck.usecases.redaction import Redacting
from coatcheck.usecases.shelter import Shelter
from coatcheck.usecases.slots import Slots
from coatcheck.usecases.unwatched import UNMETERED, UNTRACED

AT_ONCE: Final = 64
"""Payloads that are taken in at the same time, unless the settings say otherwise ..."""
WAITING: Final = 256
"""... and those that may wait for their turn."""


@dataclass(frozen=True, kw_only=True)
class IngestPlaces:
    """What the composition hands to an ingest."""

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
    shelter: Shelter
    catalog_outage: Outage
    blobs_outage: Outage
    ledger: Ledger = field(default_factory=Ledger)
    """Where sessions' tokens are counted."""
    afterwards: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    rooms: Rooms = field(default_factory=Boundless)
    slots: Slots = field(default_factory=lambda: Slots("payloads", AT_ONCE, WAITING))
    meter: Meter = UNMETERED
    tracer: Tracer = UNTRACED
    rules: Callable[[], Rules] = lambda: NO_RULES
    """The policies, as they are now."""
    redacting: Redacting | None = None
    """What is masked of secrets, in cards and before storing; None: nothing."""
