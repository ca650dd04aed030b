"""`make release` says of a tree everything that keeps it from being released, and notices what is not in its commit."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest
from release import URLS, VERSIONS, build_twice, check_tree, list_files, read_version
from sbom import FOLDERS, locate_bill, make_bill

ROOT: Final = Path(__file__).parents[2]
NEXT: Final = "77.1.0"
"""The version that is to be released."""


def _edit(file: Path, pattern: str, text: str) -> None:
    """Puts a text where the group of a pattern matches, which it must."""
    old = file.read_text()
    new = re.sub(pattern, lambda match: match[0].replace(match[1], text), old, flags=re.MULTILINE)
    assert new != old
    file.write_text(new)


def _commit(tree: Path) -> None:
    for words in ("init --quiet", "add --all", "-c user.name=a -c user.email=a@b.example commit --quiet --message all"):
        subprocess.run(["git", *words.split()], cwd=tree, check=True, timeout=60)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what a release is made of, as it is when a version is to be released."""
    tree = tmp_path / "tree"
    for folder in ("service", "client", "migrations", "openapi", "deploy", "tests/golden"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE", "NOTICE", "CHANGELOG.md", "requirements.lock", ".gitignore"):
        shutil.copy(ROOT / file, tree)
    for file, pattern in {**VERSIONS, "./pyproject.toml": r'^version = "(.*)"$'}.items():
        _edit(tree / file, pattern, NEXT)
    urls = "".join(f'{name} = "https://home.example/{name}"\n' for name in URLS)
    for folder in FOLDERS.values():
        project = tree / folder / "pyproject.toml"
        text = re.sub(r"^\[project\.urls\]\n(\w.*\n)*", "", project.read_text(), flags=re.MULTILINE)
        project.write_text(f"{text}\n[project.urls]\n{urls}")
    _edit(tree / "CHANGELOG.md", r"^## (Unreleased)\n", f"Unreleased\n\n## {NEXT} - 2026-01-02\n\n- A change.\n")
    golden = json.loads((tree / "tests/golden/cards.json").read_text())
    if golden["released"] != golden["engine"]:
        _edit(tree / "tests/golden/cards.json", r'^ "released": (\d+),$', str(golden["engine"]))
    for name in FOLDERS:
        (tree / locate_bill(name)).write_text(make_bill(tree, name))
    _commit(tree)
    return tree


def test_a_tree_that_can_be_released_has_no_reason_against_it(tree: Path) -> None:
    assert (list(check_tree(tree)), read_version(tree)) == ([], NEXT)


def test_every_reason_against_a_release_is_named_at_once_with_what_to_do(tree: Path) -> None:
    for file, pattern in VERSIONS.items():
        _edit(tree / file, pattern, "9.9.9")
    _edit(tree / "openapi/openapi.json", r'^    "title": "(.*)",$', "Another")
    _edit(tree / "CHANGELOG.md", r"^## Unreleased(\n)", "\n\n- Another change.\n")
    _edit(tree / "CHANGELOG.md", rf"^## {NEXT} - (2026-01-02)$", "soon")
    _edit(tree / "tests/golden/cards.json", r'^ "released": (\d+),$', "1")
    _edit(tree / "client/pyproject.toml", r"^(Issues) = ", "Talk")
    reasons = list(check_tree(tree))
    expected = [
        *(f"{file} has 9.9.9, and the service's is {NEXT}: edit it, or run " for file in VERSIONS),
        "CHANGELOG.md has changes below `## Unreleased`: move them",
        f"CHANGELOG.md does not say what changed in this version: write `## {NEXT} - ",
        "The commit is not all there is (8, among them CHANGELOG.md): commit",
        "openapi/openapi.json is not what the code gives: run `make openapi",
        "that of the release 1: raise the version, then run `make golden`",
        "coatcheck.cdx.json is not what the tree says: run `make sbom`",
        "client/coatcheck-client.cdx.json is not what the tree says: run `make sbom`",
        "client/pyproject.toml has no Issues: name in [project.urls]",
    ]
    assert len(reasons) == len(expected)
    for reason, words in zip(reasons, expected, strict=True):
        assert words in reason


def test_a_file_that_is_not_in_the_commit_is_noticed_by_building_twice(tree: Path, tmp_path: Path) -> None:
    (tree / "service" / "coatcheck" / "stray.txt").write_text("not in the commit")
    reasons = list(build_twice(tree, tmp_path / "dist"))
    assert [reason.partition(" is another one ")[0] for reason in reasons] == [
        f"coatcheck-{NEXT}.tar.gz",
        f"coatcheck-{NEXT}-py3-none-any.whl",
    ]
    assert len(list_files(tmp_path / "dist")) == 4
