"""Servers that answer every request alike, or fail in every way that a server can, over real connections."""

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from support.http_server import QuietHandler, http_server


@dataclass
class Answering:
    """A server that runs, and what it was asked."""

    url: str = ""
    targets: list[str] = field(default_factory=list[str])


@contextlib.contextmanager
def answering(status: int, body: bytes, **headers: str) -> Generator[Answering]:
    """A server for the length of a `with` block."""
    seen = Answering()

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            self.body()
            seen.targets.append(self.path)
            self.answer(status, body, connection="close", **headers)

        do_GET = do_PUT = do_PATCH = do_DELETE = do_POST  # noqa: N815 - the names that the library calls

    with http_server(Handler) as seen.url:
        yield seen


def refusal(code: str, detail: str = "No.") -> bytes:
    """A problem as the service writes it."""
    return json.dumps({"code": code, "detail": detail}).encode()


@contextlib.contextmanager
def handling(handle: Callable[[socket.socket], None]) -> Generator[str]:
    """The address of a server that does this with each connection, for the length of a `with` block."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection, contextlib.suppress(OSError):
                        connection.settimeout(30)
                        handle(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def nobody() -> Generator[str]:
    """An address at which nothing listens."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{unused.getsockname()[1]}"


@contextlib.contextmanager
def without_tls() -> Generator[str]:
    """An address for TLS at which a server speaks without."""
    with handling(babble) as url:
        yield url.replace("http:", "https:")


@contextlib.contextmanager
def _alike(status: int, body: bytes, **headers: str) -> Generator[str]:
    with answering(status, body, **headers) as seen:
        yield seen.url


def be_silent(connection: socket.socket) -> None:
    """Read, and answer nothing, until the client has had enough."""
    while connection.recv(65_536):
        pass


def reset(connection: socket.socket) -> None:
    """Break the connection in the middle of the request."""
    connection.recv(1_000)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def break_off(connection: socket.socket) -> None:
    """Begin an answer."""
    connection.recv(65_536)
    connection.sendall(b'HTTP/1.1 201 Created\r\ncontent-length: 1000\r\n\r\n{"id": ')


def babble(connection: socket.socket) -> None:
    """Answer, though not as HTTP does."""
    connection.recv(65_536)
    connection.sendall(b"220 mail.example.com ESMTP\r\n")


_PAGE = b"<html><body><h1>502 Bad Gateway</h1></body></html>"
FAULTS: dict[str, Callable[[], AbstractContextManager[str]]] = {
    "stopped": nobody,
    "no TLS": without_tls,
    "silent": lambda: handling(be_silent),
    "connection reset": lambda: handling(reset),
    "half an answer": lambda: handling(break_off),
    "another protocol": lambda: handling(babble),
    "no key": lambda: _alike(401, refusal("unauthenticated")),
    "no scope": lambda: _alike(403, refusal("forbidden")),
    "another path": lambda: _alike(404, refusal("not_found")),
    "too large": lambda: _alike(413, refusal("payload_too_large")),
    "too often": lambda: _alike(429, refusal("rate_limited"), retry_after="9"),
    "a bug": lambda: _alike(500, refusal("internal")),
    "overloaded": lambda: _alike(503, refusal("overloaded")),
    "a full quota": lambda: _alike(507, refusal("quota_exceeded")),
    "a proxy's page": lambda: _alike(502, _PAGE),
    "a page as the answer": lambda: _alike(200, _PAGE),
    "another service": lambda: _alike(201, b'{"ok": true}'),
    "a list": lambda: _alike(200, b"[]"),
    "a redirect": lambda: _alike(308, b"", location="http://127.0.0.1:9/"),
}
"""Servers that fail, each in a way of its own, by a name for the way."""
