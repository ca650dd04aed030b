"""The served process, while it starts: what a signal and a taken port do to it."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

SERVE = [sys.executable, "-c", "from coatcheck.cli import main; main()", "serve"]


def test_a_signal_during_the_start_or_just_after_it_stops_the_service_with_success(tmp_path: Path) -> None:
    # The data directory appears while the service starts, and before its port answers.
    with subprocess.Popen(
        [*SERVE, "--port", "0", "--data", str(tmp_path / "data")], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        while not (tmp_path / "data").exists():
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, b"Traceback" in err) == (0, False), err


@pytest.mark.parametrize("host", ["127.0.0.1"])
def test_a_taken_port_is_said_before_anything_is_opened(tmp_path: Path, host: str) -> None:
    with socket.create_server((host, 0)) as other:
        port = other.getsockname()[1]
        done = subprocess.run(
            [*SERVE, "--port", str(port), "--data", str(tmp_path / "data")], capture_output=True, check=False
        )
    assert (done.returncode, b"cannot listen" in done.stderr, b"Traceback" in done.stderr) == (4, True, False)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("abstract", [False, True], ids=["path", "abstract"])
def test_a_service_manager_is_told_when_the_service_takes_requests_and_when_it_stops(
    tmp_path: Path, abstract: bool
) -> None:
    name = f"coatcheck-{tmp_path.name}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{name}" if abstract else name)
        manager.settimeout(60)
        env = {"PATH": "/usr/bin:/bin", "NOTIFY_SOCKET": f"@{name}" if abstract else name}
        with subprocess.Popen(
            [*SERVE, "--port", "0", "--data", str(tmp_path / "data")], stdout=subprocess.PIPE, text=True, env=env
        ) as process:
            assert manager.recv(100) == b"READY=1"
            assert process.stdout is not None
            port = int(process.stdout.readline().partition("127.0.0.1:")[2].partition(",")[0])
            socket.create_connection(("127.0.0.1", port), 10).close()
            process.send_signal(signal.SIGTERM)
            assert manager.recv(100) == b"STOPPING=1"
            assert process.wait(60) == 0


def test_a_service_manager_that_is_away_does_not_keep_the_service_from_serving(tmp_path: Path) -> None:
    env = {"PATH": "/usr/bin:/bin", "NOTIFY_SOCKET": str(tmp_path / "nobody"), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [*SERVE, "--port", "0", "--data", str(tmp_path / "data")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    ) as process:
        assert process.stdout is not None
        assert "is listening" in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, "cannot send READY=1 to the service manager" in err) == (0, True), err
