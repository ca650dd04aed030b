"""A house for each test, on each database."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tenancy.tenants import DATABASES, House, open_house


@pytest.fixture(params=DATABASES)
async def harness(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path, request.param) as opened:
        yield opened
