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

from coatcheck.core.errors import CoatcheckError
from coatcheck.usecases.index import Index
from coatcheck.usecases.reads import NoteReads
from coatcheck.usecases.tidy import Tidied, Tidy
from coatcheck.usecases.write_through import WriteThrough

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
    tidy: Tidy,
    pause: float,
    note: NoteReads | None = None,
    write_through: WriteThrough | None = None,
    index: Index | None = None,
) -> AsyncGenerator[None]:
    """Tidy every `pause` seconds; every second write reads down, store what waits for storage, index what is new."""
    stop = asyncio.Event()

    async def tidied() -> None:
        done = await tidy()
        if done != Tidied():
            log.info("tidied: %s", done)

    workers = [asyncio.create_task(_rounds("tidying", tidied, pause, stop), name="tidy")]
    if note is not None:
        workers.append(asyncio.create_task(_rounds("noting reads", note, NOTE_SECONDS, stop), name="note reads"))
    indexing: asyncio.Task[None] | None = None
    if index is not None:
        # Not among the workers: it may rest for long, and may be cut off at any point.
        indexing = asyncio.create_task(_rounds("indexing", index, NOTE_SECONDS, stop, rest=_REST), name="index")
    storing: asyncio.Task[None] | None = None
    if write_through is not None:
        # Not among the workers: a store may be silent for longer than a stop may take.
        rounds = _rounds("storing what waits", write_through, NOTE_SECONDS, stop)
        storing = asyncio.create_task(rounds, name="write through")
    try:
        yield
    finally:
        stop.set()
        if indexing is not None:
            indexing.cancel()
            workers.append(indexing)
        await asyncio.wait(workers)
        if note is not None:
            await _round("noting reads", note)
        if write_through is not None and storing is not None:
            storing.cancel()
            await asyncio.wait([storing])
            await write_through.last()


async def _rounds(
    what: str, work: Callable[[], Awaitable[object]], pause: float, stop: asyncio.Event, *, rest: float = 0.0
) -> None:
    """Rounds until told to stop, with a pause after each, and `rest` times as long a one as the round took."""
    while not stop.is_set():
        began = time.monotonic()
        await _round(what, work)
        took = time.monotonic() - began
        try:
            await asyncio.wait_for(stop.wait(), max(pause, min(_MOST_REST, rest * took)))
        except TimeoutError:
            continue


async def _round(what: str, work: Callable[[], Awaitable[object]]) -> None:
    try:
        await work()
    except CoatcheckError as error:
        log.warning("%s failed, will try again: %s", what, error.detail)
    except Exception:
        log.exception("%s failed, will try again", what)
