"""`outline` of the declared tool, and `section` by what an outline shows."""

import json
import re

import pytest

from coatcheck.core.read_answer import is_read_answer
from tools.agent import Agent

SOURCE = (
    "import os\n\n\nclass Desk:\n    def read(self):\n        pass\n\n    def write(self, text):\n        pass\n\n\n"
    "def main(args):\n    # def no():\n    pass\n\n\ndef main_loop():\n    pass\n"
)
DIFF = "diff --git a/src/x.py b/src/x.py\n--- a/src/x.py\n+++ b/src/x.py\n@@ -1,2 +1,2 @@\n-a\n+b\n c\n" * 1 + (
    "diff --git a/y.py b/y.py\n--- a/y.py\n+++ b/y.py\n@@ -1 +1,2 @@\n a\n+b\n"
)
LOG = "".join(
    f"commit {n:x}{'0123456789abcdef' * 2}0123456\nAuthor: Ann <a@x>\nDate:   now\n\n    Change {n}\n\n"
    for n in range(1, 9)
)
NOTEBOOK = json.dumps(
    {
        "cells": [{"cell_type": "code", "outputs": [], "source": [f"x = {n}"]} for n in range(40)],
        "metadata": {},
        "nbformat": 4,
    },
    indent=1,
)


async def test_an_outline_is_asked_for_by_its_argument(agent: Agent) -> None:
    source = await agent.put(SOURCE, kind="code_or_file", title="desk.py", inline_tokens=0)
    answer = await agent.read(artifact_id=source, outline=True)
    assert answer.text == (
        f"[{source} · desk.py · outline · text]\nclass Desk (4-11)\n  def read(self) (5-7)\n"
        "  def write(self, text) (8-11)\ndef main(args) (12-16)\ndef main_loop() (17-18)\n"
        "(Read one with section, or with offset and limit by the lines in brackets.)"
    )
    for same in ({"outline": "true"}, {"section": "outline"}, {"toc": 1}, {"outline": True, "section": None}):
        assert (await agent.read(artifact_id=source, **same)).text == answer.text
    for none in ({"outline": False}, {"outline": None}, {"outline": "false"}):
        assert (await agent.read(artifact_id=source, **none)).body == SOURCE.rstrip("\n")
    inside = await agent.read(artifact_id=source, outline=True, section="Desk")
    assert inside.body.split("\n") == ["  def read(self) (5-7)", "  def write(self, text) (8-11)"]
    both = await agent.read(artifact_id=source, outline=True, pattern="main")
    assert "pattern was used, and outline was left out: give only one of them." in both.last


@pytest.mark.parametrize("limit", [1, 2])
async def test_an_outline_is_walked_to_its_end_by_its_next_calls(agent: Agent, limit: int) -> None:
    source = await agent.put(SOURCE, kind="code_or_file", title="desk.py", inline_tokens=0)
    names: list[str] = []
    offset: int | None = 1
    while offset is not None:
        answer = await agent.read(artifact_id=source, outline=True, limit=limit, offset=offset)
        names += [line.strip().partition("(")[0] for line in answer.text.split("\n")[1:-2]]
        following = re.search(r"Next: the same call with offset=(\d+)\.", answer.text)
        assert following is None or int(following[1]) > offset
        offset = None if following is None else int(following[1])
    assert names == ["class Desk ", "def read", "def write", "def main", "def main_loop"]
    answer = await agent.read(artifact_id=source, outline=True, offset=6)
    assert "Offset 6 is past the end" in answer.text
    assert "Use an offset from 1 to 5" in answer.text


@pytest.mark.parametrize(
    ("section", "lines"),
    [
        ("class Desk", (4, 11)),
        ("desk", (4, 11)),
        ("write", (8, 11)),
        ("def write", (8, 11)),
        ("main", (12, 16)),
        ("main()", (12, 16)),
        ("main_l", None),
        ("def main_l", (17, 18)),
    ],
)
async def test_a_symbol_is_read_by_its_name(agent: Agent, section: str, lines: tuple[int, int] | None) -> None:
    source = await agent.put(SOURCE, kind="code_or_file", title="desk.py", inline_tokens=0)
    answer = await agent.read(artifact_id=source, section=section)
    assert answer.is_error == (lines is None)
    if lines is not None:
        assert answer.body.rstrip("\n") == "\n".join(SOURCE.split("\n")[lines[0] - 1 : lines[1]]).rstrip("\n")
        assert f"({lines[0]}-{lines[1]}) · text]" in answer.first
        assert is_read_answer(answer.text)


GO = (
    "package x\n\nfunc (c *Desk) find(args []string) error {\n\treturn nil\n}\n\n"
    "func (c *Desk) Find(args []string) ([]string, error) {\n}\n\nfunc finder(find int) {\n}\n"
)


@pytest.mark.parametrize(
    ("section", "lines"),
    [("func (c *Desk) find", "3-5"), ("func (c *Desk) Find", "7-8"), ("func finder", "10-11"), ("finder", "10-11")],
)
async def test_a_symbol_is_read_by_its_title_without_arguments(agent: Agent, section: str, lines: str) -> None:
    source = await agent.put(GO, kind="code_or_file", title="desk.go", inline_tokens=0)
    answer = await agent.read(artifact_id=source, section=section)
    assert f"({lines})" in answer.first


async def test_what_no_entry_is_called_and_what_several_are_is_said_with_candidates(agent: Agent) -> None:
    source = await agent.put(SOURCE, kind="code_or_file", title="desk.py", inline_tokens=0)
    several = await agent.read(artifact_id=source, section="def")
    assert several.is_error
    assert several.text == (
        f'"def" may be any of 4 sections of {source}: def read(self) (line 5), def write(self, text) (line 8), '
        "def main(args) (line 12), def main_loop() (line 17). Name one of them, or leave section out."
    )
    none = await agent.read(artifact_id=source, section="nothing")
    assert none.text.startswith(f'{source} has no section "nothing". It has class Desk (line 4), ')
    page = await agent.put("# Part one\n\nx\n\n# Part two\n\ny\n", kind="text", inline_tokens=0)
    headings = await agent.read(artifact_id=page, section="part")
    assert headings.text.startswith(f'"part" may be any of 2 sections of {page}: s1 (Part one), s2 (Part two).')
    assert (await agent.read(artifact_id=page, section="PART T")).body.startswith("# Part two")


async def test_files_commits_and_cells_are_read_by_name(agent: Agent) -> None:
    diff = await agent.put(DIFF, kind="diff", inline_tokens=0)
    for name in ("src/x.py", "x.py"):
        assert (await agent.read(artifact_id=diff, section=name)).first.split(" · ")[2] == (
            "lines 1-7 of 13, section src/x.py (1-7)"
        )
    log = await agent.put(LOG, kind="command_output", inline_tokens=0)
    hash_ = LOG.split()[1]
    for name in (hash_[:12], hash_, f"{hash_[:12]} Change 1"):
        assert (await agent.read(artifact_id=log, section=name)).body.startswith(f"commit {hash_}\n")
    for text in (NOTEBOOK, json.dumps(json.loads(NOTEBOOK))):
        notebook = await agent.put(text, kind="json", title="n.ipynb", inline_tokens=0)
        cell = await agent.read(artifact_id=notebook, section="cell 3")
        assert (cell.is_error, "x = 3" in cell.body, "x = 30" in cell.body) == (False, True, False)


async def test_a_record_of_yaml_is_read_by_its_name(agent: Agent) -> None:
    pods = "".join(f"- kind: Pod\n  metadata:\n    name: web-{n}\n  phase: Running\n" for n in range(30))
    stored = await agent.put(f"apiVersion: v1\nitems:\n{pods}kind: List\n", kind="command_output", inline_tokens=0)
    answer = await agent.read(artifact_id=stored, section="web-17")
    assert answer.body == "- kind: Pod\n  metadata:\n    name: web-17\n  phase: Running"


async def test_a_section_narrows_a_search_to_an_entry(agent: Agent) -> None:
    source = await agent.put(SOURCE, kind="code_or_file", title="desk.py", inline_tokens=0)
    found = await agent.read(artifact_id=source, section="Desk", pattern="pass", context=0)
    assert found.body == "6:        pass\n9:        pass"


async def test_the_rows_of_a_table_are_read_and_searched_by_name(agent: Agent) -> None:
    table = await agent.put("name,age\n" + "".join(f"n{n},{n}\n" for n in range(40)), kind="table", inline_tokens=0)
    assert (await agent.read(artifact_id=table, section="first row")).body == "name,age"
    rows = await agent.read(artifact_id=table, section="rows")
    assert (rows.body[:5], rows.last) == ("n0,0\n", "(Lines 2-41 of 41; that is the end of section rows.)")
    assert (await agent.read(artifact_id=table, section="rows", pattern="n3$|a|,7", context=0)).body == "9:n7,7"
    inside = await agent.read(artifact_id=table, section="rows", outline=True)
    assert inside.body.split("\n")[:2] == ["first row (2)", "rows - about 39 (3-41)"]
    column = await agent.read(artifact_id=table, section="age")
    assert column.text == f"age of {table} has no lines of its own. Search it with pattern, without section."


async def test_a_pattern_is_searched_only_in_the_given_lines(agent: Agent) -> None:
    rows = await agent.put("".join(f"row {n} done\n" for n in range(1, 101)), inline_tokens=0)
    none = await agent.read(artifact_id=rows, pattern="row 9\\d", start_line=10, end_line=12)
    assert none.text.startswith(
        f'No match for "row 9\\d" in lines 10-12 of {rows}. Leave out the range to search all of it.'
    )
    some = await agent.read(artifact_id=rows, pattern="done$", range="10-12", context=0)
    assert some.body == "10:row 10 done\n11:row 11 done\n12:row 12 done"
    assert some.last == "(Lines 10-12 of 100: all 3 matches in lines 10-12.)"
    one = await agent.read(artifact_id=rows, pattern="ROW 11", offset="11-11", context=0)
    assert one.last.startswith("(Lines 11-11 of 100: the only match in line 11. Nothing matches as written; ")
    past = await agent.read(artifact_id=rows, pattern="row 99", range="90-400", context=0)
    assert past.last == "(Lines 99-99 of 100: the only match from line 90 on.)"


async def test_a_search_in_given_lines_is_continued_to_their_end_by_its_next_calls(agent: Agent) -> None:
    rows = await agent.put("".join(f"row {n} {'done ' * 1_000}\n" for n in range(1, 30)), inline_tokens=0)
    call: dict[str, object] = {"pattern": "done", "range": "10-12", "context": 0, "limit": 2}
    lines: list[int] = []
    while call.get("offset", "") is not None:
        answer = await agent.read(artifact_id=rows, **call)
        lines += [int(line) for line in re.findall(r"^(\d+):", answer.text, re.MULTILINE)]
        following = re.search(r'Next: offset="([0-9+]+-12)"\.', answer.last)
        assert (following is None) == ("Next" not in answer.last)
        assert len(lines) <= 9
        call["offset"] = None if following is None else following[1]
    assert (lines[0], lines[-1], set(lines)) == (10, 12, {10, 11, 12})


async def test_given_lines_outside_the_section_do_not_end_its_search(agent: Agent) -> None:
    source = await agent.put(SOURCE, kind="code_or_file", title="desk.py", inline_tokens=0)
    for first in (1, 2):
        answer = await agent.read(artifact_id=source, section="Desk", pattern="pass", range=[first, 3], context=0)
        assert answer.body == "6:        pass\n9:        pass"
        assert re.search(rf" Line {first} is before section [^.]*, which begins at 4\.\)$", answer.last)
    part = await agent.read(artifact_id=source, section="Desk", pattern="pass", range="2-8", context=0)
    assert part.body == "6:        pass"
    assert part.last.startswith("(Lines 6-6 of 18: the only match in lines 4-8 in section ")


async def test_one_match_is_shown_and_all_are_counted(agent: Agent) -> None:
    rows = await agent.put("".join(f"{n} {'error' if n % 3 == 0 else 'ok'}\n" for n in range(3_000)))
    answer = await agent.read(artifact_id=rows, pattern="error", limit=1, context=0)
    assert answer.last.startswith("(Lines 1-1 of 3000: 1 of 1,000 matches.")
    last = await agent.read(artifact_id=rows, pattern="error", offset=-500, limit=1, context=0)
    assert last.body == "2503:2502 error"
    assert "1 of 166 matches from line 2501 on" in last.last


async def test_limits_over_the_declared_ones_are_said(agent: Agent) -> None:
    rows = await agent.put("match\n" * 3_000)
    answer = await agent.read(artifact_id=rows, pattern="match", limit=500, context=0)
    assert "limit is at most 200 matches." in answer.last
    assert answer.body.count("match") == 200
    lines = await agent.read(artifact_id=rows, limit=9_999)
    assert "limit is at most 2,000 lines." in lines.last
