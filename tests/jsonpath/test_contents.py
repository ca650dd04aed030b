"""A large object or array asked for as a whole: what is in it and how to go on, then as much as fits."""

import json

import pytest

from coatcheck.core.artifact import Kind
from coatcheck.core.jsonpath.query import part_of
from jsonpath.json_harness import JsonHarness

DOCUMENT = {
    "meta": {"by": "x" * 500},
    "rows": [{"id": n, "text": "word " * 9} for n in range(60_000)],
    "status": "failed",
    "it's <system>": None,
    "count": 60_000,
    "error": "e" * 5_000,
}


@pytest.mark.parametrize("text", [True, False])
def test_a_part_of_a_value_ends_between_characters_wherever_the_bytes_end(desk: JsonHarness, text: bool) -> None:
    value = ("a word, " * 11 + "日本 é \U0001f600 ") * 3
    raw = value.encode()
    for size in range(100, len(raw)):
        part = part_of(raw[:size], text=text, ends=False, chars=1_000, tokens=1_000, tokenizer=desk.tokenizer)
        assert part.text == raw[: part.used].decode()


@pytest.mark.parametrize("indent", [None, 1])
async def test_a_large_object_is_its_members_with_types_and_sizes_then_its_beginning(
    desk: JsonHarness, indent: int | None
) -> None:
    text = json.dumps(DOCUMENT, indent=indent)
    answer = await desk.ask(await desk.put(text.encode(), kind=Kind.JSON), "$", max_tokens=2_000)
    lines = answer.text.split("\n")
    assert lines[0] == f"¦ $ (object, {len(text):,} bytes, 6 members)"
    rows = text.index('"rows": [') + len('"rows": ')
    size = text.index('"status"', rows) - rows
    size = len(text[rows : rows + size].rstrip().rstrip(","))
    meta = text.index("{", 1)
    assert lines[1] == f"meta: object, {text.index('}', meta) + 1 - meta} bytes"
    assert lines[2] == f"rows: array, {size:,} bytes"
    assert lines[3] == 'status: "failed"'
    assert lines[4].endswith(": null")
    assert "<system>" not in answer.text
    assert lines[5:7] == ["count: 60000", "error: string, 5,002 bytes"]
    assert lines[7] == "¦ 6 members; read one by its path, such as $['meta']. As it is written:"
    assert text.startswith("\n".join(lines[8:])[:200])
    assert answer.next is not None


async def test_a_large_array_is_its_length_then_its_first_elements(desk: JsonHarness) -> None:
    for path in ("$.rows", "/rows"):
        answer = await desk.ask(await desk.put_json(DOCUMENT), path, max_tokens=500)
        first, _, rest = answer.text.partition("\n")
        assert ", 60,000 elements); read an element by its path, such as $['rows'][0]. As it is written:" in first
        assert rest.startswith('[{"id":0,')


async def test_of_very_many_members_as_many_are_named_as_fit_and_the_rest_is_counted(desk: JsonHarness) -> None:
    value = {f"key {n}": n for n in range(30_000)}
    answer = await desk.ask(await desk.put_json(value), "$", max_tokens=1_000)
    lines = answer.text.split("\n")
    assert lines[0].endswith(", 30,000 members)")
    named = [line for line in lines if line.startswith("key ")]
    assert named == [f"key {n}: {n}" for n in range(len(named))]
    assert f"¦ {len(named):,} members and {30_000 - len(named):,} more; " in answer.text


async def test_all_of_it_is_still_read_by_going_on(desk: JsonHarness) -> None:
    value = {"a": list(range(9_000)), "b": "x" * 3_000}
    pages = await desk.every_page(await desk.put_json(value), "$", max_tokens=4_000)
    bodies = [page.text.rpartition("\n¦ ")[2].partition("\n")[2] for page in pages]
    assert (
        json.loads("".join(b or page.text.partition("\n")[2] for b, page in zip(bodies, pages, strict=True))) == value
    )


async def test_what_fits_is_shown_as_it_is(desk: JsonHarness) -> None:
    answer = await desk.ask(await desk.put_json({"a": [1, 2], "b": None}), "$")
    assert answer.text.endswith('{"a":[1,2],"b":null}')
    assert "members" not in answer.text
