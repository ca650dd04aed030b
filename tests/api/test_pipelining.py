"""Clients that send many requests without reading an answer, and clients that stop reading one."""

import contextlib
import re
import socket
import time
from collections.abc import Callable, Generator
from pathlib import Path

import httpx
import pytest

from coatcheck.api.http.lingering import UnsentBytes
from coatcheck.api.http.protocol import BoundedProtocol
from support.face_server import Running, everything, face_server, head

LIVE = b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n"
ONE_READ = 256 * 1024
"""Bytes that an event loop reads at most at once."""


@pytest.fixture(params=["asyncio", "uvloop"])
def running(tmp_path: Path, template: Path, request: pytest.FixtureRequest) -> Generator[Running]:
    with face_server(tmp_path, template, loop=request.param) as server:
        yield server


def put(body: bytes, *fields: str) -> bytes:
    return head("/v1/artifacts/raw", f"content-length: {len(body)}", *fields) + body


def put_chunked(body: bytes) -> bytes:
    return head("/v1/artifacts/raw", "transfer-encoding: chunked") + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


def texts(answers: bytes) -> list[bytes]:
    """The `text` of each receipt, in the order of the answers."""
    return re.findall(rb'"text":"([^"]*)"', answers)


def until(is_so: Callable[[], bool]) -> None:
    """Wait until the server has come that far."""
    for _ in range(2000):
        if is_so():
            return
        time.sleep(0.01)
    raise AssertionError("it never came so far")


@pytest.mark.parametrize("make", [put, put_chunked], ids=["length", "chunks"])
def test_pipelined_requests_are_answered_in_order_once_the_client_reads(
    running: Running, make: Callable[[bytes], bytes]
) -> None:
    bodies = [b"payload %d\r\n\r\n" % n for n in range(80)]
    answers = running.exchange(b"".join(map(make, bodies)))
    assert answers.count(b"HTTP/1.1 201 ") == len(bodies)
    assert texts(answers) == [body.replace(b"\r\n", rb"\r\n") for body in bodies]


def test_requests_in_pieces_of_any_size_are_the_same_requests(running: Running) -> None:
    bodies = [b"a\n\nb", b"", b"\r\n\r\nGET / HTTP/1.1\r\n\r\n", b"x" * 300]
    sent = b"\r\n\r\n".join(
        put(body, "x-note: y") if n % 2 else put_chunked(body or b"-") for n, body in enumerate(bodies)
    )
    whole = running.exchange(sent)
    for size in (1, 3, 7, 100):
        with running.connection() as s:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for at in range(0, len(sent), size):
                s.sendall(sent[at : at + size])
            s.shutdown(socket.SHUT_WR)
            assert re.findall(rb"HTTP/1.1 \d+", everything(s)) == [
                status.replace(b"201", b"200") for status in re.findall(rb"HTTP/1.1 \d+", whole)
            ]


def test_a_client_that_reads_nothing_has_little_read(running: Running) -> None:
    sent = 0
    with running.connection() as s, httpx.Client(base_url=running.url) as other:
        s.setblocking(False)
        with contextlib.suppress(ConnectionError):  # the server leaves a client that takes nothing
            while sent < 20 * ONE_READ:
                try:
                    sent += s.send(LIVE * 5_000)
                except BlockingIOError:
                    time.sleep(0.01)
                assert BoundedProtocol.unparsed_in_all <= ONE_READ
        assert sent > ONE_READ // 2
        assert other.get("/health/live").status_code == 200
    until(lambda: BoundedProtocol.unparsed_in_all == 0)


def test_a_reader_that_stops_is_left_and_a_slow_one_gets_everything(running: Running) -> None:
    with httpx.Client(base_url=running.url) as client:
        data = b"".join(b"%d\n" % n for n in range(900_000))
        path = client.post("/v1/artifacts/raw", content=data).headers["location"]
    ask = f"GET {path}/content HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode()

    def connect() -> socket.socket:
        opened = socket.socket()
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        opened.settimeout(20)
        opened.connect(("127.0.0.1", running.port))
        opened.sendall(ask)
        return opened

    with connect() as slow, connect() as stopped:
        answer = b""
        began = time.monotonic()
        while piece := slow.recv(100_000):
            answer += piece
            time.sleep(0.03)
        assert time.monotonic() - began > 1.0  # longer than a client may take nothing
        assert answer.endswith(b"\r\n\r\n" + data)
        until(lambda: UnsentBytes.in_all == 0)
        assert len(everything(stopped)) < len(data)
        assert httpx.get(f"{running.url}/health/live").status_code == 200


def test_chunks_in_http_1_0_are_refused(running: Running) -> None:
    fields = b"host: localhost\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"
    answer = running.exchange(b"POST /v1/artifacts/raw HTTP/1.0\r\n" + fields)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"Transfer-Encoding" in answer
    assert running.is_empty()
    assert running.exchange(b"POST /v1/artifacts/raw HTTP/1.1\r\n" + fields).startswith(b"HTTP/1.1 201 ")
