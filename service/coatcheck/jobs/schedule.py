"""The schedule: repeats the jobs of a running service, each at its own pace, and measures event-loop lag.

No job waits for another. A round that fails is logged in full, and the next one starts as usual. A stop lets rounds in
progress finish, so it waits at most for one batch of each job; every step is harmless if two processes do it.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, get_args

from msgspec import Struct

from coatcheck.core.errors import CoatcheckError
from coatcheck.ports.decisions import Decisions
from coatcheck.ports.telemetry import Job, Meter, RemovedRows
from coatcheck.storing.evict import Evict
from coatcheck.upkeep.maintenance import MaintenanceRound
from coatcheck.usecases.tenants.show_usage import EmptyNamespace, EmptyRound

log = logging.getLogger(__name__)

_MAX_REST_SECONDS = 20.0
"""Maximum of the pause that follows a long round. Chosen, not measured: without it, a round that took minutes would
keep new artifacts out of the index for an hour."""


class PeriodicJob(Struct, frozen=True, kw_only=True):
    """Work that is repeated while the service runs."""

    name: Job
    work: Callable[[], Awaitable[object]]
    pause: float | Callable[[], float]
    """Seconds between two rounds, or what returns them."""
    rest: float = 0.0
    """Minimum pause as a multiple of the last round's duration, for work that must leave most of the time to others."""
    ready: Callable[[], Awaitable[None]] | None = None
    """Awaited before each round."""
    is_cancelled_at_stop: bool = False
    """Whether a stop ends a round in progress, because it may take longer than a stop may."""
    last: Callable[[], Awaitable[object]] | None = None
    """Done once more at a stop, when no round of any job is in progress."""


@asynccontextmanager
async def run_jobs(jobs: Sequence[PeriodicJob], meter: Meter) -> AsyncGenerator[None]:
    """Repeats the jobs until exit, which waits for rounds in progress."""
    stop = asyncio.Event()
    tasks = [asyncio.create_task(repeat(job, stop, meter), name=job.name) for job in jobs]
    try:
        yield
    finally:
        stop.set()
        for job, task in zip(jobs, tasks, strict=True):
            if job.is_cancelled_at_stop:
                task.cancel()
        await asyncio.wait(tasks)
        # In the order of the list: what is written last may depend on what was written before.
        for job in jobs:
            if job.last is not None:
                await _run_round(job.name, job.last, meter)


async def repeat(job: PeriodicJob, stop: asyncio.Event, meter: Meter) -> None:
    """Repeats a job until `stop` is set."""
    while not stop.is_set():
        if job.ready is not None:
            await job.ready()
        began = time.monotonic()
        await _run_round(job.name, job.work, meter)
        took = time.monotonic() - began
        try:
            seconds = job.pause() if callable(job.pause) else job.pause
            await asyncio.wait_for(stop.wait(), max(seconds, min(_MAX_REST_SECONDS, job.rest * took)))
        except TimeoutError:
            continue


async def _run_round(name: Job, work: Callable[[], Awaitable[object]], meter: Meter) -> None:
    began, result = time.monotonic(), "failed"
    try:
        await work()
        result = "done"
    except CoatcheckError as error:
        log.warning("%s failed, will try again: %s", name, error.detail)
    except Exception:
        log.exception("%s failed, will try again", name)
    meter.ran(name, result, time.monotonic() - began)


async def run_maintenance(maintenance: Callable[[], Awaitable[MaintenanceRound]], meter: Meter) -> None:
    """Runs one round of maintenance; logs and meters what it removed."""
    maintenance_round = await maintenance()
    if maintenance_round != MaintenanceRound():
        log.info("maintenance removed: %s", maintenance_round)
        for rows in get_args(RemovedRows):
            meter.record_maintenance(rows, getattr(maintenance_round, rows))


async def carry_out_decisions(empty: EmptyNamespace, evict: Evict, decisions: Decisions) -> None:
    """Empties namespaces that are to be deleted, and evicts what is over the limits of a policy."""
    empty_round = await empty()
    if empty_round != EmptyRound():
        log.info("namespaces: %s", empty_round)
    await evict.relieve_all(decisions)


_LAG_PAUSE: Final = 0.25
"""Seconds between two measurements: short enough to catch every delay that a caller would notice, at negligible
cost."""


@asynccontextmanager
async def lagging(meter: Meter) -> AsyncGenerator[None]:
    """Measures event-loop lag until exit: it delays every request, whatever its cause."""
    loop = asyncio.get_running_loop()
    ended = False
    handle: asyncio.TimerHandle | None = None

    def look(due: float) -> None:
        nonlocal handle
        now = loop.time()
        meter.record_lag(now - due)
        if not ended:
            handle = loop.call_at(now + _LAG_PAUSE, look, now + _LAG_PAUSE)

    look(loop.time())
    try:
        yield
    finally:
        ended = True
        if handle is not None:
            handle.cancel()
