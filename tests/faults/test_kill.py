"""What the service acknowledged survives kills; without the fence it would not."""

import random
import time
from pathlib import Path

import pytest

from faults import combos, syscalls
from faults.caller import Answer, SlowUpload
from faults.fork_server import Nursery, Running
from faults.harnesses import kill


@pytest.mark.parametrize("storage", combos.COMBOS)
def test_nothing_acknowledged_is_lost_and_nothing_leaks_when_the_process_is_killed_again_and_again(
    forks: Nursery, storage: str
) -> None:
    report = kill.run(storage, cycles=2, seed=1, shared=forks)
    assert report.clean, report.line()
    assert report.counts["acknowledged"] > 3
    assert report.counts["deleted"] > 0


@pytest.mark.skipif(syscalls.why_not() is None, reason="test_power.py pulls the plug at the real system calls here")
@pytest.mark.parametrize("synced", [True, False], ids=["with the sync", "without it"])
def test_the_loop_on_a_file_system_that_keeps_only_what_was_synced_tells_a_store_that_does_not_sync(
    forks: Nursery, synced: bool
) -> None:
    report = kill.run(combos.EMBEDDED, 3, 2, ["volatile" if synced else "volatile-no-sync"], forks)
    assert report.clean is synced, report.line()


def late_upload(service: Running) -> Answer:
    """Send most of a large payload, wait until its upload was reaped and swept, then send the rest."""
    payload = random.Random(0).randbytes(3_000_000)
    sending = SlowUpload(*service.address, len(payload))
    sending.send(payload[:2_900_000])
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
    sending.send(payload[2_900_000:])
    return sending.answer()


@pytest.mark.parametrize("fence", [True, False], ids=["with the fence", "without it"])
def test_an_upload_that_was_given_up_cannot_become_an_artifact_without_bytes(
    forks: Nursery, tmp_path: Path, fence: bool
) -> None:
    service = forks.start(tmp_path / "data", faults=[] if fence else ["no-fence"], settings=kill.SETTINGS)
    try:
        answer = late_upload(service)
        caller = service.caller()
        items = caller.call("GET", "/v1/artifacts").json["items"]
        if fence:
            assert answer.status == 503
            assert items == []
        else:
            assert answer.status == 201
            content = caller.content(items[0]["id"])
            assert (content.status, content.json["code"]) == (500, "integrity"), "the fence is what protects"
        caller.close()
    finally:
        service.stop()
