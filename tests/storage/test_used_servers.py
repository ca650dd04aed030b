"""Which server the tests run on is known and said, also where a container engine is broken."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.http_server import QuietHandler, http_server

TESTS = Path(__file__).parents[1]


@pytest.fixture
def broken_engine() -> Iterator[str]:
    """The address of a container engine that answers, and makes no container."""

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.0"

        def do_GET(self) -> None:
            if self.path.endswith(("/_ping", "/version")):
                self.answer(200, b'{"ApiVersion": "1.44"}')
            else:
                self.do_POST()

        def do_POST(self) -> None:
            self.body()
            self.answer(500, b'{"message": "out of order"}')

    with http_server(Handler) as url:
        yield url.replace("http://", "tcp://")


def kept(folder: Path, engine: str) -> str:
    """What kind of server the keeper says that it started, which it ends at once, because nobody uses it."""
    folder.mkdir()
    for name in ("start.lock", "users.lock"):
        (folder / name).touch()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "support.postgres_shared", str(folder)],
        cwd=TESTS,
        env={"PATH": "/usr/bin:/bin", "DOCKER_HOST": engine},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.splitlines()[1]


def test_an_engine_that_answers_and_makes_no_container_is_named_with_its_reason(
    broken_engine: str, tmp_path: Path
) -> None:
    kind = kept(tmp_path / "run", broken_engine)
    assert kind.startswith("our own, because the container engine answers and made no container (")
    assert "out of order" in kind


def test_without_an_engine_the_server_is_our_own(tmp_path: Path) -> None:
    assert kept(tmp_path / "run", f"unix://{tmp_path / 'nobody'}") == "our own"
