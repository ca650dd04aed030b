"""Every integration has its page, its tests and its extra, and is small."""

import tomllib
from pathlib import Path
from typing import Final

import pytest

from support.pages import STACKS

ROOT: Final = Path(__file__).parents[2]
MOST_LINES: Final = 80


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
    assert set(project["optional-dependencies"]) <= modules
