"""What all tests share: a real service in a process of its own."""

from collections.abc import Iterator

import pytest

from support.service import Service, serving


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A running service with its default settings, on a data directory of its own."""
    with serving(tmp_path_factory.mktemp("service")) as running:
        yield running
