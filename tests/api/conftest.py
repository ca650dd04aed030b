"""The HTTP face over real use cases, called in-process. One application serves all tests: making one takes 30 ms."""

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import httpx
import pytest

from coatcheck.api.app import Face, create_app
from coatcheck.api.http.limits import RequestLimits
from support.faces import FaceHarness, face_in

LIMITS = RequestLimits(payload=4_000_000, json_body=1_000_000, ratio_free=1_000_000)


@pytest.fixture(scope="session")
def opened(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Face, FaceHarness]]:
    with face_in(tmp_path_factory.mktemp("face"), template, payload_limit=LIMITS.payload) as harness:
        yield create_app(harness.services, LIMITS), harness


@pytest.fixture
def harness(opened: tuple[Face, FaceHarness]) -> FaceHarness:
    """What the application stores, empty at first."""
    opened[1].clear()
    return opened[1]


@pytest.fixture
async def client(face: Face) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of the application over an empty catalogue."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(face), base_url="http://localhost:8321") as client:
        yield client


@pytest.fixture
def face(opened: tuple[Face, FaceHarness], harness: FaceHarness) -> Face:
    """The application over an empty catalogue."""
    assert opened[1] is harness
    return opened[0]
