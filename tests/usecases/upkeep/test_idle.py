"""Idle expiry: each look at an artifact agrees with every look before it, whenever its reads reach the row."""

import asyncio
import random
from datetime import timedelta
from typing import Any

import pytest

from coatcheck.core import ids
from coatcheck.core.artifact import Caller
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.policies.policy import MIN_IDLE_TTL
from coatcheck.jobs.schedule import PeriodicJob, run_jobs
from coatcheck.ports.artifacts import Touch
from coatcheck.ports.maintenance import ExpireArtifacts
from coatcheck.runtime.noop_telemetry import UNMETERED
from coatcheck.storing.find import Find
from coatcheck.storing.ledger import NoteReads
from coatcheck.upkeep.maintenance import MaintenanceRound
from support.clock import INSTANT, START
from support.harness import CALLER, TOMBSTONE_LIFE, Harness
from support.refusals import code_of, refusal

IDLE = timedelta(seconds=MIN_IDLE_TTL)


async def test_a_read_that_no_row_shows_yet_keeps_its_artifact_alive_and_the_sweep_off_it(
    harness: Harness,
) -> None:
    number = ids.parse((await harness.put(b"1", ttl=None, idle_ttl=60)).id)
    harness.clock.forward(IDLE - INSTANT)
    await harness.find(CALLER, number)
    harness.clock.forward(IDLE - INSTANT)
    found = await harness.find(CALLER, number)
    assert found.artifact.expires_at == START + 2 * IDLE - INSTANT
    harness.clock.forward(IDLE - INSTANT)
    assert await harness.tidy()() == MaintenanceRound()
    await harness.find(CALLER, number)
    harness.clock.forward(IDLE)
    error = await refusal(harness.find(CALLER, number))
    assert (error.code, error.extra["reason"]) == (Code.ARTIFACT_GONE, "expired")
    await NoteReads(harness.catalog, harness.reads)()
    assert await code_of(harness.find(CALLER, number)) is Code.ARTIFACT_GONE
    assert await harness.tidy()() == MaintenanceRound(expired=1)


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("how", ["delete", "delete its session", "patch"])
async def test_what_only_an_unwritten_read_keeps_alive_can_be_changed(harness: Harness, how: str, bound: bool) -> None:
    number = ids.parse((await harness.put(b"1", said={"session": "s"}, ttl=None, idle_ttl=60)).id)
    caller = Caller(session_prefix="s") if bound else CALLER
    harness.clock.forward(IDLE - INSTANT)
    await harness.find(CALLER, number)
    harness.clock.forward(INSTANT)
    if how == "patch":
        changed = await harness.extend(caller, number, labels=("a",))
        assert (changed.declared.labels, changed.expires_at) == (("a",), START + 2 * IDLE - INSTANT)
        return
    if how == "delete":
        await harness.forget(caller, number)
    else:
        assert await harness.forget_session(caller, "s") == 1
    await NoteReads(harness.catalog, harness.reads)()
    assert (await refusal(harness.find(CALLER, number))).extra["reason"] != "expired"


@pytest.mark.parametrize("seed", range(12))
async def test_every_look_is_what_the_reads_before_it_say_whenever_they_are_written_down(
    harness: Harness, seed: int
) -> None:
    rng = random.Random(seed)
    number = ids.parse((await harness.put(b"1", ttl=rng.choice([None, 400]), idle_ttl=60)).id)
    ends = START + IDLE
    most = (await harness.find(CALLER, number)).artifact
    last = None if most.ttl is None else START + timedelta(seconds=most.ttl)
    note = NoteReads(harness.catalog, harness.reads)

    async def look() -> None:
        """One way of looking or the other: alone, or among many."""
        if rng.random() < 0.5:
            await harness.find(CALLER, number)
        else:
            assert (await harness.find.live(CALLER, [1, number, 2])).keys() == {number}

    for _ in range(60):
        harness.clock.forward(timedelta(seconds=rng.choice([1, 5, 14, 15, 30, 59])))
        now = harness.clock.now()
        if rng.random() < 0.7:
            if now < ends:
                await look()
                if now - (ends - IDLE) >= IDLE / 4 and ends != last:
                    ends = now + IDLE if last is None else min(last, now + IDLE)
            else:
                assert await harness.find.live(CALLER, [number]) == {}
                assert await code_of(harness.find(CALLER, number)) is Code.ARTIFACT_GONE
        if rng.random() < 0.3:
            await note()
        if rng.random() < 0.2:
            await harness.tidy()()


class Slow:
    """A catalogue whose look-ups wait until they are let go, after they were answered."""

    def __init__(self, harness: Harness) -> None:
        self._catalog = harness.catalog
        self.looked, self.go_on = asyncio.Event(), asyncio.Event()

    async def find(self, *args: Any, **named: Any) -> object:  # noqa: ANN401 - passed on
        found = await self._catalog.find(*args, **named)
        self.looked.set()
        await self.go_on.wait()
        return found

    def __getattr__(self, name: str) -> object:
        return getattr(self._catalog, name)


async def test_an_artifact_is_not_buried_under_a_look_that_found_it_alive(harness: Harness) -> None:
    number = ids.parse((await harness.put(b"1", ttl=None, idle_ttl=60)).id)
    slow: Any = Slow(harness)
    harness.clock.forward(IDLE - INSTANT)
    looking = asyncio.ensure_future(Find(slow, harness.clock, harness.reads)(CALLER, number))
    await slow.looked.wait()
    harness.clock.forward(INSTANT)
    assert await harness.tidy()() == MaintenanceRound()
    slow.go_on.set()
    await looking
    assert await harness.tidy()() == MaintenanceRound()
    assert (await harness.find(CALLER, number)).artifact.expires_at == START + 2 * IDLE - INSTANT


async def test_what_could_not_be_written_down_still_keeps_alive_and_off_the_sweep(harness: Harness) -> None:
    number = ids.parse((await harness.put(b"1", ttl=None, idle_ttl=60)).id)

    class Failing:
        async def commit(self, change: Touch) -> None:
            assert change.reads
            raise CoatcheckError(Code.STORAGE_FULL, "Full.")

    for _ in range(4):
        harness.clock.forward(IDLE - INSTANT)
        await harness.find(CALLER, number)
        failing: Any = Failing()
        assert await code_of(NoteReads(failing, harness.reads)()) is Code.STORAGE_FULL
    assert await harness.tidy()() == MaintenanceRound()
    await harness.find(CALLER, number)
    now = harness.clock.now()
    sweep = ExpireArtifacts(now=now, tombstone_until=now + TOMBSTONE_LIFE, limit=9)
    assert await harness.catalog.commit(sweep) == 0


async def test_reads_are_written_down_beside_a_round_that_hangs(harness: Harness) -> None:
    number = ids.parse((await harness.put(b"1", ttl=None, idle_ttl=60)).id)
    harness.clock.forward(IDLE / 2)
    await harness.find(CALLER, number)
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def hang() -> MaintenanceRound:
        begun.set()
        await go_on.wait()
        return MaintenanceRound()

    note = NoteReads(harness.catalog, harness.reads)
    hanging = PeriodicJob(name="maintenance", work=hang, pause=3600)
    noting = PeriodicJob(name="write_reads", work=note, pause=1, last=note)
    async with run_jobs([hanging, noting], UNMETERED):
        await begun.wait()
        while harness.reads.pending("default", number) is not None:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0)
        harness.clock.forward(IDLE / 2)
        await harness.find(CALLER, number)
        go_on.set()
    assert harness.reads.pending("default", number) is None, "also at the end"
    harness.clock.forward(IDLE - INSTANT)
    assert (await harness.find(CALLER, number)).artifact.expires_at == START + 2 * IDLE


@pytest.mark.parametrize("seconds", [0, 1, MIN_IDLE_TTL - 1])
async def test_an_idle_ttl_that_could_not_be_kept_is_refused(harness: Harness, seconds: int) -> None:
    assert await code_of(harness.put(b"1", idle_ttl=seconds)) is Code.INVALID_REQUEST
    assert harness.is_empty()
    number = ids.parse((await harness.put(b"1")).id)
    assert await code_of(harness.extend(CALLER, number, idle_ttl=seconds)) is Code.INVALID_REQUEST
    assert (await harness.extend(CALLER, number, idle_ttl=MIN_IDLE_TTL)).idle_ttl == MIN_IDLE_TTL
