"""A house for each test, from one migrated database."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from coatcheck.adapters.sql.engine import sqlite_url
from coatcheck.adapters.sql.schema import migrate
from usecases.service_harness import ServiceHarness, harness_in


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database of this release's schema."""
    path = tmp_path_factory.mktemp("template") / "coatcheck.db"
    migrate(sqlite_url(path))
    return path


@pytest.fixture
async def harness(tmp_path: Path, template: Path) -> AsyncIterator[ServiceHarness]:
    async with harness_in(tmp_path, template) as opened:
        yield opened
