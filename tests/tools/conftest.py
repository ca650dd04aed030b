"""The tools over real use cases, called in-process through the face."""

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import httpx
import pytest

from coatcheck.api.app import Face, create_app
from support.faces import FaceHarness, face_in
from tools.agent import Agent


@pytest.fixture(scope="session")
def opened(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Face, FaceHarness]]:
    with face_in(tmp_path_factory.mktemp("tools"), template) as harness:
        yield create_app(harness.services), harness


@pytest.fixture
def harness(opened: tuple[Face, FaceHarness]) -> FaceHarness:
    """What the application stores, empty at first."""
    opened[1].clear()
    return opened[1]


@pytest.fixture
async def agent(opened: tuple[Face, FaceHarness], harness: FaceHarness) -> AsyncGenerator[Agent]:
    """An agent's host over an empty catalogue."""
    assert opened[1] is harness
    async with httpx.AsyncClient(transport=httpx.ASGITransport(opened[0]), base_url="http://localhost:8321") as client:
        yield Agent(client)
