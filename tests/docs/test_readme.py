"""Every command and snippet of the README, pasted in order into one shell beside a fresh service, on each Python."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from support.pythons import VERSIONS, python_of
from support.service import serving
from support.used_servers import used

ROOT: Final = Path(__file__).parents[2]
NOT_PASTED: Final = ("make run", "agent = create_agent(")
"""What blocks the shell, and what needs a model (`examples/langchain` is tested by itself)."""
BEFORE_PYTHON: Final = "output = open('examples/test-run.log').read()\n"
"""What the snippets take as given."""


@dataclass
class Pasted:
    """A command, and the output that the README shows under it."""

    command: str
    shown: str = ""


def is_whole(command: str) -> bool:
    """Whether a shell would run this instead of waiting for the next line."""
    return (
        not command.rstrip("\n").endswith("\\") and not subprocess.run(["bash", "-nc", command], check=False).returncode
    )


def commands(block: str) -> list[Pasted]:
    """The commands of a block: those after `$ ` with their outputs, or all of its lines."""
    found: list[Pasted] = []
    has_output = block.startswith("$ ")
    for line in block.splitlines(keepends=True):
        if found and not is_whole(found[-1].command):
            found[-1].command += line
        elif not has_output:
            found.append(Pasted(line))
        elif line.startswith("$ "):
            found.append(Pasted(line[2:]))
        else:
            found[-1].shown += line
    return found


def pasted(python: str) -> list[Pasted]:
    """Everything to paste, in the README's order; snippets go to this interpreter."""
    found: list[Pasted] = []
    for language, block in re.findall(
        r"^```(\w*)\n(.*?)^```$", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE
    ):
        if any(word in block for word in NOT_PASTED):
            continue
        if language == "python":
            found.append(Pasted(f"{python} - <<'END'\n{BEFORE_PYTHON}{block}END\n"))
        else:
            found += commands(block)
    return found


def pattern(shown: str) -> str:
    """An output as the README shows it: `…` stands for anything in a line, a remark in brackets for any lines."""
    lines = [
        r"(?:.*\n)*" if re.fullmatch(r"    \(.*\)", line) else re.escape(line).replace("…", ".*") + r"\n"
        for line in shown.splitlines()
    ]
    return "".join(lines)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_command_of_the_readme_can_be_pasted_and_prints_what_it_shows(version: str, tmp_path: Path) -> None:
    python = python_of(version)
    if python is None:
        used(f"README: not on Python {version}, of which there is no environment here")
        pytest.skip(f"no environment of Python {version}; `make pythons` makes one where this Python is installed")
    used(f"README: Python {version}")
    steps = [step for step in pasted(python) if step.command.strip()]
    assert len(steps) > 25
    script = ""
    for number, step in enumerate(steps):
        script += f"exec > {tmp_path}/{number}.out 2>&1\n{step.command}\necho $? > {tmp_path}/{number}.code\n"
    with serving(tmp_path / "data", command=(python, "-m", "coatcheck")) as service:
        script = script.replace("127.0.0.1:8321", service.url.removeprefix("http://"))
        script = script.replace(".venv/bin/coatcheck", f"{python} -m coatcheck")
        env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8", "COATCHECK_URL": service.url}
        subprocess.run(["bash", "-c", script], cwd=ROOT, env=env, timeout=240, check=False)
    for number, step in enumerate(steps):
        out = (tmp_path / f"{number}.out").read_text(errors="replace")
        assert (tmp_path / f"{number}.code").read_text() == "0\n", f"{step.command}{out}"
        assert '"type":"/errors/' not in out, f"{step.command}{out}"
        if step.shown:
            assert re.fullmatch(pattern(step.shown.rstrip() + "\n"), out.rstrip() + "\n"), f"{step.command}{out}"


def test_an_output_that_differs_from_what_is_shown_is_noticed() -> None:
    assert re.fullmatch(pattern("a … c\n    (more)\nd\n"), "a b c\nx\ny\nd\n")
    assert not re.fullmatch(pattern("a … c\n    (more)\nd\n"), "a b\nd\n")
    assert [step.command for step in commands("curl \\\n  -d 'a\nb' x\nls\n")] == ["curl \\\n  -d 'a\nb' x\n", "ls\n"]
