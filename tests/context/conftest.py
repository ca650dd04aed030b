"""The service that tests of contexts over HTTP share."""

from collections.abc import Iterator

import pytest

from support.service import Service, serving


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("contexts") / "data") as running:
        yield running
