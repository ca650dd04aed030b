"""The blocks of a Markdown page as what its reader pastes into a shell: commands, snippets, and files to save.

A block without a language, or of `bash`, is of commands: those after `$ ` with what they print, or all of its lines. A
block of Python is run. `<!-- file: NAME -->` before a block of any language saves it; `<!-- not run: REASON -->` keeps
a block from being run. A block of `text` is only read. Only Python's own library is needed.
"""

import hashlib
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

BEFORE_PYTHON: Final = "output = open('examples/test-run.log').read()\n"
"""What snippets take as given."""
_BLOCK: Final = re.compile(r"^(?:<!-- ([^>]+) -->\n)?```([\w+-]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ROOT: Final = Path(__file__).parents[2]
PAGES: Final = sorted(
    path
    for pattern in ("*.md", "client/*.md", "deploy/*.md", "examples/**/*.md", "docs/**/*.md")
    for path in ROOT.glob(pattern)
)
"""Everything that is written to be read."""
STACKS: Final = frozenset(path.parent.name for path in (ROOT / "tests" / "stacks").glob("*/test_*.py"))
"""Frameworks, whose pages in `docs/how-to` `make test-integrations` runs, in an environment with the framework."""
_SHELL: Final = {"", "bash"}


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    """The page's name, without its ending."""
    number: int
    """Which of the page's blocks it is, from 1."""
    mark: str
    """The first word of the comment before it: `file`, `not run`, or nothing."""
    said: str
    """What the comment says: the file's name, or the reason."""
    language: str
    text: str

    @property
    def is_shell(self) -> bool:
        """Whether it is of commands."""
        return self.language in _SHELL and not self.mark

    @property
    def is_to_run(self) -> bool:
        """Whether its reader does something with it, and a test must as well."""
        return self.language != "text" and self.mark != "not run"

    @property
    def identity(self) -> str:
        """One word that changes with the block's content, its language and its mark."""
        whole = f"{self.mark}\n{self.said}\n{self.language}\n{self.text}"
        return hashlib.sha256(whole.encode()).hexdigest()[:16]


def blocks(page: Path) -> list[Block]:
    """Returns the fenced blocks of a page, in its order.

    Raises:
        ValueError: a mark gives no reason, or is none.
    """
    found: list[Block] = []
    for number, (mark, language, text) in enumerate(_BLOCK.findall(page.read_text()), 1):
        word, _, said = mark.partition(": ")
        if mark and (word not in {"not run", "file"} or not said.strip()):
            raise ValueError(f"{page.name}: <!-- {mark} -->")
        found.append(Block(page.stem, number, word, said, language, text))
    return found


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


def is_of_a_stack(page: Path) -> bool:
    """Whether a page is a framework's."""
    return page.parent.name == "how-to" and page.stem in STACKS


def steps(page: Path) -> list[Pasted]:
    """Returns everything to paste, in the page's order.

    Raises:
        ValueError: nothing is known of how to run a block.
    """
    found: list[Pasted] = []
    for block in blocks(page):
        if not block.is_to_run:
            continue
        if block.mark == "file":
            found.append(Pasted(f"cat > {block.said} <<'END'\n{block.text}END\n"))
        elif block.language == "python":
            found.append(Pasted(f"python - <<'END'\n{BEFORE_PYTHON}{block.text}END\n"))
        elif block.is_shell:
            found += commands(block.text)
        else:
            raise ValueError(f"{page.name}: block {block.number} is of {block.language}: no test runs it")
    return found


def pattern(shown: str) -> str:
    """An output as a page shows it: `…` stands for anything in a line, a remark in brackets for any lines."""
    lines = [
        r"(?:.*\n)*" if re.fullmatch(r"    \(.*\)", line) else re.escape(line).replace("…", ".*") + r"\n"
        for line in shown.splitlines()
    ]
    return "".join(lines)
