"""Every integration has its page, its tests and its extra, and is small."""

import re
import tomllib
from pathlib import Path
from typing import Final

import pytest

from support.pages import STACKS

ROOT: Final = Path(__file__).parents[2]
MOST_LINES: Final = 92
SHOWN: Final = (ROOT / "tests/stacks/README.md").read_text()


@pytest.mark.parametrize("stack", sorted(STACKS))
def test_a_stack_has_a_page_that_says_what_a_user_asks_first(stack: str) -> None:
    page = (ROOT / f"docs/how-to/{stack}.md").read_text()
    for heading in ("## What the model sees", "## When the service is away", "## Exempt a tool"):
        assert heading in page


@pytest.mark.parametrize("module", sorted((ROOT / "client/coatcheck_client/integrations").glob("[!_]*.py")), ids=str)
def test_an_integration_is_one_small_module(module: Path) -> None:
    if module.stem not in {"parts", "tool_outputs"}:
        assert len(module.read_text().splitlines()) <= MOST_LINES


def test_every_module_that_needs_a_framework_has_an_extra() -> None:
    project = tomllib.loads((ROOT / "client/pyproject.toml").read_text())["project"]
    modules = {path.stem.replace("_", "-") for path in (ROOT / "client/coatcheck_client/integrations").glob("[!_]*")}
    assert set(project["optional-dependencies"]) - {"embedded"} <= modules  # which is the service, no framework


@pytest.mark.parametrize("stack", sorted({*STACKS} - {"mcp-wrap"}))  # which has no agent
def test_the_table_of_what_is_shown_names_ways_and_tests_that_are_there(stack: str) -> None:
    row = re.search(rf"^\| {stack} \|([^|]*)\|(.*)$", SHOWN, re.MULTILINE)
    assert row is not None
    tests = "".join(path.read_text() for path in (ROOT / "tests/stacks" / stack).glob("*.py"))
    shared = (ROOT / "tests/stacks/more_tests.py").read_text() if "PictureTests" in tests else ""
    names = re.findall(r"`(test_\w+)`", row[2])
    assert names
    assert [name for name in names if f"def {name}(" not in tests + shared] == []
    ways = re.search(r"^    modes = \(\"([^)]*)\)$", tests, re.MULTILINE)
    table = re.search(r"^WAYS\b[^{]*\{([^}]*)\}$", tests, re.MULTILINE)  # of functions, by way
    written = ways[0] if ways else "".join(re.findall(r'"\S+":', table[1])) if table else '"async"'
    assert row[1].strip().split(", ") == re.findall(r'"(.*?)"', written)


def test_tests_that_all_stacks_have_are_in_the_table() -> None:
    named = re.findall(r"`(test_\w+)`", SHOWN.partition("| Stack |")[0])
    assert named == re.findall(r"def (test_\w+)\(", (ROOT / "tests/stacks/stack_tests.py").read_text())
