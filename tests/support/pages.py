"""The blocks of a Markdown page as what its reader pastes into a shell: commands, snippets, and files to save.

A block without a language, or of `bash`, is of commands: those after `$ ` with what they print, or all of its lines. A
block of Python is run, or saved where `<!-- file: NAME -->` stands before it. `<!-- not run: REASON -->` before a block
keeps it from being run; blocks in other languages are not for a shell.
"""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

BEFORE_PYTHON: Final = "output = open('examples/test-run.log').read()\n"
"""What snippets take as given."""
_BLOCK: Final = re.compile(r"^(?:<!-- ([^>]+) -->\n)?```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass
class Pasted:
    """A command, and the output that the page shows under it."""

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
    return [step for step in found if step.command.strip()]


def steps(page: Path) -> list[Pasted]:
    """Everything to paste, in the page's order.

    Raises:
        ValueError: a mark gives no reason, or is none.
    """
    found: list[Pasted] = []
    for mark, language, block in _BLOCK.findall(page.read_text()):
        word, _, said = mark.partition(": ")
        if mark and (word not in {"not run", "file"} or not said.strip()):
            raise ValueError(f"{page.name}: <!-- {mark} -->")
        if word == "file":
            found.append(Pasted(f"cat > {said} <<'END'\n{block}END\n"))
        elif word == "not run":
            continue
        elif language == "python":
            found.append(Pasted(f"python - <<'END'\n{BEFORE_PYTHON}{block}END\n"))
        elif language in {"", "bash"}:
            found += commands(block)
    return found


def pattern(shown: str) -> str:
    """An output as a page shows it: `…` stands for anything in a line, a remark in brackets for any lines."""
    lines = [
        r"(?:.*\n)*" if re.fullmatch(r"    \(.*\)", line) else re.escape(line).replace("…", ".*") + r"\n"
        for line in shown.splitlines()
    ]
    return "".join(lines)
