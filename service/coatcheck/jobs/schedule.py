"""The schedule: tidy at a steady pace for as long as the service runs.

A round that fails is logged whole and the next one comes all the same; a round that is under way when the service
stops is finished first, so that stopping never waits longer than one batch after the other.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from coatcheck.core.errors import CoatcheckError
from coatcheck.usecases.tidy import Tidied, Tidy

log = logging.getLogger(__name__)


@asynccontextmanager
async def running(tidy: Tidy, pause: float) -> AsyncGenerator[None]:
    """Tidy every `pause` seconds while the context is open."""
    stop = asyncio.Event()
    worker = asyncio.create_task(_rounds(tidy, pause, stop), name="tidy")
    try:
        yield
    finally:
        stop.set()
        await worker


async def _rounds(tidy: Tidy, pause: float, stop: asyncio.Event) -> None:
    while not stop.is_set():
        try:
            done = await tidy()
            if done != Tidied():
                log.info("tidied: %s", done)
        except CoatcheckError as error:
            log.warning("tidying failed, will try again: %s", error.detail)
        except Exception:
            log.exception("tidying failed, will try again")
        try:
            await asyncio.wait_for(stop.wait(), pause)
        except TimeoutError:
            continue
