"""Payloads that real programs produce while the tests run."""

import importlib.metadata
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = Path(sysconfig.get_paths()["purelib"])


def import_log() -> bytes:
    """The interpreter's own verbose log of an import: thousands of lines."""
    done = subprocess.run(
        [sys.executable, "-v", "-c", "import asyncio, email, unittest"], capture_output=True, check=True
    )
    return done.stderr


def failing_test_run(folder: Path) -> bytes:
    """A verbose test run with a thousand passes, one failure, and the usual summary."""
    (folder / "test_many.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('number', range(1000))\n"
        "def test_number_is_not_unlucky(number):\n"
        "    assert number != 713, f'{number} is unlucky'\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", ".", "."],
        cwd=folder,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    return done.stdout


def recursive_listing() -> bytes:
    """`ls -lR` of the installed packages."""
    return subprocess.run(["ls", "-lR", str(PACKAGES)], capture_output=True, check=True).stdout


def lock_file() -> bytes:
    """The project's own lock."""
    return (ROOT / "requirements.lock").read_bytes()


def largest(suffix: str, *, at_most: int = 4 * 1024**2) -> tuple[str, bytes]:
    """The largest installed file with a suffix, up to a size: its name and its bytes."""
    files = [
        Path(str(file.locate()))
        for package in importlib.metadata.distributions()
        for file in package.files or ()
        if file.name.endswith(suffix)
    ]
    sized = sorted((p.stat().st_size, str(p)) for p in files if p.is_file() and p.stat().st_size <= at_most)
    assert sized, f"no installed file ends with {suffix}"
    found = Path(sized[-1][1])
    return found.name, found.read_bytes()
