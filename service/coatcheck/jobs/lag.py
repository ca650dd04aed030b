"""Measures event-loop lag, which delays every request, whatever its cause."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from coatcheck.ports.telemetry import Meter

PAUSE: Final = 0.25
"""Seconds between two measurements: short enough to catch every delay that a caller would notice, at negligible
cost."""


@asynccontextmanager
async def lagging(meter: Meter) -> AsyncGenerator[None]:
    """Measures until exit."""
    loop = asyncio.get_running_loop()
    ended = False
    handle: asyncio.TimerHandle | None = None

    def look(due: float) -> None:
        nonlocal handle
        now = loop.time()
        meter.record_lag(now - due)
        if not ended:
            handle = loop.call_at(now + PAUSE, look, now + PAUSE)

    look(loop.time())
    try:
        yield
    finally:
        ended = True
        if handle is not None:
            handle.cancel()
