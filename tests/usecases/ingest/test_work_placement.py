"""Where work on payloads runs: small pieces on the loop, one in each turn of it, large ones in worker threads."""

import asyncio
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from coatcheck.runtime.work_placement import SMALL, WorkPlacement


@pytest.fixture
def placement() -> WorkPlacement:
    return WorkPlacement(ThreadPoolExecutor(1))


async def test_small_work_runs_on_the_loop_and_large_work_in_a_thread(placement: WorkPlacement) -> None:
    here = threading.current_thread()
    assert await placement.run(SMALL, threading.current_thread) is here
    assert await placement.run(SMALL + 1, threading.current_thread) is not here


async def test_between_two_pieces_of_small_work_everybody_else_has_a_turn(placement: WorkPlacement) -> None:
    done: list[str] = []

    async def others() -> None:
        while len(done) < 9:
            done.append("other")
            await asyncio.sleep(0)

    answering = asyncio.ensure_future(others())
    await asyncio.gather(*(placement.run(1, done.append, "piece") for _ in range(4)))
    await answering
    assert done.count("piece") == 4
    assert all((before, after) != ("piece", "piece") for before, after in itertools.pairwise(done))


async def test_a_caller_that_leaves_takes_no_turn(placement: WorkPlacement) -> None:
    done: list[int] = []
    tasks = [asyncio.ensure_future(placement.run(1, done.append, number)) for number in range(4)]
    await asyncio.sleep(0)
    tasks[2].cancel()
    await asyncio.wait(tasks)
    assert done == [0, 1, 3]
    assert await placement.run(1, len, done) == 3


async def test_what_work_raises_is_raised_and_the_next_piece_runs(placement: WorkPlacement) -> None:
    with pytest.raises(ZeroDivisionError):
        await placement.run(1, lambda: 1 // 0)
    assert await placement.run(1, len, "next") == 4


async def test_before_everything_is_loaded_even_small_work_runs_in_a_thread() -> None:
    warm = False
    placement = WorkPlacement(ThreadPoolExecutor(1), lambda: warm)
    here = threading.current_thread()
    assert await placement.run(1, threading.current_thread) is not here
    warm = True
    assert await placement.run(1, threading.current_thread) is here
