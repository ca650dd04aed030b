"""The tools over real use cases, called in-process through the face."""

from collections.abc import AsyncGenerator, Generator

import httpx
import pytest

from api.fake_catalog import FakeCatalog, services_over
from coatcheck.api.app import Face, create_app
from tools.agent import Agent


@pytest.fixture(scope="session")
def tool_face() -> Generator[tuple[Face, FakeCatalog]]:
    shelf = FakeCatalog()
    with services_over(shelf) as services:
        yield create_app(services), shelf


@pytest.fixture
def shelf(tool_face: tuple[Face, FakeCatalog]) -> FakeCatalog:
    """What the application stores, empty at first."""
    tool_face[1].clear()
    return tool_face[1]


@pytest.fixture
async def agent(tool_face: tuple[Face, FakeCatalog], shelf: FakeCatalog) -> AsyncGenerator[Agent]:
    """An agent's host over an empty shelf."""
    assert tool_face[1] is shelf
    transport = httpx.ASGITransport(tool_face[0])
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8321") as client:
        yield Agent(client)
