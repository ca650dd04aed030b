"""The real use case over a store in memory."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from reading.shelf import Shelf


@pytest.fixture(scope="session")
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


@pytest.fixture
def shelf(pool: ThreadPoolExecutor) -> Shelf:
    """An empty store."""
    return Shelf(pool)
