"""Servers of this machine that tests of one adapter talk to; a module with a server of its own replaces them."""

from collections.abc import Iterator

import pytest

from support.http_proxy import HttpProxy
from support.postgres_shared import databases
from support.s3 import S3Server, shared_s3


@pytest.fixture
def url() -> Iterator[str]:
    """An empty PostgreSQL database with this release's schema."""
    with databases().lent() as url:
        yield url


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> S3Server:
    found = shared_s3("ministack")
    for name, value in found.environment.items():
        monkeypatch.setenv(name, value)
    return found


@pytest.fixture
def proxy(server: S3Server) -> Iterator[HttpProxy]:
    with HttpProxy(server.port) as between:
        yield between
