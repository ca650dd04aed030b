import pytest

from reading.reading_harness import ReadingHarness, ReadingStore


@pytest.fixture
def shelf(reading: ReadingStore) -> ReadingHarness:
    """An empty store with readers over it."""
    return ReadingHarness(reading)
