"""A server that answers every request alike, over real connections."""

import contextlib
import threading
from collections.abc import Generator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from typing_extensions import override


@dataclass
class Answering:
    """A server that runs, and what it was asked."""

    url: str = ""
    targets: list[str] = field(default_factory=list[str])


@contextlib.contextmanager
def answering(status: int, body: bytes) -> Generator[Answering]:
    """A server for the length of a `with` block. Requests must say how long they are."""
    seen = Answering()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            seen.targets.append(self.path)
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, format: str, *args: object) -> None:
            """Nothing: standard error is the tests'."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    seen.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
