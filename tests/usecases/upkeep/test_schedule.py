"""The schedule: round after round, whatever one of them did, and an end that waits for what runs."""

import asyncio
import logging
import shutil
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from coatcheck.core import ids
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.jobs.schedule import PeriodicJob, run_jobs, run_maintenance
from coatcheck.runtime.noop_telemetry import UNMETERED
from coatcheck.upkeep.job_schedule import JobSchedule
from coatcheck.upkeep.maintenance import MaintenanceRound
from support.clock import INSTANT, HandClock
from support.faulty_catalog import FaultyCatalog
from support.harness import CALLER, GRACE, Harness
from support.samples import noise

PAUSE = 0.001


def scheduled(round_: Callable[[], Awaitable[MaintenanceRound]], pause: float = PAUSE) -> Any:  # noqa: ANN401 - a context manager
    job = PeriodicJob(name="maintenance", work=lambda: run_maintenance(round_, UNMETERED), pause=pause)
    return run_jobs([job], UNMETERED)


@pytest.mark.parametrize(
    "error", [CoatcheckError(Code.STORAGE_UNAVAILABLE, "The disk sulks."), RuntimeError("a bug"), OSError(5, "io")]
)
async def test_a_round_that_fails_is_said_and_followed_by_another(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    rounds = 0
    enough = asyncio.Event()

    async def fail() -> MaintenanceRound:
        nonlocal rounds
        rounds += 1
        if rounds == 3:
            enough.set()
        raise error

    async with scheduled(fail):
        await asyncio.wait_for(enough.wait(), 10)
    assert rounds >= 3
    said = [r for r in caplog.records if r.name == "coatcheck.jobs.schedule"]
    assert len(said) == rounds
    assert {r.levelno for r in said} == {logging.WARNING if isinstance(error, CoatcheckError) else logging.ERROR}


async def test_the_end_waits_for_the_round_that_runs_and_starts_no_other() -> None:
    begun, go_on, story = asyncio.Event(), asyncio.Event(), list[str]()

    async def slow() -> MaintenanceRound:
        story.append("begun")
        begun.set()
        await go_on.wait()
        story.append("done")
        return MaintenanceRound()

    async def use() -> None:
        async with scheduled(slow):
            await begun.wait()
            story.append("leaving")
        story.append("left")

    task = asyncio.ensure_future(use())
    await begun.wait()
    for _ in range(20):
        await asyncio.sleep(0)
    assert not task.done()
    go_on.set()
    await task
    assert story == ["begun", "leaving", "done", "left"]


async def test_the_end_does_not_wait_for_the_pause() -> None:
    done = asyncio.Event()

    async def quick() -> MaintenanceRound:
        done.set()
        return MaintenanceRound()

    async def use() -> None:
        async with scheduled(quick, pause=3600):
            await done.wait()

    await asyncio.wait_for(use(), 10)


async def test_an_error_in_the_service_ends_the_schedule_too() -> None:
    before = asyncio.all_tasks()

    async def quick() -> MaintenanceRound:
        return MaintenanceRound()

    with pytest.raises(ZeroDivisionError):
        async with scheduled(quick, pause=3600):
            raise ZeroDivisionError
    assert asyncio.all_tasks() == before


async def test_a_real_round_follows_a_failed_one_and_finishes_its_work(harness: Harness) -> None:
    receipt = await harness.put(noise(50_000))
    await harness.forget(CALLER, ids.parse(receipt.id))
    harness.clock.forward(GRACE + INSTANT)
    harness.files.keeps = lambda _: True
    tidy = harness.tidy()
    rounds = 0
    cleaned = asyncio.Event()

    async def observed() -> MaintenanceRound:
        nonlocal rounds
        rounds += 1
        done = await tidy()
        if rounds == 2:
            harness.files.keeps = lambda _: False
        if done.removed:
            cleaned.set()
        return done

    async with scheduled(observed):
        await asyncio.wait_for(cleaned.wait(), 10)
    assert rounds == 3
    assert harness.is_empty()


async def test_a_failure_that_could_not_be_written_down_is_told_until_the_job_goes_well(
    tmp_path: Path, template: Path
) -> None:
    shutil.copy(template, tmp_path / "coatcheck.db")
    with closing(FaultyCatalog.open(tmp_path / "coatcheck.db", threads=2)) as catalog:
        clock = HandClock()
        schedule = JobSchedule(catalog, clock, default=60)

        async def sweep() -> tuple[str | None, str | None]:
            (state,) = [state for state in await schedule.states() if state.name == "sweep"]
            return state.last_outcome, state.last_detail

        await schedule.record_result("sweep")
        assert await sweep() == ("done", "")
        clock.forward(minutes=2)
        catalog.fault = CoatcheckError(Code.STORAGE_FULL, "The disk is full.")
        await schedule.record_result("sweep", CoatcheckError(Code.STORAGE_FULL, "The disk is full."))
        assert await sweep() == ("failed", "The disk is full.")
        catalog.fault = None
        assert await sweep() == ("failed", "The disk is full.")
        clock.forward(seconds=1)
        await schedule.record_result("sweep")
        assert await sweep() == ("done", "")
