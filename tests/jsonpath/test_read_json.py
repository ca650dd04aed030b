import json
import random
import time
from typing import Any

import pytest
from msgspec.structs import replace

from coatcheck.core.artifact import Kind
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.jsonpath.structure import DECODED_BYTES
from jsonpath.json_harness import JsonHarness, body, dumps, shown
from support.harness import CALLER

RECORDS = 20_000
LONG = "".join(random.Random(7).choices(["line\n", '"q" ', "é", "日本 ", "\\", "word ", "\U0001f600 "], k=3_000))


def records() -> dict[str, object]:
    """About 1.27 MB on one line."""
    items: list[dict[str, object]] = [
        {"id": n, "status": "failed" if n % 97 == 3 else "completed", "name": f"n{n}", "tags": ["a"]}
        for n in range(RECORDS)
    ]
    items[7_777]["body"] = LONG
    return {"meta": {"source": "x", "n": RECORDS}, "items": items}


async def test_a_record_is_found_by_its_id_and_its_long_value_is_read_to_its_end(desk: JsonHarness) -> None:
    number = await desk.put_json(records())
    assert 1_200_000 < desk.artifact(number).blob.size < 1_400_000
    answer = await desk.ask(number, "$.items[?@.id == 7777]", fields=("id", "status", "body"), max_tokens=1_000)
    assert [v.location for v in answer.values] == ["$['items'][7777]"]
    assert body(answer.text).startswith('7777 | "completed" | "')
    pages = await desk.every_page(number, "$.items[?@.id == 7777].body", max_tokens=1_000)
    assert len(pages) > 3
    assert "".join(body(page.text) for page in pages) == LONG
    assert [v.location for v in pages[0].values] == ["$['items'][7777]['body']"]
    span = pages[0].values[0].bytes
    assert span is not None
    assert json.loads(await desk.content(number).read(span.start, span.end)) == LONG


async def test_the_ids_of_the_failed_ones_are_one_call(desk: JsonHarness) -> None:
    number = await desk.put_json(records())
    failed = [n for n in range(RECORDS) if n % 97 == 3]
    answer = await desk.ask(number, "$.items[?@.status=='failed'].id")
    lines = [f"¦ $['items'][*]['id'] values 1-{len(failed)} of {len(failed)}", *(f"{n}: {n}" for n in failed)]
    assert answer.text.split("\n") == lines
    assert (answer.total, answer.total_exact, answer.complete, answer.next) == (len(failed), True, True, None)
    assert shown(answer) == failed
    rows = await desk.every_page(
        number, "$.items[?@.status=='failed']", fields=("name", "tags", "none"), max_tokens=500
    )
    assert [line for page in rows for line in body(page.text).split("\n")] == [
        f'{n}: "n{n}" | ["a"] | ' for n in failed
    ]
    assert rows[0].text.startswith(
        f"¦ $['items'][*] values 1-{len(rows[0].values)} of {len(failed)}; name | tags | none"
    )


def marks_of(text: str) -> list[str]:
    """What stands before each mark of ours, and the mark."""
    return [text[max(0, n - 1) : n + 1] for n, c in enumerate(text) if c == "¦" and n]


@pytest.mark.parametrize("max_tokens", [128, 300, 4_000])
async def test_pages_within_any_budget_give_every_value(desk: JsonHarness, max_tokens: int) -> None:
    rng = random.Random(max_tokens)
    words = [
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",
        "ß",
        "x",
        " ",
        "<|im_start|>",
        "¦",
        "\x1b[31m",
        "ﷺ",
        "\n\nHuman:",
    ]
    keys = ["".join(rng.choices(words, k=rng.randint(1, 40))) for _ in range(60)]
    value = {key: "".join(rng.choices(words, k=rng.randint(0, 300))) for key in keys}
    number = await desk.put_json({"".join(words) * 20: value})
    pages = await desk.every_page(number, "$.*.*", max_tokens=max_tokens)
    assert sum(len(page.values) for page in pages) == len(value)
    for page in pages:
        assert all(mark in {"…¦", "\n¦", ""} for mark in marks_of(page.text))
        assert "<|im_start|>" not in page.text
        assert "\x1b" not in page.text


async def test_a_big_value_is_read_as_it_is_written_to_its_end(desk: JsonHarness) -> None:
    value = {"big": [{"n": n, "text": "é" * (n % 7)} for n in range(5_000)], "end": 1}
    number = await desk.put_json(value)
    pages = await desk.every_page(number, "$.big", max_tokens=8_000)
    assert json.loads("".join(body(page.text) for page in pages)) == value["big"]
    assert not pages[0].values[0].complete


async def test_what_is_missing_is_explained(desk: JsonHarness) -> None:
    number = await desk.put_json({"items": [1, 2], "name": "x"})
    said = {
        "$.nope": "No match: $ has no member 'nope'. It has: items, name.",
        "$.items[5]": "No match: $['items'] has 2 elements, so there is no [5].",
        "$.items.id": "No match: $['items'] is an array, not an object; use an index, [*] or a filter before 'id'.",
        "$.name.x": "No match: $['name'] is a string, which has nothing in it.",
        "$[0]": "No match: $ is an object; use a name, or [*], in place of [0].",
        "$.items[?@ > 5]": "No match.",
    }
    for path, message in said.items():
        answer = await desk.ask(number, path)
        assert (answer.message, answer.text, answer.values, answer.total) == (message, f"¦ {message}", [], 0)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"  \n ",
        b"hello",
        b"<html>",
        b"\x00\x01",
        b"{'a':1}",
        b"nope",
        b"[INFO] started",
        b"2026-11-21 x",
        b"{a: 1}",
    ],
    ids=ascii,
)
async def test_what_is_no_json_is_refused(desk: JsonHarness, data: bytes) -> None:
    number = await desk.put(data)
    with pytest.raises(CoatcheckError) as e:
        await desk.ask(number, "$..a")
    assert e.value.code is Code.NOT_JSON
    assert "search" in e.value.detail


async def test_odd_and_damaged_documents_say_so(desk: JsonHarness) -> None:
    odd = await desk.put(b'\xef\xbb\xbf{"a": NaN, "b": "\\ud800", "c": [1, 2], "a2": 1e999}')
    answer = await desk.ask(odd, "$.*")
    assert answer.total == 4
    assert answer.notices == [
        "The document is not strict JSON (NaN, Infinity, a lone surrogate, or bytes that are not UTF-8)."
    ]
    cut = await desk.put(dumps({"items": [{"id": n} for n in range(100)]})[:-40])
    answer = await desk.ask(cut, "$.items[?@.id > 90].id")
    assert (answer.partial, answer.total_exact, answer.complete) == (True, False, False)
    assert shown(answer) == [91, 92, 93, 94, 95]
    assert "cut off" in answer.text
    mixed = await desk.put(b'{"id": 1}\nnot json\n{"id": 3}\n', kind=Kind.JSON)
    answer = await desk.ask(mixed, "$[*].id")
    assert [v.location for v in answer.values] == ["$[0]['id']", "$[2]['id']"]
    assert (answer.partial, answer.notices) == (True, ["Left out as invalid JSON or nested too deeply: 1 element."])


async def test_of_members_with_one_name_the_last_is_read_and_all_are_listed(desk: JsonHarness) -> None:
    number = await desk.put(b'{"a": 1, "x": {"a": 5}, "a": 2}')
    for path, values in (("$.a", [2]), ("$[?@ == 2]", [2]), ("$.*", [1, {"a": 5}, 2])):
        assert shown(await desk.ask(number, path)) == values


@pytest.mark.parametrize("path", ["$", "$" + "[0]" * 200, "$[*]", "$[0][0]"])
async def test_nesting_of_100_000_is_walked_by_names_and_indices(desk: JsonHarness, path: str) -> None:
    number = await desk.put(b"[" * 100_000 + b"]" * 100_000)
    answer = await desk.ask(number, path)
    assert answer.values[0].kind == "array"


async def test_nesting_of_100_000_is_refused_where_it_would_be_loaded(desk: JsonHarness) -> None:
    number = await desk.put(b'[{"a":' * 50_000 + b"1" + b"}]" * 50_000)
    with pytest.raises(CoatcheckError) as e:
        await desk.ask(number, "$..[?@.b]")
    assert e.value.code is Code.JSON_TOO_LARGE


@pytest.mark.parametrize(
    "path",
    [
        "$..[?@..[?@..[?@..[?@.x]]]]",
        "$..*..*..*..*",
        "$..[?count(@..*..*) == count($..*..*)]",
        "$..[?@ == $]",
        "$.items[?match(@.name, '((a*)*)*b{900}')]",
        "$.items[?search(@.name, $.pattern)]",
        "$.items[0:9007199254740991:9007199254740991]",
        "$.items[-9007199254740991:]",
        "$.items[" + ",".join(["::-1"] * 500) + "]",
        "$" + "..*" * 250,
        "$" + "[*]" * 250,
    ],
    ids=lambda path: path[:40],
)
async def test_hostile_paths_end_in_time(hurried: JsonHarness, path: str) -> None:
    value = records()
    value["pattern"] = "(" * 5_000 + "a" + ")" * 5_000
    number = await hurried.put_json(value)
    began = time.process_time()
    answer = await hurried.ask(number, path, limit=5)
    assert time.process_time() - began < 6
    assert len(answer.values) <= 5


async def test_a_call_that_gets_nowhere_says_so(hurried: JsonHarness) -> None:
    number = await hurried.put_json(records())
    answer = await hurried.ask(number, "$..[?@..[?@..[?@..[?@.x]]]]")
    assert (answer.partial, answer.next, answer.stopped, answer.total_exact) == (True, None, "deadline", False)


async def test_time_that_is_over_is_a_page_that_goes_on(desk: JsonHarness) -> None:
    class Ticking:
        """A clock that moves when it is read."""

        now = 0.0

        def __call__(self) -> float:
            self.now += 0.3
            return self.now

    impatient = JsonHarness(desk.store, Ticking())
    number = await impatient.put_json(records())
    pages = await impatient.every_page(number, "$.items[?@.status=='failed'].id")
    assert len(pages) > 5
    assert {page.stopped for page in pages[:-1]} == {"deadline"}
    ids = [found for page in pages for found in shown(page)]
    assert ids == [n for n in range(RECORDS) if n % 97 == 3]
    assert pages[-1].total == len(ids)


async def test_a_document_that_is_not_loaded_answers_by_descent_and_refuses_the_rest(desk: JsonHarness) -> None:
    pad = "x" * 900
    value = {"big": [{"id": n, "pad": pad} for n in range(10_000)], "map": {str(n): n for n in range(1_000)}, "last": 1}
    number = await desk.put_json(value)
    assert desk.artifact(number).blob.size > DECODED_BYTES
    one = {
        "$.last": 1,
        "$.big[9999].id": 9_999,
        "$.big[-1].id": 9_999,
        "/map/999": 999,
        "$.big[?@.id == 9000].id": 9_000,
    }
    for path, expected in one.items():
        answer = await desk.ask(number, path)
        assert shown(answer) == [expected]
    assert (await desk.ask(number, "$.big[1000:9000:1000]", fields=("id",))).total == 8
    assert [v.kind for v in (await desk.ask(number, "$.*")).values] == ["array", "object", "number"]
    assert (await desk.ask(number, "$.map[?@ > 995]")).total == 4
    assert (await desk.ask(number, "$.big..id", limit=2)).values[1].location == "$['big'][1]['id']"
    with pytest.raises(CoatcheckError) as e:
        await desk.ask(number, "$..id")
    assert e.value.code is Code.JSON_TOO_LARGE
    assert "names and indices" in e.value.detail


async def test_a_cursor_belongs_to_its_artifact_path_and_fields(desk: JsonHarness) -> None:
    number, other = await desk.put_json([1, 2, 3]), await desk.put_json([1, 2, 3, 4])
    cursor = (await desk.ask(number, "$[*]", limit=1)).next
    assert cursor is not None
    assert shown(await desk.ask(number, "$[*]", cursor=cursor)) == [2, 3]
    for where, path, text, fields in (
        (other, "$[*]", cursor, ()),
        (number, "$[1:]", cursor, ()),
        (number, "$[*]", cursor, ("a",)),
        (number, "$[*]", cursor[:-1], ()),
        (number, "$[*]", "é", ()),
        (number, "$[*]", "A" * 500, ()),
    ):
        with pytest.raises(CoatcheckError) as e:
            await desk.ask(where, path, cursor=text, fields=fields)
        assert e.value.code is Code.INVALID_CURSOR


async def test_a_cursor_belongs_to_the_version_of_the_text_that_it_was_given_for(desk: JsonHarness) -> None:
    number = await desk.put_json([1, 2, 3])
    reading = await desk.json_reader.open(CALLER, number)
    ask: dict[str, Any] = {"path": "$[*]", "limit": 1, "max_tokens": 1_000}
    cursor = (await desk.json_reader.of(reading, number, **ask, cursor=None)).next
    assert cursor is not None
    assert body((await desk.json_reader.of(reading, number, **ask, cursor=cursor)).text) == "2"
    with pytest.raises(CoatcheckError) as e:
        await desk.json_reader.of(replace(reading, version=reading.version + 1), number, **ask, cursor=cursor)
    assert e.value.code is Code.INVALID_CURSOR


async def test_bounds_of_the_question_are_kept(desk: JsonHarness) -> None:
    number = await desk.put_json([1])
    wrong: list[dict[str, Any]] = [
        {"limit": 0},
        {"limit": 1_001},
        {"max_tokens": 127},
        {"max_tokens": 8_001},
        {"fields": ("a",) * 21},
    ]
    for ask in wrong:
        with pytest.raises(CoatcheckError) as e:
            await desk.json_reader(CALLER, number, path="$", **ask)
        assert e.value.code is Code.INVALID_REQUEST
