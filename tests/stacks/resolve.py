"""Asks a resolver whether the client, and the service, can be installed beside the newest release of each framework.

    python tests/stacks/resolve.py              # all
    python tests/stacks/resolve.py agno crewai  # some

Each framework is resolved alone, with `client/`, and with `client/` and the service; nothing is installed. Ends with 1
when something cannot be resolved, or only with an older release of the framework.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
UV: Final = ROOT / ".uv" / "bin" / "uv"
FRAMEWORKS: Final = (
    *("crewai", "strands-agents", "openai-agents", "pydantic-ai", "smolagents", "llama-index-core"),
    *("autogen-agentchat", "agno", "google-adk", "langchain", "litellm"),
)
PYTHON: Final = "3.12"
"""All of them run on it."""


class Resolved(NamedTuple):
    """What a resolver chose."""

    version: str
    """Of the framework."""
    packages: frozenset[str]


def resolve(framework: str, *trees: Path) -> Resolved | str:
    """What a framework's newest release and these projects resolve to together; a text says why they do not."""
    with tempfile.NamedTemporaryFile("w", suffix=".in") as needs:
        needs.write("\n".join([framework, *map(str, trees)]))
        needs.flush()
        command = [UV, "pip", "compile", "--system-certs", "--no-annotate", "--no-header", "--no-sources"]
        command += ["--python-version", PYTHON, "--upgrade", needs.name]
        done = subprocess.run(command, cwd=tempfile.gettempdir(), capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stderr
    pins = dict(re.findall(r"^([\w.-]+)(?:\[.*\])?==(\S+)", done.stdout, re.MULTILINE))
    trees_there = re.findall(r"file:\S+", done.stdout)
    return Resolved(pins[framework], frozenset({*pins, *trees_there}))


def row(framework: str) -> tuple[str, bool]:
    """A line of the table, and whether everything holds."""
    alone = resolve(framework)
    if isinstance(alone, str):
        return f"| {framework} | cannot be resolved alone | | |\n{alone}", False
    cells: list[str] = []
    right = True
    for trees in ((ROOT / "client",), (ROOT / "client", ROOT)):
        beside = resolve(framework, *trees)
        if isinstance(beside, str):
            cells.append("unsatisfiable")
            sys.stderr.write(beside)
        else:
            more = len(beside.packages - alone.packages)
            gone = "" if beside.version == alone.version else f", but {framework} {beside.version}"
            cells.append(f"{more}{gone}")
        right = right and not isinstance(beside, str) and beside.version == alone.version
    return f"| {framework} {alone.version} | {len(alone.packages)} | {' | '.join(cells)} |", right


def main() -> int:
    """Print a table of what the command line names; returns the exit code."""
    parser = argparse.ArgumentParser(description="Resolve the client beside frameworks.")
    parser.add_argument("frameworks", nargs="*", metavar="FRAMEWORK", default=FRAMEWORKS)
    print("| Newest release | Packages | More with the client | More with the service too |\n|---|--:|--:|--:|")
    failed = False
    for framework in parser.parse_args().frameworks:
        line, right = row(framework)
        print(line, flush=True)
        failed |= not right
    return failed


if __name__ == "__main__":
    sys.exit(main())
