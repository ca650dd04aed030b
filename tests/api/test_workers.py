"""`coatcheck serve --workers`: several processes on one port, that look like one from outside."""

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
import pytest

from support.combos import POSTGRES, Combo, fresh_combo
from support.service import COMMAND, Service, serving, start

WORKERS = 2


@pytest.fixture
def combo() -> Generator[Combo]:
    with fresh_combo(POSTGRES) as made:
        yield made


def workers_of(service: Service) -> list[psutil.Process]:
    """Processes that serve, without those that extract texts."""
    found: list[psutil.Process] = []
    for each in psutil.Process(service.process.pid).children():
        with contextlib.suppress(psutil.Error):  # it has just ended
            found += [each] if "--as-worker" in each.cmdline() else []
    return found


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def counted(service: Service, metric: str) -> float:
    text = service.client.get("/metrics", headers={"connection": "close"}).text
    return sum(float(value) for value in re.findall(rf"^{metric}(?:\{{.*?\}})? (\S+)$", text, re.MULTILINE))


def answers(url: str) -> bool:
    """Whether a connection of its own gets an answer."""
    try:
        return httpx.get(f"{url}/health/ready", timeout=30, trust_env=False).is_success
    except httpx.TransportError:
        return False


def refused(data: Path, *options: str, **settings: str) -> tuple[int, str]:
    env = {"PATH": "/usr/bin:/bin", **{f"COATCHECK_{name.upper()}": value for name, value in settings.items()}}
    command = [*COMMAND, "serve", "--port", "0", "--data", str(data), *options]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    return ended.returncode, ended.stderr


def test_an_embedded_store_is_served_by_one_process_and_says_why(tmp_path: Path) -> None:
    code, said = refused(tmp_path / "data", "--workers", "2")
    assert code == 2
    assert "needs COATCHECK_DATABASE_URL" in said
    assert not (tmp_path / "data").exists()


def test_workers_share_a_port_a_store_and_one_set_of_metrics(tmp_path: Path, combo: Combo) -> None:
    with serving(tmp_path / "data", combo, workers=WORKERS) as service:
        eventually(lambda: len(workers_of(service)) == WORKERS)
        count = 40

        def put(number: int) -> str:
            body = {"content": f"{number} {'word ' * 2000}", "session": "s"}
            answer = httpx.post(f"{service.url}/v1/artifacts", json=body, timeout=60, trust_env=False)
            assert answer.status_code == 201, answer.text
            return str(answer.json()["id"])

        def served(worker: psutil.Process) -> float:
            return sum(worker.cpu_times()[:2])

        before = [served(worker) for worker in workers_of(service)]
        with ThreadPoolExecutor(8) as pool:
            names = list(pool.map(put, range(count)))
        assert len(set(names)) == count
        after = [served(worker) for worker in workers_of(service)]
        assert all(now > was for was, now in zip(before, after, strict=True))  # each has its share
        assert len(service.get("/v1/artifacts", session="s", limit=100)["items"]) == count
        eventually(lambda: counted(service, "coatcheck_ingested_total") == count)
        eventually(lambda: counted(service, "coatcheck_http_requests_total") >= count)
        eventually(lambda: counted(service, "coatcheck_artifacts") == count)  # once, not once for each worker


def test_a_worker_that_dies_is_replaced_and_its_counts_stay(tmp_path: Path, combo: Combo) -> None:
    with serving(tmp_path / "data", combo, workers=WORKERS) as service:
        eventually(lambda: len(workers_of(service)) == WORKERS)
        name = service.post("x" * 100)["id"]
        eventually(lambda: counted(service, "coatcheck_ingested_total") == 1)
        time.sleep(1.5)  # each leaves its metrics every second
        dead = workers_of(service)
        for worker in dead:
            worker.kill()
        eventually(lambda: {each.pid for each in workers_of(service)}.isdisjoint(each.pid for each in dead))
        eventually(lambda: answers(service.url))
        read = httpx.get(f"{service.url}/v1/artifacts/{name}/content", timeout=60, trust_env=False)
        assert read.content == b"x" * 100
        eventually(lambda: len(workers_of(service)) == WORKERS)
        metrics = httpx.get(f"{service.url}/metrics", timeout=60, trust_env=False).text
        assert sum(map(float, re.findall(r"^coatcheck_ingested_total\{.*\} (\S+)$", metrics, re.MULTILINE))) == 1
    assert "another one is started" in (tmp_path / "data.log").read_text()


def test_a_service_that_cannot_start_ends_with_what_its_worker_says(tmp_path: Path) -> None:
    code, said = refused(tmp_path / "data", workers="2", database_url="postgresql://127.0.0.1:1/none")
    assert code == 4
    assert "127.0.0.1:1" in said


def test_a_port_that_is_taken_is_not_shared_with_another_service(tmp_path: Path, combo: Combo) -> None:
    with serving(tmp_path / "data", combo, workers=WORKERS) as service:
        settings: Mapping[str, str] = {**combo.settings, "workers": "2", "port": service.url.rpartition(":")[2]}
        env = {"PATH": "/usr/bin:/bin", **{f"COATCHECK_{name.upper()}": value for name, value in settings.items()}}
        ended = subprocess.run([*COMMAND, "serve"], env=env, capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == 4
        assert "cannot listen" in ended.stderr


def test_workers_stop_when_their_starter_is_killed(tmp_path: Path, combo: Combo) -> None:
    service = start(tmp_path / "data", settings={**combo.settings, "workers": WORKERS})
    eventually(lambda: len(workers_of(service)) == WORKERS)
    left = workers_of(service)
    os.kill(service.process.pid, signal.SIGKILL)
    service.process.wait(30)
    eventually(lambda: not any(worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE for worker in left))
    service.kill()


def test_a_request_under_way_is_finished_when_the_service_stops(tmp_path: Path, combo: Combo) -> None:
    service = start(tmp_path / "data", settings={**combo.settings, "workers": WORKERS})
    begun: list[str] = []

    def slowly() -> Generator[bytes]:
        yield b"first\n"
        begun.append("begun")
        time.sleep(1.5)
        yield b"last\n"

    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(
            lambda: httpx.post(f"{service.url}/v1/artifacts/raw", content=slowly(), timeout=60, trust_env=False)
        )
        eventually(lambda: bool(begun))
        assert service.stop() == 0
        assert answer.result().status_code == 201
