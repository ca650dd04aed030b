"""A full disk under a real service: it says so, loses nothing, deletes in its reserve, and heals without help."""

import itertools
import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coatcheck.adapters.system import NAME, DiskReserve
from support.service import Service
from support.small_disk import SmallDisk, small_disk
from support.used_servers import used

MIB = 1024**2
SETTINGS: dict[str, int | str] = {
    "sweep_seconds": 1,
    "grace_seconds": 0,
    "reserve_bytes": 4 * MIB,
    "inline_tokens": 0,
    "fallback_bytes": 0,
}
LONG, SHORT = 86400, 25
INLINE, FILE = 20_000, 300_000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        used("full disks: none, util-linux is not here")
        pytest.skip("no unshare and nsenter")
    with small_disk(tmp_path / "disk", 24 * MIB) as mounted:
        if mounted is None:
            used("full disks: none, user namespaces are forbidden here")
            pytest.skip("user namespaces are forbidden here")
        yield mounted


Payloads = Iterator[bytes]
FULL = 503, {"storage_full"}
SEEDS = itertools.count()


def payloads(size: int) -> Payloads:
    """Bytes that no other payload of this process has, and that no compression makes smaller."""
    return (random.Random(next(SEEDS)).randbytes(size) for _ in itertools.count())


def put(service: Service, payload: bytes, ttl: int = LONG) -> dict[str, Any]:
    """Post a payload; the receipt, which must be honest."""
    answer = service.client.post("/v1/artifacts/raw", params={"ttl": ttl}, content=payload)
    receipt: dict[str, Any] = answer.json()
    codes = {warning["code"] for warning in receipt["warnings"]}
    assert (answer.status_code, receipt["stored"], "storage_full" in codes) in {(201, True, False), (202, False, True)}
    return receipt


def fill_by_puts(service: Service, size: int, ttl: int) -> dict[str, bytes]:
    """Post until a payload is refused; what was acknowledged."""
    stored: dict[str, bytes] = {}
    for payload in payloads(size):
        receipt = put(service, payload, ttl)
        if not receipt["stored"]:
            return stored
        stored[receipt["id"]] = payload
    raise AssertionError


def eventually(holds: Callable[[], bool], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if holds():
            return True
        time.sleep(0.5)
    return False


def ready(service: Service) -> tuple[int, set[str]]:
    time.sleep(1.1)  # a result is used for a second
    answer = service.client.get("/health/ready")
    return answer.status_code, {reason["code"] for reason in answer.json().get("reasons", ())}


def fill_up(service: Service, disk: SmallDisk) -> bool:
    """Whether nothing is free but the reserve, and the service says so; repeat it until then."""
    disk.fill()
    fill_by_puts(service, INLINE, SHORT)  # the database's log may have had room, and gives it back once it is emptied
    if (disk.seen / "data" / NAME).stat().st_size < 2 * MIB:
        disk.clear()  # this filler took what was lent for a moment
        return False
    return ready(service) == FULL


@pytest.mark.parametrize("size", [INLINE, FILE])
def test_a_disk_filled_by_puts_accepts_again_once_the_oldest_expired(disk: SmallDisk, size: int) -> None:
    service = disk.start(**SETTINGS)
    assert (ready(service), service.gauge("coatcheck_storage_full")) == ((200, set()), 0.0)
    kept = {put(service, payload)["id"]: payload for payload in itertools.islice(payloads(size), MIB // size)}
    stored = fill_by_puts(service, size, SHORT)
    assert len(stored) * size > 8 * MIB
    assert eventually(lambda: fill_up(service, disk), 20)
    assert service.gauge("coatcheck_storage_full") == 1.0
    assert "The disk is full" in service.client.get("/", headers={"accept": "text/html"}).text
    assert all(service.content(name) == payload for name, payload in kept.items())

    assert eventually(lambda: put(service, next(payloads(INLINE)))["stored"], SHORT + 30)
    # All of them have expired soon; until then the log alone may fill what the first ones gave back.
    assert eventually(lambda: put(service, next(payloads(FILE)))["stored"] and ready(service) == (200, set()), 30)
    assert service.gauge("coatcheck_storage_full") == 0.0
    assert (disk.seen / "data" / NAME).stat().st_blocks * 512 == 4 * MIB
    assert all(service.content(name) == payload for name, payload in kept.items())
    assert service.stop() == 0


def test_without_a_reserve_a_full_disk_stays_full(disk: SmallDisk) -> None:
    service = disk.start(**SETTINGS | {"reserve_bytes": 0})
    fill_by_puts(service, INLINE, SHORT)  # a slow machine must fill the disk before the first ones expire
    disk.fill()
    assert not eventually(lambda: put(service, next(payloads(INLINE)))["stored"], SHORT + 10)


def test_on_no_free_byte_deleting_planning_applying_and_restarting_work(disk: SmallDisk) -> None:
    service = disk.start(**SETTINGS)
    names = [put(service, payload)["id"] for payload in itertools.islice(payloads(INLINE), 600)]
    names += [put(service, payload)["id"] for payload in itertools.islice(payloads(FILE), 5)]
    for restarted in (False, True):
        if restarted:
            assert service.stop() == 0
            disk.fill()
            assert disk.free == 0
            service = disk.start(**SETTINGS)
        assert eventually(lambda: fill_up(service, disk), 20)  # noqa: B023 - called at once
        gone, kept = names[restarted], names[10]
        assert service.client.delete(f"/v1/artifacts/{gone}").status_code == 204
        assert service.client.get(f"/v1/artifacts/{gone}/content").status_code == 410
        assert len(service.content(kept)) == INLINE

    disk.fill()
    asked = {"job": "evict", "namespace": "default", "max_bytes": MIB}
    plan = service.client.post("/v1/admin/retention/plan", json=asked)
    assert plan.status_code == 200, plan.text
    asked = {"digest": plan.json()["digest"], "confirm": True, "wait": 20}
    run = service.client.post("/v1/admin/retention/apply", json=asked)
    assert (run.status_code, run.json()["outcome"]) == (200, "finished"), run.text
    assert run.json()["artifacts"] > 500  # more than one part
    assert eventually(lambda: put(service, next(payloads(INLINE)))["stored"], 30)
    assert service.stop() == 0


def test_without_a_reserve_a_service_starts_on_no_free_byte_reads_and_goes_on_once_there_is_room(
    disk: SmallDisk,
) -> None:
    service = disk.start(**SETTINGS)
    kept = {put(service, payload)["id"]: payload for payload in itertools.islice(payloads(INLINE), 50)}
    assert service.stop() == 0
    (disk.seen / "data" / NAME).unlink()
    disk.fill()
    assert disk.free == 0
    service = disk.start(**SETTINGS)
    assert not put(service, next(payloads(INLINE)))["stored"]
    assert "NOT STORED" in put(service, b"line\n" * 20_000)["text"]
    assert all(service.content(name) == payload for name, payload in kept.items())
    assert ready(service) == FULL
    disk.clear()
    assert eventually(lambda: put(service, next(payloads(INLINE)))["stored"], 10)
    assert ready(service) == (200, set())
    assert service.stop() == 0


def test_the_reserve_is_as_large_as_the_setting_and_really_allocated(tmp_path: Path) -> None:
    for size in (MIB, 3 * MIB, 2 * MIB):
        reserve = DiskReserve(tmp_path, size)
        with reserve.lent():
            pass
        made = (tmp_path / NAME).stat()
        assert (made.st_size, made.st_blocks * 512 >= size, reserve.is_full()) == (size, True, False)
    (tmp_path / NAME).unlink()
    with DiskReserve(tmp_path, 0).lent():
        pass
    assert not (tmp_path / NAME).exists()
