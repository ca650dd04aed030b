"""Slots and the queue before them, on an event loop that the test drives."""

import asyncio
from typing import Any

import pytest

from coatcheck.api.http.body import Expansion, Wire
from coatcheck.api.http.limits import RequestLimits
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.runtime.concurrency_limiter import STALL_SECONDS, ConcurrencyLimiter, stall_error
from coatcheck.runtime.work_placement import ReadThreads, in_pool


class Holder:
    """A task that holds a slot until it is told to go."""

    def __init__(self, limiter: ConcurrencyLimiter, log: list[str], name: str, key: str | None = None) -> None:
        self._limiter = limiter
        self._log = log
        self._name = name
        self._key = key
        self.go = asyncio.Event()
        self.task = asyncio.create_task(self._hold())

    async def _hold(self) -> None:
        with await self._limiter.acquire(self._key):
            self._log.append(self._name)
            await self.go.wait()


class Upload:
    """A body that is read while a slot is held, by what reads bodies of requests."""

    def __init__(self, limiter: ConcurrencyLimiter, key: str | None = None) -> None:
        self._limiter = limiter
        self._messages = asyncio.Queue[dict[str, object]]()
        self._wire = Wire(self._messages.get, None, None, Expansion(LIMITS), LIMITS)  # type: ignore[arg-type]
        self._key = key
        self.size = 0
        self.task = asyncio.create_task(self._receive())

    async def _receive(self) -> None:
        with await self._limiter.acquire(self._key, self._wire.sender):
            while data := await self._wire.read():
                self.size += len(data)

    def send(self, data: bytes, *, more: bool = True) -> None:
        self._messages.put_nowait({"type": "http.request", "body": data, "more_body": more})

    async def send_steadily(self, until: asyncio.Task[Any]) -> None:
        """Send a byte ten times a second until a task has ended, then end."""
        while not until.done():
            self.send(b"x")
            await asyncio.sleep(0.1)
        self.send(b"", more=False)
        await self.task


LIMITS = RequestLimits(least_rate=1)


async def settle() -> None:
    """Let every task go as far as it gets."""
    for _ in range(10):
        await asyncio.sleep(0)


def state(limiter: ConcurrencyLimiter) -> tuple[int, int, int]:
    return limiter.running, limiter.waiting, limiter.refused


async def refusal(limiter: ConcurrencyLimiter, key: str | None = None) -> CoatcheckError:
    with pytest.raises(CoatcheckError) as error:
        await limiter.acquire(key)
    assert error.value.code is Code.OVERLOADED
    return error.value


async def test_slots_are_granted_in_the_order_of_asking() -> None:
    limiter, log = ConcurrencyLimiter("things", 1, 3), list[str]()
    holders = [Holder(limiter, log, name) for name in "abcd"]
    await settle()
    assert (log, state(limiter)) == (["a"], (1, 3, 0))
    for holder in holders:
        holder.go.set()
        await holder.task
    assert (log, state(limiter), limiter.granted_count) == (["a", "b", "c", "d"], (0, 0, 0), 4)


async def test_who_finds_the_queue_full_is_refused_at_once() -> None:
    limiter, log = ConcurrencyLimiter("things", 1, 1), list[str]()
    holders = [Holder(limiter, log, name) for name in "ab"]
    await settle()
    error = await refusal(limiter)
    assert error.detail.startswith("1 things are under way, and 1 others wait, which is the most that may.")
    for holder in holders:
        holder.go.set()
        await holder.task
    assert (log, state(limiter)) == (["a", "b"], (0, 0, 1))


async def test_nobody_waits_for_longer_than_the_patience() -> None:
    limiter, log = ConcurrencyLimiter("things", 1, 5, patience=0.01), list[str]()
    holder = Holder(limiter, log, "a")
    await settle()
    error = await refusal(limiter)
    assert "this one did not get a slot in its turn, or within 0.01 seconds" in error.detail
    assert (log, state(limiter)) == (["a"], (1, 0, 1))
    holder.go.set()
    await holder.task
    with await limiter.acquire():
        assert limiter.running == 1
    assert limiter.running == 0


async def test_a_caller_that_goes_away_while_it_waits_takes_no_slot_with_it() -> None:
    limiter, log = ConcurrencyLimiter("things", 1, 5), list[str]()
    first, second, third = (Holder(limiter, log, name) for name in "abc")
    await settle()
    second.task.cancel()
    first.go.set()
    third.go.set()
    await asyncio.gather(first.task, second.task, third.task, return_exceptions=True)
    assert (second.task.cancelled(), log, state(limiter)) == (True, ["a", "c"], (0, 0, 0))


async def test_a_caller_that_goes_away_in_the_moment_of_its_turn_passes_the_slot_on() -> None:
    limiter, log = ConcurrencyLimiter("things", 1, 5), list[str]()
    first = await limiter.acquire()
    second, third = (Holder(limiter, log, name) for name in "bc")
    await settle()
    limiter.release(first)  # the slot is the second's now, which has not run since
    second.task.cancel()
    third.go.set()
    await asyncio.gather(second.task, third.task, return_exceptions=True)
    assert (second.task.cancelled(), log, state(limiter)) == (True, ["c"], (0, 0, 0))


async def test_two_that_cancel_and_free_in_one_turn_lose_no_slot() -> None:
    limiter, log = ConcurrencyLimiter("things", 1, 5), list[str]()
    first, second, third = (Holder(limiter, log, name) for name in "abc")
    await settle()
    first.go.set()
    second.task.cancel()
    third.go.set()
    await asyncio.gather(first.task, second.task, third.task, return_exceptions=True)
    with await limiter.acquire():
        assert (log, limiter.running) == (["a", "c"], 1)
    assert state(limiter) == (0, 0, 0)


async def test_a_free_slot_goes_to_the_key_that_has_fewest() -> None:
    limiter, log = ConcurrencyLimiter("things", 3, 9), list[str]()
    holders = [Holder(limiter, log, f"a{n}", "a") for n in range(4)]
    others = [Holder(limiter, log, "b0", "b"), Holder(limiter, log, "c0", "c")]
    await settle()
    for holder, following in zip(holders, ("b0", "c0", "a3"), strict=False):  # a3 came first
        holder.go.set()
        await settle()
        assert log[-1] == following
    for holder in (*holders, *others):
        holder.go.set()
        await holder.task
    assert (len(log), state(limiter)) == (6, (0, 0, 0))


async def test_a_full_queue_takes_a_caller_in_place_of_the_last_of_the_key_that_waits_most() -> None:
    limiter, log = ConcurrencyLimiter("things", 1, 3), list[str]()
    greedy = [Holder(limiter, log, f"a{n}", "a") for n in range(4)]
    await settle()
    assert state(limiter) == (1, 3, 0)
    await refusal(limiter, "a")  # control: the same key displaces none of its own
    other = Holder(limiter, log, "b0", "b")
    await settle()
    assert (state(limiter), greedy[3].task.done()) == ((1, 3, 2), True)
    assert isinstance(greedy[3].task.exception(), CoatcheckError)
    for holder in (*greedy[:3], other):
        holder.go.set()
        await holder.task
    assert (log, state(limiter)) == (["a0", "a1", "a2", "b0"], (0, 0, 2))


async def test_a_limit_for_each_key_leaves_slots_to_others() -> None:
    limiter, log = ConcurrencyLimiter("things", 4, 8, max_per_key=2), list[str]()
    holders = [Holder(limiter, log, f"a{n}", "a") for n in range(4)]
    await settle()
    assert (log, state(limiter)) == (["a0", "a1"], (2, 2, 0))
    holders += [Holder(limiter, log, f"b{n}", "b") for n in range(2)]
    await settle()
    assert (log[2:], limiter.running) == (["b0", "b1"], 4)
    for holder in holders:
        holder.go.set()
        await holder.task
    assert (sorted(log[4:]), state(limiter)) == (["a2", "a3"], (0, 0, 0))


async def test_a_silent_sender_gives_way_to_who_waits_and_a_slow_one_does_not() -> None:
    limiter = ConcurrencyLimiter("uploads", 2, 2, patience=30)
    silent, slow = Upload(limiter), Upload(limiter)
    await settle()
    silent.send(b"a beginning")
    steady = asyncio.create_task(slow.send_steadily(until=silent.task))
    await asyncio.sleep(STALL_SECONDS + 0.5)
    assert not silent.task.done()  # control: nobody waits
    with await limiter.acquire():
        with pytest.raises(CoatcheckError) as error:
            await silent.task
        assert (error.value.code, error.value.detail) == (Code.TRUNCATED_BODY, stall_error(2).detail)
    await steady
    assert (limiter.stalled_count, state(limiter), slow.size > 10) == (1, (0, 0, 0), True)


async def test_as_many_silent_senders_give_way_as_others_wait() -> None:
    limiter = ConcurrencyLimiter("uploads", 3, 3, patience=30)
    silent = [Upload(limiter) for _ in range(3)]
    await settle()
    for upload in silent:
        upload.send(b"a beginning")
        await asyncio.sleep(0.01)
    with await limiter.acquire():
        assert [upload.task.done() for upload in silent] == [True, False, False]
        for upload in silent[1:]:
            upload.send(b"the end", more=False)
            await upload.task
    assert isinstance(silent[0].task.exception(), CoatcheckError)
    assert (limiter.stalled_count, state(limiter)) == (1, (0, 0, 0))


async def test_a_key_at_its_limit_gets_only_slots_of_its_own_silent_senders() -> None:
    limiter = ConcurrencyLimiter("uploads", 4, 2, patience=30, max_per_key=1)
    theirs, mine = Upload(limiter, "theirs"), Upload(limiter, "mine")
    await settle()
    with await limiter.acquire("mine"):
        assert (mine.task.done(), theirs.task.done()) == (True, False)
    assert isinstance(mine.task.exception(), CoatcheckError)
    theirs.send(b"", more=False)
    await theirs.task


async def test_where_slots_are_for_short_work_a_slow_sender_gives_way_as_well() -> None:
    limiter = ConcurrencyLimiter("cards", 1, 1, patience=30, max_seconds=0.5)
    slow = Upload(limiter)
    await settle()
    waiting = asyncio.create_task(limiter.acquire())
    steady = asyncio.create_task(slow.send_steadily(until=waiting))
    with await waiting, pytest.raises(CoatcheckError) as error:
        await slow.task
    assert (error.value.code, limiter.stalled_count) == (Code.OVERLOADED, 0)
    steady.cancel()


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
