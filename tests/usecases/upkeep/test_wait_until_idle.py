"""What can wait lets payloads go first, and does not wait for ever."""

import asyncio

import pytest

from coatcheck.runtime import work_placement
from coatcheck.runtime.concurrency_limiter import ConcurrencyLimiter
from coatcheck.runtime.work_placement import WaitUntilIdle


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_placement, "_IDLE_SECONDS", 0.02)
    monkeypatch.setattr(work_placement, "PATIENCE", 0.4)


async def test_it_waits_while_a_payload_is_on_its_way_and_for_a_moment_after() -> None:
    limiter = ConcurrencyLimiter("payloads", 4, 4)
    with await limiter.acquire():
        waiting = asyncio.ensure_future(WaitUntilIdle(limiter)())
        await asyncio.sleep(0.1)
        assert not waiting.done()
    await asyncio.wait_for(waiting, 0.2)


async def test_payloads_that_follow_each_other_are_no_pause() -> None:
    limiter = ConcurrencyLimiter("payloads", 4, 4)
    waiting = asyncio.ensure_future(WaitUntilIdle(limiter)())
    for _ in range(20):
        with await limiter.acquire():
            pass
        await asyncio.sleep(0.005)
        assert not waiting.done()
    await waiting


async def test_what_never_pauses_keeps_nothing_from_being_done() -> None:
    limiter = ConcurrencyLimiter("payloads", 4, 4)
    with await limiter.acquire():
        await asyncio.wait_for(WaitUntilIdle(limiter)(), 2)
