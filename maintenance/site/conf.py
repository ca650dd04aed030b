"""The documentation site: Sphinx over the Markdown of `docs/`, which stays readable as it is.

`docs/index.md` is the one list of pages: the navigation and `llms.txt` are made of it, and a page that it misses is a
warning, which fails the build. Nothing on the site is loaded from elsewhere; search runs in the reader's browser.
"""

import re
import shutil
from pathlib import Path
from typing import Final

from sphinx.application import Sphinx

from coatcheck import __version__

project = "Coatcheck"
author = "The Coatcheck developers"
project_copyright = author
release = __version__
extensions = ["myst_parser"]
root_doc = "index"
myst_heading_anchors = 4
html_theme = "furo"
html_title = f"Coatcheck {release}"
html_show_sphinx = False
html_copy_source = False
html_use_index = False
highlight_language = "text"
nitpicky = True

LISTS: Final = ("index", "README")
"""Names of pages whose links are the navigation below them."""


def _with_navigation(app: Sphinx, page: str, content: list[str]) -> None:
    """Append to a list of pages the tables of contents that Sphinx needs, one for each of its headings."""
    if page.rpartition("/")[2] not in LISTS:
        return
    tables: list[str] = []
    for section in re.split(r"^## ", content[0], flags=re.MULTILINE):
        linked = re.findall(r"\]\(([\w/-]+)\.md\)", section)
        folder = Path(app.srcdir, page).parent
        pages = [name for name in dict.fromkeys(linked) if (folder / f"{name}.md").exists()]
        if pages:
            title = section.partition("\n")[0]
            caption = [] if title.startswith("# ") else [f":caption: {title}"]
            tables.append("\n".join(["", "```{toctree}", ":hidden:", *caption, "", *pages, "```", ""]))
    content[0] += "\n".join(tables)


def _with_sources(app: Sphinx, failure: Exception | None) -> None:
    """Put the Markdown of every page beside it, for readers that are models, and `llms.txt` that lists them."""
    if failure is not None:
        return
    for source in Path(app.srcdir).rglob("*.md"):
        target = Path(app.outdir) / source.relative_to(app.srcdir)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    shutil.copyfile(Path(app.srcdir) / "index.md", Path(app.outdir) / "llms.txt")


def setup(app: Sphinx) -> None:
    """Connect what Sphinx calls while it builds."""
    app.connect("source-read", _with_navigation)
    app.connect("build-finished", _with_sources)
