"""Keys of a YAML mapping, in any blocks, and texts that only resemble one."""

import random

import pytest

from coatcheck.core.artifact import Kind
from coatcheck.core.kinds.spec import spec_of
from coatcheck.core.outline.landmarks import landmarks
from coatcheck.core.outline.model import OutlineEntry
from coatcheck.core.outline.render import line_of
from coatcheck.core.outline.yaml_parts import YamlParts, yaml_form
from coatcheck.core.views.window import Position

YAML = """# made
name: CI
on: [push]
env:
  # [none]
  KEY: value
jobs:

  build:
    steps:
      - name: a
        with:
          x: 1
  test: &anchor
    needs:
      - build
script: |
  not:
    a: key
list:
- a:
    b: 1
"""
PODS = """kind: List
items:
- kind: Pod
  metadata:
    labels:
      name: inner
    name: web-1
  spec:
    containers:
    - name: app
    name: other
- id: 7
  name: "web-2"
  args: ["a: b"]
  text: a value of
    several: lines
- odd: 1
other:
  - user:
      id: 5
    id: u
"""
PLAYS = "- hosts: all\n  name: first\n  tasks:\n    - name: a\n- hosts: web\n  name: second\n"
ONE = "en:\n    hello: Hello\n    deep:\n        deeper: 1\n    bye: Bye\n"
LISTS = "groups:\n  - name: a\n    rules:\n      x: 1\nrules:\n  {odd}:\n    deep:\n      x: 1\nend: 1\n"


TEXTS = {
    "yaml": (
        YAML,
        [
            "name (2)",
            "on (3)",
            "env (4-6)",
            "jobs (7-16)",
            "  build (9-13)",
            "      a (11-13)",
            "  test (14-16)",
            "script (17-19)",
            "list (20-22)",
        ],
    ),
    "pods": (
        PODS,
        ["kind (1)", "items (2-17)", "  web-1 (3-11)", "  web-2 (12-16)", "other (18-21)", "  u (19-21)"],
    ),
    "plays": (PLAYS, ["first (1-4)", "second (5-6)"]),
    "one": (ONE, ["en (1-5)", "  hello (2)", "  deep (3-4)", "  bye (5)"]),
    "lists": (LISTS, ["groups (1-4)", "  a (2-4)", "rules (5-8)", "  {odd} (6-8)", "end (9)"]),
}


def entries(scanner: YamlParts, text: str, cuts: tuple[int, ...] = ()) -> list[OutlineEntry]:
    lines = text.encode().splitlines(keepends=True)
    place = Position(0, 0, 0)
    for low, high in zip((0, *cuts), (*cuts, len(lines)), strict=True):
        block = b"".join(lines[low:high])
        scanner.feed(block, place)
        place = place.after(block)
    return scanner.finish(place, ends_line=True)


@pytest.mark.parametrize("name", TEXTS)
def test_parts_are_found_in_any_blocks(name: str) -> None:
    text, listed = TEXTS[name]
    rng = random.Random(2)
    for _ in range(60):
        scanner = YamlParts("keys")
        cuts = tuple(sorted(rng.sample(range(1, text.count("\n")), rng.randint(0, 4))))
        assert [line_of(each) for each in entries(scanner, text, cuts)] == listed, cuts


@pytest.mark.parametrize("kind", [Kind.CODE_OR_FILE, Kind.COMMAND_OUTPUT, Kind.TEXT])
@pytest.mark.parametrize("name", TEXTS)
def test_every_sort_of_text_may_have_them(name: str, kind: Kind) -> None:
    text, listed = TEXTS[name]
    assert [line_of(each) for each in landmarks(spec_of(kind).landmarks, (), text.encode())] == listed


OTHERS = [
    "",
    ":",
    "[",
    "\n\n",
    "From: a@b.example\nTo: c@d.example\nSubject: x\n\nHello,\n  there\n",
    "def one():\n    pass\n\nclass Two:\n    x = 1\n",
    "else:\n    pass\nelse:\n    pass\n",
    "all: a b\n\tmake c\n\nclean:\n\trm x\n",
    "Package: a\nDescription: b\n c\n\nPackage: d\nDescription: e\n f\n",
    "[12:00:01]\nstarted\n[12:00:02]\nstopped well, with a = b\n",
    "[INFO] a = 1\n[WARN] b = 2\n[INFO] c = 3\n",
    "[1]\n[2]\n[3]\n",
    "# TYPE of a thing\nprose about # TYPE of it\nand # TYPE again\n",
    "error: a\n  at b\nerror: c\n  at d\n",
    "---\na:\n  b: 1\n---\nc:\n  d: 1\n",
    '{\n  "a": {\n    "b": 1\n  }\n}\n',
]


@pytest.mark.parametrize("text", OTHERS)
def test_other_texts_have_none(text: str) -> None:
    assert yaml_form(text.encode()) != "keys"


def test_a_beginning_without_a_line_end_is_examined() -> None:
    assert yaml_form(b"a:" * 20_000) is None
