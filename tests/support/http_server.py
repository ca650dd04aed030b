"""An HTTP server in a thread of the test, of Python's own library only, so that every environment has it."""

import contextlib
import threading
from collections.abc import Callable, Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class QuietHandler(BaseHTTPRequestHandler):
    """Reads and answers whole bodies, and says nothing: standard error is the tests'."""

    protocol_version = "HTTP/1.1"

    def body(self) -> bytes:
        """The request's body, of announced length or in chunks."""
        if not self.headers.get("transfer-encoding"):
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        pieces: list[bytes] = []
        while size := int(self.rfile.readline(), 16):
            pieces.append(self.rfile.read(size + 2)[:-2])  # and the end of its line
        return b"".join(pieces)

    def answer(self, status: int, body: bytes, media_type: str | None = "application/json", **fields: str) -> None:
        """Answer; underscores in the names of fields are hyphens."""
        self.send_response(status)
        for name, value in {"content-type": media_type, "content-length": str(len(body)), **fields}.items():
            if value is not None:
                self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Nothing."""


@contextlib.contextmanager
def http_server(handler: Callable[..., Any]) -> Generator[str]:
    """The URL of a server for the length of a `with` block."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
