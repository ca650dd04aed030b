import pytest

from jsonpath.json_harness import JsonHarness
from reading.reading_harness import ReadingStore


@pytest.fixture
def desk(reading: ReadingStore) -> JsonHarness:
    """An empty store, whose readers have all the time in the world."""
    return JsonHarness(reading, lambda: 0.0)


@pytest.fixture
def hurried(reading: ReadingStore) -> JsonHarness:
    """An empty store, whose readers have the time that callers have."""
    return JsonHarness(reading)
