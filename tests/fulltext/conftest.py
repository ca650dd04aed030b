from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fulltext.index_harness import IndexHarness
from support.catalogs import CATALOGS


@pytest.fixture(params=CATALOGS)
async def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[IndexHarness]:
    with ThreadPoolExecutor(2) as pool:
        async with CATALOGS[request.param](tmp_path) as catalog:
            yield IndexHarness(catalog, pool)
