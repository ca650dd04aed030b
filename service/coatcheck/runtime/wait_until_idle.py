"""Delays background work while payloads are being ingested."""

import asyncio
from typing import Final

from coatcheck.runtime.concurrency_limiter import ConcurrencyLimiter

PATIENCE: Final = 5.0
"""Maximum seconds that the work waits, so that constant traffic cannot prevent it."""
_LOOK: Final = 0.2
"""Seconds without a payload that count as idle."""


class WaitUntilIdle:
    """Waits until no payload is being ingested and none has arrived for 0.2 s, or PATIENCE is over."""

    def __init__(self, slots: ConcurrencyLimiter) -> None:
        """`slots` is the limiter of ingests."""
        self._slots = slots

    async def __call__(self) -> None:
        """Returns when the service is idle, or after `PATIENCE` seconds."""
        for _ in range(round(PATIENCE / _LOOK)):
            idle, before = self._slots.used == 0, self._slots.given
            await asyncio.sleep(_LOOK)
            if idle and self._slots.used == 0 and self._slots.given == before:
                return
