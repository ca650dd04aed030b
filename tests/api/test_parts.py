import base64
import json
from typing import Any

import pytest

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.views.parts import PartsPayload, payload

PNG = b"\x89PNG\r\n\x1a\n\x00\x01\x02\xff"
B64 = base64.b64encode(PNG).decode()
TEXT = {"type": "text", "text": "one"}
LIT = {"type": "text", "text": "one", "cache_control": {"type": "ephemeral"}}


def as_json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("plain", PartsPayload(data=b"plain")),
        ("", PartsPayload(data=b"")),
        ({"base64": B64}, PartsPayload(data=PNG)),
        ({"base64": B64.rstrip("=")}, PartsPayload(data=PNG)),
        ({"base64": base64.urlsafe_b64encode(PNG).decode()}, PartsPayload(data=PNG)),
        ({"base64": base64.encodebytes(PNG * 20).decode()}, PartsPayload(data=PNG * 20)),
    ],
)
def test_text_and_base64_are_the_payload(content: str | list[Any] | dict[str, Any], expected: PartsPayload) -> None:
    assert payload(content) == expected


@pytest.mark.parametrize(
    "parts",
    [
        [TEXT],
        [LIT],
        ["one"],
        [{"type": "input_text", "text": "one"}],
        [{"type": "output_text", "text": "one", "annotations": []}],
        [{"text": "one"}],
        [{"type": "text", "text": "one", "annotations": {"audience": ["user"]}}],
        [{"type": "text-plain", "text": "one"}],
    ],
)
def test_one_part_of_text_is_its_text_in_every_dialect(parts: list[Any]) -> None:
    assert payload(parts) == PartsPayload(data=b"one")


@pytest.mark.parametrize(
    ("parts", "data"),
    [
        ([TEXT, TEXT], b"one\none"),
        (["one\n", "two"], b"one\ntwo"),
        (["one\n\n", "two\n"], b"one\n\ntwo\n"),
        (["", "two"], b"\ntwo"),
        (["one", "", ""], b"one\n\n"),
        ([TEXT, {"type": "input_text", "text": "two"}, "three"], b"one\ntwo\nthree"),
    ],
)
def test_parts_of_text_are_joined_by_one_line_feed_where_there_is_none(parts: list[Any], data: bytes) -> None:
    assert payload(parts) == PartsPayload(data=data)


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"type": "image", "data": B64, "mimeType": "image/png"}, PartsPayload(data=PNG, media_type="image/png")),
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": B64}},
            PartsPayload(data=PNG, media_type="image/png"),
        ),
        ({"type": "audio", "data": B64, "mimeType": "audio/wav"}, PartsPayload(data=PNG, media_type="audio/wav")),
        ({"type": "image", "base64": B64, "mime_type": "image/png"}, PartsPayload(data=PNG, media_type="image/png")),
        ({"inlineData": {"mimeType": "image/png", "data": B64}}, PartsPayload(data=PNG, media_type="image/png")),
        ({"inline_data": {"mime_type": "image/png", "data": B64}}, PartsPayload(data=PNG, media_type="image/png")),
        (
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{B64}"}},
            PartsPayload(data=PNG, media_type="image/png"),
        ),
        (
            {"type": "input_image", "image_url": f"data:image/png;base64,{B64}"},
            PartsPayload(data=PNG, media_type="image/png"),
        ),
        (
            {"type": "resource", "resource": {"uri": "file:///a.csv", "mimeType": "text/csv", "text": "id\n1\n"}},
            PartsPayload(data=b"id\n1\n", media_type="text/csv", url="file:///a.csv"),
        ),
        (
            {"type": "resource", "resource": {"uri": "file:///a", "blob": B64}},
            PartsPayload(data=PNG, url="file:///a"),
        ),
        (
            {
                "type": "document",
                "title": "runbook",
                "source": {"type": "text", "media_type": "text/plain", "data": "x"},
            },
            PartsPayload(data=b"x", media_type="text/plain", title="runbook"),
        ),
    ],
)
def test_one_part_of_bytes_is_those_bytes_with_their_media_type(part: dict[str, Any], expected: PartsPayload) -> None:
    assert payload([part]) == expected


@pytest.mark.parametrize(
    "parts",
    [
        [TEXT, {"type": "image", "data": B64, "mimeType": "image/png"}],
        [{"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}],
        [{"type": "image", "data": "!", "mimeType": "image/png"}],
        [{"type": "search_result", "source": "https://example.org", "title": "t", "content": [TEXT]}],
        [{"type": "tool_reference", "tool_name": "x"}],
        [{"type": "resource_link", "uri": "artifact://art_1", "name": "x"}],
        [{"type": "text", "text": "cited", "citations": [{"url": "https://example.org"}]}],
        [{"text": "a thought", "thought": True}],
        [{"type": ["text"], "text": "no type that is known"}],
        [{"type": {}, "data": B64}],
        [1, None, 1.5, True],
    ],
)
def test_anything_else_is_kept_whole_as_json(parts: list[Any]) -> None:
    assert payload(parts) == PartsPayload(data=as_json(parts), media_type="application/json")


def test_order_of_keys_and_moving_cache_marks_do_not_change_the_payload() -> None:
    image = {"type": "image", "data": B64, "mimeType": "image/png"}
    turned = dict(reversed(image.items()))
    assert payload([LIT, image]) == payload([TEXT, turned])


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"type": "tool_result", "tool_use_id": "c", "content": "x"}, PartsPayload(data=b"x", tool_call_id="c")),
        ({"type": "tool_result", "tool_use_id": "c", "content": [TEXT]}, PartsPayload(data=b"one", tool_call_id="c")),
        ({"role": "tool", "tool_call_id": "c", "content": "x"}, PartsPayload(data=b"x", tool_call_id="c")),
        ({"role": "function", "name": "f", "content": "x"}, PartsPayload(data=b"x", tool_name="f")),
        ({"type": "function_call_output", "call_id": "c", "output": "x"}, PartsPayload(data=b"x", tool_call_id="c")),
        (
            {"type": "custom_tool_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "x"}]},
            PartsPayload(data=b"x", tool_call_id="c"),
        ),
        ({"type": "local_shell_call_output", "id": "c", "output": "{}"}, PartsPayload(data=b"{}", tool_call_id="c")),
        (
            {"functionResponse": {"id": "c", "name": "f", "response": {"output": "x"}}},
            PartsPayload(data=b"x", tool_call_id="c", tool_name="f"),
        ),
        (
            {"function_response": {"name": "f", "response": {"error": "EACCES"}}},
            PartsPayload(data=b"EACCES", tool_name="f", failed=True),
        ),
        (
            {"functionResponse": {"name": "f", "response": {"a": 1, "b": 2}}},
            PartsPayload(data=b'{"a":1,"b":2}', media_type="application/json", tool_name="f"),
        ),
        (
            {"functionResponse": {"name": "f", "response": {"result": {"b": 1, "a": 2}}}},
            PartsPayload(data=b'{"a":2,"b":1}', media_type="application/json", tool_name="f"),
        ),
        (
            {"functionResponse": {"name": "f", "response": {"output": "x"}, "parts": [{"inlineData": {"data": B64}}]}},
            PartsPayload(
                data=as_json(["x", {"inlineData": {"data": B64}}]), media_type="application/json", tool_name="f"
            ),
        ),
        (
            {"type": "function_result", "call_id": "c", "result": {"a": 1}},
            PartsPayload(data=b'{"a":1}', media_type="application/json", tool_call_id="c"),
        ),
        ({"content": [TEXT], "isError": False}, PartsPayload(data=b"one")),
        ({"jsonrpc": "2.0", "id": 7, "result": {"content": [TEXT]}}, PartsPayload(data=b"one")),
        (
            {
                "jsonrpc": "2.0",
                "id": 7,
                "result": {"contents": [{"uri": "a://b", "mimeType": "text/html", "text": "x"}]},
            },
            PartsPayload(data=b"x", media_type="text/html", url="a://b"),
        ),
        (
            {"type": "tool", "data": {"content": "x", "tool_call_id": "c", "name": "f", "type": "tool"}},
            PartsPayload(data=b"x", tool_call_id="c", tool_name="f"),
        ),
        (
            {
                "lc": 1,
                "type": "constructor",
                "id": ["x"],
                "kwargs": {"content": "x", "tool_call_id": "c", "type": "tool"},
            },
            PartsPayload(data=b"x", tool_call_id="c"),
        ),
        (
            {"type": "function_result", "call_id": "c", "name": "f", "result": "x"},
            PartsPayload(data=b"x", tool_call_id="c", tool_name="f"),
        ),
        (TEXT, PartsPayload(data=b"one")),
    ],
)
def test_a_providers_tool_result_gives_its_parts_its_call_and_its_tool(
    result: dict[str, Any], expected: PartsPayload
) -> None:
    assert payload(result) == expected


def test_structured_content_that_the_text_repeats_is_not_stored_twice() -> None:
    same = {"content": [{"type": "text", "text": '{ "b": [1], "a": 2 }'}], "structuredContent": {"a": 2, "b": [1]}}
    assert payload(same) == PartsPayload(data=b'{ "b": [1], "a": 2 }')
    other = {"content": [TEXT], "structuredContent": {"a": 2}}
    assert payload(other) == PartsPayload(
        data=as_json({"content": [TEXT], "structuredContent": {"a": 2}}), media_type="application/json"
    )
    alone: dict[str, Any] = {"content": [], "structuredContent": {"a": 2}}
    assert payload(alone) == PartsPayload(data=b'{"a":2}', media_type="application/json")


@pytest.mark.parametrize(
    "content",
    [[], {"base64": "!"}, {"base64": 5}, {"base64": "AAAAA"}, {"content": []}, [TEXT] * 10_001],
)
def test_what_is_no_content_is_refused(content: list[Any] | dict[str, Any]) -> None:
    with pytest.raises(CoatcheckError) as e:
        payload(content)
    assert e.value.code is Code.INVALID_CONTENT


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"query": "x", "results": []},
        {"b": 1, "a": [{"z": None, "y": "é"}]},
        {"type": "event", "text": 5},
        {"result": 5},
        {"id": 1, "role": ["admin"]},
        {"id": 1, "role": {"name": "admin"}},
        {"content": "a page", "page": 2, "pages": 7},
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
    ],
)
def test_an_object_in_no_known_shape_is_itself_and_not_a_list_of_it(value: dict[str, Any]) -> None:
    assert payload(value) == PartsPayload(data=as_json(value), media_type="application/json")


@pytest.mark.parametrize(
    "result",
    [
        {"type": "tool_result", "tool_use_id": "c", "content": [TEXT], "is_error": True},
        {"role": "tool", "tool_call_id": "c", "content": "one", "status": "error"},
        {"jsonrpc": "2.0", "id": 1, "result": {"content": [TEXT], "isError": True, "tool_call_id": "c"}},
        {"functionResponse": {"id": "c", "response": {"error": "one"}}},
        {"type": ["tool"], "tool_call_id": "c", "content": "one", "isError": True},
    ],
)
def test_a_result_that_says_that_the_tool_failed_keeps_saying_it_alone_and_in_a_list(result: dict[str, Any]) -> None:
    expected = PartsPayload(data=b"one", tool_call_id="c", failed=True)
    assert (payload(result), payload([result])) == (expected, expected)


def test_a_result_that_says_that_the_tool_did_not_fail_did_not_fail() -> None:
    results = [{"content": [TEXT], "isError": False}, {"role": "tool", "content": "one", "status": "success"}]
    assert [payload(r).failed for r in results] == [False, False]


def test_one_part_in_a_list_is_no_tool_result_for_having_content() -> None:
    parts = [{"type": "search_result", "source": "https://example.org", "title": "t", "content": [TEXT]}]
    assert payload(parts) == PartsPayload(data=as_json(parts), media_type="application/json")
    for record in ({"content": "x", "page": 1}, {"id": 1, "role": ["admin"]}):
        assert payload([record]) == PartsPayload(data=as_json([record]), media_type="application/json")


def test_a_long_text_of_any_characters_is_kept_as_it_is() -> None:
    text = "aé大\U0001f600" * 700_000
    assert payload(text).data == text.encode()
