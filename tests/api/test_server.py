"""Over real sockets: what a server does with a body that comes slowly, never ends, or breaks off."""

import contextlib
import json
import socket
from collections.abc import Generator, Iterator
from pathlib import Path

import httpx
import pytest

from coatcheck.api.http.protocol import HEAD_BYTES, HEAD_FIELDS
from support.face_server import LIMIT, Running, everything, face_server, head


@pytest.fixture
def running(tmp_path: Path, template: Path) -> Generator[Running]:
    with face_server(tmp_path, template) as server:
        yield server


@pytest.mark.parametrize("sent", [0, 1, 70_000, 3_000_000])
def test_an_upload_that_breaks_off_leaves_nothing(running: Running, sent: int) -> None:
    running.exchange(head("/v1/artifacts/raw", "content-length: 5000000"), b"x" * sent)
    assert running.is_empty()


@pytest.mark.parametrize("sent", [0, 3_000_000])
def test_an_upload_whose_client_vanishes_leaves_nothing(running: Running, sent: int) -> None:
    with running.connection() as s:
        s.sendall(head("/v1/artifacts/raw", "content-length: 5000000") + b"x" * sent)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    assert running.is_empty()


@pytest.mark.parametrize("end", [b"zz\r\nx\r\n", b"5\r\nab", b"2\r\nabc\r\n", b""])
def test_broken_chunks_leave_nothing(running: Running, end: bytes) -> None:
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    answer = running.exchange(head("/v1/artifacts/raw", "transfer-encoding: chunked"), chunk * 20, end)
    assert b" 201 " not in answer
    assert running.is_empty()


def test_chunks_are_a_payload_like_any_other(running: Running) -> None:
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    answer = running.exchange(
        head("/v1/artifacts/raw", "transfer-encoding: chunked", "connection: close"), chunk * 20, b"0\r\n\r\n"
    )
    assert answer.startswith(b"HTTP/1.1 201 ")
    assert (running.harness.count("artifacts"), running.harness.count("blobs", f"size = {20 * 65536}")) == (1, 1)


def test_a_form_that_breaks_off_leaves_nothing(running: Running) -> None:
    body = b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n' + b"x" * 1_000_000
    fields = ("content-type: multipart/form-data; boundary=b", f"content-length: {len(body) + 9}")
    running.exchange(head("/v1/artifacts", *fields), body)
    whole = ("content-type: multipart/form-data; boundary=b", f"content-length: {len(body)}", "connection: close")
    answer = running.exchange(head("/v1/artifacts", *whole), body)
    assert b'"truncated_body"' in answer
    assert running.is_empty()


@pytest.mark.parametrize("path", ["/v1/artifacts/raw", "/v1/artifacts", "/v1/artifacts:batch"])
def test_an_announced_length_over_the_limit_is_refused_before_the_body_is_asked_for(
    running: Running, path: str
) -> None:
    fields = (
        "expect: 100-continue",
        "content-length: 40000000000",
        "content-type: application/json",
        "connection: close",
    )
    with running.connection() as s:
        s.sendall(head(path, *fields))
        answer = everything(s)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"100 Continue" not in answer


def test_a_payload_over_the_limit_is_refused_while_it_streams_and_the_client_hears_of_it(running: Running) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(LIMIT // 100_000 + 50):
            yield b"x" * 100_000

    answer = httpx.post(f"{running.url}/v1/artifacts/raw", content=endless(), timeout=20)
    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")
    assert running.is_empty()


def test_one_connection_serves_on_after_a_refusal(running: Running) -> None:
    with httpx.Client(base_url=running.url) as client:
        assert client.post("/v1/artifacts/raw", content=b"x", headers={"content-encoding": "br"}).status_code == 415
        assert (
            client.post("/v1/artifacts/raw", content=b"x" * 200_000, headers={"origin": "http://a"}).status_code == 403
        )
        assert client.post("/v1/artifacts/raw", content=b"x" * 200_000).status_code == 201
        head_answer = client.head("/v1/artifacts")
        assert (head_answer.status_code, head_answer.content) == (200, b"")
        assert client.get("/health/live").status_code == 200


def test_a_request_without_a_host_is_refused(running: Running) -> None:
    assert b"forbidden_host" in running.exchange(b"GET /v1/artifacts HTTP/1.0\r\n\r\n", close=False)


LINE = b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n"


@pytest.mark.parametrize(
    "fields",
    [
        b"x: " + b"a" * 40_000_000,
        b"x: " + b"a" * HEAD_BYTES + b"\r\n\r\n",
        b"x: y\r\n" * (HEAD_FIELDS + 1),
        b"x: y\r\n" * HEAD_FIELDS + b"\r\n",
    ],
)
def test_a_header_section_of_any_size_is_not_taken(running: Running, fields: bytes) -> None:
    with running.connection() as s:
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            s.sendall(LINE + fields)
        # What was sent after the refusal may reset the connection before the answer is read.
        assert everything(s)[:13] in {b"HTTP/1.1 431 ", b""}
    assert httpx.get(f"{running.url}/health/live").status_code == 200


def test_a_header_section_within_its_bounds_is_taken(running: Running) -> None:
    fields = b"x: y\r\n" * (HEAD_FIELDS - 2) + b"connection: close\r\n"
    assert running.exchange(LINE + fields + b"\r\n").startswith(b"HTTP/1.1 200 ")
    large = b"x: " + b"a" * (HEAD_BYTES - 200) + b"\r\nconnection: close\r\n"
    assert running.exchange(LINE + large + b"\r\n").startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("part", [b"x: " + b"a" * 1_000_000, b"x: y\r\n" * (HEAD_FIELDS + 1)])
def test_a_trailer_of_any_size_is_not_taken(running: Running, part: bytes) -> None:
    with running.connection() as s:
        s.sendall(head("/v1/artifacts/raw", "transfer-encoding: chunked") + b"1\r\nx\r\n0\r\n")
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            s.sendall(part)
        assert everything(s)[:13] in {b"HTTP/1.1 431 ", b""}
    assert running.is_empty()


def test_a_header_section_that_comes_too_slowly_is_given_up(running: Running) -> None:
    with running.connection() as s:
        s.sendall(LINE)
        assert everything(s).startswith(b"HTTP/1.1 408 ")
    with running.connection() as s:
        assert everything(s) == b""
    with running.connection() as s:
        s.sendall(LINE + b"\r\n")
        assert s.recv(13) == b"HTTP/1.1 200 "
        s.sendall(LINE[:10])
        assert b"HTTP/1.1 408 " in everything(s)


@pytest.mark.parametrize(
    ("request_", "status", "code"),
    [
        (b"no request at all\r\n\r\n", 400, "invalid_request"),
        (head("/v1/artifacts/raw", "transfer-encoding: chunked") + b"zz\r\nx\r\n", 400, "invalid_request"),
        (head("/v1/artifacts/raw", *["x: y"] * (HEAD_FIELDS + 1)), 431, "header_too_large"),
        (b"GET /health/live HTTP/1.1\r\n", 408, "header_timeout"),
    ],
    ids=["no HTTP", "broken chunks", "too many fields", "too slow"],
)
def test_what_is_refused_before_it_is_a_request_is_answered_with_a_problem_like_all_else(
    running: Running, request_: bytes, status: int, code: str
) -> None:
    top, _, body = running.exchange(request_, close=False).partition(b"\r\n\r\n")
    line, *fields = top.decode().split("\r\n")
    headers = dict(field.split(": ", 1) for field in fields)
    problem = json.loads(body)
    assert line.startswith(f"HTTP/1.1 {status} ")
    assert (headers["content-type"], headers["connection"]) == ("application/problem+json", "close")
    assert int(headers["content-length"]) == len(body)
    assert (problem["status"], problem["code"], problem["request_id"]) == (status, code, headers["x-request-id"])


@pytest.mark.parametrize("path", ["/v1/artifacts/raw", "/v1/artifacts"])
def test_a_body_that_stops_coming_is_given_up_and_its_connection_closed(running: Running, path: str) -> None:
    with running.connection() as s:
        s.sendall(head(path, "content-length: 5000000", "content-type: application/json") + b"x" * 1_000_000)
        answer = everything(s)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert (b"connection: close" in answer, b"truncated_body" in answer) == (True, True)
    assert running.is_empty()


def test_a_sender_of_a_byte_now_and_then_does_not_hold_its_place(running: Running) -> None:
    with running.connection() as s:
        s.sendall(head("/v1/artifacts/raw", "content-length: 5000000"))
        s.settimeout(0.2)
        answer = b""
        for _ in range(100):  # each well within the time that a body may go without a byte
            s.sendall(b"x")
            with contextlib.suppress(TimeoutError):
                answer = s.recv(65536)
                break
        s.settimeout(20)
        with contextlib.suppress(ConnectionResetError):
            answer += everything(s)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert (b"truncated_body" in answer, b"bytes per second" in answer) == (True, True)
    assert running.is_empty()


def test_json_bodies_that_do_not_fit_together_are_refused_for_now(running: Running) -> None:
    fields = ("content-length: 2500000", "content-type: application/json", "connection: close")
    with running.connection() as first, running.connection() as second:
        first.sendall(head("/v1/artifacts", *fields) + b" " * 2_000_000)
        second.sendall(head("/v1/artifacts", *fields) + b" " * 2_000_000)
        answers = everything(first) + everything(second)
    assert (answers.count(b"HTTP/1.1 503 "), answers.count(b"retry-after: 2")) == (1, 1)
    body = b'{"content":"x"}' + b" " * 2_500_000
    answer = httpx.post(f"{running.url}/v1/artifacts", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 201


def test_an_upgrade_is_passed_over(running: Running) -> None:
    fields = b"connection: upgrade, close\r\nupgrade: websocket\r\n\r\n"
    assert running.exchange(LINE + fields, close=False).startswith(b"HTTP/1.1 200 ")


def test_every_method_is_named_for_the_server_itself(running: Running) -> None:
    answer = running.exchange(b"OPTIONS * HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 204 ")
    assert b"allow: DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT" in answer


@pytest.mark.parametrize("hosts", [b"", b"host: localhost\r\nhost: localhost\r\n"])
def test_a_request_of_http_1_1_has_one_host(running: Running, hosts: bytes) -> None:
    answer = running.exchange(b"GET /health/live HTTP/1.1\r\nconnection: close\r\n" + hosts + b"\r\n")
    assert (answer[:13], b'"invalid_request"' in answer) == (b"HTTP/1.1 400 ", True)


@pytest.mark.parametrize(
    "fields",
    [
        ("transfer-encoding: gzip, chunked",),
        ("transfer-encoding: deflate, chunked",),
        ("transfer-encoding: gzip", "transfer-encoding: chunked"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/artifacts/raw", "/v1/artifacts"])
def test_a_transfer_coding_that_nobody_undoes_is_refused(running: Running, path: str, fields: tuple[str, ...]) -> None:
    request = head(path, *fields, "connection: close") + b"5\r\nhello\r\n0\r\n\r\n"
    answer = running.exchange(request, close=False)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"Transfer-Encoding" in answer
    assert running.is_empty()


@pytest.mark.parametrize("closing", [True, False], ids=["close", "keep-alive"])
def test_a_client_that_writes_all_before_it_reads_sees_why_it_is_refused(running: Running, *, closing: bool) -> None:
    fields = ["content-length: 40000000", *(["connection: close"] if closing else [])]
    with running.connection() as s:
        s.sendall(head("/v1/artifacts/raw", *fields))
        for _ in range(40):
            s.sendall(b"x" * 1_000_000)
        answer = s.recv(65536)
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"payload_too_large" in answer
        if closing:
            assert everything(s) == b""
        else:
            s.sendall(b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert s.recv(65536).startswith(b"HTTP/1.1 200 ")
    assert running.is_empty()
