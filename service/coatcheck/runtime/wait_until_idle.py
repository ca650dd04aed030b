"""Delays background work while payloads are being ingested."""

import asyncio
from typing import Final, Protocol

PATIENCE: Final = 5.0
"""Maximum seconds that the work waits, so that constant traffic cannot prevent it."""
_LOOK: Final = 0.2
"""Seconds without a payload that count as idle."""


class Activity(Protocol):
    """What tells whether work is under way: a limiter, or several together."""

    @property
    def running(self) -> int:
        """Number of slots in use."""
        ...

    @property
    def granted_count(self) -> int:
        """Number of slots granted so far."""
        ...


class WaitUntilIdle:
    """Waits until no payload is being ingested and none has arrived for 0.2 s, or PATIENCE is over."""

    def __init__(self, ingests: Activity) -> None:
        """`ingests` limits them."""
        self._ingests = ingests

    async def __call__(self) -> None:
        """Returns when the service is idle, or after `PATIENCE` seconds."""
        for _ in range(round(PATIENCE / _LOOK)):
            idle, before = self._ingests.running == 0, self._ingests.granted_count
            await asyncio.sleep(_LOOK)
            if idle and self._ingests.running == 0 and self._ingests.granted_count == before:
                return
