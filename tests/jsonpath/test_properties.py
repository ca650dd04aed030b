"""Random documents and paths: descent, paging and lines give what an evaluation in memory gives."""

import json
import random
from typing import Any

import jsonpath_rfc9535
import pytest

from coatcheck.core.jsonpath import walk
from coatcheck.core.jsonpath.page import Resume, ValuePage
from coatcheck.core.jsonpath.query import normalize_path
from coatcheck.core.jsonpath.structure import span_of
from coatcheck.core.jsonpath.walk import WalkSource
from coatcheck.core.text.json_skeleton import StructureReader, find_complete_part
from jsonpath.json_harness import dumps, page_of, plainly

NAMES = ["a", "b", "id", "ö", "x y", "q\"'", "\\", "", "\t", "日本"]
PATHS = [
    "$", "$.*", "$[*]", "$..*", "$..a", "$..id", "$.a", "$[0]", "$[-1]", "$[1:]", "$[-2:]", "$[::2]", "$[::-1]",
    "$[5:1]", "$[*].a", "$[*].id", "$.*.*", "$.a.*", "$.a[0].b", "$[?@.a]", "$[?@.id > 2].id",
    "$[?@.a == 1 || !@.b]", "$..[?@.id]", "$[*][?@ == 1]", "$['ö','a']", "$[0,1]", "$[?count(@..id) == 1]",
    "$[?length(@.a) > 1]", "$[?count(@.*) == 2]", "$[1:8:3].a", "$[?match(@.a, '[a-z]+')]", "$[?search(@, 'a')]",
    "$[?@.a == $[0].a]", "$['x y']", "$['q\"\\'']", "$['\\\\']", "$[?@]",
]  # fmt: skip


def document(rng: random.Random, depth: int = 4) -> Any:  # noqa: ANN401
    kind = rng.random()
    if depth and kind < 0.35:
        return [document(rng, depth - 1) for _ in range(rng.randint(0, 6))]
    if depth and kind < 0.75:
        return {rng.choice(NAMES): document(rng, depth - 1) for _ in range(rng.randint(0, 5))}
    return rng.choice(
        [1, 2, 3.5, -1, True, False, None, "", "a", "[{,}]", 'q"\\', "\\\\", "é日本\U0001f600", "\n", 10**20]
    )


def written(value: object, rng: random.Random) -> bytes:
    return json.dumps(value, ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, 1])).encode()


def found(page: ValuePage) -> list[tuple[str, object]]:
    return [(normalize_path(h.path), json.loads(h.text)) for h in page.hits]


@pytest.mark.parametrize("seed", range(8))
def test_any_path_gives_by_descent_what_it_gives_in_memory(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(12):
        value = document(rng)
        data = written(value, rng)
        for path in PATHS:
            expected = plainly(value, path)
            page = page_of(data, path)
            assert (found(page), page.total, page.exact, page.partial) == (expected, len(expected), True, False)
            for hit in page.hits:
                if hit.span is not None:
                    assert json.loads(data[slice(*hit.span)]) == json.loads(hit.text)
                    assert data[slice(*hit.span)].strip() == data[slice(*hit.span)]


@pytest.mark.parametrize("seed", range(4))
def test_an_independent_library_finds_the_same(seed: int) -> None:
    rng = random.Random(100 + seed)
    for _ in range(12):
        value = document(rng)
        for path in PATHS:
            theirs = [n.value for n in jsonpath_rfc9535.find(path, value)]
            ours = [v for _, v in plainly(value, path)]
            if "==" not in path and path != "$[?@]":  # it takes true for 1, and "" and false for absent
                assert sorted(map(dumps, ours)) == sorted(map(dumps, theirs))


@pytest.mark.parametrize("seed", range(4))
def test_pages_of_any_size_give_every_value_once_and_in_order(seed: int) -> None:
    rng = random.Random(200 + seed)
    for _ in range(10):
        value = document(rng)
        data = written(value, rng)
        for path in PATHS:
            limit = rng.randint(1, 3)
            seen: list[tuple[str, object]] = []
            resume: Resume | None = None
            while True:
                page = page_of(data, path, limit=limit, resume=resume)
                seen += found(page)
                resume = page.next
                if resume is None:
                    break
                assert len(page.hits) == limit
                assert resume.seen == len(seen)
            assert seen == plainly(value, path)


@pytest.mark.parametrize("seed", range(6))
def test_of_many_records_pages_are_what_they_are_in_memory(seed: int) -> None:
    rng = random.Random(400 + seed)
    values = [
        {"id": n, "status": rng.choice(["ok", "failed"]), "of": [n, {"name": f"n{n}"}]} if rng.random() < 0.95 else n
        for n in range(rng.choice([127, 128, 129, 700]))
    ]
    if seed % 2:  # with this an element is decoded by itself, and those around it are
        values[rng.randrange(len(values))] = {"id": "\ud800", "status": "odd"}
    data = json.dumps({"rows": values}).encode()
    for path in [
        "$.rows[*]", "$.rows[*].id", "$.rows[*].of[1].name", "$.rows[*].of[*]", "$.rows[?@.status=='ok']",
        "$.rows[?@.status=='failed'].id", "$.rows[?@.of[0] > 100].of[-1].name", "$.rows[?@.status!='ok'].of[0,1]",
        "$.rows[100:130].id", "$.rows[120:].of[0]", "$.rows[:128]", "$.rows[3:600:7].id", "$.rows[?@ > 3]",
    ]:  # fmt: skip
        seen: list[tuple[str, object]] = []
        resume: Resume | None = None
        limit = rng.choice([1_000, 127, 128, 33])
        while True:
            page = page_of(data, path, limit=limit, resume=resume)
            for hit in page.hits:
                assert hit.span is not None or "\ud800" in hit.text
                assert hit.span is None or json.loads(data[slice(*hit.span)]) == json.loads(hit.text)
            seen += found(page)
            resume = page.next
            if resume is None:
                break
        assert seen == plainly({"rows": values}, path), path
        assert page.total == len(seen)


@pytest.mark.parametrize("seed", range(4))
def test_lines_are_the_elements_of_an_array(seed: int) -> None:
    rng = random.Random(300 + seed)
    for _ in range(10):
        values = [document(rng, 2) for _ in range(rng.randint(2, 8))]
        data = b"\xef\xbb\xbf" + rng.choice([b"\n", b"\r\n", b"\n\n", b"\n \n"]).join(map(dumps, values))
        for path in PATHS:
            if path != "$":
                assert found(page_of(data, path)) == plainly(values, path)
        assert found(page_of(data, "$")) == plainly(values, "$[*]")


@pytest.mark.parametrize("piece", [1, 3, 7, 64])
def test_the_skeleton_is_the_same_however_blocks_fall(piece: int) -> None:
    rng = random.Random(piece)
    for _ in range(5):
        data = written([document(rng) for _ in range(4)], rng)
        whole = StructureReader().feed(data, 0)
        structure = StructureReader()
        parts = [structure.feed(data[n : n + piece], n) for n in range(0, len(data), piece)]
        assert [int(at) for part in parts for at in part.at] == whole.at.tolist()
        assert [int(depth) for part in parts for depth in part.depth] == whole.depth.tolist()


def simply(data: bytes) -> list[tuple[int, int, int]]:
    """Brackets and commas outside strings with the depth behind them, byte by byte."""
    out: list[tuple[int, int, int]] = []
    depth, inside, escaped = 0, False, False
    for at, octet in enumerate(data):
        sign = chr(octet)
        if not inside and sign in "[]{},":
            depth += (sign in "[{") - (sign in "]}")
            out.append((at, octet, depth))
        inside ^= sign == '"' and not escaped
        escaped = sign == "\\" and not escaped
    return out


@pytest.mark.parametrize("seed", range(40))
def test_the_skeleton_is_that_of_any_bytes_however_they_are_cut(seed: int) -> None:
    rng = random.Random(900 + seed)
    letters = rng.choice(['\\"', '\\"{}[],a ', '"[],', '"\\\\x{', 'a,"'])
    data = "".join(rng.choices(letters, k=rng.choice([1, 63, 64, 65, 700, 3000]))).encode()
    data = data.replace(b"\\", b"\\" * rng.choice([1, 1, 2, 5, 70]))
    structure, found, at = StructureReader(), list[tuple[int, int, int]](), 0
    for end in sorted({*(rng.randint(0, len(data)) for _ in range(rng.randint(0, 6))), len(data)}):
        marks = structure.feed(data[at:end], at)
        found += zip(marks.at.tolist(), marks.char.tolist(), marks.depth.tolist(), strict=True)
        at = end
    assert found == simply(data)


def test_the_skeleton_of_a_large_block_is_that_of_its_pieces() -> None:
    rng = random.Random(77)
    data = "".join(rng.choices('"{}[],a\\ ', weights=[4, 1, 1, 1, 1, 2, 80, 1, 10], k=700_000)).encode()
    marks = StructureReader().feed(data, 0)
    assert list(zip(marks.at.tolist(), marks.char.tolist(), marks.depth.tolist(), strict=True)) == simply(data)


@pytest.mark.parametrize("length", [1, 2, 5, 60_000])
def test_elements_from_the_end_are_those_from_the_beginning(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = dumps([[n, "a,b"] for n in range(length)])
    for kept in (100_000, 3):
        monkeypatch.setattr(walk, "INDEXED_CHILDREN", kept)
        for back in {1, 2, 3, 4, length - 1, length, length + 1} - {0}:
            hits = page_of(data, f"$[-{back}]").hits
            assert [hit.path for hit in hits] == ([] if back > length else [[length - back]])
            if hits:
                assert [hit.span for hit in hits] == [hit.span for hit in page_of(data, f"$[{length - back}]").hits]


def test_runs_of_backslashes_of_any_length_end_strings_where_json_says() -> None:
    for run in range(80):
        value = ["\\" * run + '"', "x" * run + "\\" * run, [1, 2]]
        data = json.dumps(value).encode()
        assert json.loads(data[slice(*page_of(data, "$[2][1]").hits[0].span or (0, 0))]) == 2
        assert walk.over(data, walk.end_of(WalkSource(len(data)), 0)) == len(data)


@pytest.mark.parametrize("seed", range(3))
def test_a_cut_document_keeps_what_is_whole(seed: int) -> None:
    rng = random.Random(400 + seed)
    value = {"items": [document(rng, 2) for _ in range(6)]}
    data = dumps(value)
    for end in range(2, len(data) - 1):
        part = find_complete_part(data[:end])
        assert part is not None
        json.loads(data[: part[0]] + part[1])
        page = page_of(data[:end], "$.items[*]")
        assert page.partial
        whole = [json.loads(h.text) for h in page.hits]
        assert whole == value["items"][: len(whole)]


def test_a_span_is_known_of_every_value() -> None:
    rng = random.Random(5)
    for _ in range(50):
        value = document(rng)
        data = written(value, rng)
        for hit in page_of(data, "$..*").hits:
            span = span_of(data, hit.path)
            assert span is not None
            assert json.loads(data[slice(*span)]) == json.loads(hit.text)
