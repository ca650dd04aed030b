"""A running service whose clocks jump, sleep and go on: what it deletes, what it says, and who lets it go on."""

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from support.service import COMMAND, Service, start
from support.shifted_clock import COMPILER, ShiftedClock

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler, which makes the library that shifts clocks")
HOUR, WEEK = 3_600, 7 * 86_400
SETTINGS = {"sweep_seconds": 1, "grace_seconds": 0}


@pytest.fixture
def clock(tmp_path: Path) -> ShiftedClock:
    return ShiftedClock(tmp_path)


@pytest.fixture
def service(tmp_path: Path, clock: ShiftedClock) -> Iterator[Service]:
    opened = start(tmp_path / "data", settings=SETTINGS, environment=clock.environment)
    yield opened
    assert opened.stop() == 0


def _metric(service: Service, name: str) -> float:
    lines = service.client.get("/metrics").text.splitlines()
    return next((float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name + " ")), 0.0)


def _wait(until: Callable[[], bool]) -> None:
    """Return once it is so; the test's time limit ends it otherwise."""
    while not until():
        time.sleep(0.1)


def _expired(service: Service) -> float:
    return _metric(service, 'coatcheck_removed_rows_total{what="expired"}')


def _go_on(service: Service) -> None:
    """Let a stopped service run again; connections that it thinks idle for long are closed."""
    service.process.send_signal(signal.SIGCONT)
    with contextlib.suppress(httpx.TransportError):
        service.client.get("/health/live")


def _status(service: Service, artifact_id: str) -> int:
    return service.client.get(f"/v1/artifacts/{artifact_id}").status_code


def test_a_jump_of_the_wall_clock_deletes_nothing_and_is_said_everywhere(service: Service, clock: ShiftedClock) -> None:
    artifact_id = service.post("kept " * 100, ttl="1h")["id"]
    clock.set_wall_clock(2 * WEEK)
    assert _status(service, artifact_id) == 410
    _wait(lambda: _metric(service, "coatcheck_deletions_paused") == 1)
    assert _metric(service, "coatcheck_clock_drift_seconds") == pytest.approx(2 * WEEK, abs=60)
    jobs = {job["name"]: job for job in service.get("/v1/admin/retention/status")["jobs"]}
    _wait(lambda: service.get("/v1/admin/retention/status")["jobs"][-1]["paused"])
    assert "14.0 days" in service.client.get("/").text
    refused = service.client.post("/v1/admin/retention/plan", json={"job": "expire"})
    assert (refused.status_code, refused.json()["code"]) == (409, "deletions_paused")
    rounds = _metric(service, 'coatcheck_job_runs_total{result="done",task="maintenance"}')
    _wait(lambda: _metric(service, 'coatcheck_job_runs_total{result="done",task="maintenance"}') >= rounds + 2)
    assert (_expired(service), jobs["deletions"]["name"]) == (0, "deletions")
    clock.set_wall_clock(-2 * WEEK)
    assert _status(service, artifact_id) == 200
    _wait(lambda: _metric(service, "coatcheck_deletions_paused") == 0)
    # The control: when the same time has really passed, it is removed, and a clock that is set back restores nothing.
    service.process.send_signal(signal.SIGSTOP)
    clock.pass_time(2 * WEEK)
    _go_on(service)
    _wait(lambda: _expired(service) == 1)
    clock.set_wall_clock(-2 * WEEK)
    assert _status(service, artifact_id) == 410


def test_an_administrator_confirms_the_time_by_the_command_that_the_service_names(
    service: Service, clock: ShiftedClock
) -> None:
    service.post("removed " * 100, ttl="1h")
    clock.set_wall_clock(2 * WEEK)
    _wait(lambda: service.get("/v1/admin/retention/status")["jobs"][-1]["paused"])
    said = service.get("/v1/admin/retention/status")["jobs"][-1]["last_detail"]
    command = said.partition("confirm that: coatcheck ")[2].split()
    env = {"PATH": "/usr/bin:/bin", "COATCHECK_URL": service.url}
    done = subprocess.run([*COMMAND, *command], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "Deletions go on.\n"
    _wait(lambda: _expired(service) == 1)
    line = service.get("/v1/admin/audit", action="job.changed")["items"][0]
    assert (line["actor"], line["details"]["paused"]) == ("local", False)


def test_a_stopped_service_and_a_sleeping_machine_are_no_jump(service: Service, clock: ShiftedClock) -> None:
    service.post("first " * 100, ttl="1h")
    service.process.send_signal(signal.SIGSTOP)
    clock.pass_time(3 * WEEK)
    _go_on(service)
    _wait(lambda: _expired(service) == 1)
    service.post("second " * 100, ttl="1h")
    service.process.send_signal(signal.SIGSTOP)
    clock.sleep(3 * WEEK)
    _go_on(service)
    _wait(lambda: _expired(service) == 2)
    assert _metric(service, "coatcheck_clock_drift_seconds") == pytest.approx(0, abs=60)


def test_a_service_that_was_down_for_weeks_deletes_when_it_starts(tmp_path: Path, clock: ShiftedClock) -> None:
    first = start(tmp_path / "data", settings=SETTINGS, environment=clock.environment)
    first.post("x " * 100, ttl="1h")
    assert first.stop() == 0
    clock.set_wall_clock(3 * WEEK)  # the steady clock of the machine may have begun anew
    again = start(tmp_path / "data", settings=SETTINGS, environment=clock.environment)
    _wait(lambda: _expired(again) == 1)
    assert _metric(again, "coatcheck_deletions_paused") == 0
    assert again.stop() == 0
