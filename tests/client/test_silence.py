"""A service that takes connections and says nothing, or next to nothing, costs an agent one deadline, and once."""

import contextlib
import io
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator
from pathlib import Path
from typing import Any

import httpx
import pytest

from client.transports import Scripted, answers, refuses
from coatcheck_client import AsyncClient, Client, ServiceError
from coatcheck_client.retry import Retries
from coatcheck_client.retry_state import LONGEST_REST, SINGLE_ATTEMPT_SECONDS, CircuitBreaker
from support.service import Service

LOG = "".join(f"line {n}\n" for n in range(20_000))
DEADLINE = 0.5


def says_nothing(_: socket.socket, over: threading.Event) -> None:
    over.wait()


def drips(connection: socket.socket, over: threading.Event) -> None:
    """A header that never ends: every single read makes progress."""
    connection.sendall(b"HTTP/1.1 201 Created\r\nx: ")
    while not over.wait(0.05):
        connection.sendall(b"y")


@contextlib.contextmanager
def silent(behaves: Callable[[socket.socket, threading.Event], None]) -> Generator[tuple[str, list[int]]]:
    """A server that never answers, and how many connections it took."""
    over, taken = threading.Event(), list[int]()
    listener = socket.create_server(("127.0.0.1", 0), backlog=50)
    threads: list[threading.Thread] = []

    def serve() -> None:
        while True:
            connection, _ = listener.accept()
            if over.is_set():
                connection.close()
                return
            taken.append(1)
            threads.append(threading.Thread(target=hold, args=(connection,)))
            threads[-1].start()

    def hold(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            behaves(connection, over)

    threads.append(threading.Thread(target=serve))
    threads[0].start()
    port: int = listener.getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}", taken
    finally:
        over.set()
        socket.create_connection(("127.0.0.1", port)).close()
        for thread in threads:
            thread.join()
        listener.close()


def timed(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


@pytest.mark.parametrize("behaves", [says_nothing, drips])
def test_a_silent_service_costs_one_deadline_and_only_the_first_put(
    behaves: Callable[[socket.socket, threading.Event], None],
) -> None:
    with silent(behaves) as (url, taken), Client(url, deadline=DEADLINE) as client:
        assert timed(lambda: client.put(LOG)) >= DEADLINE
        for _ in range(20):
            assert not client.put(LOG).stored
        assert client.put("x" * 5, on_unreachable="original").text == "xxxxx"
        assert "[unreachable]" in client.read_artifact("art_482913077564201876")
        with pytest.raises(ServiceError, match="asked again in"):
            client.artifacts()
        assert len(taken) == 1


@pytest.mark.parametrize("behaves", [says_nothing, drips])
async def test_also_on_an_event_loop(behaves: Callable[[socket.socket, threading.Event], None]) -> None:
    with silent(behaves) as (url, taken):
        async with AsyncClient(url, deadline=DEADLINE) as client:
            began = time.monotonic()
            assert not (await client.put(LOG)).stored
            assert time.monotonic() - began >= DEADLINE
            for _ in range(20):
                assert not (await client.put(LOG)).stored
        assert len(taken) == 1


def test_a_socket_that_gives_up_before_the_deadline_s_own_clock_is_silence_too(tmp_path: Path) -> None:
    """As it does when both clocks end in the same moment; a file's put has no other clock than the socket's."""
    (tmp_path / "log").write_text(LOG)
    with silent(says_nothing) as (url, taken), Client(url, deadline=DEADLINE) as client:
        for _ in range(3):
            assert not client.put_file(tmp_path / "log").stored
        assert len(taken) == 1


def test_whatever_it_is_that_never_returns_ends_at_the_deadline_too() -> None:
    """As a look-up of a name does, for which no socket has a timeout."""
    over = threading.Event()

    class Forever(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            over.wait()
            raise httpx.ConnectError("no such host", request=request)

    with Client("http://coatcheck.example", deadline=DEADLINE, transport=Forever()) as client:
        assert timed(lambda: client.put(LOG)) >= DEADLINE  # and it returned, though the transport does not
        over.set()


def test_after_a_rest_one_short_question_decides_and_rests_grow() -> None:
    now = [0.0]
    breaker = CircuitBreaker(lambda: now[0])
    assert not breaker.needs_probe("u")
    breaker.failed(10)
    rests: list[float] = []
    for _ in range(6):
        with pytest.raises(ServiceError, match="asked again in"):
            breaker.needs_probe("u")
        before = now[0]
        while True:
            now[0] += 1
            with contextlib.suppress(ServiceError):
                assert breaker.needs_probe("u")
                break
        rests.append(now[0] - before)
        with pytest.raises(ServiceError):  # meanwhile the others are not sent
            breaker.needs_probe("u")
        now[0] += 1
        breaker.failed(1)
    assert rests == [SINGLE_ATTEMPT_SECONDS, 60, 120, 240, LONGEST_REST, LONGEST_REST]
    breaker.heard()
    assert not breaker.needs_probe("u")


def test_a_check_whose_own_time_is_up_does_not_end_the_requests_that_follow() -> None:
    over = threading.Event()

    def slow(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/citations/verify":
            over.wait(5)
        return httpx.Response(404, json={"code": "not_found", "detail": "An answer."})

    source = "[art_123456789012345678 · x]\nThe quick brown fox jumps over the lazy dog."
    with Client("http://127.0.0.1:1", transport=httpx.MockTransport(slow)) as client:
        answer = 'He said "a slow brown fox jumps over lazy dogs" [art_123456789012345678]'
        assert client.check_answer(answer, [source], deadline=0.1).citations[0].verdict == "unchecked"
        over.set()
        assert client.put(LOG).warnings[0].message.startswith("An answer.")


def test_a_failure_that_cost_nothing_opens_nothing() -> None:
    breaker = CircuitBreaker(lambda: 0.0)
    breaker.failed(0.01)
    assert not breaker.needs_probe("u")
    line = Scripted(refuses)
    with Client("http://127.0.0.1:1", transport=line, retries=Retries(attempts=1)) as client:
        for _ in range(5):
            client.put("x")
    assert len(line.requests) == 5


def test_a_service_that_answers_again_is_used_again(service: Service) -> None:
    now = [0.0]
    breaker = CircuitBreaker(lambda: now[0])
    with Client(service.url) as client:
        client._sender._breaker = breaker  # pyright: ignore[reportPrivateUsage]
        breaker.failed(10)
        assert not client.put("during the rest").stored
        now[0] += SINGLE_ATTEMPT_SECONDS
        assert client.put("after it").stored
        breaker.failed(10)
        assert client.ready()  # who asks is told, and the rest is over
        assert client.put("at once").stored


def test_an_error_of_a_stream_s_own_is_the_caller_s(service: Service) -> None:
    def broken() -> Generator[bytes]:
        yield b"some of it"
        raise ZeroDivisionError

    with Client(service.url) as client, pytest.raises(ZeroDivisionError):
        client.put_stream(broken())
    with Client("http://127.0.0.1:1", transport=Scripted(answers(500))) as client, pytest.raises(ZeroDivisionError):
        client.put_stream(broken())
    with Client(service.url) as client, pytest.raises(FileNotFoundError):
        client.put_file("/no/such/file")


class NonBlocking:
    """A stream that has something, and then nothing yet."""

    def __init__(self) -> None:
        self._pieces = [b"some of it", None, b"the rest", b""]

    def read(self, _size: int) -> bytes | None:
        return self._pieces.pop(0)


async def test_a_stream_that_is_not_ready_or_has_text_is_never_stored_as_if_it_ended(service: Service) -> None:
    async def pieces() -> AsyncIterator[Any]:
        yield b"some of it"
        yield "text"

    streams: list[Callable[[], Any]] = [NonBlocking, lambda: [b"some of it", None], lambda: io.StringIO("text")]
    with Client(service.url, session="not ready") as client:
        for stream in streams:
            with pytest.raises(TypeError, match="pieces must be bytes, not "):
                client.put_stream(stream())
    async with AsyncClient(service.url, session="not ready") as client:
        for stream in (*streams, pieces):
            with pytest.raises(TypeError, match="pieces must be bytes, not "):
                await client.put_stream(stream())
        assert [each async for each in client.each_artifact(session="not ready")] == []
        buffers: list[Any] = [bytearray(b"a"), memoryview(b"b"), b"", b"c"]
        assert (await client.put_stream(buffers)).text == "abc"
