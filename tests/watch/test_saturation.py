"""A storm of slow uploads against a real server: what does not fit is sent away, and reading goes on."""

import contextlib
import socket
from collections.abc import Generator
from pathlib import Path

import pytest

from support.service import Service, serving

PLACES = 4
WAITING = 3
HEAD = b"POST /v1/artifacts/raw?tool_name=slow HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n"
PIECE = b"10000\r\n" + b"slow output\n" * 5461 + b"abcd" + b"\r\n"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Generator[Service]:
    folder: Path = tmp_path_factory.mktemp("saturated")
    with serving(
        folder / "data", ingests=PLACES, ingests_waiting=WAITING, ingests_wait_seconds=250, threads=1
    ) as running:
        yield running


class Upload:
    """An upload that goes on as the test says."""

    def __init__(self, service: Service, key: str | None = None) -> None:
        host, port = service.url.removeprefix("http://").split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        shown = b"" if key is None else f"authorization: Bearer {key}\r\n".encode()
        self.socket.sendall(HEAD + shown + b"\r\n" + PIECE)

    def end(self) -> None:
        """End it."""
        self.socket.sendall(b"0\r\n\r\n")

    def status(self) -> int:
        """The status of its answer."""
        return int(self.socket.recv(65536).split(b" ", 2)[1])


def gauge(service: Service, name: str) -> float:
    for line in service.client.get("/metrics").text.splitlines():
        if line.startswith(f"{name} "):
            return float(line.rpartition(" ")[2])
    raise AssertionError(name)


@contextlib.contextmanager
def storm(service: Service, count: int, key: str | None = None) -> Generator[list[Upload]]:
    uploads = [Upload(service, key) for _ in range(count)]
    try:
        yield uploads
    finally:
        for upload in uploads:
            upload.socket.close()


def until(service: Service, **wanted: float) -> None:
    """Ask until the server has got so far; every question is a request that it answers meanwhile."""
    for _ in range(500):
        if all(gauge(service, f"coatcheck_{name}") == value for name, value in wanted.items()):
            return
    raise AssertionError(wanted)


def test_while_uploads_fill_every_place_reads_answer_and_more_uploads_are_sent_away(service: Service) -> None:
    kept = service.post("\n".join(f"line {n} of what was there before" for n in range(20_000)), tool_name="bash")
    with storm(service, PLACES + WAITING) as uploads:
        until(service, ingests_running=PLACES, ingests_waiting=WAITING)
        late = service.client.post("/v1/artifacts/raw", content=b"too late\n")
        assert (late.status_code, late.json()["code"]) == (503, "overloaded")
        assert int(late.headers["retry-after"]) >= 1
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
        assert gauge(service, "coatcheck_ingests_running") == PLACES
        # Those who waited get the places of those who end, and nothing of theirs is lost. All end before any answer is
        # awaited: the server need not have read them in the order in which they connected.
        for upload in uploads:
            upload.end()
        assert {upload.status() for upload in uploads} <= {200, 201}
    until(service, ingests_running=0, ingests_waiting=0)
    assert service.client.post("/v1/artifacts/raw", content=b"in time\n").status_code == 201
    assert gauge(service, "coatcheck_ingests_refused_total") == 1


def test_uploads_that_break_off_give_their_places_back(service: Service) -> None:
    with storm(service, PLACES + WAITING):
        until(service, ingests_running=PLACES, ingests_waiting=WAITING)
    until(service, ingests_running=0, ingests_waiting=0)
    assert service.client.post("/v1/artifacts/raw", content=b"after the storm\n").status_code == 201


def test_a_key_whose_uploads_stall_leaves_places_to_others(tmp_path: Path) -> None:
    with serving(tmp_path / "data", ingests=PLACES, ingests_waiting=4, metrics_open=True) as service:
        keys = "/v1/admin/keys"
        first = service.client.post(keys, json={"name": "first", "scopes": ["read", "ingest", "admin"]}).json()
        service.client.headers["authorization"] = f"Bearer {first['key']}"
        other = service.client.post(keys, json={"name": "other", "scopes": ["ingest"]}).json()
        with storm(service, PLACES, first["key"]):
            until(service, ingests_running=PLACES // 2, ingests_waiting=PLACES // 2)
            mine = service.client.post("/v1/artifacts/raw", content=b"one more\n")
            assert (mine.status_code, "of this key" in mine.json()["detail"]) == (503, True)
            theirs = {"authorization": f"Bearer {other['key']}"}
            assert service.client.post("/v1/artifacts/raw", content=b"mine\n", headers=theirs).status_code == 201
