"""What all tests share: a real service in a process of its own, and an empty database of this release's schema."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coatcheck.adapters.sql.engine import sqlite_url
from coatcheck.adapters.sql.schema import migrate
from reading.reading_harness import ReadingStore, reading_store
from support.service import Service, serving
from support.used_servers import all_used, used


def pytest_addoption(parser: pytest.Parser) -> None:
    """What a run may be asked for besides."""
    parser.addoption("--screenshots", type=Path, metavar="DIR", help="Put a picture of each page of the service here.")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker hands over which servers it used."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["servers"] = all_used()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:  # noqa: ANN401 - pytest-xdist ships no types
    """Take over which servers a worker used; one that was killed says nothing."""
    for server in getattr(node, "workeroutput", {}).get("servers", ()):
        used(server)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which servers and which Pythons the tests really ran on."""
    for server in all_used():
        terminalreporter.write_line(f"used: {server}")


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A running service with its default settings, on a data directory of its own."""
    with serving(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database of this release's schema."""
    path = tmp_path_factory.mktemp("template") / "coatcheck.db"
    migrate(sqlite_url(path))
    return path


@pytest.fixture(scope="session")
def reading(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReadingStore]:
    """A catalogue that harnesses of readers are opened over, one after the other."""
    with reading_store(tmp_path_factory.mktemp("reading"), template) as opened:
        yield opened
