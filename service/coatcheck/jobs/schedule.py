"""The schedule: runs maintenance at a steady pace, and writes reads down every second, while the service runs.

Neither waits for the other. A round that fails is logged in full, and the next one starts as usual. A round in progress
when the service stops is finished first, so a stop waits at most for one batch of each. Reads are written once more at
the end.

Applies decisions in the background: loads policies, compares clocks, empties namespaces, evicts when limits drop.

None of it is urgent for a single process: others do the same, and every step is harmless if two do it. A round that
fails is logged, and the next one starts as usual; a round in progress when the service stops is finished first.

Measures event-loop lag, which delays every request, whatever its cause.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, get_args

from coatcheck.core.errors import CoatcheckError
from coatcheck.ports.decisions import Decisions
from coatcheck.ports.telemetry import Job, Meter, RemovedRows
from coatcheck.runtime.noop_telemetry import UNMETERED
from coatcheck.storing.evict import Evict
from coatcheck.storing.ledger import NoteReads
from coatcheck.storing.policies import REFRESH_SECONDS, Policies
from coatcheck.upkeep.clock_jumps import CHECK_SECONDS, ClockJumpGuard
from coatcheck.upkeep.index import Index
from coatcheck.upkeep.maintenance import Maintenance, MaintenanceRound
from coatcheck.upkeep.store_binding import NoteAccounts
from coatcheck.usecases.operations.flush_fallback import FlushFallback
from coatcheck.usecases.tenants.show_usage import EmptyNamespace, EmptyRound

log = logging.getLogger(__name__)

NOTE_SECONDS = 1.0
"""Seconds between two writes of reads: what a crash can lose."""
_REST = 15.0
"""Pause after a round of indexing, as a multiple of its duration: queries index what they need themselves, and storing
has priority."""
_MOST_REST = 20.0
"""Maximum of that pause, in seconds."""


@asynccontextmanager
async def running(
    maintenance: Maintenance,
    pause: float | Callable[[], float],
    note: NoteReads | None = None,
    write_through: FlushFallback | None = None,
    index: Index | None = None,
    accounts: NoteAccounts | None = None,
    *,
    wait_until_idle: Callable[[], Awaitable[None]] | None = None,
    meter: Meter = UNMETERED,
) -> AsyncGenerator[None]:
    """Runs maintenance every `pause` seconds.

    Every second writes reads, stores buffered payloads and indexes new artifacts.

    New artifacts are indexed once `wait_until_idle` returns.
    """
    stop = asyncio.Event()

    async def run_maintenance() -> None:
        maintenance_round = await maintenance()
        if maintenance_round != MaintenanceRound():
            log.info("tidied: %s", maintenance_round)
            for what in get_args(RemovedRows):
                meter.record_maintenance(what, getattr(maintenance_round, what))

    workers = [asyncio.create_task(rounds("tidying", run_maintenance, pause, stop, meter=meter), name="tidy")]
    noting: list[tuple[Job, NoteReads | NoteAccounts | None]] = [("noting reads", note), ("noting accounts", accounts)]
    notes: list[tuple[Job, NoteReads | NoteAccounts]] = [(what, work) for what, work in noting if work is not None]
    workers += [
        asyncio.create_task(rounds(what, work, NOTE_SECONDS, stop, meter=meter), name=what) for what, work in notes
    ]
    indexing: asyncio.Task[None] | None = None
    if index is not None:
        # Not among the workers: it may pause for long, and may be interrupted at any point.
        indexed = rounds("indexing", index, NOTE_SECONDS, stop, rest=_REST, ready=wait_until_idle, meter=meter)
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
    what: Job,
    work: Callable[[], Awaitable[object]],
    pause: float | Callable[[], float],
    stop: asyncio.Event,
    *,
    rest: float = 0.0,
    ready: Callable[[], Awaitable[None]] | None = None,
    meter: Meter = UNMETERED,
) -> None:
    """Repeats `work` until `stop` is set, pausing for the longer of `pause` and `rest` times the round's duration.

    Waits for `ready` before each round.
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


async def _round(what: Job, work: Callable[[], Awaitable[object]], meter: Meter) -> None:
    began, result = time.monotonic(), "failed"
    try:
        await work()
        result = "done"
    except CoatcheckError as error:
        log.warning("%s failed, will try again: %s", what, error.detail)
    except Exception:
        log.exception("%s failed, will try again", what)
    meter.ran(what, result, time.monotonic() - began)


@asynccontextmanager
async def deciding(
    policies: Policies,
    empty: EmptyNamespace,
    make_room: Evict,
    deletions: ClockJumpGuard,
    decisions: Decisions,
    pause: float,
    meter: Meter,
) -> AsyncGenerator[None]:
    """Carries out what policies and deletions of namespaces require every `pause` seconds.

    Loads new policies every two seconds, and every second learns whether anything may be deleted by time.
    """
    stop = asyncio.Event()

    async def carry_out_decisions() -> None:
        empty_round = await empty()
        if empty_round != EmptyRound():
            log.info("namespaces: %s", empty_round)
        await make_room.relieve_all(decisions)

    workers = [
        asyncio.create_task(
            rounds("learning policies", policies.refresh, REFRESH_SECONDS, stop, meter=meter), name="policies"
        ),
        asyncio.create_task(
            rounds("comparing clocks", deletions.check, CHECK_SECONDS, stop, meter=meter), name="clocks"
        ),
        asyncio.create_task(
            rounds("carrying out decisions", carry_out_decisions, pause, stop, meter=meter), name="decisions"
        ),
    ]
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait(workers)


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
