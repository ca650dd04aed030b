import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coatcheck.api.context import CompactBody
from coatcheck.api.http.json_body import decode
from coatcheck.api.ingest.wire import BatchBody, StoreBody
from coatcheck.api.web_search import SearchResultsBody, VerifyBody
from coatcheck.core.errors import CoatcheckError, Code


def refusal(body: bytes) -> CoatcheckError:
    with pytest.raises(CoatcheckError) as e:
        decode(body, StoreBody)
    return e.value


@pytest.mark.parametrize(
    ("body", "position"),
    [
        (b"", 0),
        (b"{", 1),
        (b'{"content":"a"} x', 16),
        (b'{"content":"a",}', 15),
        (b'{"content":"a\x01"}', 13),
        (b'{"content":"caf\xe9"}', 15),
        (b'{"content":"\xed\xa0\x80"}', 12),
        (b'{"content":NaN}', 11),
        (b"\xff\xfe{\0", 0),
    ],
)
def test_what_is_not_json_is_refused_with_its_position(body: bytes, position: int) -> None:
    error = refusal(body)
    assert error.code is Code.INVALID_JSON
    assert abs(int(error.extra["position"] or 0) - position) <= 1


def test_deep_nesting_is_refused() -> None:
    assert refusal(b'{"content":' + b"[" * 200_000 + b"]" * 200_000 + b"}").code is Code.INVALID_JSON


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"content": "a", "colour": 1}, "colour"),
        ({"content": 5}, "content"),
        ({"content": "a", "card_tokens": 63}, "card_tokens"),
        ({"content": "a", "card_tokens": 8193}, "card_tokens"),
        ({"content": "a", "inline_tokens": -1}, "inline_tokens"),
        ({"content": "a", "session": ""}, "session"),
        ({"content": "a", "session": "s" * 257}, "session"),
        ({"content": "a", "oversize": "shrink"}, "oversize"),
        ({"content": "a", "pin": "yes"}, "pin"),
    ],
)
def test_what_is_out_of_bounds_is_refused_with_its_name(body: dict[str, object], field: str) -> None:
    error = refusal(json.dumps(body).encode())
    assert (error.code, error.extra["field"]) == (Code.INVALID_REQUEST, field)
    assert field in error.detail


def test_a_missing_content_and_a_body_that_is_no_object_are_refused() -> None:
    assert "content" in refusal(b"{}").detail
    assert refusal(b"[]").code is Code.INVALID_REQUEST


def test_a_byte_order_mark_is_passed_over() -> None:
    assert decode(b'\xef\xbb\xbf{"content":"a"}', StoreBody)[0].content == "a"


@pytest.mark.parametrize(
    ("escaped", "text", "mended"),
    [
        (r"\ud83d\ude00", "😀", False),
        (r"\ud83d", "�", True),
        (r"x\udE00y", "x�y", True),
        (r"\ude00\ud83d", "��", True),
        (r"\ud83d\ud83d\ude00", "�😀", True),
        (r"\\ud83d", r"\ud83d", False),
        (r"\\\ud83d", "\\�", True),
        (r"\ud83d\n", "�\n", True),
        (r"\ud83dA", "�A", True),
    ],
)
def test_lone_surrogates_become_replacement_characters_and_pairs_stay(escaped: str, text: str, mended: bool) -> None:
    asked, was_mended = decode(b'{"content":"' + escaped.encode() + b'"}', StoreBody)
    assert (asked.content, was_mended) == (text, mended)


@given(st.text(st.characters(exclude_categories=[]), max_size=30))
def test_any_javascript_string_is_accepted(text: str) -> None:
    body = json.dumps({"content": text}).encode()
    asked, mended = decode(body, StoreBody)
    expected = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert asked.content == expected
    assert mended == (expected != text)


def test_millions_of_halves_and_of_escaped_backslashes_are_mended_exactly() -> None:
    halves = rb"\ud800" * 300_000 + rb"\udc00\\" * 300_000 + rb"\ud83d\ude00" * 100_000 + rb"\ud83d"
    asked, mended = decode(b'{"content":"' + halves + b'"}', StoreBody)
    # The last of the first run and the first of the second are a pair.
    expected = "\ufffd" * 299_999 + "\U00010000\\" + "\ufffd\\" * 299_999 + "\U0001f600" * 100_000 + "\ufffd"
    assert (asked.content == expected, mended) == (True, True)


def test_a_body_of_too_many_values_is_refused_but_not_a_text_of_many_commas() -> None:
    error = refusal(b'{"content":[' + b"{}," * 1_000_000 + b"{}]}")
    assert (error.code, error.extra["limit"]) == (Code.INVALID_CONTENT, 1_000_000)
    text = r"a,{[\"\\" * 500_000
    assert len(str(decode(b'{"content":"' + text.encode() + b'"}', StoreBody)[0].content)) == 500_000 * 6


def test_a_body_that_never_ends_its_string_is_refused_however_many_escapes_it_has() -> None:
    assert refusal(b'{"content":"' + rb"\n" * 3_000_000).code is Code.INVALID_JSON
    assert refusal(b'{"content":"' + rb"\ud800" * 500_000).code is Code.INVALID_JSON


def test_values_are_counted_outside_strings_wherever_the_body_is_cut() -> None:
    item = rb'"a,{[\"\\",'
    assert refusal(b'{"content":[' + item * 1_000_001 + b"0]}").code is Code.INVALID_CONTENT
    assert len(decode(b'{"content":[' + item * 300_000 + b"0]}", StoreBody)[0].content) == 300_001


@pytest.mark.parametrize(
    ("model", "nested"),
    [
        (StoreBody, b'"content":%b'),
        (BatchBody, b'"items":[%b]'),
        (SearchResultsBody, b'"response":%b'),
        (CompactBody, b'"body":%b'),
        (VerifyBody, b'"quotes":[%b]'),
    ],
)
def test_a_mistake_beside_a_deeply_nested_field_is_refused_with_its_name(model: type, nested: bytes) -> None:
    for depth in (1, 5_000):  # msgspec decodes some 1,000 levels
        field = nested % (b"[" * depth + b"]" * depth)
        with pytest.raises(CoatcheckError) as e:
            decode(b'{"colour":1,' + field + b"}", model)
        assert (e.value.code, e.value.extra.get("field")) == (Code.INVALID_REQUEST, "colour")
