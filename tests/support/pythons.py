"""The Pythons of this machine that the service runs on, each with an environment: `python tests/support/pythons.py`.

An environment has what the lock says that the service needs, and the project as it stands in the tree. It is kept in
`.pythons/` until the lock or the projects' files change. What cannot be made is named on standard error and left out;
the tests that miss it say so.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
ENVIRONMENTS: Final = ROOT / ".pythons"
UV: Final = ROOT / ".uv" / "bin" / "uv"
VERSIONS: Final = ("3.11", "3.12", "3.13")
OWN: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
BUILD: Final = ("hatchling", "editables")
"""What installing a tree needs, besides what the service needs."""


def python_of(version: str) -> str | None:
    """The interpreter of an environment that has the project; None where there is none of this version."""
    if version == OWN:
        return sys.executable
    stamp, python = ENVIRONMENTS / version / "stamp", ENVIRONMENTS / version / "bin" / "python"
    return str(python) if stamp.exists() and stamp.read_text() == _wanted() else None


def make(version: str) -> bool:
    """Make the environment of a version where it is missing or out of date; returns whether there is one."""
    if python_of(version) is not None:
        return True
    interpreter = find_interpreter(version)
    if interpreter is None:
        sys.stderr.write(f"Python {version}: not on this machine\n")
        return False
    home = ENVIRONMENTS / version
    cut = [sys.executable, ROOT / "deploy" / "runtime_lock.py", ROOT / "requirements.lock", "coatcheck", *BUILD]
    lock = subprocess.run(cut, check=True, capture_output=True).stdout
    trees = ["--no-deps", "--no-build-isolation", "--offline", "--editable", ROOT / "client", "--editable", ROOT]
    env = {**os.environ, "VIRTUAL_ENV": str(home)}  # noqa: TID251 - uv takes its cache and its proxies from there
    for command in (
        [UV, "venv", "--quiet", "--clear", "--python", interpreter, home],
        [UV, "pip", "sync", "--quiet", "--system-certs", "--require-hashes", "-"],
        [UV, "pip", "install", "--quiet", *trees],
    ):
        if subprocess.run(command, cwd=ROOT, env=env, input=lock, check=False).returncode:
            sys.stderr.write(f"Python {version}: its environment could not be made\n")
            return False
    (home / "stamp").write_text(_wanted())
    return True


def _wanted() -> str:
    files = ("requirements.lock", "pyproject.toml", "client/pyproject.toml")
    return hashlib.sha256(b"".join((ROOT / file).read_bytes() for file in files)).hexdigest()


def find_interpreter(version: str) -> str | None:
    """An interpreter of a version: one on the search path that starts, else the newest of pyenv's."""
    made = Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}")
    newest = sorted(made, key=lambda path: [int(digits) for digits in re.findall(r"\d+", path.parts[-3])], reverse=True)
    for found in (shutil.which(f"python{version}"), *map(str, newest)):
        if found and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0:
            return found
    return None


if __name__ == "__main__":
    for each in VERSIONS:
        make(each)
