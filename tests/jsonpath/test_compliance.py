"""The JSONPath Compliance Test Suite, where a copy of it is named, and the tables of RFC 9535 in any case."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.jsonpath.parse import parse_path
from jsonpath.json_harness import dumps, page_of, plainly

SUITE = os.environ.get("JSONPATH_CTS")  # noqa: TID251 - a test's own input; the service does not see it


def _cases() -> list[dict[str, Any]]:
    return json.loads(Path(SUITE).read_text("utf-8"))["tests"] if SUITE else []


@pytest.mark.skipif(SUITE is None, reason="JSONPATH_CTS does not name the compliance suite's cts.json")
def test_the_whole_compliance_suite_passes_in_memory_and_by_descent() -> None:
    cases = _cases()
    assert len(cases) >= 703
    wrong = [case["name"] for case in cases if not _passes(case)]
    assert wrong == []


def _passes(case: dict[str, Any]) -> bool:
    if case.get("invalid_selector"):
        with pytest.raises(CoatcheckError) as e:
            parse_path(case["selector"])
        return e.value.code is Code.INVALID_PATH
    found = plainly(case["document"], case["selector"])
    values = case.get("results") or [case["result"]]
    paths = case.get("results_paths") or [case["result_paths"]]
    expected = [dumps([p, v]) for p, v in zip(paths, values, strict=True)]
    if dumps([[p for p, _ in found], [v for _, v in found]]) not in expected:
        return False
    data = json.dumps(case["document"]).encode()  # with escapes and blanks, unlike the compact form
    page = page_of(data, case["selector"])
    return [(h.path, json.loads(h.text)) for h in page.hits] == [
        (h.path, json.loads(h.text)) for h in page_of(dumps(case["document"]), case["selector"]).hits
    ] and [json.loads(h.text) for h in page.hits] == [v for _, v in found]


STORE = {
    "store": {
        "book": [
            {"category": "reference", "author": "Rees", "title": "Sayings", "price": 8.95},
            {"category": "fiction", "author": "Waugh", "title": "Sword", "price": 12.99},
            {"category": "fiction", "author": "Melville", "title": "Moby", "isbn": "0-553", "price": 8.99},
            {"category": "fiction", "author": "Tolkien", "title": "Lord", "isbn": "0-395", "price": 22.99},
        ],
        "bicycle": {"color": "red", "price": 399},
    }
}
BOOK = "$['store']['book']"


@pytest.mark.parametrize(
    ("path", "locations"),
    [
        ("$.store.book[*].author", [f"{BOOK}[{n}]['author']" for n in range(4)]),
        ("$..author", [f"{BOOK}[{n}]['author']" for n in range(4)]),
        ("$.store.*", [BOOK, "$['store']['bicycle']"]),
        ("$.store..price", ["$['store']['bicycle']['price']", *(f"{BOOK}[{n}]['price']" for n in range(4))]),
        ("$..book[2]", [f"{BOOK}[2]"]),
        ("$..book[-1]", [f"{BOOK}[3]"]),
        ("$..book[0,1]", [f"{BOOK}[0]", f"{BOOK}[1]"]),
        ("$..book[:2]", [f"{BOOK}[0]", f"{BOOK}[1]"]),
        ("$..book[?@.isbn]", [f"{BOOK}[2]", f"{BOOK}[3]"]),
        ("$..book[?@.price<10]", [f"{BOOK}[0]", f"{BOOK}[2]"]),
        ("$.store.book[?@.price>=12.99 && @.price<=12.99]", [f"{BOOK}[1]"]),
        ("$.store.book[::-2]", [f"{BOOK}[3]", f"{BOOK}[1]"]),
        ("$.store.book[-3:-1].price", [f"{BOOK}[1]['price']", f"{BOOK}[2]['price']"]),
        ("$.store.book[?match(@.author, 'M.*e')].title", [f"{BOOK}[2]['title']"]),
        ("$.store.book[?search(@.author, 'ol')].title", [f"{BOOK}[3]['title']"]),
        ("$.store.book[?length(@.title) == 4].price", [f"{BOOK}[2]['price']", f"{BOOK}[3]['price']"]),
        ("$.store[?count(@.*) > 3]", [BOOK]),
        ("$.store.book[?value(@..isbn) == '0-395']['title']", [f"{BOOK}[3]['title']"]),
        ("$.store.book[?@.price == $.store.book[0].price]", [f"{BOOK}[0]"]),
        ("/store/book/1/price", [f"{BOOK}[1]['price']"]),
        ("/store/bicycle", ["$['store']['bicycle']"]),
        ("/store/book/9", []),
        ("/store/book/01", []),
    ],
)
def test_the_examples_of_the_rfc(path: str, locations: list[str]) -> None:
    """RFC 9535 section 1.5, functions of section 2.4, pointers of RFC 6901: in memory and by descent."""
    assert sorted(p for p, _ in plainly(STORE, path)) == sorted(locations)
    page = page_of(json.dumps(STORE, indent=2).encode(), path)
    assert sorted("$" + "".join(f"[{s!r}]" for s in h.path) for h in page.hits) == sorted(locations)


@pytest.mark.parametrize(
    "path",
    [
        "", "items", " $", "$ ", "$.", "$..", "$.a b", "$[", "$[]", "$[01]", "$[-0]", "$['a]", "$['\\x']",
        "$['\\ud800']", "$[?@.a=1]", "$[?1]", "$[?@.* == 1]", "$[?length(@.a)]", "$[?match(@.a, 'x') == true]",
        "$[?nope(@)]", "$[?!@.a == 1]", "$[?(@.a) == 1]", "$[9007199254740992]", "$[?count(1) == 1]", "$[1:2:3:4]",
        "/a/~2",
        "$" + "[?@" * 33 + "]" * 33, "$" + ".a" * 257, "$." + "a" * 4_096,
    ],
    ids=lambda path: ascii(path[:30]),
)  # fmt: skip
def test_what_is_no_path_is_refused_with_a_reason(path: str) -> None:
    with pytest.raises(CoatcheckError) as e:
        parse_path(path)
    assert e.value.code is Code.INVALID_PATH
