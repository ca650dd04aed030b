"""The schedule: repeats the jobs of a running service, each at its own pace, and measures event-loop lag.

No job waits for another. If a round fails, the error is logged, and the next round starts as usual. A stop lets the
rounds in progress finish, except those of jobs with `is_cancelled_at_stop`. So it waits for at most one round of each
job. It does no harm if two processes do the same step of a job.
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
"""Maximum seconds for which `rest` delays the next round. Chosen, not measured: without a maximum, a round that took
minutes would keep new artifacts out of the index for an hour."""


class PeriodicJob(Struct, frozen=True, kw_only=True):
    """Work that is repeated while the service runs."""

    name: Job
    work: Callable[[], Awaitable[object]]
    pause: float | Callable[[], float]
    """Seconds between two rounds, or a function that returns them."""
    rest: float = 0.0
    """Minimum pause as a multiple of the last round's duration, but at most _MAX_REST_SECONDS. It is for work that must
    leave most of the time to others."""
    ready: Callable[[], Awaitable[None]] | None = None
    """A function that is awaited before each round, to delay the round; None: rounds are not delayed."""
    is_cancelled_at_stop: bool = False
    """Whether a stop cancels a round in progress, because the round may take longer than a stop is allowed to take."""
    last: Callable[[], Awaitable[object]] | None = None
    """The work that is done once at a stop, when no round of any job is in progress; None: no such work."""


@asynccontextmanager
async def run_jobs(jobs: Sequence[PeriodicJob], meter: Meter) -> AsyncGenerator[None]:
    """Repeats the jobs until exit. The exit waits for rounds in progress, and then does the `last` work of the jobs."""
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
        # The `last` work is done in the order of the list, because later work may depend on earlier work.
        for job in jobs:
            if job.last is not None:
                await _run_round(job.name, job.last, meter)


async def repeat(job: PeriodicJob, stop: asyncio.Event, meter: Meter) -> None:
    """Runs rounds of a job, with its pauses between them, until `stop` is set."""
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
    """Runs one round of maintenance; logs and meters the number of rows that it removed."""
    maintenance_round = await maintenance()
    if maintenance_round != MaintenanceRound():
        log.info("maintenance removed: %s", maintenance_round)
        for rows in get_args(RemovedRows):
            meter.record_maintenance(rows, getattr(maintenance_round, rows))


async def carry_out_decisions(empty: EmptyNamespace, evict: Evict, decisions: Decisions) -> None:
    """Empties namespaces that are marked for deletion, and evicts artifacts in namespaces that exceed their quota."""
    empty_round = await empty()
    if empty_round != EmptyRound():
        log.info("namespaces: %s", empty_round)
    await evict.relieve_all(decisions)


_LAG_PAUSE: Final = 0.25
"""Seconds between two measurements of the lag: short enough to catch every delay that a caller would notice, at a
negligible cost."""


@asynccontextmanager
async def lagging(meter: Meter) -> AsyncGenerator[None]:
    """Measures event-loop lag until exit. Whatever causes the lag, it delays every request."""
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
