"""Every end-to-end test runs on every kind of store."""

from collections.abc import Iterator

import pytest

from support.combos import COMBOS, Combo, fresh_combo
from support.service import Service, serving


@pytest.fixture(scope="session", params=COMBOS)
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A running service with its default settings, on a store of its own."""
    with fresh_combo(request.param) as combo, serving(tmp_path_factory.mktemp("service"), combo) as running:
        yield running


@pytest.fixture(params=COMBOS)
def combo(request: pytest.FixtureRequest) -> Iterator[Combo]:
    """An empty store of a test's own."""
    with fresh_combo(request.param) as opened:
        yield opened
