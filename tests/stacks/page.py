"""Runs the blocks of a page of `docs/how-to` in the framework's environment, and reports which of them ran."""

import contextlib
import io
import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Final

from scenario import TOOLS
from support.pages import Block, blocks

HOW_TO: Final = Path(__file__).parents[2] / "docs" / "how-to"


@contextlib.contextmanager
def block(page: str, number: int) -> Generator[Block]:
    """A block of a page, from 1; it counts as run when the `with` block, which runs it, ends without an error."""
    one = blocks(HOW_TO / f"{page}.md")[number - 1]
    yield one
    report = os.environ.get("COATCHECK_STACKS_REPORT")
    if report is not None:
        with Path(report).open("a") as file:
            file.write(json.dumps({"page": page, "block": one.identity}) + "\n")


def run_page(page: str, **names: object) -> str:
    """Runs every block of Python that the page does not save to a file, in order, as one script.

    Args:
        page: its name in `docs/how-to`.
        names: what the script has already, besides the tools of `scenario`.

    Returns:
        What it printed.
    """
    output, given = io.StringIO(), {"__name__": "__main__", **TOOLS, **names}
    for one in blocks(HOW_TO / f"{page}.md"):
        if one.language == "python" and one.is_to_run and not one.mark:
            with block(page, one.number) as taken, contextlib.redirect_stdout(output):
                exec(compile(taken.text, f"{page}.md, block {one.number}", "exec"), given)  # noqa: S102
    return output.getvalue()
