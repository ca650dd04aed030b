"""What is found in whole payloads, held against what knows it better: Python's parser, json, Git itself."""

import ast
import json
import re
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from coatcheck.core.artifact import Kind
from coatcheck.core.kinds.spec import spec_of
from coatcheck.core.outline.landmarks import landmarks
from coatcheck.core.outline.model import OutlineEntry

STDLIB = Path(sysconfig.get_paths()["stdlib"])
MODULES = sorted([*STDLIB.glob("*.py"), *STDLIB.glob("[a-l]*/*.py")])[::4]


def found(text: str | bytes, kind: Kind = Kind.CODE_OR_FILE, name: str | None = None) -> list[OutlineEntry]:
    return landmarks(spec_of(kind).landmarks, (name,), text.encode() if isinstance(text, str) else text)


def lines(entries: list[OutlineEntry]) -> list[int]:
    return [entry.lines.first for entry in entries if entry.lines is not None]


def defined(source: bytes) -> list[int]:
    """The lines of all definitions, as Python's parser sees them."""
    return sorted(
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    )


@pytest.mark.parametrize("module", [p for p in MODULES if "lib2to3" not in p.parts], ids=lambda p: p.name)
def test_the_definitions_of_a_python_module_are_those_that_its_parser_sees(module: Path) -> None:
    source = module.read_bytes()
    assert lines(found(source, name=module.name)) == defined(source)


@pytest.mark.parametrize("form", ["{n:6d}\t{line}", "{n:6d}→{line}", "{n}: {line}", "{n:5d}| {line}"])
def test_numbered_source_has_the_same_definitions_and_says_where_they_came_from(form: str) -> None:
    source = (STDLIB / "argparse.py").read_text().rstrip("\n")
    numbered = "\n".join(form.format(n=n, line=line) for n, line in enumerate(source.splitlines(), 1))
    plain, again = found(source, name="argparse.py"), found(numbered, name="argparse.py")
    assert [(e.title, e.level, e.lines) for e in again] == [(e.title, e.level, e.lines) for e in plain]
    assert all(entry.detail is None for entry in again)
    later = "\n".join(form.format(n=n + 400, line=line) for n, line in enumerate(source.splitlines(), 1))
    for entry in found(later, name="argparse.py"):
        assert entry.lines is not None
        assert entry.detail == f"line {entry.lines.first + 400:,} of its file"


def test_the_hits_of_grep_say_which_file_they_are_of() -> None:
    hits = "src/a.py:12:def one(x):\nsrc/a.py-13-    pass\n--\nsrc/b.py:7:class Two:\nsrc/b.py:8:    # def three():\n"
    for kind in (Kind.COMMAND_OUTPUT, Kind.CODE_OR_FILE):
        assert [(e.title, e.detail, e.lines and e.lines.first) for e in found(hits, kind)] == [
            ("def one(x)", "src/a.py:12", 1),
            ("class Two", "src/b.py:7", 4),
        ]


HIDING: dict[str, str] = {
    "x.py": '"""\ndef no(a):\n"""\n# class No:\nx = "\'\'\'"\nclass Yes:\n    """One.\n\n    class No:\n    """\n',
    "x.ts": "/*\nfunction no() {\n*/\nconst s = '/*';\nfunction yes() {}\nconst t = `\nclass No {\n`;\nclass Yes {}\n",
    "x.go": "/*\nfunc no() {}\n*/\nvar s = `\nfunc no() {}\n`\nfunc yes() {}\n",
    "x.rs": '/*\nfn no() {}\n*/\nlet s = r#"\nfn no() {}\n"#;\nfn yes() {}\n',
    "x.java": '/**\n class No {\n */\nString s = """\nclass No {\n""";\npublic class Yes {\n',
    "x.c": "/*\nint no(int a) {\n*/\nint yes(int a) {\n",
    "x.rb": "=begin\ndef no\n=end\nx = <<~SQL\n  class No\nSQL\ndef yes\nend\n",
    "x.php": "<?php\n/*\nfunction no() {}\n*/\n$x = <<<EOT\nfunction no() {}\nEOT;\nfunction yes() {}\n",
    "x.sh": "cat <<'EOF'\nno() {\nEOF\ntr a b <<<EOF\nyes() {\n}\n",
    "x.sql": "/*\ncreate table no (\n*/\ndo $b$\ncreate table no (\n$b$;\ncreate table yes (\n",
    "x.lua": "--[[\nfunction no()\n]]\nlocal s = [==[\nfunction no()\n]==]\nfunction yes()\n",
    "x.pl": "=head1 X\n\nsub no {\n\n=cut\n\nprint <<EOT;\nsub no {\nEOT\nsub yes {\n",
    "x.ex": '"""\ndef no(a)\n"""\ndef yes(a)\n',
    "x": "'''\ndef no(a):\n'''\n/* class No {\n*/\ndef yes(a):\n",
}


@pytest.mark.parametrize("name", HIDING)
def test_comments_and_strings_define_nothing(name: str) -> None:
    titles = [entry.title.lower() for entry in found(HIDING[name], name=name)]
    assert titles
    assert all("yes" in title for title in titles)


def git(*arguments: str, repository: Path) -> bytes:
    who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", *who, *arguments], cwd=repository, check=True, capture_output=True).stdout


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the names and changes that are written in unusual ways."""
    root = tmp_path_factory.mktemp("repository")
    git("init", "-q", "-b", "main", repository=root)
    texts = {
        "plain.py": "a\nb\nc\n" * 20,
        "with space.txt": "1\n2\n3\n",
        "dir b/b/x.md": "x\n" * 9,
        "ünï\t.txt": "u\n",
        "moved.txt": "same\n" * 30,
        "gone.txt": "bye\n" * 4,
        "dashes.sql": "-- one\n-- two\n++ three\nselect\n",
    }
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    git("add", "-A", repository=root)
    git("commit", "-q", "-m", "First: all files", repository=root)
    (root / "plain.py").write_text("a\nB\nc\n" * 20 + "end")
    (root / "with space.txt").write_text("1\n3\n4\n")
    (root / "dir b/b/x.md").write_text("x\n" * 9 + "commit abcdef0123\n@@ -1 +1 @@\n")
    (root / "ünï\t.txt").write_text("U\n")
    (root / "moved.txt").rename(root / "now here.txt")
    (root / "gone.txt").unlink()
    (root / "dashes.sql").write_text("++ three\nselect\n-- two\n")
    (root / "binary.bin").write_bytes(bytes(range(256)) * 9)
    git("add", "-A", repository=root)
    git("commit", "-q", "-m", "Second: change, move and remove\n\nWith a body.\n", repository=root)
    git("commit", "-q", "--allow-empty", "--allow-empty-message", "-m", "", repository=root)
    (root / "plain.py").write_text("one\n")
    git("commit", "-q", "-am", "Third [x]: end", repository=root)
    return root


def numstat(*what: str, repository: Path) -> list[tuple[str, int, int]]:
    """Names now, and lines added and removed, as Git counts them."""
    fields = git(*what, "--numstat", "-z", repository=repository).split(b"\0")
    out: list[tuple[str, int, int]] = []
    while fields and fields[0]:
        added, removed, name = fields.pop(0).split(b"\t", 2)
        if not name:
            _, name = fields.pop(0), fields.pop(0)
        binary = added == b"-"
        out.append((" ".join(name.decode().split()), 0 if binary else int(added), 0 if binary else int(removed)))
    return out


@pytest.mark.parametrize("more", [(), ("-U0",), ("-U20",), ("--no-prefix",), ("--binary",)], ids=str)
def test_the_files_of_a_diff_and_their_counts_are_those_of_git(repository: Path, more: tuple[str, ...]) -> None:
    what = ("diff", "-M", "HEAD~3", "HEAD~2")
    files = [e for e in found(git(*what, *more, repository=repository), Kind.DIFF) if e.what == "file"]
    expected = numstat(*what, repository=repository)
    assert [(e.title, e.added, e.removed) for e in files] == expected


def test_the_lines_of_a_diffs_files_are_where_git_writes_them(repository: Path) -> None:
    text = git("diff", "-M", "HEAD~3", "HEAD~2", repository=repository)
    files = [e for e in found(text, Kind.DIFF) if e.what == "file"]
    rows = text.split(b"\n")
    assert lines(files) == [n for n, row in enumerate(rows, 1) if row.startswith(b"diff --git")]


def subjects(repository: Path) -> list[tuple[str, str]]:
    rows = git("log", "--format=%H%x00%s", repository=repository).decode().splitlines()
    return [(hash_, subject) for hash_, _, subject in (row.partition("\0") for row in rows)]


@pytest.mark.parametrize("more", [(), ("--stat",), ("--graph",), ("--decorate",), ("--date=iso",)], ids=str)
def test_the_commits_of_a_log_are_those_of_git(repository: Path, more: tuple[str, ...]) -> None:
    log = git("log", *more, repository=repository)
    for kind in (Kind.COMMAND_OUTPUT, Kind.TEXT, Kind.LOG):
        commits = [e for e in found(log, kind) if e.what == "commit"]
        assert [e.title for e in commits] == [f"{h[:12]} {s}".strip() for h, s in subjects(repository)]
        for entry, (hash_, _) in zip(commits, subjects(repository), strict=True):
            assert entry.lines is not None
            assert hash_.encode() in log.split(b"\n")[entry.lines.first - 1]


def test_a_log_with_patches_is_its_commits_and_their_files(repository: Path) -> None:
    entries = found(git("log", "-p", "-M", repository=repository), Kind.DIFF)
    commits = [e.title for e in entries if e.what == "commit"]
    assert commits == [f"{h[:12]} {s}".strip() for h, s in subjects(repository)]
    files = [(e.title, e.added, e.removed) for e in entries if e.what == "file"]
    hashes = [hash_ for hash_, _ in subjects(repository)]
    each = [numstat("show", "--format=", "-M", hash_, repository=repository) for hash_ in hashes]
    assert files == [row for rows in each for row in rows]


def test_a_mailed_patch_is_counted_without_its_signature(repository: Path) -> None:
    mail = git("format-patch", "--stdout", "-M", "HEAD~3..HEAD~2", repository=repository)
    entries = found(mail, Kind.DIFF)
    assert [e.title[13:] for e in entries if e.what == "commit"] == ["Second: change, move and remove"]
    expected = numstat("diff", "-M", "HEAD~3", "HEAD~2", repository=repository)
    assert [(e.title, e.added, e.removed) for e in entries if e.what == "file"] == expected


@pytest.mark.parametrize("more", [(), ("--graph",), ("--decorate=short",)], ids=str)
def test_a_brief_log_is_its_commits(repository: Path, more: tuple[str, ...]) -> None:
    log = git("log", "--oneline", *more, repository=repository)
    entries = found(log, Kind.COMMAND_OUTPUT)
    expected = [row.lstrip("* ") for row in log.decode().splitlines() if re.search("[0-9a-f]{7} ", row)]
    assert [e.title for e in entries] == [" ".join(row.split()) for row in expected]


def test_numbers_and_words_at_the_beginning_of_lines_are_no_commits() -> None:
    assert found("1234567 rows\n2345678 rows\n3456789 rows\n9999999 rows\n", Kind.COMMAND_OUTPUT) == []
    assert found("defaced it\nfaceade it\neffaced it\nbeefbed it\n", Kind.COMMAND_OUTPUT) == []


def notebook(indent: int | None) -> tuple[bytes, list[dict[str, Any]]]:
    cells: list[dict[str, Any]] = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Title\n", "words"]},
        {"cell_type": "code", "execution_count": 1, "metadata": {}, "outputs": [], "source": "\nimport pandas as pd"},
        {
            "cell_type": "code",
            "metadata": {},
            "outputs": [
                {"name": "stdout", "output_type": "stream", "text": ["x\n"]},
                {"ename": "KeyError", "evalue": "'price'", "output_type": "error", "traceback": ["\x1b[31mKeyError"]},
            ],
            "source": ["df['price']"],
        },
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": []},
    ]
    document: dict[str, Any] = {"cells": cells, "metadata": {"kernelspec": {}}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(document, indent=indent).encode(), cells


@pytest.mark.parametrize("indent", [1, 2, None])
def test_a_notebook_is_its_cells_with_the_exception_of_one_that_failed(indent: int | None) -> None:
    data, cells = notebook(indent)
    entries = found(data, Kind.JSON)
    assert [(e.title, e.detail, e.path) for e in entries] == [
        ("cell 0 markdown: # Title", None, "$.cells[0]"),
        ("cell 1 code: import pandas as pd", None, "$.cells[1]"),
        ("cell 2 code: df['price']", "failed: KeyError: 'price'", "$.cells[2]"),
        ("cell 3 code", None, "$.cells[3]"),
    ]
    for entry, cell in zip(entries, cells, strict=True):
        assert (entry.lines is None) == (indent is None)
        if entry.lines is not None and entry.bytes is not None:
            rows = data.split(b"\n")[entry.lines.first - 1 : entry.lines.last]
            assert json.loads(b"\n".join(rows).rstrip(b" ,")) == cell
            assert data[entry.bytes.start : entry.bytes.end] == b"\n".join(rows) + b"\n"


@pytest.mark.parametrize(
    "text", ["{}", '{"nbformat": 4}', '{"nbformat": 4, "cells": 3}', '{"nbformat": 4, "cells": [', '"nbformat"']
)
def test_what_is_no_notebook_has_no_cells(text: str) -> None:
    assert not any(entry.what == "cell" for entry in found(text, Kind.JSON))


def test_words_without_headings_have_no_landmarks() -> None:
    assert found("words and more words\n" * 50, Kind.TEXT) == []


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize(
    "data", [b"", b"\n", b"\xff\xfe\0", b'"""', b"/*", b"<<EOF\n", b"@@ -1 +1 @@\n-", b"commit abcdef0\n"]
)
def test_no_payload_is_too_odd(kind: Kind, data: bytes) -> None:
    for entry in landmarks(spec_of(kind).landmarks, ("x.py",), data):
        assert "\n" not in entry.title


def test_source_that_begins_with_a_long_comment_is_recognised_by_a_directive() -> None:
    licence = "/*\n" + "  Permission is granted to anyone to use this software for any purpose.\n" * 60 + "*/\n"
    header = f"{licence}#ifndef A_H\n#define A_H\nint one(void);\nint two(int a);\n#endif\n"
    for kind in (Kind.COMMAND_OUTPUT, Kind.CODE_OR_FILE):
        assert [entry.title for entry in found(header, kind)] == ["int one(void);", "int two(int a);"]
    assert found(licence + "int one(void);\nint two(int a);\n", Kind.COMMAND_OUTPUT) == []
