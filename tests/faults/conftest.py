"""One nursery for all harnesses of a test process."""

from collections.abc import Iterator

import pytest

from faults.fork_server import Nursery, nursery


@pytest.fixture(scope="session")
def forks() -> Iterator[Nursery]:
    """Where services come from."""
    with nursery() as made:
        yield made
