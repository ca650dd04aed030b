"""Work that several threads share: each piece once, whoever is free, and no thread that waits for itself."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from coatcheck.adapters.tokenizer import load_tokenizer
from coatcheck.core.context import Counter, Counts
from coatcheck.core.context.model import Item, Role
from coatcheck.usecases.pool import ReadThreads, together


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_piece_of_work_is_done_once_also_from_inside_the_pool(threads: int) -> None:
    done: list[int] = []
    with ThreadPoolExecutor(threads) as pool:
        works = [partial(done.append, n) for n in range(9)]
        pool.submit(together, pool, works).result(timeout=30)
        together(pool, works)
    assert sorted(done) == sorted([*range(9), *range(9)])


def test_what_a_thread_raises_is_raised_and_the_rest_is_done() -> None:
    done: list[int] = []

    def fail() -> None:
        raise ValueError("no")

    with ThreadPoolExecutor(2) as pool, pytest.raises(ValueError, match="no"):
        together(pool, [partial(done.append, 1), fail, partial(done.append, 2)])
    assert 1 in done


def test_where_threads_take_no_more_it_is_done_here() -> None:
    pool, done = ReadThreads(1, 0), list[str]()
    try:
        together(pool, [lambda: done.append(threading.current_thread().name)] * 3)
    finally:
        pool.shutdown()
    assert done == [threading.current_thread().name] * 3


def test_counts_are_the_same_however_many_threads_help() -> None:
    tokenizer = load_tokenizer()
    texts = [f"output {n} of some tool\n    with lines\n" * (1 + n % 90) for n in range(300)]
    items = [Item(at=(n,), role=Role.TOOL, texts=[text], outputs=[]) for n, text in enumerate(texts)]
    with ThreadPoolExecutor(3) as pool:
        counter = Counter(tokenizer, Counts(), partial(together, pool))
        pool.submit(counter.learn, items).result(timeout=60)
    assert [counter.text(text) for text in texts] == [tokenizer.count(text) for text in texts]
