"""Storms of slow and of stalled uploads against a real server: whoever else puts something is served."""

import contextlib
import http.client
import json
import select
import socket
import threading
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Final, Protocol

import pytest

from support.service import Service, serving

SLOTS = 4
WAITING = 3
PIECE = b"10000\r\n" + b"slow output\n" * 5461 + b"abcd" + b"\r\n"
"""As much as is read of an upload before it needs a slot."""
FORM = b'--b\r\ncontent-disposition: form-data; name="file"; filename="a.log"\r\n\r\n'
LARGE = b"the first line\n" + b"a line of a large output\n" * 40_000 + b"the last line says what failed\n"
MIB: Final = 1024**2
FOR_LONG: Final = 250
"""Seconds that nothing here waits for in vain."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Generator[Service]:
    folder: Path = tmp_path_factory.mktemp("saturated")
    with serving(
        folder / "data", ingests=SLOTS, ingests_waiting=WAITING, ingests_wait_seconds=FOR_LONG, threads=1
    ) as running:
        yield running


class Upload:
    """An upload that goes on as the test says."""

    def __init__(self, service: Service, path: str = "raw", *, key: str | None = None, first: bytes = PIECE) -> None:
        self.socket = socket.create_connection(service.address, timeout=60)
        target = f"POST /v1/artifacts/{path} HTTP/1.1" if path else "POST /v1/artifacts HTTP/1.1"
        fields = [target, "host: localhost", "transfer-encoding: chunked"]
        fields += [f"authorization: Bearer {key}"] if key else []
        fields += [] if path else ["content-type: multipart/form-data; boundary=b"]
        self.socket.sendall("\r\n".join([*fields, "", ""]).encode())
        if not path:
            self.socket.sendall(b"%x\r\n%b\r\n" % (len(FORM), FORM))
        self.socket.sendall(first)

    def send(self) -> None:
        """Send a little more."""
        self.socket.sendall(b"9\r\na little\n\r\n")

    def end(self) -> None:
        """End it."""
        self.socket.sendall(b"0\r\n\r\n")

    def answer(self) -> tuple[int, dict[str, Any]]:
        """The status and the body of its answer."""
        response = http.client.HTTPResponse(self.socket)
        response.begin()
        return response.status, json.loads(response.read())

    def status(self) -> int:
        return self.answer()[0]


class Sends(Protocol):
    """What sends a little more on demand."""

    def send(self) -> None: ...


@contextlib.contextmanager
def sending(uploads: Sequence[Sends]) -> Generator[None]:
    """Send on, slowly but steadily."""
    stop = threading.Event()

    def send() -> None:
        while not stop.wait(0.2):
            for upload in uploads:
                upload.send()

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextlib.contextmanager
def storm(service: Service, count: int, *, key: str | None = None, sessions: bool = True) -> Generator[list[Upload]]:
    """Uploads that have begun, of as many sessions or of none."""
    uploads = [Upload(service, f"raw?session=s{n}" if sessions else "raw", key=key) for n in range(count)]
    try:
        yield uploads
    finally:
        for upload in uploads:
            upload.socket.close()


def until(service: Service, **wanted: float) -> None:
    """Ask until the server has got so far; every question is a request that it answers meanwhile."""
    for _ in range(500):
        if all(service.gauge(f"coatcheck_{name}") == value for name, value in wanted.items()):
            return
    raise AssertionError(wanted)


def test_while_uploads_fill_every_slot_reads_answer_and_what_has_arrived_is_stored(service: Service) -> None:
    kept = service.post("\n".join(f"line {n} of what was there before" for n in range(20_000)), tool_name="bash")
    with storm(service, SLOTS + WAITING) as uploads:
        with sending(uploads):
            until(service, ingests_running=SLOTS, ingests_waiting=WAITING)
            item = f"/v1/artifacts/{kept['id']}"
            for path in (
                item,
                f"{item}/read",
                f"{item}/search?pattern=line+777",
                f"{item}/windows?query=line+9",
                "/health/ready",
            ):
                assert service.client.get(path).status_code == 200, path
            assert service.content(kept["id"]).count(b"\n") == 19_999
            call = {"name": "read_artifact", "arguments": {"artifact_id": kept["id"], "offset": 5000}}
            assert service.client.post("/v1/tools/call", json=call).status_code == 200
            assert service.client.post("/v1/artifacts/raw", content=b"small\n").json()["stored"]
            assert service.client.post("/v1/artifacts", files={"file": b"a form\n"}).json()["stored"]
            assert service.post(LARGE.decode(), tool_name="json")["stored"]
            items = [{"content": "one of a batch"}, {"content": LARGE.decode(), "session": "batch"}]
            batch = service.client.post("/v1/artifacts:batch", json={"items": items}).json()["results"]
            assert [each["status"] for each in batch] == [201, 201]
            assert service.gauge("coatcheck_ingests_running") == SLOTS
        # Those who waited get the slots of those who end, and nothing of theirs is lost. All end before any answer is
        # awaited: the server need not have read them in the order in which they connected.
        for upload in uploads:
            upload.end()
        assert {upload.status() for upload in uploads} <= {200, 201}
    until(service, ingests_running=0, ingests_waiting=0)
    assert service.gauge("coatcheck_ingests_shed_total") == service.gauge("coatcheck_ingests_stalled_total") == 0


def test_an_upload_that_finds_no_slot_gets_a_card_of_both_ends_and_is_stored_when_posted_again(
    service: Service,
) -> None:
    form = {"file": ("a.log", LARGE)}
    with storm(service, SLOTS + WAITING) as uploads, sending(uploads):
        until(service, ingests_running=SLOTS, ingests_waiting=WAITING)
        answers = [
            service.client.post("/v1/artifacts/raw?session=s0&tool_name=late", content=LARGE),
            service.client.post("/v1/artifacts", files=form, data={"session": "s0", "tool_name": "form"}),
        ]
        for answer in answers:
            receipt = answer.json()
            assert (answer.status_code, receipt["stored"], receipt["inline"]) == (202, False, False)
            assert [warning["code"] for warning in receipt["warnings"]] == ["overloaded"]
            assert int(answer.headers["retry-after"]) >= 1
            assert "NOT STORED" in receipt["text"]
            assert "40002 lines" in receipt["text"]
            assert "the first line" in receipt["text"]
            assert "the last line says what failed" in receipt["text"]
            assert service.client.get(answer.headers["location"]).status_code == 404
        denied = {"authorization": "Bearer ck_live_wrong"}
        assert service.client.post("/v1/artifacts/raw", content=LARGE, headers=denied).status_code == 401
        assert service.gauge("coatcheck_ingests_shed_total") == 2
    until(service, ingests_running=0, ingests_waiting=0)
    again = service.client.post("/v1/artifacts/raw?session=s0&tool_name=late", content=LARGE)
    assert (again.status_code, again.json()["stored"]) == (201, True)
    assert (again.json()["id"], "retry-after" in again.headers) == (answers[0].json()["id"], False)
    assert service.gauge("coatcheck_ingests_refused_total") == 0


def test_uploads_that_break_off_give_their_slots_back(service: Service) -> None:
    with storm(service, SLOTS + WAITING) as uploads, sending(uploads):
        until(service, ingests_running=SLOTS, ingests_waiting=WAITING)
    until(service, ingests_running=0, ingests_waiting=0)
    assert service.client.post("/v1/artifacts/raw?session=after", content=LARGE).status_code == 201


@pytest.mark.parametrize("count", [100, 200])
def test_stalled_uploads_of_the_same_machine_keep_nobody_s_payload_from_being_stored(
    tmp_path: Path, count: int
) -> None:
    with serving(tmp_path / "data") as service:
        # Half of them have sent so little that they hold nothing yet.
        with storm(service, count // 2, sessions=False) as uploads, contextlib.ExitStack() as stack:
            for number in range(count // 2):
                few = Upload(service, "raw" if number % 2 else "", first=b"5\r\nbegun\r\n")
                stack.callback(few.socket.close)
            until(service, ingests_running=32, ingests_waiting=count // 2 - 32)
            small = service.client.post("/v1/artifacts/raw", content=b"what another tool said\n")
            large = service.client.post("/v1/artifacts/raw", content=LARGE)
            form = service.client.post("/v1/artifacts", files={"file": LARGE}, data={"session": "mine"})
            for answer in (small, large, form):
                assert (answer.status_code, answer.json()["stored"]) == (201, True)
            assert service.gauge("coatcheck_ingests_stalled_total") > 0
            readable, _, _ = select.select([upload.socket for upload in uploads], [], [], 60)
            answers = [upload.answer() for upload in uploads if upload.socket in readable]
        for status, problem in answers:
            assert (status, problem["code"]) == (400, "truncated_body")
            assert problem["detail"].startswith("No byte of the body arrived for 2 seconds. Nothing was stored; send")
        until(service, ingests_running=0, ingests_waiting=0)
        assert len(service.get("/v1/artifacts")["items"]) == 3


@pytest.mark.parametrize("path", ["raw", ""], ids=["raw", "form"])
def test_an_upload_gives_way_when_it_stalls_and_not_while_it_is_slow(tmp_path: Path, path: str) -> None:
    with serving(tmp_path / "data", ingests=1, ingests_wait_seconds=FOR_LONG) as service:
        slow = Upload(service, path)
        with ThreadPoolExecutor() as pool:
            with sending([slow]):
                until(service, ingests_running=1)
                large = pool.submit(service.client.post, "/v1/artifacts/raw", content=LARGE)
                until(service, ingests_waiting=1)
                assert not wait([large], timeout=4).done  # control: it sends, so it keeps its slot
            assert large.result().status_code == 201  # it has stalled
        assert slow.answer()[1]["code"] == "truncated_body"
        slow.socket.close()


class JsonUpload:
    """A body of JSON, as large as may be, that is not complete yet."""

    def __init__(self, service: Service) -> None:
        self.socket = socket.create_connection(service.address, timeout=60)
        fields = "host: localhost\r\ncontent-type: application/json"
        self.socket.sendall(f"POST /v1/artifacts HTTP/1.1\r\n{fields}\r\ncontent-length: {32 * MIB}\r\n\r\n".encode())
        self.socket.sendall(b" " * 31 * MIB)

    def send(self) -> None:
        """Send a little more."""
        self.socket.sendall(b" ")


def test_json_bodies_that_stall_give_their_memory_to_others(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as service, contextlib.ExitStack() as stack:
        uploads = [JsonUpload(service) for _ in range(4)]  # they hold all but 4 MiB of the budget
        for upload in uploads:
            stack.callback(upload.socket.close)

        def put(wanted: int) -> dict[str, Any]:
            for _ in range(500):
                answer = service.client.post("/v1/artifacts", json={"content": "x y z\n" * 1_000_000})
                if answer.status_code == wanted:
                    body: dict[str, Any] = answer.json()
                    return body
            raise AssertionError(wanted)

        with sending(uploads):
            assert put(503)["code"] == "overloaded"  # control: they send, so they keep it
        assert put(201)["stored"]
        readable, _, _ = select.select([upload.socket for upload in uploads], [], [], 60)
        assert b"truncated_body" in readable[0].recv(65536)


def test_a_key_whose_uploads_stall_leaves_slots_to_others(tmp_path: Path) -> None:
    with serving(
        tmp_path / "data", ingests=SLOTS, ingests_waiting=4, ingests_wait_seconds=FOR_LONG, metrics_open=True
    ) as service:
        keys = "/v1/admin/keys"
        first = service.client.post(keys, json={"name": "first", "scopes": ["read", "ingest", "admin"]}).json()
        service.client.headers["authorization"] = f"Bearer {first['key']}"
        other = service.client.post(keys, json={"name": "other", "scopes": ["ingest"]}).json()
        with storm(service, SLOTS + 2, key=first["key"]) as uploads, sending(uploads):
            until(service, ingests_running=SLOTS // 2, ingests_waiting=4)
            mine = service.client.post("/v1/artifacts/raw", content=LARGE)
            assert (mine.status_code, mine.json()["stored"]) == (202, False)  # control: the queue is full of its own
            theirs = {"authorization": f"Bearer {other['key']}"}
            answer = service.client.post("/v1/artifacts/raw", content=LARGE, headers=theirs)
            assert (answer.status_code, answer.json()["stored"]) == (201, True)
