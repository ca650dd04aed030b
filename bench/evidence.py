"""How much of what explains a failure is on a card, beside two simple selections of the same size.

The outputs are what real programs print here and now, each with one failure whose lines are known. The tool's name is
withheld from every second one. Prints shares at 256, 512 and 1,024 tokens; nothing is stored.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from coatcheck.adapters.tokenizer import load_tokenizer
from coatcheck.core.artifact import DeclaredMetadata
from core.sample_payloads import card_of

BUDGETS: Final = (256, 512, 1024)
TOKENIZER: Final = load_tokenizer()
_WORDS: Final = ("error", "fail", "exception", "traceback", "cannot", "not found", "assert", "fatal", "undefined")


class Case(NamedTuple):
    """An output, the tool that printed it, and the lines that explain its failure."""

    name: str
    tool: str
    output: str
    explains: tuple[str, ...]


def run() -> None:
    """Print a line for each program and budget, and the means."""
    with tempfile.TemporaryDirectory() as folder:
        cases = list(_cases(Path(folder)))
    print(
        f"{len(cases)} outputs; share of the lines that explain the failure, at {', '.join(map(str, BUDGETS))} tokens"
    )
    for name, choose in (("card", _card), ("both ends", _both_ends), ("lines with words of failure", _words)):
        shares = [
            [_share(case, choose(case, number, budget)) for number, case in enumerate(cases)] for budget in BUDGETS
        ]
        print(f"{name:28}", " / ".join(f"{100 * sum(each) / len(each):5.1f}" for each in shares))


def _share(case: Case, text: str) -> float:
    return sum(line in text for line in case.explains) / len(case.explains)


def _card(case: Case, number: int, budget: int) -> str:
    return card_of(case.output.encode(), DeclaredMetadata(tool_name=case.tool if number % 2 else None), budget)[1]


def _both_ends(case: Case, _: int, budget: int) -> str:
    lines = case.output.split("\n")
    return "\n".join([*_fitting(lines, budget // 2), *reversed(_fitting(lines[::-1], budget // 2))])


def _words(case: Case, _: int, budget: int) -> str:
    spoken = [line for line in case.output.split("\n") if any(word in line.lower() for word in _WORDS)]
    return "\n".join(_fitting(spoken[::-1], budget))


def _fitting(lines: list[str], budget: int) -> list[str]:
    out: list[str] = []
    for line in lines:
        budget -= TOKENIZER.count(line) + 1
        if budget < 0:
            break
        out.append(line)
    return out


def _cases(folder: Path) -> Iterator[Case]:
    yield from _compiled(folder)
    yield from _tested(folder)
    yield from _scripts(folder)


def _python(folder: Path, *arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def _compiled(folder: Path) -> Iterator[Case]:
    """Byte-compiling a package in which one file is broken."""
    for broken in (7, 60, 118):
        package = folder / f"package{broken}"
        package.mkdir()
        for number in range(120):
            text = "def f(:\n    pass\n" if number == broken else f"VALUE = {number}\n"
            (package / f"module_{number:03d}.py").write_text(text)
        output = _python(folder, "-m", "compileall", "-f", package.name)
        yield Case("compileall", "bash", output, (f"module_{broken:03d}.py", "SyntaxError: invalid syntax"))


def _tested(folder: Path) -> Iterator[Case]:
    """A suite of unit tests in which one fails, told at length."""
    for failing in (3, 90, 196):
        tests = "\n".join(
            f"    def test_{n:03d}(self):\n        self.assertEqual({n} * 2, {n * 2 + (n == failing)})\n"
            for n in range(200)
        )
        (folder / f"suite_{failing}.py").write_text(f"import unittest\n\n\nclass Suite(unittest.TestCase):\n{tests}")
        output = _python(folder, "-m", "unittest", "-v", f"suite_{failing}")
        told = (f"AssertionError: {failing * 2} != {failing * 2 + 1}", "FAILED (failures=1)")
        yield Case("unittest", "run_tests", output, told)


def _scripts(folder: Path) -> Iterator[Case]:
    """A job that reports its steps, and goes on after one of them failed."""
    for failing in (40, 400, 700):
        script = folder / f"job_{failing}.py"
        script.write_text(
            "import sys, traceback\n"
            "for n in range(800):\n"
            "    print(f'step {n}: {n * 37 % 113} records of batch {n % 9} were copied')\n"
            f"    if n == {failing}:\n"
            "        try:\n            {}['colour']\n"
            "        except KeyError:\n            traceback.print_exc(file=sys.stdout)\n"
            "print('799 of 800 steps done')\n"
        )
        yield Case("job", "exec", _python(folder, script.name), ("KeyError: 'colour'", f"step {failing}:"))
