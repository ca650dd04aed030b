"""What is found in lines, whatever the blocks they come in."""

import random

import pytest

from coatcheck.core.outline.diff import Diff
from coatcheck.core.outline.landmarks import Symbols
from coatcheck.core.outline.languages import PATTERNS, language_of
from coatcheck.core.outline.line_scanner import phase_scanner, times
from coatcheck.core.outline.model import MAX_ENTRIES, OutlineEntry, OutlineScanner
from coatcheck.core.outline.yaml_parts import YamlParts, yaml_form
from coatcheck.core.views.window import Position

START = Position(0, 0, 0)


def scan(scanner: OutlineScanner, text: str, cuts: tuple[int, ...] = ()) -> list[OutlineEntry]:
    """The entries of a text that comes in blocks that end after these numbers of lines."""
    lines = text.encode().splitlines(keepends=True)
    place = START
    for low, high in zip((0, *cuts), (*cuts, len(lines)), strict=True):
        block = b"".join(lines[low:high])
        scanner.feed(block, place)
        place = place.after(block)
    return scanner.finish(place, ends_line=text.endswith("\n") or not text)


def shown(entries: list[OutlineEntry]) -> list[tuple[int, str, int, int]]:
    return [(e.level, e.title, e.lines.first, e.lines.last) for e in entries if e.lines is not None]


SOURCES: dict[str, tuple[tuple[str, ...], list[tuple[int, str, int, int]]]] = {
    "python": (
        (
            "import os",
            "",
            "class Desk:",
            "    x = 1",
            "",
            "    async def read(self, n: int) -> str:",
            "        def inner():",
            "            pass",
            "        return inner",
            "",
            "",
            "def main():",
            "    if x:",
            "        pass",
        ),
        [
            (1, "class Desk", 3, 11),
            (2, "async def read(self, n: int) -> str", 6, 11),
            (3, "def inner()", 7, 11),
            (1, "def main()", 12, 14),
        ],
    ),
    "script": (
        (
            "export class Desk {",
            "  constructor(x) {",
            "    if (x) {",
            "      return;",
            "    }",
            "  }",
            "  async read(n: number): Promise<x> {",
            "  }",
            "}",
            "export const go = async (a, b) => {",
            "};",
            "function* walk(a) {",
            "}",
            "export type Id = string | number;",
            "export const limit: number = 5;",
            "export const add = dual(2, (a, b) => a + b);",
            "export const { one, two } = slice.actions;",
            "const hidden = 5;",
            "exports.sum = function (a) {",
            "};",
            "exports.same = same;",
            "exports.a = exports.b = void 0;",
            "module.exports = { go };",
            "Desk.prototype.close = () => {",
            "};",
            "desk.size = 5;",
            "export default defineConfig({",
            "});",
            "export default Desk;",
            "export { go };",
        ),
        [
            (1, "export class Desk", 1, 9),
            (2, "constructor(x)", 2, 6),
            (2, "async read(n: number): Promise<x>", 7, 8),
            (1, "export const go = async (a, b) =>", 10, 11),
            (1, "function* walk(a)", 12, 13),
            (1, "export type Id = string | number;", 14, 14),
            (1, "export const limit: number = 5;", 15, 15),
            (1, "export const add = dual(2, (a, b) => a + b);", 16, 16),
            (1, "export const { one, two } = slice.actions;", 17, 18),
            (1, "exports.sum = function (a)", 19, 20),
            (1, "module.exports = { go };", 23, 23),
            (1, "Desk.prototype.close = () =>", 24, 25),
            (1, "export default defineConfig", 27, 28),
        ],
    ),
    "go": (
        (
            "package x",
            "",
            "type Desk struct {",
            "}",
            "",
            "func (d *Desk) Read(n int) error {",
            "\treturn nil",
            "}",
        ),
        [(1, "type Desk struct", 3, 4), (1, "func (d *Desk) Read(n int) error", 6, 8)],
    ),
    "rust": (
        (
            "pub struct Desk;",
            "impl Desk {",
            "    pub(crate) async fn read(&self) -> u8 {",
            "        1",
            "    }",
            "}",
        ),
        [(1, "pub struct Desk;", 1, 1), (1, "impl Desk", 2, 6), (2, "pub(crate) async fn read(&self) -> u8", 3, 5)],
    ),
    "curly": (
        (
            "public final class Desk {",
            "    private static int read(String n) {",
            "        if (n) {",
            "        }",
            "    }",
            "}",
        ),
        [(1, "public final class Desk", 1, 6), (2, "private static int read(String n)", 2, 5)],
    ),
    "c": (
        (
            "#define X(a) a",
            "struct desk {",
            "  int n;",
            "};",
            "static int read_desk(struct desk *d)",
            "{",
            "  call(d);",
            "}",
        ),
        [(1, "#define X(a) a", 1, 1), (1, "struct desk", 2, 4), (1, "static int read_desk(struct desk *d)", 5, 8)],
    ),
    "header": (
        (
            "#ifndef DESK_H",
            "#define DESK_H",
            "/*",
            "int no(void);",
            "*/",
            "#define X(a) a",
            "typedef struct desk desk_t;",
            "typedef int (*on_read)(desk_t *, int);",
            "typedef struct {",
            "  int (*f)(void);",
            "} Named, *NamedPtr;",
            "extern int errno;",
            "extern int read_desk (desk_t *d,",
            "                      int n) __THROW;",
            "DESK_API(const char *) desk_name(desk_t *d);",
            "void",
            "desk_close(desk_t *d);",
            "DESK_DECLARE(close)",
            "static inline int twice(int n) {",
            "  call(n);",
            "}",
            "  extern void late(void);",
            "const STACK_OF(DESK) *",
            "desk_stack(int n);",
        ),
        [
            (1, "#define X(a) a", 6, 6),
            (1, "typedef struct desk desk_t;", 7, 7),
            (1, "typedef int (*on_read)(desk_t *, int);", 8, 8),
            (1, "typedef struct Named, *NamedPtr", 9, 11),
            (1, "extern int read_desk (desk_t *d,", 13, 14),
            (1, "DESK_API(const char *) desk_name(desk_t *d);", 15, 16),
            (1, "desk_close(desk_t *d);", 17, 18),
            (1, "static inline int twice(int n)", 19, 21),
            (2, "extern void late(void);", 22, 23),
            (1, "desk_stack(int n);", 24, 24),
        ],
    ),
    "interface": (
        (
            'syntax = "proto3";',
            "// message No {",
            "message Desk {",
            '  string name = 1 [default = "message No {"];',
            "  enum Sort {",
            "  }",
            "  oneof of_one {",
            "  }",
            "}",
            "service Desks {",
            "  rpc Read(stream Desk) returns (Desk);",
            "}",
            "extend .a.b.Desk {",
            "}",
            "type Query implements Node {",
            "union Both = Desk | Chair",
            "exception Gone {",
        ),
        [
            (1, "message Desk", 3, 9),
            (2, "enum Sort", 5, 6),
            (2, "oneof of_one", 7, 8),
            (1, "service Desks", 10, 12),
            (2, "rpc Read(stream Desk) returns (Desk);", 11, 11),
            (1, "extend .a.b.Desk", 13, 14),
            (1, "type Query implements Node", 15, 15),
            (1, "union Both = Desk | Chair", 16, 16),
            (1, "exception Gone", 17, 17),
        ],
    ),
    "ruby": (
        (
            "module A",
            "  class B < C",
            "    def d?(e)",
            "    end",
            "  end",
            "end",
        ),
        [(1, "module A", 1, 6), (2, "class B < C", 2, 6), (3, "def d?(e)", 3, 6)],
    ),
    "php": (
        (
            "<?php",
            "final class A {",
            "  public function b() {",
            "  }",
            "}",
        ),
        [(1, "final class A", 2, 5), (2, "public function b()", 3, 4)],
    ),
    "shell": (
        (
            "set -e",
            "build() {",
            "  make",
            "}",
            "function ship {",
            "}",
        ),
        [(1, "build()", 2, 4), (1, "function ship", 5, 6)],
    ),
    "sql": (
        (
            "create table a (",
            "  b int",
            ");",
            "CREATE OR REPLACE VIEW v AS",
            "select 1;",
        ),
        [(1, "create table a", 1, 3), (1, "CREATE OR REPLACE VIEW v AS", 4, 5)],
    ),
    "settings": (
        (
            "[project]",
            "name = 1",
            "[tool.x]",
        ),
        [(1, "[project]", 1, 2), (1, "[tool.x]", 3, 3)],
    ),
    "any": (
        (
            "x",
            "def a():",
            "  fn b() {",
        ),
        [(1, "def a()", 2, 3), (2, "fn b()", 3, 3)],
    ),
}
"""Lines, and what is found in them."""


def source(language: str) -> str:
    return "".join(f"{line}\n" for line in SOURCES[language][0])


@pytest.mark.parametrize("language", sorted(SOURCES))
def test_definitions_are_found_with_their_lines(language: str) -> None:
    assert shown(scan(Symbols(language), source(language))) == SOURCES[language][1]


def test_numbered_source_is_outlined_as_if_it_were_not() -> None:
    text, expected = source("python"), SOURCES["python"][1]
    numbered = "".join(f"{n:6d}\t{line}" for n, line in enumerate(text.splitlines(keepends=True), 1))
    assert shown(scan(Symbols("python"), numbered)) == expected
    arrows = "".join(f"{n:5d}→{line}" for n, line in enumerate(text.splitlines(keepends=True), 1))
    assert shown(scan(Symbols("python"), arrows)) == expected


@pytest.mark.parametrize(
    ("names", "head", "language"),
    [
        (("src/a.py",), b"", "python"),
        ((None, "https://x.org/a/B.TSX?raw=1#L3"), b"", "script"),
        (("Makefile",), b"#!/usr/bin/env python3\n", "python"),
        (("run",), b"#!/bin/bash -e\n", "shell"),
        (("notes", None), b"x = 1\n", "any"),
        ((".py",), b"", "python"),
        (("zlib.h",), b"", "header"),
        (("a.proto",), b"", "interface"),
        ((None,), b"/* Copyright */\n\n#ifndef A_H\n#define A_H\nint a(void);\n", "header"),
        ((None,), b"#pragma once\n", "header"),
        ((None,), b"// Copyright\n#include <stdio.h>\n#ifndef A\n#define A\n#endif\n", "c"),
        ((None,), b'// Copyright\n\nsyntax = "proto3";\n', "interface"),
        ((None,), b"# include the following\nx # include <a>\n", "any"),
        (("a.unknown",), b"", "any"),
    ],
)
def test_a_files_name_or_a_line_that_others_have_not_tells_its_language(
    names: tuple[str | None, ...], head: bytes, language: str
) -> None:
    assert language_of(names, head) == language
    assert language in PATTERNS


DIFF = "".join(
    f"{line}\n"
    for line in (
        "diff --git a/x.py b/x.py",
        "index 1..2 100644",
        "--- a/x.py",
        "+++ b/x.py",
        "@@ -1,3 +1,4 @@ def a",
        " a",
        "+b",
        "+c",
        "-d",
        " e",
        "@@ -10,2 +11,3 @@",
        " x",
        "+--- not a file",
        " y",
        "diff --git a/old.md b/new.md",
        "rename from old.md",
        "--- a/old.md",
        "+++ b/new.md",
        "@@ -1 +1 @@",
        "-a",
        "+b",
    )
)
FILES = [
    (1, "x.py", "2 hunks, +3 -1", 1, 14),
    (2, "@@ -1,3 +1,4 @@ def a", "+2 -1", 5, 10),
    (2, "@@ -10,2 +11,3 @@", "+1 -0", 11, 14),
    (1, "new.md", "1 hunk, +1 -1", 15, 21),
    (2, "@@ -1 +1 @@", "+1 -1", 19, 21),
]


def of_diff(entries: list[OutlineEntry]) -> list[tuple[int, str, str | None, int, int]]:
    return [(e.level, e.title, e.detail, e.lines.first, e.lines.last) for e in entries if e.lines is not None]


def test_a_diff_is_its_files_and_their_hunks_with_what_they_add_and_remove() -> None:
    assert of_diff(scan(Diff(), DIFF)) == FILES


def test_the_blocks_in_which_lines_come_change_nothing() -> None:
    rng = random.Random(3)
    for _ in range(200):
        cuts = tuple(sorted(rng.sample(range(1, 21), rng.randint(1, 6))))
        assert of_diff(scan(Diff(), DIFF, cuts)) == FILES, cuts
    for language, (_, expected) in SOURCES.items():
        text = source(language)
        for cut in range(1, text.count("\n")):
            assert shown(scan(Symbols(language), text, (cut,))) == expected


def test_what_follows_a_complete_hunk_is_not_counted_however_it_comes() -> None:
    text = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n\n- a remark\n- another\n--\n2.39\n"
    for cut in range(1, text.count("\n")):
        file, hunk = scan(Diff(), text, (cut,))
        assert (file.added, file.removed, hunk.added, hunk.removed) == (1, 1, 1, 1)


def test_a_diff_without_git_names_its_files_too() -> None:
    old = "--- a/x.c\t2026-01-01\n+++ b/x.c\t2026-01-02\n@@ -1 +1 @@\n-a\n+b\n"
    text = f"{old}--- /dev/null\n+++ b/new.c\n@@ -0,0 +1 @@\n+n\n"
    assert [(e.title, e.detail) for e in scan(Diff(), text) if e.what == "file"] == [
        ("x.c", "1 hunk, +1 -1"),
        ("new.c", "1 hunk, +1 -0"),
    ]


def test_a_log_is_its_phases_where_it_marks_them() -> None:
    text = (
        "2026-01-01T10:00:00.1234567Z ##[group]Run tests\n2026-01-01T10:00:01Z x\n::group::Build\ny\n"
        "==== FAILURES ====\nz\n> Task :app:compile\n#7 [stage 2/5] RUN make\n"
        "make[1]: Entering directory '/x'\n$ ls\nplain\n"
    )
    assert shown(scan(phase_scanner(), text)) == [
        (1, "Run tests", 1, 2),
        (1, "Build", 3, 4),
        (1, "==== FAILURES ====", 5, 6),
        (1, "> Task :app:compile", 7, 7),
        (1, "#7 [stage 2/5] RUN make", 8, 8),
        (1, "make[1]: Entering directory '/x'", 9, 9),
        (1, "$ ls", 10, 11),
    ]
    assert times(b"2026-01-01T10:00:00.12Z a\n", b"x\n2026-01-02 11:00:00 b\n") == (
        "Times from 2026-01-01T10:00:00.12Z to 2026-01-02 11:00:00."
    )
    assert times(b"[10:00:01] a\n", b"[10:00:01] a\n") == "Times begin with 10:00:01."
    assert times(b"no time\n", b"none\n") is None


@pytest.mark.parametrize("name", ["any", "c", "curly", "python", "script", "diff", "output"])
def test_no_content_is_too_much(name: str) -> None:
    rng = random.Random(name)
    pieces = [
        "def ",
        "class ",
        "{",
        "}",
        "(",
        ")",
        "\n",
        " ",
        "\t",
        "@@ -1 +1 @@",
        "--- a",
        "+++ b",
        "diff --git ",
        "\0",
        "é",
        "x",
    ]
    for _ in range(50):
        scanner: OutlineScanner = Diff() if name == "diff" else phase_scanner() if name == "output" else Symbols(name)
        text = "".join(rng.choices(pieces, k=rng.randint(0, 400)))
        entries = scan(scanner, text)
        size, lines = len(text.encode()), text.count("\n") + (not text.endswith("\n"))
        for entry in entries:
            assert entry.lines is not None
            assert entry.bytes is not None
            assert 1 <= entry.lines.first <= entry.lines.last <= lines
            assert 0 <= entry.bytes.start < entry.bytes.end <= size
            assert "\n" not in entry.title
    full: OutlineScanner = Diff() if name == "diff" else phase_scanner() if name == "output" else Symbols(name)
    line = {"diff": "diff --git a/x b/x\n", "output": "$ ls\n", "script": "function a() {\n", "c": "int a(int b) {\n"}
    line["python"] = "class a:\n"
    scan(full, line.get(name, "class a {\n") * (MAX_ENTRIES + 10))
    assert full.full


MANIFESTS = """\
# Source: desk/service.yaml
apiVersion: v1
kind: Service
metadata:
  labels:
    name: inner
  name: "desk"  # as it is called
spec:
  name: other
---
---
# nothing but a comment
---
kind: Job
metadata:
  generateName: run-
spec:
  name: not a name of it
...
---

replicas: 3
---
- a
"""


@pytest.mark.parametrize("cuts", [(), (3,), (4, 5, 6), tuple(range(1, 24))])
def test_documents_of_a_yaml_stream_are_found_with_kind_and_name(cuts: tuple[int, ...]) -> None:
    assert yaml_form(MANIFESTS.encode()) == "documents"
    found = scan(YamlParts("documents"), MANIFESTS, cuts)
    assert shown(found) == [
        (1, "Service desk", 1, 12),
        (1, "Job", 13, 19),
        (1, "replicas: 3", 20, 22),
        (1, "- a", 23, 24),
    ]
    assert [entry.detail for entry in found] == ["Service", "Job", None, None]


@pytest.mark.parametrize(
    "text",
    [
        "---\ntitle: a page\n---\n# Heading\n\nWords of a page.\n",
        "title: one\nname: document\n",
        "---\nkind: Service\n",
        "usage: tool\n---\nSome words\n---\nkey: value\n",
        "--- a/x.py\n+++ b/x.py\n",
        "",
    ],
)
def test_what_is_no_stream_of_several_documents_is_not_taken_for_one(text: str) -> None:
    assert yaml_form(text.encode()) != "documents"


STYLES = {
    "c": (
        (
            "static int",
            "usage (const char *name)",
            "{",
            "  return 1;",
            "}",
            "",
            "int",
            "main (int argc,",
            "      char **argv)",
            "{",
            "  usage (argv[0]);",
            "}",
            "static int table[] = {",
            "};",
        ),
        [(1, "usage (const char *name)", 2, 5), (1, "main (int argc,", 8, 12)],
    ),
    "curly": (
        (
            "package a.b;",
            "class CartTest {",
            "    @Test",
            "    void refunds() throws Exception {",
            "        for (;;) {",
            "        }",
            "    }",
            "",
            "    List<String> names(int n) {",
            "        return null;",
            "    }",
            "    public String Name { get; set; }",
            "    private bool IsEmpty() => true;",
            "}",
            "// the end",
        ),
        [
            (1, "class CartTest", 2, 14),
            (2, "void refunds() throws Exception", 4, 7),
            (2, "List<String> names(int n)", 9, 11),
            (2, "public String Name { get; set; }", 12, 12),
            (2, "private bool IsEmpty() => true;", 13, 13),
        ],
    ),
    "python": (
        (
            "def f():",
            '    x = """',
            "text",
            '"""',
            "    return 1",
            "",
            "X = f()",
            "class A:",
            "    def g(self):",
            "        pass",
            "",
            "if X:",
            "    f()",
        ),
        [(1, "def f()", 1, 6), (1, "class A", 8, 11), (2, "def g(self)", 9, 11)],
    ),
}


@pytest.mark.parametrize("language", STYLES)
def test_definitions_end_where_they_end_in_styles_of_their_own(language: str) -> None:
    lines, expected = STYLES[language]
    text = "".join(f"{line}\n" for line in lines)
    for cut in range(len(lines)):
        assert shown(scan(Symbols(language), text, (cut,) if cut else ())) == expected
