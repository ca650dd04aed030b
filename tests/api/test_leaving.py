"""A client that goes away: the work for it ends, and what was being stored is there whole or not at all."""

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx
import pytest

from coatcheck.ports.artifacts import StoreArtifact
from support.face_server import INTERIM, Running, everything, face_server, head

LINES = b"".join(b'{"line": %d, "words": "one two three"}\n' % number for number in range(150_000))
READINGS = {
    "line": "read?unit=line&offset=100000",
    "token": "read?unit=token&offset=1000000",
    "pattern": "search?pattern=nowhere",
    "query": "windows?query=three",
    "path": "json?path=$[0].words",
    "outline": "outline",
    "card": "card?tokens=300&query=words",
    "content": "content",
}


class Gate:
    """Something that work comes to and cannot pass until it is opened."""

    def __init__(self) -> None:
        self.reached, self.given_up, self.passed = threading.Event(), threading.Event(), threading.Event()
        self._opened = threading.Event()

    def open(self) -> None:
        """Let everything pass."""
        self._opened.set()

    async def __call__(self) -> None:
        """Wait until it is open."""
        self.reached.set()
        try:
            while not self._opened.is_set():  # noqa: ASYNC110 - opened in another thread
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            self.given_up.set()
            raise
        self.passed.set()


@pytest.fixture(params=["asyncio", "uvloop"])
def running(tmp_path: Path, template: Path, request: pytest.FixtureRequest) -> Generator[Running]:
    with face_server(tmp_path, template, loop=request.param) as server:
        yield server


@pytest.fixture
def gate() -> Generator[Gate]:
    made = Gate()
    yield made
    made.open()


def gated(monkeypatch: pytest.MonkeyPatch, of: Any, name: str, gate: Gate, after: int = 0) -> None:  # noqa: ANN401
    """Have every call of a method but the first few come to the gate first."""
    inner, calls = getattr(of, name), iter(range(1_000_000))

    async def held(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the method's own
        if next(calls) >= after:
            await gate()
        return await inner(*args, **kwargs)

    monkeypatch.setattr(of, name, held)


def asked(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()


def stored(running: Running, payload: bytes, **query: str) -> str:
    answer = httpx.post(f"{running.url}/v1/artifacts/raw", params=query, content=payload)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


@pytest.mark.parametrize("reset", [False, True], ids=["closes", "resets"])
@pytest.mark.parametrize("way", READINGS)
def test_no_more_is_read_for_a_client_that_has_left(
    running: Running, gate: Gate, monkeypatch: pytest.MonkeyPatch, way: str, *, reset: bool
) -> None:
    artifact = stored(running, b"[" + LINES.replace(b"\n", b",\n") + b"{}]" if way == "path" else LINES)
    # The text view that an outline looks for first is made to its end: it is kept, for whoever asks next.
    gated(monkeypatch, running.harness.blobs, "read", gate, after=1 if way == "outline" else 0)
    with running.connection() as s:
        s.sendall(asked(f"/v1/artifacts/{artifact}/{READINGS[way]}"))
        assert gate.reached.wait(20)
        if reset:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    assert gate.given_up.wait(20)
    assert not gate.passed.is_set()
    gate.open()
    assert httpx.get(f"{running.url}/v1/artifacts/{artifact}/{READINGS[way]}").status_code == 200


def test_an_upload_whose_client_left_before_its_commit_is_not_stored(
    running: Running, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    payload = LINES[:3_000_000]
    gated(monkeypatch, running.harness.catalog, "find", gate)
    with running.connection() as s:
        s.sendall(head("/v1/artifacts/raw", f"content-length: {len(payload)}") + payload)
        assert gate.reached.wait(20)
    assert gate.given_up.wait(20)
    gate.open()
    assert running.is_empty()
    stored(running, payload)


def test_a_commit_that_has_begun_is_not_called_back(
    running: Running, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    payload, inner = LINES[:3_000_000], running.harness.catalog.carry_out

    async def held(change: Any) -> Any:  # noqa: ANN401 - the catalogue's own
        if isinstance(change, StoreArtifact):
            await gate()
        return await inner(change)

    monkeypatch.setattr(running.harness.catalog, "carry_out", held)
    with running.connection() as s:
        s.sendall(head("/v1/artifacts/raw", f"content-length: {len(payload)}") + payload)
        assert gate.reached.wait(20)
    assert not gate.given_up.wait(1)
    gate.open()
    assert gate.passed.wait(20)
    with httpx.Client(base_url=running.url) as client:
        (listed,) = client.get("/v1/artifacts").json()["items"]
        assert client.get(f"/v1/artifacts/{listed['id']}/content").content == payload
    assert running.harness.count("uploads") == 0


def test_a_client_that_only_stops_sending_is_answered(
    running: Running, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = stored(running, LINES)
    gated(monkeypatch, running.harness.blobs, "read", gate)
    with running.connection() as s:
        s.sendall(asked(f"/v1/artifacts/{artifact}/read?unit=line&offset=100000&limit=1"))
        s.shutdown(socket.SHUT_WR)
        first = s.recv(65536)
        assert first.startswith(INTERIM)
        gate.open()
        top, _, body = (first + everything(s)).replace(INTERIM, b"").partition(b"\r\n\r\n")
    assert top.startswith(b"HTTP/1.1 200 ")
    assert json.loads(body)["text"] == '{"line": 99999, "words": "one two three"}\n'


def test_a_client_of_http_1_0_gets_no_interim_answer(
    running: Running, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = stored(running, LINES)
    gated(monkeypatch, running.harness.blobs, "read", gate)
    with running.connection() as s:
        s.sendall(asked(f"/v1/artifacts/{artifact}/read?unit=line&limit=1").replace(b"HTTP/1.1", b"HTTP/1.0"))
        s.shutdown(socket.SHUT_WR)
        s.settimeout(1)
        with contextlib.suppress(TimeoutError):
            assert s.recv(65536) == b""
        gate.open()
        s.settimeout(20)
        assert everything(s).startswith(b"HTTP/1.1 200 ")


def test_a_client_that_left_is_in_the_log_as_such(
    running: Running, gate: Gate, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    artifact = stored(running, LINES)
    gated(monkeypatch, running.harness.blobs, "read", gate)
    with caplog.at_level("INFO", "coatcheck.access"):
        with running.connection() as s:
            s.sendall(asked(f"/v1/artifacts/{artifact}/content"))
            assert gate.reached.wait(20)
        assert gate.given_up.wait(20)
        httpx.get(f"{running.url}/health/live")
    told = [each.getMessage() for each in caplog.records if each.name == "coatcheck.access"]
    (record,) = [each for each in told if "/content" in each]  # requests that merely took long are told of as well
    assert "status=499" in record
