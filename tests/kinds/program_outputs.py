"""What programs print: real ones that every checkout has, run here, and a few that are remembered."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

from coatcheck.core.artifact import Kind
from kinds.corpus import LARGEST, Source
from kinds.environment_files import PROJECT

Command = tuple[str, tuple[str, ...]]
PYTHON: Final = sys.executable
_TEST: Final = """
import pytest, warnings
@pytest.mark.parametrize("n", range(30))
def test_numbers(n):
    if n % 11 == 5:
        print("about to fail", n)
    assert n % 11 != 5
def test_dict():
    assert {"a": 1, "b": [1, 2]} == {"a": 1, "b": [1, 3]}
def test_raises():
    raise ValueError("no such thing")
"""
_CRASH: Final = (
    "def f(n):\n    return g(n - 1) if n else 1 / 0\ndef g(n):\n    return f(n)\nprint('starting')\n"
    "for n in range(40): print('step', n, 'done')\nf({depth})\n"
)
_UNIT: Final = (
    "import unittest\nclass T(unittest.TestCase):\n"
    + "".join(f"    def test_{n}(self): self.assertEqual({n} % 7, {n} % 5)\n" for n in range(30))
    + "unittest.main(verbosity=2)\n"
)
_PYTEST: Final = (PYTHON, "-m", "pytest", "-p", "no:cacheprovider")
QUICK: Final[tuple[Command, ...]] = (
    ("pytest", (*_PYTEST, "-v", "t.py")),
    *(("traceback", (PYTHON, "-c", _CRASH.replace("{depth}", str(depth)))) for depth in (1, 9, 2000)),
    ("unittest", (PYTHON, "-c", _UNIT)),
    ("help", (PYTHON, "--help")),
    ("help", (PYTHON, "-m", "json.tool", "--help")),
    ("syntax error", (PYTHON, "-c", "def f(:\n  pass\n" * 9)),
    ("dis", (PYTHON, "-c", "import dis, textwrap; dis.dis(textwrap.wrap); dis.dis(textwrap.TextWrapper)")),
    ("imports", (PYTHON, "-X", "importtime", "-c", "import json, http.client")),
    ("warnings", (PYTHON, "-W", "always", "-c", "import warnings\nfor n in range(30): warnings.warn(f'old way {n}')")),
)
"""Over in a few seconds together."""
SLOW: Final[tuple[Command, ...]] = (
    ("pytest", (*_PYTEST, "t.py")),
    ("pytest", (*_PYTEST, "-q", "--tb=short", "t.py")),
    ("pytest", (*_PYTEST, "-rA", "--durations=5", "t.py")),
    ("pytest", (*_PYTEST, "--help")),
    *(("traceback", (PYTHON, "-c", _CRASH.replace("{depth}", str(depth)))) for depth in (3, 40)),
    ("help", (PYTHON, "-m", "http.server", "--help")),
    ("help", (PYTHON, "-m", "coatcheck", "--help")),
    ("help", (PYTHON, "-m", "coatcheck", "serve", "--help")),
    ("ruff", (PYTHON, "-m", "ruff", "check", "--isolated", "--select", "ALL", "--output-format", "concise", "t.py")),
    ("ruff", (PYTHON, "-m", "ruff", "check", "--isolated", "--select", "ALL", "t.py")),
    ("ruff", (PYTHON, "-m", "ruff", "--help")),
    ("compileall", (PYTHON, "-m", "compileall", "-f", ".")),
    ("profile", (PYTHON, "-m", "cProfile", "-c", "import json; json.loads('[1]'); import asyncio")),
    ("timeit", (PYTHON, "-m", "timeit", "-v", "-n", "100", "sum(range(9))")),
)


def run(commands: tuple[Command, ...], folder: Path, *, seconds: float = 60) -> Iterator[Source]:
    """Their outputs, standard error in its place. A program that is not there says nothing."""
    environment = dict(os.environ, LC_ALL="C.UTF-8", COLUMNS="100", PYTHONDONTWRITEBYTECODE="1", NO_COLOR="1")  # noqa: TID251 - programs need what is around them
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    for family, words in commands:
        try:
            done = subprocess.run(
                words,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=seconds,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        name = " ".join(f"{word[:30]}{word[-12:]}" if len(word) > 42 else word for word in words).replace(
            PYTHON, "python"
        )
        yield Source(Kind.COMMAND_OUTPUT, family, name, done.stdout[: LARGEST * 2])


def ours(folder: Path, *, quick: bool) -> Iterator[Source]:
    """Outputs of programs that are in the environment itself."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "t.py").write_text(_TEST)
    yield from run(QUICK if quick else (*QUICK, *SLOW), folder)


def grepped(word: str, root: Path = PROJECT / "service") -> Iterator[Source]:
    """What `grep -rn` prints, made here because not every machine has it."""
    rows = [
        f"{path.relative_to(PROJECT)}:{n}:{line}"
        for path in sorted(root.rglob("*.py"))
        for n, line in enumerate(path.read_text().splitlines(), 1)
        if word in line
    ]
    yield Source(Kind.COMMAND_OUTPUT, "grep", f"grep {word}", "\n".join(rows).encode())


def listings(folder: Path) -> Iterator[Source]:
    """What `ls -l`, `find`, `du` and `tree` print of a folder that is there."""
    paths = sorted(path for path in folder.rglob("*") if "__pycache__" not in path.parts)[:3000]
    rng = Random(folder.name)
    long = [
        f"{'drwxr-xr-x' if path.is_dir() else '-rw-r--r--'} {rng.randrange(1, 9)} root root {path.stat().st_size:>8} "
        f"Mar {rng.randrange(1, 29):>2} 1{rng.randrange(9)}:{rng.randrange(10, 60)} {path.name}"
        for path in paths
    ]
    yield Source(Kind.COMMAND_OUTPUT, "ls -l", f"ls {folder.name}", "\n".join(["total 412", *long]).encode())
    found = "\n".join(f"./{path.relative_to(folder)}" for path in paths)
    yield Source(Kind.COMMAND_OUTPUT, "find", f"find {folder.name}", found.encode())
    used = "\n".join(f"{rng.randrange(4, 900)}\t./{path.relative_to(folder)}" for path in paths)
    yield Source(Kind.COMMAND_OUTPUT, "du", f"du {folder.name}", used.encode())
    tree = "\n".join(
        ["."] + ["│   " * (len(path.relative_to(folder).parts) - 1) + f"├── {path.name}" for path in paths]
    )
    yield Source(Kind.COMMAND_OUTPUT, "tree", f"tree {folder.name}", tree.encode())
