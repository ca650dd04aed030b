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
