"""Documents that are cut off, or no strict JSON, or none: what is said of them is true, and every answer is JSON."""

import json
import random
from typing import Any

import msgspec
import pytest

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.jsonpath.page import ValuePage
from coatcheck.usecases.reading.read_json import JsonAnswer
from jsonpath.json_harness import JsonHarness, body, dumps, page_of, shown

ODD = ["The document is not strict JSON (NaN, Infinity, a lone surrogate, or bytes that are not UTF-8)."]


def sent(answer: JsonAnswer) -> dict[str, Any]:
    """The answer as a client gets it."""
    got = json.loads(msgspec.json.encode(answer), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert all(("value" in value) == value["complete"] for value in got["values"])
    return got


def all_pages(data: bytes, path: str, limit: int) -> list[ValuePage]:
    pages, resume = list[ValuePage](), None
    while not pages or resume is not None:
        pages.append(page_of(data, path, limit=limit, resume=resume))
        resume = pages[-1].next
    return pages


# ---------------------------------------------------------------------------------------------- one value by itself


@pytest.mark.parametrize(
    ("data", "path", "text"),
    [
        (b"[01, 2]", "$[0]", "01"),
        (b'{"a":nul}', "$.a", "nul"),
        (b'{"a":tru,"b":1}', "$.a", "tru"),
        (b'{"a":-}', "$.a", "-"),
        (b'{"a":"x\ny"}', "$.a", "x\ny"),
        (b'{"a":"x\ty"}', "$.a", "x\ty"),
        (b'{"a":"\\q"}', "$.a", "\ufffd"),
        (b'{"a":1,}', "$", '{"a":1,}'),
        (b'{"a":1 /*c*/}', "$", '{"a":1 /*c*/}'),
        (b'{"a":[1,2}}', "$.a", "[1,2}"),
    ],
    ids=ascii,
)
async def test_a_value_that_is_no_json_is_given_as_text_and_named(
    desk: JsonHarness, data: bytes, path: str, text: str
) -> None:
    answer = sent(await desk.ask(await desk.put(data), path))
    where = answer["values"][0]["location"]
    notice = f"{where} is not valid JSON; what is found in it is shown as it is written."
    assert (answer["notices"], answer["partial"], answer["complete"]) == ([notice], True, False)
    assert not answer["values"][0]["complete"]
    assert answer["text"].split("\n", 2)[1:] == [f"¦ {notice}", text]
    assert (answer["total"], answer["total_exact"], answer["next"]) == (1, True, None)


@pytest.mark.parametrize(
    ("data", "path", "text"),
    [
        (b'{"status":"ok","rows":[1,2', "$", '{"status":"ok","rows":[1,2'),
        (b'{"status":"ok","rows":[1,2', "$.rows", "[1,2"),
        (b'{"status":"ok', "$.status", "ok"),
        (b'{"status":"ok","total":12', "$.total", "12"),
        (b'{"status":"ok","total":12', "/total", "12"),
        (b"[true,fal", "$[1]", "fal"),
    ],
    ids=ascii,
)
async def test_a_value_that_is_cut_off_is_given_as_text(desk: JsonHarness, data: bytes, path: str, text: str) -> None:
    answer = sent(await desk.ask(await desk.put(data), path))
    assert not answer["values"][0]["complete"]
    assert (answer["partial"], answer["complete"], answer["total_exact"]) == (True, False, True)
    assert "cut off" in answer["notices"][0]
    assert answer["text"].split("\n", 2)[2] == text


async def test_what_is_whole_in_a_document_that_is_cut_off_is_a_value(desk: JsonHarness) -> None:
    answer = sent(await desk.ask(await desk.put(b'{"status":"ok","rows":[1,2'), "$.status"))
    assert (answer["values"][0]["value"], answer["complete"], answer["notices"]) == ("ok", True, [])
    answer = sent(await desk.ask(await desk.put(b" 12"), "$"))
    assert (answer["values"][0]["value"], answer["complete"], answer["notices"]) == (12, True, [])


@pytest.mark.parametrize(
    ("data", "path", "message"),
    [
        (b'{"a":,"b":1}', "$.a", "No match: there is no value at $['a']."),
        (b"[1,]", "$[1]", "No match: there is no value at $[1]."),
        (b'{"a":True}', "$.a", "No match: what is at $['a'] is not JSON: it begins with 'True'."),
        (b'{"a":True}', "$.a.b", "No match: $['a'] is a value that is not JSON, which has nothing in it."),
        (b'{"a" 1}', "$.a", "No match before the place where it is no JSON."),
        (b'[{1},{"x":5}]', "$[0].x", "No match: $[0] has no member 'x'. It has: none."),
        (b'{"a":1,2,,"b":3}', "$.c", "No match: $ has no member 'c'. It has: a, b."),
    ],
    ids=ascii,
)
async def test_where_no_value_is_there_is_no_match(desk: JsonHarness, data: bytes, path: str, message: str) -> None:
    answer = sent(await desk.ask(await desk.put(data), path))
    assert (answer["message"], answer["values"], answer["total"]) == (message, [], 0)


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (b'{"a":1,2}', ["a"]),
        (b'{1,"b":2}', ["b"]),
        (b'{"a":1,,"b":2}', ["a", "b"]),
        (b'{"a" 1,"b":2}', ["b"]),
        (b'{"a"x:1,"b":2}', ["b"]),
        (b'{x"a":1,"b":2}', ["b"]),
    ],
    ids=ascii,
)
async def test_a_child_of_an_object_has_the_name_that_stands_before_it_or_is_left_out(
    desk: JsonHarness, data: bytes, names: list[str]
) -> None:
    answer = sent(await desk.ask(await desk.put(b"[%b]" % data), "$[0].*"))
    assert [v["location"] for v in answer["values"]] == [f"$[0]['{name}']" for name in names]
    assert answer["notices"] == ["Left out as invalid JSON or nested too deeply: 1 element."]


async def test_a_total_is_not_exact_where_the_walk_is_lost(desk: JsonHarness) -> None:
    number = await desk.put(b'[{"a":1,"b" "' + b"x" * 20_000_000 + b'","c":2}]')
    answer = sent(await desk.ask(number, "$[0].*"))
    assert [v["location"] for v in answer["values"]] == ["$[0]['a']"]
    assert (answer["total_exact"], answer["partial"], answer["complete"]) == (False, True, False)


# -------------------------------------------------------------------------------------------- no strict JSON


@pytest.mark.parametrize(
    ("data", "path", "text"),
    [
        (b'{"a": NaN,"b":1}', "$.a", "NaN"),
        (b'{"a":Infinity}', "/a", "Infinity"),
        (b'{"a": NaN, "b": [Infinity, -Infinity, 1]}', "$", '{"a":NaN,"b":[Infinity,-Infinity,1]}'),
        (b'{"b": [Infinity, -Infinity, 1]}', "$.b", "[Infinity,-Infinity,1]"),
        (b'[{"b": [Infinity, 1]}]', "$[*].b", "[Infinity,1]"),
        (b'{"a":"\\ud800x"}', "$", '{"a":"\ufffdx"}'),
        (b'{"a":"\\ud800x"}', "$.a", "\ufffdx"),
    ],
    ids=ascii,
)
async def test_what_strict_json_cannot_say_stays_what_it_is_and_is_no_value(
    desk: JsonHarness, data: bytes, path: str, text: str
) -> None:
    answer = sent(await desk.ask(await desk.put(data), path))
    assert text in answer["text"].split("\n")
    assert (answer["notices"], answer["partial"]) == (ODD, False)
    assert not answer["values"][0]["complete"]


async def test_beside_what_is_odd_the_others_are_values(desk: JsonHarness) -> None:
    number = await desk.put(b'{"a": NaN, "b": [Infinity, 1], "c":"ok", "d": {"x": -Infinity, "y": 2}}')
    answer = sent(await desk.ask(number, "$.*"))
    assert [v.get("value") for v in answer["values"]] == [None, None, "ok", None]
    assert body(answer["text"]).split("\n")[:3] == ["'a': NaN", "'b': [Infinity,1]", "'c': \"ok\""]
    answer = sent(await desk.ask(number, "$.d", fields=("x", "y")))
    assert ("value" in answer["values"][0], body(answer["text"]).split("\n")[0]) == (False, "-Infinity | 2")


# ------------------------------------------------------------------------------------------------------- lines


def lines() -> bytes:
    written = [json.dumps({"i": k, "level": "info", "msg": f"m {k}"}).encode() for k in range(10)]
    written[3] = b'{"i":3,"level":"err'
    written[6] = b'{"i":6,"level":'
    written[8] = b'{"i":8,"sub":{"a":1}'
    return b"\n".join(written)


@pytest.mark.parametrize(
    ("path", "texts", "index"),
    [
        ("$[3]", ['{"i":3,"level":"err'], 3),
        ("$[3].level", ["err"], 3),
        ("$[3].i", ["3"], 3),
        ("$[6]", ['{"i":6,"level":'], 6),
        ("$[6].level", [], 6),
        ("$[-4].level", [], 6),
        ("$[6].level.i", [], 6),
        ("$[6].*", ["6"], 6),
        ("$[8].msg", [], 8),
        ("$[8].sub", ['{"a":1}'], 8),
        ("$[8].sub.a", ["1"], 8),
        ("$[8]..a", ["1"], 8),
    ],
)
async def test_a_path_into_a_broken_line_ends_with_the_line(
    desk: JsonHarness, path: str, texts: list[str], index: int
) -> None:
    answer = sent(await desk.ask(await desk.put(lines()), path))
    said = answer["text"].split("\n")
    assert len(answer["values"]) == len(texts)
    assert [line for line in said if not line.startswith("¦")] == texts
    assert (answer["partial"], answer["complete"]) == (True, False)
    assert [notice[: len(f"$[{index}] is not valid JSON")] for notice in answer["notices"]] == [
        f"$[{index}] is not valid JSON"
    ]
    assert f"$[{index}] is not valid JSON" in answer["text"]


async def test_the_lines_beside_broken_ones_are_sound(desk: JsonHarness) -> None:
    number = await desk.put(lines())
    for path, value in (("$[9].msg", "m 9"), ("$[7].level", "info"), ("$[-1].i", 9)):
        answer = sent(await desk.ask(number, path))
        assert (answer["values"][0]["value"], answer["complete"], answer["notices"]) == (value, True, [])


@pytest.mark.parametrize("blanks", [5, 20, 5_000])
async def test_a_blank_line_of_any_length_is_no_element(desk: JsonHarness, blanks: int) -> None:
    text = b'{"a": 1}\n' + b" " * blanks + b'\n{"a": 2}\n' + b" " * blanks + b'{"a": 3}\n' + b"\n" * 3
    answer = sent(await desk.ask(await desk.put(text), "$[*].a"))
    assert ([v["value"] for v in answer["values"]], answer["notices"]) == ([1, 2, 3], [])


async def test_of_lines_in_memory_broken_ones_are_left_out_and_the_others_keep_their_indices(desk: JsonHarness) -> None:
    answer = sent(await desk.ask(await desk.put(lines()), "$[9,8,7,6]"))
    assert [v["location"] for v in answer["values"]] == ["$[9]", "$[7]"]
    assert (answer["total"], answer["partial"]) == (2, True)


# ------------------------------------------------------------------------------------------------------ slices


async def test_a_slice_that_has_all_it_wants_reads_no_further(desk: JsonHarness) -> None:
    long = await desk.put_json([*({"a": k} for k in range(4)), {"a": "x" * 20_000_000}])
    answer = await desk.ask(long, "$[0:2].a")
    assert (shown(answer), answer.total, answer.total_exact, answer.complete) == ([0, 1], 2, True, True)
    with pytest.raises(CoatcheckError) as e:
        await desk.ask(long, "$[0:5].a")
    assert e.value.code is Code.JSON_TOO_LARGE


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$[0:5].a", range(5)),
        ("$[0:6:2].a", range(0, 6, 2)),
        ("$[90:99].a", range(90, 99)),
        ("$[98:99].a", range(98, 99)),
        ("$[0:99:7].a", range(0, 99, 7)),
    ],
)
async def test_a_slice_before_the_place_where_a_document_is_cut_off_is_exact(
    desk: JsonHarness, path: str, expected: range
) -> None:
    number = await desk.put(json.dumps([{"a": k} for k in range(100)]).encode()[:-8])
    answer = sent(await desk.ask(number, path))
    assert [v["value"] for v in answer["values"]] == list(expected)
    assert (answer["total_exact"], answer["partial"], answer["notices"]) == (True, False, [])
    whole = sent(await desk.ask(number, path[: -len(".a")]))
    assert [v["value"] for v in whole["values"]] == [{"a": k} for k in expected]
    assert (whole["total_exact"], whole["partial"], whole["notices"]) == (True, False, [])


async def test_a_slice_beyond_that_place_says_so(desk: JsonHarness) -> None:
    number = await desk.put(json.dumps([{"a": k} for k in range(100)]).encode()[:-8])
    answer = await desk.ask(number, "$[97:100].a")
    assert (shown(answer), answer.total_exact, answer.partial) == ([97, 98], False, True)


# -------------------------------------------------------------------------------------------------- long values


@pytest.mark.parametrize("size", [27_000, 166_000])
async def test_a_long_value_that_is_cut_off_is_read_to_its_end(desk: JsonHarness, size: int) -> None:
    data = (b'{"log":"' + b"abc def\\n" * (size // 8 + 1))[:size]
    number = await desk.put(data)
    pages = await desk.every_page(number, "$.log")
    assert (
        "".join(page.text.split("\n", 2)[2] for page in pages)
        == "abc def\n" * ((size - 8) // 9) + ("abc def\n" * 2)[: (size - 8) % 9]
    )
    assert [page.stopped for page in pages[-2:]] == ["max_tokens", "end"]
    assert {page.partial for page in pages} == {True}
    assert {page.complete for page in pages} == {False}
    assert all(page.notices for page in pages)
    assert (pages[0].values[0].kind, pages[0].values[0].complete) == ("string", False)
    whole = await desk.every_page(number, "$", max_tokens=8_000)
    assert "".join(page.text.split("\n", 2)[2] for page in whole).encode() == data


async def test_how_much_of_a_long_value_is_left_is_not_understated(desk: JsonHarness) -> None:
    number = await desk.put_json(["x y " * 41_500, "x"])
    answer = await desk.ask(number, "$[*]")
    assert answer.text.split("\n")[1].endswith("…¦+162,002 bytes")


# -------------------------------------------------------------------------------------------------------- totals


def broken_records(between: bytes, broken: bytes) -> bytes:
    """2,000 records of which 21 are broken, among those that no page shows and among those that it does."""
    written = [dumps({"i": k}) for k in range(2_000)]
    for k in range(50, 2_000, 95):
        written[k] = broken
    return between.join(written)


@pytest.mark.parametrize("limit", [1, 300, 1_000, 2_500])
@pytest.mark.parametrize("document", ["lines", "array", "object"])
def test_what_is_no_json_is_in_no_total(document: str, limit: int) -> None:
    if document == "lines":
        data = broken_records(b"\n", b'{"i":')
    elif document == "array":
        data = b"[" + broken_records(b",", b"{i:1}") + b"]"
    else:
        rows = broken_records(b"\n", b"nul").split(b"\n")
        data = b"{" + b",".join(b'"%d":%b' % row for row in enumerate(rows)) + b"}"
    pages = all_pages(data, "$[*]", limit) if limit > 1 else [page_of(data, "$[*]", limit=limit)]
    assert {(page.total, page.exact) for page in pages} == {(1_979, True)}
    assert pages[0].partial
    assert limit == 1 or sum(len(page.hits) for page in pages) == 1_979


def test_an_empty_place_between_commas_is_in_no_total() -> None:
    data = b"[" + b",".join([b"1"] * 500) + b",,,{a:1}," + b",".join([b"2"] * 500) + b"]"
    assert {(page.total, page.exact) for page in all_pages(data, "$[*]", 100)} == {(1_000, True)}


@pytest.mark.parametrize(("path", "expected"), [("$[10:1900]", 1_870), ("$[::3]", 660), ("$[1:1999:3]", 659)])
def test_a_slice_counts_what_is_sound_of_what_it_asks_for(path: str, expected: int) -> None:
    for data in (broken_records(b"\n", b'{"i":'), b"[" + broken_records(b",", b"{i:1}") + b"]"):
        whole = page_of(data, path)
        assert whole.total == len(whole.hits) == expected
        assert {(page.total, page.exact) for page in all_pages(data, path, 100)} == {(expected, True)}


def test_what_is_odd_or_very_deep_is_in_the_total() -> None:
    deep = b"[" * 5_000 + b"]" * 5_000
    data = b"[" + b",".join([b"1"] * 9 + [b"NaN", b'"\\ud800"', b'"\xff"', b"1e999", deep] + [b"1"] * 9) + b"]"
    assert {(page.total, page.exact) for page in all_pages(data, "$[*]", 5)} == {(23, True)}


# ----------------------------------------------------------------------------------------------- whatever it is

PATHS = [
    "$", "$.a", "$.a.b", "$[0]", "$[1]", "$[-1]", "$[1].a", "$.*", "$[*].a", "$[0:2]", "$[0:3:2]", "$[-2:]", "$[::-1]",
    "$..a", "$.a[*]", "$.a[0]", "$[?@.a]", "$[?@>1]", "$[1].*", "$.zz", "$[9]", "$[1].zz", "$[0]..b",
]  # fmt: skip
SHARDS = [b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\n", b"\t", b"1", b"nul", b"//", b"\\ud800", b'"a":1,']


def harmed(rng: random.Random, data: bytes) -> bytes:
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        at, kind = rng.randrange(len(data) + 1), rng.random()
        if kind < 0.1:
            data = data[:at]
        elif kind < 0.4:
            data = data[:at] + data[at + rng.randint(1, 3) :]
        else:
            data = data[:at] + rng.choice(SHARDS) + data[at:]
    return data


def record(rng: random.Random, depth: int = 3) -> Any:  # noqa: ANN401
    kind = rng.random()
    if depth and kind < 0.35:
        return [record(rng, depth - 1) for _ in range(rng.randint(0, 4))]
    if depth and kind < 0.8:
        return {rng.choice("abcd"): record(rng, depth - 1) for _ in range(rng.randint(0, 4))}
    return rng.choice([1, 22, -3.5, True, None, "", "x", 'é"\\', "[{,", float("nan"), float("inf"), 10**25])


@pytest.mark.parametrize("seed", range(6))
async def test_every_answer_about_harmed_documents_is_json_and_adds_up(desk: JsonHarness, seed: int) -> None:
    rng = random.Random(700 + seed)
    for _ in range(25):
        if rng.random() < 0.4:
            rows = [json.dumps(record(rng, 2)).encode() for _ in range(rng.randint(2, 6))]
            data = b"\n".join(harmed(rng, row) if rng.random() < 0.4 else row for row in rows)
        else:
            data = harmed(rng, json.dumps(record(rng), indent=rng.choice([None, 1])).encode())
        number = await desk.put(data)
        for path in PATHS:
            try:
                answer = await desk.ask(number, path)
            except CoatcheckError as e:
                assert e.code is Code.NOT_JSON  # noqa: PT017 - most documents are not refused
                continue
            got = sent(answer)
            assert not (got["complete"] and got["partial"])
            assert got["complete"] or got["next"] or got["notices"]
            assert got["total"] == len(got["values"])
            if got["total_exact"] and got["total"] > 1:
                pages = await desk.every_page(number, path, limit=1)
                assert {page.total for page in pages} == {got["total"]}
                assert [page.values[0].location for page in pages] == [v["location"] for v in got["values"]]
