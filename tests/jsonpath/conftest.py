"""The real use case over a store in memory."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from jsonpath.json_harness import JsonHarness


@pytest.fixture(scope="session")
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


@pytest.fixture
def desk(pool: ThreadPoolExecutor) -> JsonHarness:
    """An empty store, whose readers have all the time in the world."""
    return JsonHarness(pool, lambda: 0.0)


@pytest.fixture
def hurried(pool: ThreadPoolExecutor) -> JsonHarness:
    """The same with the time that callers have."""
    return JsonHarness(pool)
