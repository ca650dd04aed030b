"""Prometheus' own checker of rules: `python tests/support/promtool.py` gets it where Debian's packages are at hand.

The package `prometheus` is downloaded and unpacked into `.promtool/`, not installed: no server is started, no account
is made, and root is needed only to refresh a list of packages that is missing. Where it cannot be had, a `promtool` of
the machine is taken, and otherwise the tests that need it say that they did not run.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

HOME: Final = Path(__file__).parents[2] / ".promtool"
_PROGRAM: Final = HOME / "usr" / "bin" / "promtool"
_PACKAGE: Final = "prometheus"


def promtool() -> Path | None:
    """The program; None: there is none."""
    if _PROGRAM.exists():
        return _PROGRAM
    found = shutil.which("promtool")
    return None if found is None else Path(found)


def make() -> bool:
    """Download and unpack the package where there is no program yet; returns whether there is one."""
    if promtool() is not None:
        return True
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        sys.stderr.write("promtool: not on this machine, which has no apt-get\n")
        return False
    HOME.mkdir(exist_ok=True)
    # The list of packages may be missing or out of date; only root may refresh it.
    if not (_download() or (_run("apt-get", "-qq", "update") and _download())):
        sys.stderr.write(f"promtool: the package {_PACKAGE} could not be downloaded\n")
        return False
    (package,) = HOME.glob("*.deb")
    unpacked = _run("dpkg-deb", "--extract", str(package), str(HOME))
    package.unlink()
    return unpacked


def _download() -> bool:
    return _run("apt-get", "-qq", "download", _PACKAGE)


def _run(*command: str) -> bool:
    return subprocess.run(command, cwd=HOME, capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    make()
