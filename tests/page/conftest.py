"""The browser that the tests of a module share, and a service of each test's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from support.browser import browser
from support.service import Service, serving
from support.used_servers import used


@pytest.fixture(scope="module")  # while it is there, no other event loop can run: other folders' tests must not meet it
def chromium() -> Iterator[Browser]:
    """The browser."""
    found = browser()
    if found is None:
        used("page: in no browser, of which there is none here")
        pytest.skip("no browser; `make browser` gets one")
    program, environment = found
    with sync_playwright() as playwright:
        flags = ["--headless=shell", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        launched = playwright.chromium.launch(executable_path=str(program), env=dict(environment), args=flags)
        used(f"page: Chromium {launched.version}")
        yield launched
        launched.close()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Service]:
    """A service with its page."""
    with serving(tmp_path / "data", page="true") as service:
        yield service
