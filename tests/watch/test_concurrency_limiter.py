"""Places and the queue before them, on an event loop that the test drives."""

import asyncio

import pytest

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.runtime.concurrency_limiter import ConcurrencyLimiter
from coatcheck.runtime.pool import ReadThreads, in_pool


class Holder:
    """A task that holds a place until it is told to go."""

    def __init__(self, slots: ConcurrencyLimiter, log: list[str], name: str, key: str | None = None) -> None:
        self._slots = slots
        self._log = log
        self._name = name
        self._key = key
        self.go = asyncio.Event()
        self.task = asyncio.create_task(self._hold())

    async def _hold(self) -> None:
        async with self._slots.place(self._key):
            self._log.append(self._name)
            await self.go.wait()


async def settle() -> None:
    """Let every task go as far as it gets."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_places_are_given_in_the_order_of_asking() -> None:
    slots, log = ConcurrencyLimiter("things", 1, 3), list[str]()
    holders = [Holder(slots, log, name) for name in "abcd"]
    await settle()
    assert (log, slots.used, slots.waiting) == (["a"], 1, 3)
    for holder in holders:
        holder.go.set()
        await holder.task
    assert (log, slots.used, slots.waiting, slots.refused) == (["a", "b", "c", "d"], 0, 0, 0)


async def test_who_finds_the_queue_full_is_refused_at_once() -> None:
    slots, log = ConcurrencyLimiter("things", 1, 1), list[str]()
    holders = [Holder(slots, log, name) for name in "ab"]
    await settle()
    with pytest.raises(CoatcheckError) as error:
        async with slots.place():
            log.append("never")
    assert (error.value.code, slots.refused, log) == (Code.OVERLOADED, 1, ["a"])
    for holder in holders:
        holder.go.set()
        await holder.task
    assert (slots.used, slots.waiting) == (0, 0)


async def test_nobody_waits_for_longer_than_the_patience() -> None:
    slots, log = ConcurrencyLimiter("things", 1, 5, patience=0.01), list[str]()
    holder = Holder(slots, log, "a")
    await settle()
    with pytest.raises(CoatcheckError) as error:
        async with slots.place():
            log.append("never")
    assert (error.value.code, slots.waiting, log) == (Code.OVERLOADED, 0, ["a"])
    assert error.value.detail.startswith("1 things are under way, and this one timed out after 0.01 seconds")
    holder.go.set()
    await holder.task
    async with slots.place():
        assert slots.used == 1
    assert slots.used == 0


async def test_a_caller_that_goes_away_while_it_waits_takes_no_place_with_it() -> None:
    slots, log = ConcurrencyLimiter("things", 1, 5), list[str]()
    first, second, third = (Holder(slots, log, name) for name in "abc")
    await settle()
    second.task.cancel()
    first.go.set()
    third.go.set()
    await asyncio.gather(first.task, second.task, third.task, return_exceptions=True)
    assert (second.task.cancelled(), log, slots.used, slots.waiting) == (True, ["a", "c"], 0, 0)


async def test_a_caller_that_goes_away_in_the_moment_of_its_turn_passes_the_place_on() -> None:
    slots, log = ConcurrencyLimiter("things", 1, 5), list[str]()
    first = slots.place()
    await first.__aenter__()
    second, third = (Holder(slots, log, name) for name in "bc")
    await settle()
    await first.__aexit__(None, None, None)  # the place is the second's now, which has not run since
    second.task.cancel()
    third.go.set()
    await asyncio.gather(second.task, third.task, return_exceptions=True)
    assert (second.task.cancelled(), log, slots.used, slots.waiting) == (True, ["c"], 0, 0)


async def test_two_that_cancel_and_free_in_one_turn_lose_no_place() -> None:
    slots, log = ConcurrencyLimiter("things", 1, 5), list[str]()
    first, second, third = (Holder(slots, log, name) for name in "abc")
    await settle()
    first.go.set()
    second.task.cancel()
    third.go.set()
    await asyncio.gather(first.task, second.task, third.task, return_exceptions=True)
    async with slots.place():
        assert (log, slots.used) == (["a", "c"], 1)
    assert slots.used == 0


async def test_one_key_leaves_half_of_the_places_and_of_the_queue_to_others() -> None:
    slots, log = ConcurrencyLimiter("things", 4, 4), list[str]()
    greedy = [Holder(slots, log, f"a{n}", "a") for n in range(4)]
    await settle()
    assert (log, slots.used, slots.waiting) == (["a0", "a1"], 2, 2)
    with pytest.raises(CoatcheckError) as error:
        async with slots.place("a"):
            log.append("never")
    assert error.value.detail.startswith("2 things of this key are under way, and 2 others of it wait, which is")
    others = [Holder(slots, log, f"b{n}", "b") for n in range(2)]
    await settle()
    assert (log[2:], slots.used) == (["b0", "b1"], 4)
    late = Holder(slots, log, "c0", "c")
    await settle()
    others[0].go.set()  # the two of the first key that wait longer may not have its place
    await settle()
    assert (log[4:], slots.used, slots.waiting) == (["c0"], 4, 2)
    for holder in (*greedy, *others, late):
        holder.go.set()
        await holder.task
    assert (sorted(log[5:]), slots.used, slots.waiting) == (["a2", "a3"], 0, 0)


async def test_reading_that_finds_too_long_a_queue_is_refused() -> None:
    with ReadThreads(1, 2) as threads:
        import threading  # noqa: PLC0415 - only here

        hold, begun = threading.Event(), threading.Event()

        def work() -> str:
            begun.set()
            assert hold.wait(30)
            return "read"

        first = asyncio.ensure_future(in_pool(threads, work))
        await asyncio.to_thread(begun.wait, 30)
        waiting = [asyncio.ensure_future(in_pool(threads, work)) for _ in range(2)]
        await settle()
        with pytest.raises(CoatcheckError) as error:
            await in_pool(threads, work)
        assert (error.value.code, threads.waiting, threads.refused) == (Code.OVERLOADED, 2, 1)
        hold.set()
        assert await asyncio.gather(first, *waiting) == ["read"] * 3
