"""What the pages name is there."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import click
import pytest

from coatcheck.cli import main
from coatcheck.core.errors import Code

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    p
    for folder in (
        ROOT,
        ROOT / "docs",
        ROOT / "docs" / "decisions",
        ROOT / "docs" / "how-to",
        ROOT / "docs" / "explanation",
        ROOT / "docs" / "reference",
        ROOT / "deploy",
        ROOT / "client",
    )
    for p in folder.glob("*.md")
)
WRITTEN = [page for page in PAGES if page.parent.name != "reference"]
"""Pages that are not made from the code."""
WORDS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_make_word_is_a_task(page: Path) -> None:
    named = re.findall(r"(?:`|^|&& )make ([a-z][a-z-]*)", page.read_text(), re.MULTILINE)
    assert set(named) <= WORDS


def test_contributing_explains_every_task_but_the_obvious() -> None:
    explained = set(re.findall(r"`make ([a-z][a-z-]*)`", (ROOT / "CONTRIBUTING.md").read_text()))
    helped = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert helped - explained <= {"help", "run", "clean"}


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_and_option_is_one_that_the_command_line_has(page: Path) -> None:
    for line in re.findall(r"(?:\.venv/bin/|`)coatcheck ([^|`\n]+)", page.read_text()):
        words = line.split()
        command: click.Command | None = main
        while isinstance(command, click.Group) and words:
            command = command.get_command(click.Context(command), words.pop(0))
        assert command is not None, line
        options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
        assert {w for w in words if re.match(r"--?[a-zA-Z]", w)} <= options, line


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_the_pages_for_developers_name_only_what_exists(name: str) -> None:
    page = (ROOT / name).read_text()
    named = set(re.findall(r"`(?!/v1/)([\w./-]+/[\w./-]*|[\w-]+\.(?:py|md|toml))`", page))
    assert len(named) > 15
    package = ROOT / "service" / "coatcheck"
    client = ROOT / "client" / "coatcheck_client"
    places = (ROOT, ROOT / "tests", package, package / "adapters" / "sql", client)
    assert [path for path in sorted(named) if not any((place / path).exists() for place in places)] == []


def test_the_layers_drawn_are_the_folders_there_are() -> None:
    drawn = (ROOT / "ARCHITECTURE.md").read_text().split("```")[1]
    for name in re.findall(r"\b([a-z]+(?:/|\.py))", drawn):
        assert (ROOT / "service" / "coatcheck" / name).exists(), name


def test_every_error_code_has_a_section_that_says_what_to_do() -> None:
    page = (ROOT / "docs" / "errors.md").read_text()
    for code in Code:
        assert re.search(rf"`{code}`", page), code


def test_every_setting_that_a_page_names_is_one() -> None:
    from coatcheck.settings import PREFIX, Settings  # noqa: PLC0415 - only this test

    names = {PREFIX + field.upper() for field in Settings.__struct_fields__}
    for page in WRITTEN:
        named = {name.removesuffix("_FILE") for name in re.findall(r"COATCHECK_[A-Z_]*[A-Z]", page.read_text())}
        assert named <= names, page.name


def test_every_part_of_the_benchmarks_that_a_page_names_is_one() -> None:
    source = (ROOT / "bench" / "__main__.py").read_text()
    parts = set(re.findall(r'^    "(\w+)": \w+\.run,$', source, re.MULTILINE))
    named = {
        part
        for page in PAGES
        for words in re.findall(r'make bench ARGS=(\w+|"[\w ]+")', page.read_text())
        for part in words.strip('"').split()
    }
    assert "cards" in named
    assert named <= parts


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "decisions").glob("0*.md")), ids=lambda page: page.stem)
def test_every_decision_says_why_what_it_costs_and_when_to_think_again(page: Path) -> None:
    text = page.read_text()
    parts = [text.find(f"**{part}") for part in ("Decided.**", "Because.**", "Costs.**", "Think again**")]
    assert -1 < parts[0] < parts[1] < parts[2] < parts[3]
    assert len(text.splitlines()) < 50, "one screen; figures belong to docs/measurements.md"
    heading = re.match(r"# (\d{4}) (.*)", text)
    assert heading is not None
    assert f"[{heading[1]}]({page.name}) | {heading[2]} |" in (page.parent / "README.md").read_text()


def test_the_picture_is_of_the_card_that_the_service_makes_now() -> None:
    drawn = runpy.run_path(str(ROOT / "maintenance" / "site" / "picture.py"))["of_today"]()
    assert (ROOT / "docs" / "card.svg").read_text() == drawn, "run `make picture`"


def test_the_reference_is_as_the_code_says() -> None:
    script = ROOT / "maintenance" / "site" / "reference.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_page_of_the_site_is_listed_for_models_and_people() -> None:
    folder = ROOT / "docs"
    listed = set(re.findall(r"\]\(([\w/.-]+\.md)\)", (folder / "index.md").read_text()))
    pages = {str(page.relative_to(folder)) for page in folder.rglob("*.md")}
    assert {page for page in pages - listed if not page.startswith("decisions/0")} == {"index.md"}
