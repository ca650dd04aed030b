"""The command line as a user meets it: arguments, an environment, two outputs and an exit code.

`run` starts a process. `call` is the same command in this process: it costs a tenth, and is for what does not depend on
processes, pipes and directories.
"""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from coatcheck.cli import main

COMMAND = (sys.executable, "-m", "coatcheck")


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()


def run(
    *args: str, stdin: bytes = b"", folder: Path | None = None, settings: Mapping[str, str | int] | None = None
) -> Ended:
    """Run a command to its end."""
    env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    env |= {f"COATCHECK_{name.upper()}": str(value) for name, value in (settings or {}).items()}
    done = subprocess.run(
        [*COMMAND, *args], input=stdin, capture_output=True, env=env, cwd=folder, timeout=60, check=False
    )
    err = done.stderr.decode()
    assert "Traceback" not in err, err
    return Ended(done.returncode, done.stdout, err)


def call(*args: str, stdin: bytes = b"", settings: Mapping[str, str | int] | None = None) -> Ended:
    """Run a command to its end in this process."""
    env = {f"COATCHECK_{name.upper()}": str(value) for name, value in (settings or {}).items()}
    done = CliRunner().invoke(main, list(args), input=stdin, env=env)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Ended(done.exit_code, done.stdout_bytes, done.stderr)
