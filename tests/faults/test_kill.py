"""What the service acknowledged survives kills and power failures; each protection's absence is noticed."""

import random
import socket
import sys
import time
from pathlib import Path

import httpx
import pytest

from faults import kill
from support.service import Service, start

LAUNCH = (sys.executable, str(Path(__file__).with_name("launch.py")))


def test_nothing_acknowledged_is_lost_and_nothing_leaks_when_the_process_is_killed_again_and_again() -> None:
    report = kill.run(cycles=4, seed=1)
    assert report.clean, report
    assert report.acknowledged > 5
    assert report.deleted > 0


def test_nothing_acknowledged_is_lost_when_only_what_was_synced_survives_the_kill() -> None:
    report = kill.run(cycles=3, seed=2, command=(*LAUNCH, "volatile"))
    assert report.clean, report
    assert report.acknowledged > 5


def test_without_the_sync_acknowledged_artifacts_are_lost_and_the_loop_says_so() -> None:
    report = kill.run(cycles=3, seed=2, command=(*LAUNCH, "volatile,no-sync"))
    assert report.lost + report.corrupt > 0
    assert not report.clean


def late_upload(service: Service) -> httpx.Response:
    """Send most of a large payload, wait until its upload was reaped and swept, then send the rest."""
    payload = random.Random(0).randbytes(3_000_000)
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as s:
        s.sendall(b"POST /v1/artifacts/raw HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(payload))
        s.sendall(payload[:2_900_000])
        deadline = time.monotonic() + 20
        seen = there = False
        while time.monotonic() < deadline:
            there = any(p.is_file() for p in (service.data / "blobs").rglob("*"))
            seen = seen or there
            if seen and not there:
                break
            time.sleep(0.05)
        assert seen
        assert not there
        s.sendall(payload[2_900_000:])
        raw = b""
        while b"\r\n\r\n" not in raw:
            raw += s.recv(65536)
    status = int(raw[9:12])
    return httpx.Response(status, content=raw.partition(b"\r\n\r\n")[2])


@pytest.mark.parametrize("fence", [True, False], ids=["with the fence", "without it"])
def test_an_upload_that_was_given_up_cannot_become_an_artifact_without_bytes(tmp_path: Path, fence: bool) -> None:
    command = kill.COMMAND if fence else (*LAUNCH, "no-fence")
    service = start(tmp_path / "data", command=command, settings={**kill.SETTINGS, "lease_seconds": 1})
    try:
        answer = late_upload(service)
        items = service.get("/v1/artifacts")["items"]
        if fence:
            assert answer.status_code == 503
            assert items == []
        else:
            assert answer.status_code == 201
            content = service.client.get(f"/v1/artifacts/{items[0]['id']}/content")
            assert content.status_code == 500, "the control should show that the fence is what protects"
            assert content.json()["code"] == "integrity"
    finally:
        service.stop()
