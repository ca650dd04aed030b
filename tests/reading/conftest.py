"""Real content behind the real reading use cases: frames in a memory store, and a catalogue of a few rows."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from reading.reading_harness import ReadingHarness


@pytest.fixture(scope="session")
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


@pytest.fixture
def shelf(pool: ThreadPoolExecutor) -> ReadingHarness:
    """An empty store with readers over it."""
    return ReadingHarness(pool)
