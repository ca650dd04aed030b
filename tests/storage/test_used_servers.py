"""Which server the tests run on is known and said, also where a container engine is broken."""

import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from typing_extensions import override

TESTS = Path(__file__).parents[1]


@pytest.fixture
def broken_engine() -> Iterator[str]:
    """The address of a container engine that answers, and makes no container."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            alive = self.path.endswith(("/_ping", "/version"))
            self._answer(200 if alive else 500, {"ApiVersion": "1.44"} if alive else {"message": "out of order"})

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            self._answer(500, {"message": "out of order"})

        def _answer(self, status: int, body: dict[str, str]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        @override
        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"tcp://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


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
