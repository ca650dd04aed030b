"""Drawn trees and recursive listings, held against the tree that was drawn and against what `ls` listed."""

import random
import subprocess
from pathlib import Path

import pytest

from coatcheck.core.artifact import DeclaredMetadata, Kind, PayloadSample
from coatcheck.core.kinds import recognise
from coatcheck.core.kinds.spec import spec_of
from coatcheck.core.outline.landmarks import landmarks
from coatcheck.core.outline.model import OutlineScanner
from coatcheck.core.outline.trees import Folders, Tree, is_listing, is_tree
from coatcheck.core.views.window import Position
from facts.made_trees import STYLES, Branch, drawn, grown

AB = Branch("app v1", (Branch("a", (Branch("x"), Branch("y"))), Branch("b", (Branch("z"),))))


def found(text: str, kind: Kind = Kind.COMMAND_OUTPUT) -> list[tuple[int, str, int]]:
    entries = landmarks(spec_of(kind).landmarks, (None,), text.encode())
    return [(e.level, e.title, e.lines.first) for e in entries if e.lines is not None and e.what == "part"]


@pytest.mark.parametrize("kind", [Kind.COMMAND_OUTPUT, Kind.CODE_OR_FILE, Kind.TEXT, Kind.LOG])
@pytest.mark.parametrize("style", STYLES)
def test_the_landmarks_of_a_tree_are_its_roots_and_their_branches(style: str, kind: Kind) -> None:
    rng = random.Random(style)
    for _ in range(20):
        tree = grown(rng, least=2)
        lines, outer = drawn(tree, STYLES[style])
        text = "\n".join([*lines, "", "9 directories, 7 files", ""])
        assert found(text, kind) == [(level, title, line) for line, (level, title) in outer.items()]


def test_if_a_root_has_one_branch_its_branches_are_landmarks_too() -> None:
    tree = Branch(".", (Branch("src", AB.inner),))
    text = "\n".join(drawn(tree, STYLES["lines"])[0]) + "\n"
    assert found(text) == [(1, ".", 1), (2, "src", 2), (3, "a", 3), (3, "b", 6)]


def test_several_trees_follow_each_other() -> None:
    tree = AB
    text = "\n".join([*drawn(tree, STYLES["lines"])[0], "", *drawn(tree, STYLES["lines"])[0], ""])
    assert found(text) == [(1, "app v1", 1), (2, "a", 2), (2, "b", 5), (1, "app v1", 8), (2, "a", 9), (2, "b", 12)]


@pytest.mark.parametrize("options", ["-R", "-lR", "-laR", "-pR", "-1sR"])
def test_the_landmarks_of_a_listing_are_its_folders(tmp_path: Path, options: str) -> None:
    for path in ("etc/a/b", "etc/a b/c", "etc/d", "lib/e", "lib/f/ü"):
        (tmp_path / path).mkdir(parents=True)
        for name in ("one", "two.txt", "odd:"):
            (tmp_path / path / name).touch()
    listed = subprocess.run(["ls", options, "etc", "lib"], cwd=tmp_path, capture_output=True, check=True, text=True)
    text = listed.stdout
    if options == "-1sR":
        assert "\n0 one\n" in text
    folders = ["etc", *sorted(str(p.relative_to(tmp_path)) for p in (tmp_path / "etc").rglob("*") if p.is_dir())]
    folders += ["lib", *sorted(str(p.relative_to(tmp_path)) for p in (tmp_path / "lib").rglob("*") if p.is_dir())]
    rows = text.split("\n")
    assert sorted(title for _, title, _ in found(text)) == sorted(folders)
    assert all(rows[line - 1] == f"{title}:" for _, title, line in found(text))
    assert all(level == 1 + title.count("/") for level, title, _ in found(text))


def scanned(scanner: OutlineScanner, text: str, cut: int) -> list[tuple[str, int]]:
    lines = text.encode().splitlines(keepends=True)
    place = Position(0, 0, 0)
    for block in (b"".join(lines[:cut]), b"".join(lines[cut:])):
        scanner.feed(block, place)
        place = place.after(block)
    return [(e.title, e.lines.first) for e in scanner.finish(place, ends_line=True) if e.lines is not None]


def test_the_blocks_in_which_lines_come_change_nothing() -> None:
    tree = AB
    text = "\n".join([*drawn(tree, STYLES["lines"])[0], *drawn(tree, STYLES["lines"])[0], ""])
    head = text.encode()
    whole = scanned(Tree(head), text, 0)
    assert len(whole) == 6
    assert all(scanned(Tree(head), text, cut) == whole for cut in range(text.count("\n")))
    listing = "a:\nb\nc:\n\na/b:\n\na/d:\nx:\n\nb:\n"
    expected = [("a", 1), ("a/b", 5), ("a/d", 7), ("b", 10)]
    assert all(scanned(Folders(), listing, cut) == expected for cut in range(listing.count("\n")))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "├",
        "├── a\n",
        "a\n├── b\n├── c\n└── d\n",  # hardly nested: every line would be one
        "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n",
        "+-----+-----+\n| a   | b   |\n+-----+-----+\n| 1   | 2   |\n+-----+-----+\n",
        "* 1234567 a\n|\\  \n| * 2345678 b\n|/  \n* 3456789 c\n",
        "error[E1]: a\n --> b.rs:1:2\n  |\n1 | x\n  | ^ c\n  |\n",
        "--- a\n+++ b\n@@ -1 +1 @@\n- x\n+- y\n+-- z\n",
    ],
)
def test_what_is_no_tree_has_no_branches(text: str) -> None:
    assert not is_tree(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "a:\n",
        "a:\nb\n\nc:\nd\n",
        "Name:\nAnn\n\nAge:\n3\n\nTown:\nYork\n",
        "a:\n  b: 1\n\na/c:\n  d: 2\n\na/e:\n  f: 3\n",
        "a/b:\nx\n\na/c:\ny\n\nand then\n",
        "a/b:\nx\n\na/b:\ny\n\na/b:\nz\n",
        "Error: no\n\na/b:\nx\n",
    ],
)
def test_what_is_no_listing_has_no_folders(text: str) -> None:
    assert not is_listing(text.encode())


def test_a_card_names_the_branches_of_a_lone_branch() -> None:
    tree = Branch(".", (Branch("src", AB.inner),))
    payload = ("\n".join(drawn(tree, STYLES["lines"])[0]) + "\n").encode()
    facts = recognise(PayloadSample(payload, b"", len(payload)), DeclaredMetadata(tool_name="bash"))
    assert facts.shape == ("Outline (with lines): . 1; src 2; a 3; b 6",)
    assert facts.sections == ("a", "b")
