"""Delays background work while payloads are being ingested."""

import asyncio
from typing import Final

from coatcheck.runtime.concurrency_limiter import ConcurrencyLimiter

PATIENCE: Final = 5.0
"""Seconds that the work waits at most: what never pauses must not keep it from being done."""
_LOOK: Final = 0.2
"""Seconds without a payload that count as a pause."""


class WaitUntilIdle:
    """Waits until no payload is being ingested and none has come for 0.2 s, or until PATIENCE is over."""

    def __init__(self, slots: ConcurrencyLimiter) -> None:
        """`slots` is the limiter that payloads hold while they are ingested."""
        self._slots = slots

    async def __call__(self) -> None:
        """Return when the service is idle, or after `PATIENCE` seconds."""
        for _ in range(round(PATIENCE / _LOOK)):
            idle, before = self._slots.used == 0, self._slots.given
            await asyncio.sleep(_LOOK)
            if idle and self._slots.used == 0 and self._slots.given == before:
                return
