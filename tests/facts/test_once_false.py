"""Facts that were false once, each with a payload that shows it."""

# ruff: noqa: E501 - lines as programs print them

import random
import re
from collections.abc import Iterator
from pathlib import Path

from coatcheck.core.artifact import DeclaredMetadata
from facts import made_git, made_json, made_large, made_tables
from facts.cases import Case, shown
from facts.made_source import source_case
from facts.says_json import JsonOracle
from facts.says_output import lines_of
from facts.says_source import CommitsOracle, python_symbols
from facts.told import hold


def _hold(cases: Iterator[Case] | list[Case]) -> None:
    for case in cases:
        hold(shown(case, 2_048))


def test_lengths_hold_for_every_element_of_a_long_array() -> None:
    _hold(case for n, case in enumerate(made_json.large_arrays(random.Random(1), 6)) if n % 2)


def test_keys_are_counted_in_every_element() -> None:
    maps = [{f"k{m}": 1 for m in range(50)} for _ in range(401)]
    maps[201] = {f"other{m}": 1 for m in range(50)}
    _hold([Case(made_json.packed(maps), (JsonOracle(maps),), document=maps)])


def test_the_key_of_one_record_in_a_thousand_is_named() -> None:
    for place in ("", ".by", ".lost"):
        records: list[dict[str, object]] = [{"at": n, "by": {"k": n}, "lost": None} for n in range(999)]
        if place:
            records[621][place[1:]] = {"error": "gone"}
        else:
            records[621]["error"] = "gone"
        case = Case(made_json.packed(records), (JsonOracle(records),), document=records)
        _hold([case])
        (line,) = [each for each in shown(case, 2_048).facts.shape if each.startswith(f"$[*]{place}: ")]
        assert "error" in line


def test_types_of_columns_hold_for_every_row() -> None:
    _hold(made_tables.plain(random.Random(2), 6, odd=True))


def test_a_table_without_a_header_has_none() -> None:
    _hold(made_tables.headless(random.Random(3), 3))


def test_drawn_tables_have_the_rows_that_are_in_them() -> None:
    _hold(made_tables.drawn(random.Random(4), 6))


def test_rows_of_nothing_are_rows() -> None:
    _hold(made_tables.quoted(random.Random(5), 6, nothing=True))


def test_no_symbol_is_cut_in_two() -> None:
    text = "".join(f"def {'long_' * 14}{n}(a):\n    return a\n\n\n" for n in range(4))
    _hold([source_case(text, python_symbols(text), DeclaredMetadata(title="a.py"))])


def test_no_commit_is_cut_in_two() -> None:
    commits = [(f"{n}abcdef0", "words of a long subject that goes on and on until it is long enough") for n in range(9)]
    text = "".join(f"{digest} {subject}\n" for digest, subject in commits)
    _hold([Case(text.encode(), (CommitsOracle(commits),))])


def test_files_of_a_log_with_patches_are_counted_once(tmp_path: Path) -> None:
    rng = random.Random(6)
    repository = made_git.Repository(tmp_path, rng)
    repository.grow(9)
    _hold(made_git.patches(rng, 6, repository))


def test_lines_that_begin_with_a_hash_are_not_all_commits() -> None:
    rng = random.Random(8)
    made = [f"{rng.getrandbits(160):040x}" for _ in range(40)]
    outputs = {
        "md5sum": [f"{digest[:32]}  docs/a page about {n}.txt" for n, digest in enumerate(made)],
        "crc32": [f"{digest[:8]} docs/page-{n}.txt" for n, digest in enumerate(made)],
        "git cat-file --batch-check": [f"{digest} blob {n % 9 * 71}" for n, digest in enumerate(made)],
        "git show-ref": [f"{digest} refs/heads/topic-{n}" for n, digest in enumerate(made)],
        "git blame -s": [f"{made[n // 9][:8]} {n:2d}) the words of a line of prose" for n in range(40)],
        "nm": [f"{0xFFFFFFFF810000A0 + 48 * n:016x} T sys_call_{n}" for n in range(40)],
        "docker ps -q": [digest[:12] for digest in made],
        "docker ps --format": [f"{digest[:12]} web-{n} nginx:1.27" for n, digest in enumerate(made)],
    }
    for name, lines in outputs.items():
        assert not shown(Case("\n".join(lines).encode(), ()), 600).card.shape, name


def test_what_follows_a_patch_is_no_change() -> None:
    patch = b"diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,3 @@ def a\n a\n-old\n+new\n b\n"
    for tail in (
        b"",
        b"\nWhat changed:\n\n- one\n- two\n+ three\n",
        b"--\n2.39.5\n",
        b"-- \n2.39.5\n",
        b"$ set -x\n+ make\n",
    ):
        card = shown(Case(patch + tail, (), DeclaredMetadata(media_type="text/x-diff")), 600).card
        assert card.shape == ("1 file, +1 -1: x.py +1 -1",)


def test_commits_of_a_very_long_log_are_all_counted() -> None:
    _hold([made_large.long_log(random.Random(7))])


def test_comments_are_no_headings() -> None:
    text = "import os\n\n### Load the parts\n\n\ndef a():\n    pass\n\n\n## Another part\n\n\ndef b():\n    pass\n"
    _hold([source_case(text, python_symbols(text), DeclaredMetadata(title="a.py"))])


def test_commands_with_bars_are_no_table() -> None:
    _hold([Case("".join(f"Step {n}/90 : RUN make check || true\n" for n in range(1, 60)).encode())])


def test_a_log_is_no_table_because_of_its_milliseconds() -> None:
    lines = [
        f"2026-03-{n % 9 + 1:02d} 10:{n % 60:02d}:07,{n:03d} {'[WARN] said so' if n == 7 else f'[INFO] request {n} served'}"
        for n in range(90)
    ]
    _hold([Case("\n".join(lines).encode(), (lines_of("\n".join(lines), level=["INFO"] * 89 + ["WARN"]),))])


def test_outcomes_with_a_reason_are_counted() -> None:
    outcomes = ["SKIPPED (needs a (real) server)", "XFAIL (slow: 4 s)", "PASSED", "PASSED", "PASSED"]
    lines = [f"tests/test_a.py::test_{n} {outcomes[n % 5]}   [{n:3d}%]" for n in range(100)]
    counted = [outcomes[n % 5].partition(" ")[0] for n in range(100)]
    _hold([Case("\n".join(lines).encode(), (lines_of("\n".join(lines), outcome=counted),))])


def test_source_is_no_page_because_of_its_strings() -> None:
    text = (
        '"""Tracebacks as HTML."""\n\n\ndef page():\n    return """\n'
        + "".join(
            f'    <tr><td bgcolor="#{n}"><font color="#ffffff">&nbsp;<b>{n}</b></font></td></tr>\n' for n in range(20)
        )
        + '    """\n'
    )
    assert (
        shown(Case(text.encode(), (), DeclaredMetadata(tool_name="read_file")), 256).facts.kind.value == "code_or_file"
    )


def test_frames_of_a_debugger_are_no_files() -> None:
    frames = "".join(f"#{n}  0x00005555555551{n % 90 + 10} in walk (depth={n}) at tree.c:{n + 1}\n" for n in range(60))
    card = shown(Case(frames.encode(), ()), 600).card
    assert not any(re.match(r"\d+ lines: file ", line) for line in card.shape)
    spaced = "".join(f"./My notes/page {n % 3}.txt:{n + 1}: word\n" for n in range(60))
    assert shown(Case(spaced.encode(), ()), 600).card.shape[0].startswith('60 lines: file "./My notes/page ')


def test_bars_in_the_cells_of_a_commented_table_separate_nothing() -> None:
    rows = "".join(f"{n},a|b,{n * 7}\n" for n in range(40))
    told = shown(Case(f"# a|note\nid,x|y,total\n{rows}".encode()), 600).facts.shape
    assert told[0] == "40 rows below the first, 3 columns, comma-separated"
    assert told[-1] == "First row: id, x|y, total"
