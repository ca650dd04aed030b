"""The documentation's Python, the examples and the client's interface pass pyright's strict mode and mypy's."""

import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

import pytest

from support.pages import BEFORE_PYTHON, PAGES, ROOT, Block, blocks, is_of_a_stack

CHECKED: Final = Counter(
    {
        "README.md": 2,
        "client/README.md": 2,
        "docs/how-to/anthropic.md": 2,
        "docs/how-to/compaction.md": 1,
        "docs/how-to/langchain.md": 4,
        "docs/how-to/pydantic-ai.md": 2,
        "docs/how-to/python.md": 3,
        "docs/how-to/web-search.md": 3,
        "docs/tutorial.md": 2,
    }
)
"""How many blocks of each page are checked."""
ELSEWHERE: Final = Counter(
    {
        "docs/how-to/agent-framework.md": 2,
        "docs/how-to/agno.md": 2,
        "docs/how-to/autogen.md": 2,
        "docs/how-to/claude-agent-sdk.md": 2,
        "docs/how-to/crewai.md": 2,
        "docs/how-to/fastmcp.md": 2,
        "docs/how-to/google-adk.md": 2,
        "docs/how-to/litellm.md": 4,
        "docs/how-to/llama-index.md": 2,
        "docs/how-to/openai-agents.md": 3,
        "docs/how-to/smolagents.md": 2,
        "docs/how-to/strands.md": 2,
    }
)
"""How many are not, because the page's framework is only in the environment that `make test-integrations` makes."""
OF_A_STACK: Final = """\
# pyright: strict, reportUnknownVariableType=false, reportUnknownMemberType=false
def get_log() -> str:
    return ""


def get_status() -> str:
    return ""


"""
"""What pages of frameworks take as given. What a framework leaves without types is not ours to mend."""
CONSUMER: Final = Path(__file__).with_name("consumer.py")
PROGRAMS: Final = [CONSUMER, *sorted((ROOT / "examples").rglob("*.py"))]
EXTRAS: Final[dict[str, list[str]]] = tomllib.loads((ROOT / "client" / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def is_here(page: Path) -> bool:
    """Whether what a page's reader installs is in this environment."""
    try:
        for requirement in EXTRAS.get(page.stem, []) if is_of_a_stack(page) else []:
            distribution(re.split(r"[^\w-]", requirement)[0])
    except PackageNotFoundError:
        return False
    return True


def python_blocks(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.language == "python" and block.is_to_run]


def modules(page: Path) -> dict[str, str]:
    """The page's blocks as they are run, by the names of modules: one after the other for a framework, else alone."""
    stem = re.sub(r"\W", "_", named(page))
    if is_of_a_stack(page):
        return {f"{stem}.py": OF_A_STACK + "".join(block.text for block in python_blocks(page))}
    return {
        f"{stem}_{block.number}.py": block.text if block.mark == "file" else BEFORE_PYTHON + block.text
        for block in python_blocks(page)
    }


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Everything to check, as files."""
    folder = tmp_path_factory.mktemp("typed")
    for page in PAGES:
        if is_here(page) and python_blocks(page):
            for name, text in modules(page).items():
                (folder / name).write_text(text)
    return [*sorted(folder.glob("*.py")), *PROGRAMS]


def test_every_block_of_python_is_counted() -> None:
    counts = {page: Counter({named(page): len(python_blocks(page))}) for page in PAGES}
    assert sum((counts[page] for page in PAGES if is_here(page)), Counter[str]()) == CHECKED
    assert sum((counts[page] for page in PAGES if not is_here(page)), Counter[str]()) == ELSEWHERE


def test_pyright_finds_nothing_in_its_strict_mode(programs: list[Path], tmp_path: Path) -> None:
    config = {
        "include": [str(program) for program in programs],
        "typeCheckingMode": "strict",
        "reportUnnecessaryTypeIgnoreComment": True,
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    command = ["basedpyright", "--project", str(tmp_path), "--pythonpath", sys.executable, "--outputjson"]
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False)
    answer = json.loads(done.stdout)
    assert answer["generalDiagnostics"] == []
    assert answer["summary"]["filesAnalyzed"] == len(programs)


def test_mypy_finds_nothing_in_its_strict_mode(programs: list[Path]) -> None:
    command = ["mypy", "--strict", "--config-file=", f"--cache-dir={ROOT / '.mypy_cache'}", *map(str, programs)]
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False)
    assert done.stdout == f"Success: no issues found in {len(programs)} source files\n", done.stdout + done.stderr
