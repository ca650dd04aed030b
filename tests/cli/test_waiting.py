"""What a command that takes long shows on a terminal, and that it shows nothing elsewhere."""

import os
import pty
import subprocess
import sys
import time
from pathlib import Path

from cli.terminal import run

WORK = """
import time
from coatcheck.cli.waiting import waiting
with waiting("Working", quiet=0.1, tick=0.1):
    time.sleep(1)
"""


def on_terminal(*command: str) -> str:
    """What a command writes to a terminal on standard error."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stderr=theirs, stdout=subprocess.DEVNULL) as process:
        os.close(theirs)
        said = b""
        try:
            while piece := os.read(ours, 4096):
                said += piece
        except OSError:  # how a terminal ends that nobody writes to any more
            pass
        process.wait(30)
    os.close(ours)
    return said.decode()


def test_a_terminal_sees_the_seconds_pass_and_keeps_no_trace_of_them() -> None:
    said = on_terminal(sys.executable, "-c", WORK)
    assert "\rWorking: 0 s \rWorking: 0 s " in said
    assert said.endswith("\r\x1b[K")


def test_nothing_is_shown_where_there_is_no_terminal() -> None:
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", WORK], capture_output=True, check=True)
    assert (done.stdout, done.stderr, time.monotonic() - began > 1) == (b"", b"", True)


def test_an_error_is_red_on_a_terminal_and_plain_elsewhere(tmp_path: Path) -> None:
    args = ("check", "--data", str(tmp_path / "none"))
    assert on_terminal(sys.executable, "-m", "coatcheck", *args).startswith(
        "\x1b[31m\x1b[1mcoatcheck:\x1b[0m there is no"
    )
    assert run(*args).err.startswith("coatcheck: there is no")
