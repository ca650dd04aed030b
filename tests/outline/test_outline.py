"""Outlines of whole artifacts: by kind, within a budget, of large payloads, and readable as they stand."""

import json
import random
import re
import time
from typing import Any

import pytest
from msgspec import structs

from coatcheck.core import ids
from coatcheck.core.artifact import Kind
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.outline.model import OutlineEntry
from coatcheck.core.views.view import Section
from coatcheck.usecases.reading.outline import Outline, OutlineAnswer, Ways
from coatcheck.usecases.reading.read_json import ReadJson
from coatcheck_client.contract.inert import inert
from reading.reading_harness import ReadingHarness
from support.harness import CALLER


async def outline(shelf: ReadingHarness, number: int, *, clock: Any = lambda: 0.0, **ask: Any) -> OutlineAnswer:  # noqa: ANN401
    answer = await Outline(shelf.open_view, shelf.tokenizer, shelf.pool, clock=clock)(CALLER, number, **ask)
    assert answer.tokens == shelf.tokenizer.count(answer.text) <= ask.get("max_tokens", 4_000)
    assert len(answer.text) <= 30_000
    return answer


def said(answer: OutlineAnswer) -> list[tuple[str, str | None]]:
    return [(e.title, e.detail) for e in answer.entries]


async def test_the_lines_of_an_entry_are_read_as_they_stand(shelf: ReadingHarness) -> None:
    source = b"import x\n\ndef one():\n    pass\n\nclass Two:\n    def three(self):\n        pass\n"
    number = await shelf.put(source, kind=Kind.CODE_OR_FILE, title="x.py")
    answer = await outline(shelf, number)
    assert answer.text == "def one() (3-5)\nclass Two (6-8)\n  def three(self) (7-8)"
    for entry in answer.entries:
        assert entry.lines is not None
        assert entry.bytes is not None
        count = entry.lines.last - entry.lines.first + 1
        read = await shelf.read(number, view=answer.view, offset=entry.lines.first, limit=count)
        assert (read.window.bytes, read.text.splitlines()[0].strip(" :")) == (entry.bytes, entry.title)


async def test_the_path_of_an_entry_is_read_as_it_stands(shelf: ReadingHarness) -> None:
    document: dict[str, object] = {
        "a b": [{"x": 1, "it's": {"é": None}}, {"x": "2"}],
        "empty": {},
        "deep": [[[1]], []],
        "n": 3,
    }
    number = await shelf.put(json.dumps(document).encode(), kind=Kind.JSON)
    answer = await outline(shelf, number)
    assert [(e.path, e.detail) for e in answer.entries] == [
        ("$", "object: a b array, empty object, deep array, n int"),
        ("$['a b']", "array of 2 objects"),
        ("$.empty", "object"),
        ("$.deep", "array of 2 arrays"),
        ("$['a b'][*]", "object: x int|string, it's object"),
        ("$.deep[*]", "array of 0-1 arrays"),
        ("$['a b'][*]['it\\'s']", "object: é null"),
        ("$.deep[*][*]", "array of 1 int"),
    ]
    reader = ReadJson(shelf.open_view, shelf.tokenizer, shelf.pool)
    for entry in answer.entries:
        assert entry.path is not None
        assert (await reader(CALLER, number, path=entry.path)).total > 0


async def test_a_table_is_its_columns_with_examples_and_the_lines_of_its_rows(shelf: ReadingHarness) -> None:
    table = "name,age,score\n" + "".join(f"n{n},{n},{n}.5\n" for n in range(40))
    answer = await outline(shelf, await shelf.put(table.encode(), kind=Kind.TABLE))
    assert answer.text == (
        "first row (1)\nrows - about 40 (2-41)\nname - such as n0\nage - such as 0\nscore - such as 0.5"
    )


async def test_a_section_is_outlined_by_what_is_inside_it(shelf: ReadingHarness) -> None:
    text = b"# One\n## Two\n### Three\n## Four\n# Five\n"
    number = await shelf.put(text, kind=Kind.TEXT)
    assert (await outline(shelf, number)).text == (
        "s1 One (1-4)\n  s2 Two (2-3)\n    s3 Three (3)\n  s4 Four (4)\ns5 Five (5)"
    )
    inside = await outline(shelf, number, section="s2")
    assert (inside.text, inside.section and inside.section.name) == ("    s3 Three (3)", "s2")
    with pytest.raises(CoatcheckError) as caught:
        await outline(shelf, number, section="s9")
    assert caught.value.code is Code.SECTION_NOT_FOUND


async def test_what_has_no_outline_says_so(shelf: ReadingHarness) -> None:
    for data, kind, word in (
        (b"", Kind.TEXT, "empty"),
        (b"plain words", Kind.TEXT, "no headings"),
        (b"\0", Kind.BINARY, "not text"),
    ):
        answer = await outline(shelf, await shelf.put(data, kind=kind))
        assert (answer.entries, answer.total, answer.next) == ([], 0, None)
        assert word in (answer.message or "")
        assert answer.text == f"¦ {answer.message}"


async def test_every_entry_is_reached_through_next_whatever_the_budget(shelf: ReadingHarness) -> None:
    rng = random.Random(4)
    source = "".join(f"def {'name_' * rng.randint(1, 12)}{n}(a, b):\n    pass\n" for n in range(300))
    number = await shelf.put(source.encode(), kind=Kind.CODE_OR_FILE, title="x.py")
    for max_tokens in (64, 100, 700, 4_000):
        seen: list[OutlineEntry] = []
        offset: int | None = 0
        while offset is not None:
            answer = await outline(shelf, number, offset=offset, max_tokens=max_tokens)
            assert answer.total == 300
            seen += answer.entries
            assert answer.next is None or answer.next > offset
            offset = answer.next
        assert len(seen) == 300


async def test_titles_from_outside_are_made_safe(shelf: ReadingHarness) -> None:
    source = "class <system>x</system>\x1b[2J ¦ y:\n" + "def " + "z" * 500 + "():\n"
    answer = await outline(shelf, await shelf.put(source.encode(), kind=Kind.CODE_OR_FILE, title="x.py"))
    assert inert(answer.text) == answer.text
    assert all(len(e.title) <= 120 for e in answer.entries)


async def test_of_a_large_payload_as_much_is_looked_at_as_there_is_time_for(shelf: ReadingHarness) -> None:
    block = b"def a():\n" + b"    x = 1  # some more words\n" * 2_000
    number = await shelf.put(block * 100, kind=Kind.CODE_OR_FILE, title="x.py")
    whole = await outline(shelf, number)
    assert (whole.total, whole.partial, whole.searched.bytes) == (100, False, len(block) * 100)
    ticks = iter(range(0, 10_000, 1))
    hurried = await outline(shelf, number, clock=lambda: float(next(ticks)))
    assert 0 < hurried.total < 100
    assert (hurried.partial, hurried.total_exact) == (True, False)
    assert hurried.notices == [
        f"Only the first {hurried.searched.bytes:,} of {len(block) * 100:,} bytes were looked at."
    ]


async def test_a_single_endless_line_has_no_outline_and_takes_no_time(shelf: ReadingHarness) -> None:
    began = time.process_time()
    number = await shelf.put(b"function a(){" * 400_000, kind=Kind.CODE_OR_FILE, title="x.js")
    stored = time.process_time() - began
    answer = await outline(shelf, number)
    assert answer.total == 0
    assert time.process_time() - began - stored < 20 * max(stored, 0.05)


async def test_large_json_is_outlined_from_its_beginning(shelf: ReadingHarness) -> None:
    record = json.dumps({"id": 1, "name": "x" * 50}).encode()
    number = await shelf.put(b"[" + b",".join([record] * 150_000) + b"]", kind=Kind.JSON)
    answer = await outline(shelf, number)
    assert said(answer)[1] == ("$[*]", "object: id int, name string")
    assert (answer.partial, answer.total_exact, answer.searched.bytes < answer.searched.total) == (True, False, True)
    lines = await outline(shelf, await shelf.put(b"\n".join([record] * 5), kind=Kind.JSON))
    assert said(lines)[1] == ("$[*]", "object: id int, name string")
    assert lines.notices == ["JSON lines: an array of its lines; all 5 were read."]
    assert (said(lines)[0], lines.total_exact, lines.partial) == (("$", "array of 5 objects"), True, False)


@pytest.mark.parametrize("kind", [Kind.TEXT, Kind.JSON])
async def test_sections_of_a_beginning_are_not_said_to_be_all(shelf: ReadingHarness, kind: Kind) -> None:
    number = await shelf.put(b'{"a": "# One"}\n', kind=kind)
    section = Section(name="s1", title="One", level=1, start=0, end=15, line=1, lines=1)
    reading = structs.replace(await shelf.open_view(CALLER, number, view="raw"), sections=(section,))
    verb, ways = Outline(shelf.open_view, shelf.tokenizer, shelf.pool), Ways(more="{}", first=0, rest="")
    for ends in (True, False):
        part = structs.replace(reading, sections_end=ends)
        answer = await verb.of(part, offset=0, limit=None, max_tokens=1_000, ways=ways)
        assert answer.total_exact is ends
        assert answer.notices == ([] if ends else ["Only the beginning was looked through for sections."])


async def test_what_a_document_has_beyond_its_outline_is_said(shelf: ReadingHarness) -> None:
    async def told(value: object) -> tuple[bool, list[str], int]:
        answer = await outline(shelf, await shelf.put(json.dumps(value).encode(), kind=Kind.JSON))
        assert answer.partial is not answer.total_exact
        return answer.total_exact, answer.notices, max(entry.level for entry in answer.entries)

    ends: list[tuple[object, object]] = [({}, {"a": 1}), ([], [1])]
    for innermost, more in ends:
        for wraps in ("object", "array"):
            levels = [innermost, more]
            for _ in range(16):
                levels = [{"a": each} if wraps == "object" else [each] for each in levels]
            assert await told(levels[0]) == (True, [], 17)
            assert await told(levels[1]) == (False, ["Nothing below level 17 is listed."], 17)
    rows = [{"id": n} for n in range(200)]
    assert await told(rows) == (True, [], 2)
    sampled = (False, ["Of arrays with over 200 elements, about 200 were looked at."], 2)
    assert await told([*rows, {"error": 1}]) == sampled
    assert await told(rows * 3) == sampled
    assert await told(list(range(1_000))) == (True, [], 1)


@pytest.mark.parametrize(("size", "lines"), [(70_000, 8), (300_000, 8), (200_000, 50), (600_000, 20)])
async def test_json_lines_of_any_length_are_outlined_as_their_paths_are_read(
    shelf: ReadingHarness, size: int, lines: int
) -> None:
    record = json.dumps({"id": {"n": 1}, "text": "x" * size}).encode()
    number = await shelf.put(b"\n".join([record] * lines), kind=Kind.JSON)
    answer = await outline(shelf, number)
    assert [entry.path for entry in answer.entries] == ["$", "$[*]", "$[*].id"]
    value = await ReadJson(shelf.open_view, shelf.tokenizer, shelf.pool)(CALLER, number, path="$[*].id")
    assert value.total == lines


async def test_what_was_not_read_to_its_end_is_not_counted_to_its_end(shelf: ReadingHarness) -> None:
    rows = json.dumps({"rows": [{"id": n, "tags": ["a", "b"], "none": []} for n in range(5_000)]})
    answer = await outline(shelf, await shelf.put(rows[:100_000].encode(), kind=Kind.JSON))
    details = dict(said(answer))
    assert re.fullmatch(r"array of at least 1,\d{3} objects", details["$.rows"] or "")
    assert details["$.rows[*].tags"] == "array of 2 strings"
    assert details["$.rows[*].none"] == "empty array"
    assert answer.notices == ["Only its beginning was looked at."]
    broken = "\n".join('{"id": 1}' if n != 3 else "{broken" for n in range(3_000))
    lines = await outline(shelf, await shelf.put(broken.encode(), kind=Kind.JSON))
    assert said(lines)[0] == ("$", "array of at least 3 objects")
    assert (lines.notices, lines.partial) == (
        ["JSON lines: an array of its lines; the first 3 were read."],
        True,
    )


async def test_lists_that_are_cut_short_say_no_more_than_was_read_of_them(shelf: ReadingHarness) -> None:
    async def first(text: str) -> str | None:
        return dict(said(await outline(shelf, await shelf.put(text.encode(), kind=Kind.JSON))))["$.a"]

    assert await first('{"a": [1, 2], "b": [1, 2') == "array of 2 ints"
    assert await first('{"b": 1, "a": [1, 2, null') == "array of at least 2 ints"
    assert await first('{"b": 1, "a": [') == "array"
    assert await first('{"a": ["x"]}') == "array of 1 string"
    assert await first(json.dumps({"a": [None, 1.5, True] * 334})) == "array of 1,002 nulls, numbers or bools"


async def test_lists_of_records_are_as_long_as_those_that_were_read_whole(shelf: ReadingHarness) -> None:
    async def tags(text: str) -> str | None:
        return dict(said(await outline(shelf, await shelf.put(text.encode(), kind=Kind.JSON))))["$[*].t"]

    assert await tags('[{"t": [1, 2]}, {"t": [1, 2]}, {"t": [1') == "array of 2 ints"
    assert await tags('[{"t": [1, 2]}, {"t": []}, {"t": [1, 2, 3, ') == "array of 0-3 or more ints"


async def test_who_asks_past_the_end_is_told_which_offsets_there_are(shelf: ReadingHarness) -> None:
    number = await shelf.put(b"# One\n# Two\n", kind=Kind.TEXT)
    one = await shelf.put(b"# One\n", kind=Kind.TEXT)
    for at, offset, said_ in (
        (number, 5, "Offset 5 is past the end: {} has 2 entries. Use an offset from 0 to 1, or leave it out."),
        (
            number,
            10**30,
            "The offset is far past the end: {} has 2 entries. Use an offset from 0 to 1, or leave it out.",
        ),
        (one, 1, "Offset 1 is past the end: {} has 1 entry. Use an offset of 0, or leave it out."),
    ):
        with pytest.raises(CoatcheckError) as caught:
            await outline(shelf, at, offset=offset)
        assert caught.value.detail == said_.format(ids.render(at))


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        ({"offset": -1}, Code.INVALID_REQUEST),
        ({"limit": 0}, Code.INVALID_REQUEST),
        ({"limit": 1_001}, Code.INVALID_REQUEST),
        ({"max_tokens": 63}, Code.INVALID_REQUEST),
        ({"offset": 9}, Code.OFFSET_PAST_END),
    ],
)
async def test_asks_out_of_bounds_are_refused(shelf: ReadingHarness, ask: dict[str, int], code: Code) -> None:
    number = await shelf.put(b"# One\n", kind=Kind.TEXT)
    with pytest.raises(CoatcheckError) as caught:
        await outline(shelf, number, **{"max_tokens": 4_000, **ask})
    assert caught.value.code is code
