from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from retention.retention_harness import RetentionHarness, harness_on
from support.catalogs import CATALOGS


@pytest.fixture(params=CATALOGS)
async def harness(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[RetentionHarness]:
    async with harness_on(request.param, tmp_path) as opened:
        yield opened
