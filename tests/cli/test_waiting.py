"""What a command that takes long shows on a terminal, and that it shows nothing elsewhere."""

import os
import pty
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import httpx

from cli.terminal import run
from support.service import serving

WORK = """
import time
from coatcheck.cli.command_setup import waiting
with waiting("Working", quiet=0.1, tick=0.1):
    time.sleep(1)
"""

AT_ONCE = """
from coatcheck.cli import command_setup
command_setup.waiting.__wrapped__.__kwdefaults__.update(quiet=0.0, tick=0.001)
from coatcheck.cli import main
main()
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
    assert "\r\x1b[KWorking: 0 s \r\x1b[KWorking: 0 s " in said
    assert said.endswith("\r\x1b[K")


def test_a_check_and_a_backup_tell_how_much_they_have_read(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as service:
        for number in range(3):
            payload = random.Random(number).randbytes(300_000)
            httpx.post(f"{service.url}/v1/artifacts/raw", content=payload).raise_for_status()
    for command in (f"check --data {tmp_path}/data", f"backup {tmp_path}/copy --verify --data {tmp_path}/data"):
        said = on_terminal(sys.executable, "-c", AT_ONCE, *command.split())
        assert re.search(r": \d+ s, 3 (?:blobs|files), 87\d\.\d KiB ", said)


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
