"""The HTTP face over real use cases, called in-process. One application serves all tests: making one takes 30 ms."""

import sys
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import httpx
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from fake_catalog import FakeCatalog, services_over

from coatcheck.api.app import Face, create_app
from coatcheck.api.http.limits import RequestLimits

LIMITS = RequestLimits(payload=4_000_000, json_body=1_000_000, ratio_free=1_000_000)


@pytest.fixture(scope="session")
def face() -> Generator[tuple[Face, FakeCatalog]]:
    shelf = FakeCatalog()
    with services_over(shelf, payload_limit=LIMITS.payload) as services:
        yield create_app(services, LIMITS), shelf


@pytest.fixture
def shelf(face: tuple[Face, FakeCatalog]) -> FakeCatalog:
    """What the application stores, empty at first."""
    face[1].clear()
    return face[1]


@pytest.fixture
async def client(face: tuple[Face, FakeCatalog], shelf: FakeCatalog) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of the application over `shelf`."""
    assert face[1] is shelf
    transport = httpx.ASGITransport(face[0])
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8321") as client:
        yield client
