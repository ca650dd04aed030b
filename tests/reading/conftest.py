"""Real content behind the real reading use cases: frames in a memory store, and a catalogue of a few rows."""

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
    """An empty store with readers over it."""
    return Shelf(pool)
