"""The schedule: tidy at a steady pace, and write reads down every second, for as long as the service runs.

The two do not wait for each other's work. A round that fails is logged whole and the next one comes all the same; a
round that is under way when the service stops is finished first, so that stopping never waits longer than one batch
after the other. Reads are written down once more at the end.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from msgspec import structs

from coatcheck.core.errors import CoatcheckError
from coatcheck.ports.telemetry import Meter
from coatcheck.runtime.noop_telemetry import UNMETERED
from coatcheck.storing.reads import NoteReads
from coatcheck.upkeep.index import Index
from coatcheck.upkeep.maintenance import Maintenance, MaintenanceRound
from coatcheck.upkeep.note_accounts import NoteAccounts
from coatcheck.usecases.operations.flush_fallback import FlushFallback

log = logging.getLogger(__name__)

NOTE_SECONDS = 1.0
"""Between two times that reads are written down: what a crash can lose of them."""
_REST = 15.0
"""Times as long as a round of indexing took, the next is waited for: queries index for themselves what they need, and
storing comes first."""
_MOST_REST = 20.0
"""Seconds."""


@asynccontextmanager
async def running(
    tidy: Maintenance,
    pause: float | Callable[[], float],
    note: NoteReads | None = None,
    write_through: FlushFallback | None = None,
    index: Index | None = None,
    accounts: NoteAccounts | None = None,
    *,
    calm: Callable[[], Awaitable[None]] | None = None,
    meter: Meter = UNMETERED,
) -> AsyncGenerator[None]:
    """Tidy every `pause` seconds; every second write reads down, store what waits for storage, index what is new.

    What is new is indexed when it is `calm`.
    """
    stop = asyncio.Event()

    async def tidied() -> None:
        done = await tidy()
        if done != MaintenanceRound():
            log.info("tidied: %s", done)
            for what, rows in structs.asdict(done).items():
                meter.tidied(what, rows)

    workers = [asyncio.create_task(rounds("tidying", tidied, pause, stop, meter=meter), name="tidy")]
    noting = [("noting reads", note), ("noting accounts", accounts)]
    notes = [(what, work) for what, work in noting if work is not None]
    workers += [
        asyncio.create_task(rounds(what, work, NOTE_SECONDS, stop, meter=meter), name=what) for what, work in notes
    ]
    indexing: asyncio.Task[None] | None = None
    if index is not None:
        # Not among the workers: it may rest for long, and may be cut off at any point.
        indexed = rounds("indexing", index, NOTE_SECONDS, stop, rest=_REST, ready=calm, meter=meter)
        indexing = asyncio.create_task(indexed, name="index")
    storing: asyncio.Task[None] | None = None
    if write_through is not None:
        # Not among the workers: a store may be silent for longer than a stop may take.
        rounds_ = rounds("storing what waits", write_through, NOTE_SECONDS, stop, meter=meter)
        storing = asyncio.create_task(rounds_, name="write through")
    try:
        yield
    finally:
        stop.set()
        if indexing is not None:
            indexing.cancel()
            workers.append(indexing)
        await asyncio.wait(workers)
        for what, work in notes:
            await _round(what, work, meter)
        if write_through is not None and storing is not None:
            storing.cancel()
            await asyncio.wait([storing])
            await write_through.last()


async def rounds(
    what: str,
    work: Callable[[], Awaitable[object]],
    pause: float | Callable[[], float],
    stop: asyncio.Event,
    *,
    rest: float = 0.0,
    ready: Callable[[], Awaitable[None]] | None = None,
    meter: Meter = UNMETERED,
) -> None:
    """Rounds until told to stop, with a pause after each, and `rest` times as long a one as the round took.

    Before each it waits until `ready` returns.
    """
    while not stop.is_set():
        if ready is not None:
            await ready()
        began = time.monotonic()
        await _round(what, work, meter)
        took = time.monotonic() - began
        try:
            seconds = pause() if callable(pause) else pause
            await asyncio.wait_for(stop.wait(), max(seconds, min(_MOST_REST, rest * took)))
        except TimeoutError:
            continue


async def _round(what: str, work: Callable[[], Awaitable[object]], meter: Meter) -> None:
    began, result = time.monotonic(), "failed"
    try:
        await work()
        result = "done"
    except CoatcheckError as error:
        log.warning("%s failed, will try again: %s", what, error.detail)
    except Exception:
        log.exception("%s failed, will try again", what)
    meter.ran(what, result, time.monotonic() - began)
