"""A service on a damaged catalogue: it starts, says so, gives cards, reads what it can, and deletes nothing."""

import os
import random
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support.service import COMMAND, Service, serving

DATABASE = "coatcheck.db"
PAGE = 4096


def served(data: Path, *, sweep_seconds: int = 1) -> AbstractContextManager[Service]:
    return serving(data, sweep_seconds=sweep_seconds, grace_seconds=0)


class Stored(NamedTuple):
    """A stopped store with live artifacts, and with a deleted one whose bytes the next sweep removes."""

    data: Path
    kept: dict[str, bytes]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    data, rng = tmp_path_factory.mktemp("damage") / "data", random.Random(1)
    kept: dict[str, bytes] = {}
    with served(data, sweep_seconds=3600) as service:
        for turn in range(120):
            payload = rng.randbytes(100_000 if turn % 10 == 0 else 3_000)
            kept[service.post(payload, ttl=86400)["id"]] = payload
        deleted = service.post(rng.randbytes(100_000))["id"]
        assert service.client.delete(f"/v1/artifacts/{deleted}").status_code == 204
    return Stored(data, kept)


@pytest.fixture
def data(stored: Stored, tmp_path: Path) -> Path:
    shutil.copytree(stored.data, tmp_path / "data")
    return tmp_path / "data"


def overwrite(path: Path, start: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(content)


def noise(size: int) -> bytes:
    return random.Random(2).randbytes(size)


def root_pages(path: Path, *, name: str = "%", table: str = "%") -> list[int]:
    """The first pages of tables and indexes."""
    with closing(sqlite3.connect(path)) as raw:
        query = "SELECT rootpage FROM sqlite_master WHERE name LIKE ? AND tbl_name LIKE ? AND rootpage"
        return [int(row[0]) for row in raw.execute(query, [name, table])]


def header(path: Path) -> None:
    overwrite(path, 0, noise(100))


def middle_page(path: Path) -> None:
    overwrite(path, path.stat().st_size // PAGE // 2 * PAGE, bytes(PAGE))


def half(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def index_page(path: Path) -> None:
    """Garbage in an index that no read by ID uses."""
    for page in root_pages(path, name="ix_artifacts_expires_at"):
        overwrite(path, (page - 1) * PAGE, noise(PAGE))


def lost_table(path: Path) -> None:
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("DROP TABLE uploads")


def foreign(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("CREATE TABLE bookmarks (url TEXT)")


def keys_pages(path: Path) -> None:
    for page in root_pages(path, table="keys"):
        overwrite(path, (page - 1) * PAGE, noise(PAGE))


def emptied(path: Path) -> None:
    path.write_bytes(b"")


class Case(NamedTuple):
    """How a catalogue is damaged, how far that goes, and whether reads by ID still work."""

    cause: Callable[[Path], None]
    health: str
    words: str
    reads: bool | None


CASES = {
    "header overwritten": Case(header, "away", "SQLITE_NOTADB", False),
    "page in the middle zeroed": Case(middle_page, "degraded", "", None),
    "truncated": Case(half, "away", "", False),
    "garbage in an index": Case(index_page, "degraded", "", True),
    "table lost": Case(lost_table, "degraded", "the table uploads is missing", True),
    "keys unreadable": Case(keys_pages, "away", "", False),
    "another program's database": Case(foreign, "away", "is not a catalogue", False),
    "emptied": Case(emptied, "away", "its file is empty", False),
}


def files(data: Path) -> set[str]:
    return {path.name for path in (data / "blobs").rglob("*") if path.is_file()}


def check_and_repair(data: Path) -> int:
    """The exit code of a check that removes orphans, of which every file is old enough to be one."""
    for path in (data / "blobs").rglob("*"):
        os.utime(path, (1, 1))
    return subprocess.run(
        [*COMMAND, "check", "--apply", "--data", str(data)], capture_output=True, check=False
    ).returncode


def ready(service: Service) -> tuple[int, Any]:
    time.sleep(1.1)  # a result is used for a second
    answer = service.client.get("/health/ready")
    return answer.status_code, answer.json()


def expect_reading_mode(service: Service, health: str, words: str) -> None:
    status, body = ready(service)
    reasons = {(reason["component"], reason["health"], reason["code"]) for reason in body["reasons"]}
    assert (status, body["status"], reasons) == (503, health, {("catalogue", health, "integrity")})
    (reason,) = body["reasons"]
    assert words in reason["detail"]
    assert "coatcheck restore" in reason["detail"]
    assert service.client.get("/health/live").status_code == 200
    assert service.gauge("coatcheck_catalog_damaged") == 1.0
    assert service.gauge("coatcheck_deletions_paused") == 1.0
    page = service.client.get("/", headers={"accept": "text/html"}).text
    assert ("database is damaged" in page, "resume deletions" in page) == (True, False)
    for size in (2_000, 200_000):
        text = "".join(f"{number} {size}\n" for number in range(size // 8))
        card = service.client.post("/v1/artifacts", json={"content": text})
        assert (card.status_code, card.json()["stored"]) == (202, False)
        assert "NOT STORED" in card.json()["text"]
        assert card.json()["warnings"][0]["code"] == "storage_unavailable"


@pytest.mark.parametrize("name", CASES)
def test_a_damaged_catalogue_is_told_and_only_read(data: Path, stored: Stored, name: str) -> None:
    case, before = CASES[name], files(data)
    case.cause(data / DATABASE)
    image = (data / DATABASE).read_bytes()
    with served(data) as service:
        expect_reading_mode(service, case.health, case.words)
        answers = [service.client.get(f"/v1/artifacts/{each}/content") for each in stored.kept]
        assert {answer.status_code for answer in answers} <= {200, 503}
        assert case.reads is None or {answer.status_code for answer in answers} == {200 if case.reads else 503}
        assert all(a.content == p for a, p in zip(answers, stored.kept.values(), strict=True) if a.status_code == 200)
        first = next(iter(stored.kept))
        assert service.client.delete(f"/v1/artifacts/{first}").status_code == 503
        plan = service.client.post("/v1/admin/retention/plan", json={"job": "sweep"})
        assert (plan.status_code, plan.json()["code"]) in {(409, "deletions_paused"), (503, "storage_unavailable")}
        time.sleep(2)  # rounds of the sweep
    assert files(data) == before
    assert (data / DATABASE).read_bytes() == image
    assert check_and_repair(data) != 0
    assert files(data) == before


def test_an_undamaged_catalogue_is_ready_and_swept(data: Path, stored: Stored) -> None:
    before = files(data)
    with served(data) as service:
        assert ready(service) == (200, {"status": "ready"})
        assert service.gauge("coatcheck_catalog_damaged") == 0.0
        assert all(service.content(name) == payload for name, payload in stored.kept.items())
        time.sleep(2)
        assert len(before) - len(files(data)) == 1
    (data / "blobs" / "00").mkdir(exist_ok=True)
    orphan = data / "blobs" / "00" / f"{next(iter(files(data)))[:-2]}00"
    orphan.touch()
    assert check_and_repair(data) == 0
    assert not orphan.exists()


def test_damage_that_a_statement_meets_is_told_from_then_on(data: Path, stored: Stored) -> None:
    with served(data, sweep_seconds=3600) as service:
        assert ready(service)[0] == 200
        before = files(data)
        for page in range(1, (data / DATABASE).stat().st_size // PAGE):
            overwrite(data / DATABASE, page * PAGE, noise(PAGE))
        assert {service.client.get(f"/v1/artifacts/{name}/content").status_code for name in stored.kept} <= {200, 503}
        status, body = ready(service)
        assert (status, {reason["code"] for reason in body["reasons"]}) == (503, {"integrity"})
        card = service.client.post("/v1/artifacts", json={"content": "line\n" * 50_000})
        assert (card.status_code, card.json()["stored"]) == (202, False)
        assert files(data) == before
