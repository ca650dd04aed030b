"""Every command and snippet of the README and of the site, pasted in order into one shell beside a fresh service."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from support.pages import PAGES, Pasted, commands, is_of_a_stack, pattern, steps
from support.pythons import VERSIONS, python_of
from support.service import serving
from support.used_servers import used

ROOT: Final = Path(__file__).parents[2]
PASTED: Final = [page for page in PAGES if not is_of_a_stack(page) and steps(page)]
ON_EACH: Final = [ROOT / "README.md", ROOT / "docs" / "how-to" / "python.md"]
"""Pages that are pasted on each Python."""


def paste(page: Path, python: str, home: Path) -> None:
    """Run a page; every command must end with 0 and print what the page shows."""
    pasted = steps(page)
    assert pasted
    if any(step.command.startswith("export COATCHECK_") for step in pasted):
        pasted.append(Pasted("coatcheck settings\n"))  # refuses what cannot be set
    (home / "work").mkdir()
    (home / "work" / "examples").symlink_to(ROOT / "examples")
    (home / "backups").mkdir()
    programs = home / "bin"
    programs.mkdir()
    for name, words in {"coatcheck": f"{python} -m coatcheck", "python": python}.items():
        (programs / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        (programs / name).chmod(0o755)
    script = ""
    for number, step in enumerate(pasted):
        script += f"exec > {home}/{number}.out 2>&1\n{step.command}\necho $? > {home}/{number}.code\n"
    with serving(home / "data", command=(python, "-m", "coatcheck")) as service:
        places = {
            "127.0.0.1:8321": service.url.removeprefix("http://"),
            ".venv/bin/": f"{programs}/",
            "/var/lib/coatcheck": str(home / "data"),
            "/backups/": f"{home}/backups/",
        }
        for written, meant in places.items():
            script = script.replace(written, meant)
        env = {
            "PATH": f"{programs}:/usr/bin:/bin",
            "HOME": str(home),
            "LC_ALL": "C.UTF-8",
            "COATCHECK_URL": service.url,
        }
        subprocess.run(["bash", "-c", script], cwd=home / "work", env=env, timeout=240, check=False)
    for number, step in enumerate(pasted):
        out = (home / f"{number}.out").read_text(errors="replace")
        assert (home / f"{number}.code").read_text() == "0\n", f"{step.command}{out}"
        assert '"type":"/errors/' not in out, f"{step.command}{out}"
        if step.shown:
            assert re.fullmatch(pattern(step.shown.rstrip() + "\n"), out.rstrip() + "\n"), f"{step.command}{out}"


@pytest.mark.parametrize("page", ON_EACH, ids=lambda page: page.stem)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_page_can_be_pasted_on_each_python(version: str, page: Path, tmp_path: Path) -> None:
    python = python_of(version)
    if python is None:
        used(f"README: not on Python {version}, of which there is no environment here")
        pytest.skip(f"no environment of Python {version}; `make pythons` makes one where this Python is installed")
    used(f"README: Python {version}")
    paste(page, python, tmp_path)


@pytest.mark.parametrize("page", [page for page in PASTED if page not in ON_EACH], ids=lambda page: page.stem)
def test_every_command_of_a_page_can_be_pasted_and_prints_what_it_shows(page: Path, tmp_path: Path) -> None:
    paste(page, sys.executable, tmp_path)


def test_an_output_that_differs_from_what_is_shown_is_noticed() -> None:
    assert re.fullmatch(pattern("a … c\n    (more)\nd\n"), "a b c\nx\ny\nd\n")
    assert not re.fullmatch(pattern("a … c\n    (more)\nd\n"), "a b\nd\n")
    assert [step.command for step in commands("curl \\\n  -d 'a\nb' x\nls\n")] == ["curl \\\n  -d 'a\nb' x\n", "ls\n"]


def test_a_setting_that_cannot_be_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```\nexport COATCHECK_BLOB_URL=s4://bucket\n```\n")
    with pytest.raises(AssertionError, match="COATCHECK_BLOB_URL is not s3"):
        paste(page, sys.executable, tmp_path)


def test_what_is_not_run_says_why(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- not run: needs a moon -->\n```\nland\n```\n\n```\nls\n```\n\n```text\nwords\n```\n")
    assert [step.command for step in steps(page)] == ["ls\n"]
    page.write_text("<!-- not run: -->\n```\nland\n```\n")
    with pytest.raises(ValueError, match="not run"):
        steps(page)
