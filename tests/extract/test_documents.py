"""The text of JSON, of several parts, of search responses; the sections of documents that read as they are."""

import base64
import json
import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coatcheck.core.extract import extract_text
from coatcheck.core.extract.blocks import SectionStart, sections
from coatcheck.core.extract.texts import extract_json, extract_parts, extract_results, may_be_parts
from coatcheck.core.views import parts
from coatcheck.core.views.view import MAX_SECTIONS, TITLE_CHARS, ExtractedText, Section, TextForm
from extract.sample_pages import FORMS, check_sections, cut


def test_minified_json_is_indented_and_says_the_same() -> None:
    value: dict[str, object] = {"a": [1, 2.50, {"b": None}], "c": "é\n", "empty": {}, "none": []}
    made = extract_json(msgspec.json.encode(value))
    assert made is not None
    assert made.text == (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
    assert not made.partial


@pytest.mark.parametrize(
    ("data", "text", "partial"),
    [
        (b'{"a":NaN,"b":[-Infinity]}', '{\n  "a": NaN,\n  "b": [\n    -Infinity\n  ]\n}\n', False),
        (b'\xef\xbb\xbf{"a":1,"a":2}', '{\n  "a": 1,\n  "a": 2\n}\n', False),
        (b'{"a":[1,{"b":"cut o', '{\n  "a": [\n    1,\n    {\n      "b": "cut o\n', True),
        (b'{"n":123456789012345678901234567890.10}', '{\n  "n": 123456789012345678901234567890.10\n}\n', False),
        (b'["\xff"]', '[\n  "\ufffd"\n]\n', False),
    ],
    ids=["not quite JSON", "a mark and a key twice", "broken off", "a long number", "not UTF-8"],
)
def test_json_is_indented_as_far_as_it_goes(data: bytes, text: str, partial: bool) -> None:
    made = extract_json(data)
    assert made is not None
    assert (made.text, made.partial) == (text.encode(), partial)


@pytest.mark.parametrize(
    "data",
    [json.dumps({"a": [1, 2, 3]}, indent=1).encode(), b'{"a":1}\n{"a":2}\n', b"plain", b"", b"1", b'"text"'],
    ids=["pretty", "a document a line", "text", "nothing", "a number", "a string"],
)
def test_what_reads_well_has_no_other_view(data: bytes) -> None:
    assert extract_json(data) is None


def test_deep_nesting_does_not_blow_up() -> None:
    data = b"[" * 900 + b"1," * 2_000 + b"1" + b"]" * 900
    made = extract_json(data)
    assert made is not None
    assert made.text is not None
    assert len(made.text) < 100 * len(data)


def test_each_part_stands_under_its_heading_and_no_bytes_are_shown() -> None:
    image = base64.b64encode(bytes(3000)).decode()
    given_parts = [
        {"type": "text", "text": "First part.\nTwo lines."},
        {"type": "image", "data": image, "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "Of a file.", "mimeType": "text/plain"}},
        {"type": "resource_link", "uri": "https://e.org/b", "name": "B"},
    ]
    made = extract_parts(parts.payload(given_parts).data)
    assert made is not None
    assert made.text is not None
    check_sections(made.sections, made.text)
    assert [(each.name, each.title, each.url) for each in made.sections] == [
        ("p1", "text", None),
        ("p2", "image", None),
        ("p3", "file:///a.txt", "file:///a.txt"),
        ("p4", "B", "https://e.org/b"),
    ]
    assert cut(made, made.text, "p1") == "# Part 1: text\nFirst part.\nTwo lines.\n\n"
    assert cut(made, made.text, "p2") == "# Part 2: image\n[image/png, 3 kB]\n\n"
    assert cut(made, made.text, "p3") == "# Part 3: file:///a.txt\nOf a file.\n\n"
    assert image[:100] not in made.text.decode()


def test_structured_content_is_the_last_part() -> None:
    result = {"content": [{"type": "text", "text": "Two found."}], "structuredContent": {"found": [1, 2]}}
    made = extract_parts(parts.payload(result).data)
    assert made is not None
    assert made.text == (
        b'# Part 1: text\nTwo found.\n\n# Part 2: structured content\n{\n  "found": [\n    1,\n    2\n  ]\n}\n'
    )


@pytest.mark.parametrize("around", [{"jsonrpc": "2.0", "id": 7}, None])
def test_the_result_of_an_mcp_call_is_read_as_its_parts(around: dict[str, object] | None) -> None:
    told: dict[str, object] = {"content": [{"type": "text", "text": '{"found":[1],"next":"b"}'}], "isError": True}
    made = extract_parts(msgspec.json.encode(told if around is None else {**around, "result": told}))
    assert made is not None
    assert made.text == (
        b"# Part 1: error\nThe result says that the call failed.\n\n"
        b'# Part 2: text\n{\n  "found": [\n    1\n  ],\n  "next": "b"\n}\n'
    )
    made = extract_parts(msgspec.json.encode({**told, "isError": False, "role": "user"}))
    assert made is None


@pytest.mark.parametrize(
    ("head", "may_be"),
    [
        (b'{"jsonrpc": "2.0", "id": "a-7", "result": {"content": [{"type": "text", "text": "x"', True),
        (b'{"id":7,"jsonrpc":"2.0","result":{"isError":false,"content":[{"type":"text"', True),
        (b'{"result":{"_meta":{},"content":[{"type":"text"', True),
        (b'{"id": 7, "type": "text", "content": "x"}', False),
        (b'{"content": "x", "type": "text"}', False),
        (b'{"id": "msg_1", "content": {"type": "text"}}', False),
        (b'{"result": {"items": [{"type": "text"}]}}', False),
    ],
)
def test_only_what_begins_like_parts_is_tried_as_parts(head: bytes, may_be: bool) -> None:
    assert may_be_parts(head) is may_be


@pytest.mark.parametrize(
    "value",
    [
        [{"type": "user", "id": 1}],
        [{"id": 1}],
        ["a"],
        [],
        {"content": [1]},
        [1],
        [{"type": "text", "text": "a"}, {"type": ["text"], "text": "b"}],
    ],
)
def test_data_is_no_parts(value: object) -> None:
    assert extract_parts(msgspec.json.encode(value)) is None


def test_search_results_are_a_list_with_a_section_each() -> None:
    results = [
        {
            "title": f"Title\n{n}",
            "url": f"https://e.org/{n}",
            "content": f"Text {n}.\n\nMore.",
            "published_date": "2026-01-02",
        }
        for n in (1, 2)
    ]
    made = extract_results(msgspec.json.encode({"query": "q", "results": results}))
    assert made is not None
    assert made.text is not None
    check_sections(made.sections, made.text)
    assert made.text.decode() == (
        'Search results for "q" (unknown): 2 results\n\n'
        "r1. Title 1\nhttps://e.org/1\n2026-01-02\n\nText 1.\n\nMore.\n\n"
        "r2. Title 2\nhttps://e.org/2\n2026-01-02\n\nText 2.\n\nMore.\n\n"
    )
    assert [(each.name, each.title, each.url) for each in made.sections] == [
        ("r1", "Title 1", "https://e.org/1"),
        ("r2", "Title 2", "https://e.org/2"),
    ]


MARKDOWN = b"""Intro

# One
text
```
# not a heading
```
## Two ##
Three
-----
text

Four
====
"""


def test_headings_of_a_document_are_sections_of_the_payload_itself() -> None:
    made = extract_text("prose", None, None, MARKDOWN)
    assert made is not None
    assert made.text is None
    check_sections(made.sections, MARKDOWN)
    assert [(each.name, each.title) for each in made.sections] == [
        ("s1", "One"),
        ("s2", "Two"),
        ("s3", "Three"),
        ("s4", "Four"),
    ]


def test_a_comment_in_a_source_file_is_no_heading() -> None:
    assert extract_text("mixed", "text/x-python", None, b"# comment\nx = 1\n") is None
    named = extract_text("mixed", None, "https://e.org/README.md?raw=1", MARKDOWN)
    assert named is not None


def test_numbered_headings_count_where_there_are_three_and_list_items_never() -> None:
    report = b"1. Introduction\n\ntext\n\n1.1 Scope\n\ntext\n\n2. Method\n\ntext\n"
    made = extract_text("prose", None, None, report)
    assert made is not None
    assert [(each.title, each.level) for each in made.sections] == [
        ("1. Introduction", 1),
        ("1.1 Scope", 2),
        ("2. Method", 1),
    ]
    assert extract_text("prose", None, None, b"1. Do this.\n\n2. Do that.\n\n3. Be done.\n") is None


def test_too_many_sections_leave_the_highest_levels() -> None:
    text = b"a\n" * (MAX_SECTIONS + 10)
    starts = [SectionStart("t", 1 if n % 100 == 0 else 2, 2 * n, n + 1) for n in range(MAX_SECTIONS + 10)]
    found = sections(starts, prefix="s", size=len(text), lines=MAX_SECTIONS + 10)
    assert [each.start for each in found] == [200 * n for n in range(21)]
    check_sections(found, text)
    flat = sections(
        [SectionStart("t", 3, 2 * n, n + 1) for n in range(len(starts))], prefix="s", size=len(text), lines=2010
    )
    assert len(flat) == MAX_SECTIONS


def test_a_title_is_one_short_line() -> None:
    made = sections([SectionStart("a\n " + "b" * 500, 1, 0, 1)], prefix="s", size=3, lines=1)
    assert made == (
        Section(name="s1", title="a " + "b" * (TITLE_CHARS - 3) + "…", level=1, start=0, end=3, line=1, lines=1),
    )


_TAGS = re.findall(r"<[^>]*>", "<p></p><h1></h1><h2><li><ul></ul><table><tr><td></table><pre></pre><a href='/x'></a>")
_PIECES = [
    *_TAGS,
    *re.findall(r".", "={}[],<\"' é\u2028\x00|"),
    *(
        '<div class="comment">',
        "</div>",
        "text, and more\n",
        "# head\n",
        "===\n",
        "&amp;",
        "\r\n",
        '"a":',
        "```\n",
        "\n",
    ),
]
_MARKUP = st.lists(st.sampled_from(_PIECES), max_size=60)


@settings(deadline=None, max_examples=150)
@given(_MARKUP, st.sampled_from(FORMS))
def test_any_payload_of_any_kind_has_a_sound_view_or_none(pieces: list[str], form: TextForm) -> None:
    payload = "".join(pieces).encode()
    made = extract_text(form, None, "https://example.org/", payload)
    if made is None:
        return
    view = payload if made.text is None else made.text
    view.decode()
    check_sections(made.sections, view)
    assert isinstance(made, ExtractedText)
    assert extract_text(form, None, "https://example.org/", payload) == made


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=300), st.sampled_from(FORMS))
def test_any_bytes_have_a_sound_view_or_none(payload: bytes, form: TextForm) -> None:
    made = extract_text(form, "text/html; charset=utf-7", None, payload)
    if made is not None:
        view = payload if made.text is None else made.text
        check_sections(made.sections, view)
        if made.text is not None:
            made.text.decode()
