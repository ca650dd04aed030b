"""Every fenced block of every page is run by a test, or says why not: a new one, or a changed one, is noticed here."""

from collections import Counter
from pathlib import Path
from typing import Final

import pytest
from markdown_it import MarkdownIt

from support.pages import PAGES, ROOT, Block, blocks, is_of_a_stack, steps

NOT_RUN: Final = Counter(
    {
        "it keeps the terminal": 3,
        "installs from a package registry": 4,
        "needs Node.js, and fetches programs from npm": 2,
        "needs a public host name": 1,
        "needs a certificate and nginx": 1,
    }
)
"""Every reason that a block gives for not being run, and how many give it."""
RECORD: Final = ROOT / "tests" / "stacks" / "run_blocks.txt"


def relative(page: Path) -> str:
    return str(page.relative_to(ROOT))


def ran(page: Path) -> set[tuple[str, str]]:
    """Number and identity of each block that the tests of a page's framework ran when they passed last."""
    lines = [line.split() for line in RECORD.read_text().splitlines()]
    return {(number, identity) for stack, number, identity in lines if stack == page.stem}


def identified(found: list[Block]) -> set[tuple[str, str]]:
    return {(str(block.number), block.identity) for block in found if block.is_to_run}


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_every_block_is_found_as_a_reader_finds_it(page: Path) -> None:
    tokens = MarkdownIt().parse(page.read_text())
    read = [token.content for token in tokens if token.type in {"fence", "code_block"}]
    assert [block.text for block in blocks(page)] == read


@pytest.mark.parametrize("page", [page for page in PAGES if not is_of_a_stack(page)], ids=relative)
def test_every_block_is_one_that_is_pasted(page: Path) -> None:
    steps(page)


@pytest.mark.parametrize("page", [page for page in PAGES if is_of_a_stack(page)], ids=relative)
def test_every_block_of_a_framework_was_run_as_it_stands(page: Path) -> None:
    assert ran(page) == identified(blocks(page)), f"run `make test-integrations ARGS={page.stem}`"


def test_what_is_not_run_is_counted() -> None:
    said = Counter(block.said for page in PAGES for block in blocks(page) if block.mark == "not run")
    assert said == NOT_RUN


def test_a_block_is_another_one_when_anything_of_it_changes(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    seen: set[str] = set()
    for text in ("```\nls\n```\n", "```\nls -a\n```\n", "```python\nls\n```\n", "<!-- file: x -->\n```\nls\n```\n"):
        page.write_text(text)
        (block,) = blocks(page)
        assert block.is_to_run
        seen.add(block.identity)
    assert len(seen) == 4


def test_a_block_that_no_test_can_run_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```yaml\na: 1\n```\n")
    with pytest.raises(ValueError, match="no test runs it"):
        steps(page)
