"""A server in a thread of this process, over the real use cases, that tests talk to through sockets."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx
import uvicorn
import uvloop

from coatcheck.api.app import create_app
from coatcheck.api.http.limits import RequestLimits
from coatcheck.api.http.protocol import BoundedProtocol
from support.faces import FaceHarness, face_in

LIMIT = 8_000_000
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"


class Bounded(BoundedProtocol):
    """With less patience."""

    head_seconds = 0.5
    send_seconds = 1.0


class Running:
    """A server in a thread, and what it stores."""

    def __init__(self, port: int, harness: FaceHarness) -> None:
        self.port = port
        self.harness = harness
        self.url = f"http://127.0.0.1:{port}"

    @contextlib.contextmanager
    def connection(self) -> Generator[socket.socket]:
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as s:
            yield s

    def exchange(self, *pieces: bytes, close: bool = True) -> bytes:
        """Send bytes, stop sending, and read until the server closes."""
        with self.connection() as s:
            for piece in pieces:
                s.sendall(piece)
            if close:
                s.shutdown(socket.SHUT_WR)
            return everything(s)

    def is_empty(self) -> bool:
        """Nothing stored, and once the server has come to rest, no upload left."""
        with httpx.Client(base_url=self.url) as client:
            for _ in range(500):
                if not self.harness.count("uploads"):
                    break
                client.get("/health/live")
            listed = client.get("/v1/artifacts").json()["items"]
        return listed == [] and self.harness.is_empty()


def everything(s: socket.socket) -> bytes:
    answer = b""
    with contextlib.suppress(ConnectionResetError):
        while data := s.recv(65536):
            answer += data
    return answer.replace(INTERIM, b"")


def head(path: str, *fields: str) -> bytes:
    return "\r\n".join([f"POST {path} HTTP/1.1", "host: localhost", *fields, "", ""]).encode()


@contextlib.contextmanager
def face_server(root: Path, template: Path, *, loop: str = "asyncio") -> Generator[Running]:
    """Serve while the `with` block runs, on an event loop of `asyncio` or `uvloop`."""
    started = threading.Event()
    found: dict[str, Any] = {}

    async def serve() -> None:
        with face_in(root, template, payload_limit=LIMIT) as harness:
            found["harness"] = harness
            app = create_app(harness.services, RequestLimits(payload=LIMIT, stall_seconds=1, buffered=3_000_000))
            config = uvicorn.Config(
                app, http=Bounded, ws="none", loop="none", lifespan="on", log_config=None, access_log=False
            )
            server = found["server"] = uvicorn.Server(config)
            sock = socket.socket()
            sock.bind(("127.0.0.1", 0))
            found["port"] = sock.getsockname()[1]
            sock.listen()
            started.set()
            try:
                await server.serve(sockets=[sock])
            finally:
                sock.close()

    def run() -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop if loop == "uvloop" else None) as runner:
            runner.run(serve())

    thread = threading.Thread(target=run)
    thread.start()
    assert started.wait(20)
    try:
        yield Running(found["port"], found["harness"])
    finally:
        found["server"].should_exit = True
        thread.join(20)
