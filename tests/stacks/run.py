"""Tests integrations against the frameworks of today: one environment per stack, one running service for all.

    python tests/stacks/run.py              # all
    python tests/stacks/run.py agno crewai  # some
    python tests/stacks/run.py --fresh      # resolve again, for what was released since
    python tests/stacks/run.py --table      # and write the README's table of what ran

An environment is made by the commands of the stack's page in `docs/how-to`, and of the requirements that the tests have
besides; it is kept in `.stacks/` until these change. Every block of the page must have been run; `run_blocks.txt` keeps
what they were, so that a page that was changed since is noticed. Ends with 1 when a stack fails.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a program

from support.environments import environment
from support.pages import Block, blocks

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
PYTEST: Final = ("pytest>=8.4", "pytest-asyncio>=1.2", "pytest-timeout>=2.4")
BEGIN: Final = "<!-- stacks -->"
END: Final = "<!-- /stacks -->"
RUN: Final = HERE / "run_blocks.txt"
"""Every block that was run: the page's name, the block's number, and its identity."""
INSTALL: Final = re.compile(r"(?:pip|npm) install ")
"""How a block begins that makes an environment."""


def main() -> int:
    """Runs what the command line names; returns the exit code."""
    stacks = sorted({path.parent.name for path in HERE.glob("*/test_*.py")})
    parser = argparse.ArgumentParser(description="Test the integrations against the frameworks of today.")
    parser.add_argument("stacks", nargs="*", metavar="STACK", help=f"one of: {', '.join(stacks)} (default: all)")
    parser.add_argument("--fresh", action="store_true", help="resolve again")
    parser.add_argument("--table", action="store_true", help="write the README's table")
    arguments = parser.parse_args()
    if unknown := set(arguments.stacks) - set(stacks):
        parser.error(f"no such stack: {', '.join(sorted(unknown))}")
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as folder, _service(Path(folder)) as url:
        report = Path(folder) / "report.jsonl"
        report.touch()
        for stack in arguments.stacks or stacks:
            print(f"== {stack}", flush=True)
            if not _passes(stack, url, report, fresh=arguments.fresh):
                failed.append(stack)
        table = _table(report)
    print(table)
    if arguments.table:
        _write(table)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


def _passes(stack: str, url: str, report: Path, *, fresh: bool) -> bool:
    """Whether a stack's tests pass in its environment, which is made where it is not there."""
    written = blocks(ROOT / "docs" / "how-to" / f"{stack}.md")
    install = [one for one in written if one.is_shell and INSTALL.match(one.text)]
    requirements, script = HERE / stack / "requirements.txt", "".join(one.text for one in install)
    python = environment(stack, requirements, packages=PYTEST, script=script, fresh=fresh)
    if python is None:
        return False
    env = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    env |= {
        "COATCHECK_STACKS_SERVICE": url,
        "COATCHECK_STACKS_REPORT": str(report),
        "PYTHONPATH": f"{HERE}:{HERE.parent}",
    }
    env["COATCHECK_STACKS_COMMAND"] = f"{sys.executable} -m coatcheck"
    command = [
        str(python),
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(HERE / stack),
        "-c",
        "/dev/null",
    ]
    options = [
        "-o",
        "asyncio_default_fixture_loop_scope=function",
        "--asyncio-mode=auto",
        "--import-mode=importlib",
        "--timeout=120",
        f"--confcutdir={HERE}",
    ]
    passed = subprocess.run([*command, *options, str(HERE / stack)], env=env, check=False).returncode == 0
    return passed and _all_ran(stack, written, {one.identity for one in install} | _reported(report, stack))


def _reported(report: Path, stack: str) -> set[str]:
    """Identities of the blocks of a stack's page that its tests ran."""
    entries = [json.loads(line) for line in report.read_text().splitlines()]
    return {entry["block"] for entry in entries if entry.get("page") == stack}


def _all_ran(stack: str, written: list[Block], ran: set[str]) -> bool:
    """Whether every block of a page was run that is to be run; if so, keeps what they were."""
    needed = [one for one in written if one.is_to_run]
    missed = [one for one in needed if one.identity not in ran]
    for one in missed:
        print(f"docs/how-to/{stack}.md: no test ran block {one.number}:\n{one.text}", file=sys.stderr)
    if not missed:
        others = [line for line in RUN.read_text().splitlines() if not line.startswith(f"{stack} ")]
        lines = [f"{stack} {one.number} {one.identity}" for one in needed]
        RUN.write_text("".join(f"{line}\n" for line in sorted(others + lines)))
    return not missed


@contextmanager
def _service(folder: Path) -> Generator[str]:
    """A running service, for the length of a `with` block."""
    command = [sys.executable, "-m", "coatcheck", "serve", "--port", "0", "--data", str(folder / "data")]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r"http://\S+?:\d+", process.stdout.readline())
        if found is None:
            raise RuntimeError(f"the service did not start: {(folder / 'log').read_text()}")
        yield found[0]
    finally:
        process.terminate()
        process.wait(30)


def _table(report: Path) -> str:
    """What ran, in Markdown: versions, and tokens that went to the model in all requests of a run."""
    runs: dict[str, dict[str, Mapping[str, Any]]] = {}
    for line in report.read_text().splitlines():
        entry = json.loads(line)
        if "run" in entry:
            runs.setdefault(entry["stack"], {})[entry["run"]] = entry
    rows = ["| Stack | Tested with | Tokens without | Tokens with Coatcheck |", "|---|---|--:|--:|"]
    for stack, by_run in sorted(runs.items()):
        known = next(iter(by_run.values()))
        counts = [f"{by_run[run]['tokens']:,}" if run in by_run else "" for run in ("originals", "cards")]
        name = f"[{stack}](docs/how-to/{stack}.md)"
        rows.append(f"| {name} | {known['tested']} | {counts[0]} | {counts[1]} |")
    return "\n".join(rows)


def _write(table: str) -> None:
    """Puts the table between its marks in the README; rows of stacks that did not run are lost."""
    readme = ROOT / "README.md"
    text = readme.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    readme.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}")


if __name__ == "__main__":
    sys.exit(main())
