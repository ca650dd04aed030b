"""What a refused parameter or field is told: what it takes, in words, never in the types of a language."""

import enum
import json
from typing import Annotated, Literal

import httpx
import msgspec
import pytest
from msgspec import Meta, Struct

from coatcheck.api.artifacts import ListQuery
from coatcheck.api.http.json_body import decode
from coatcheck.api.http.problems import constraint_text
from coatcheck.api.http.request_parts import from_pairs
from coatcheck.api.ingest.wire import StoreBody
from coatcheck.api.reading import JsonQuery, OutlineQuery
from coatcheck.api.tools import ToolsQuery
from coatcheck.core.artifact import Kind
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.usecases.reading.grep import SearchQuery
from coatcheck.usecases.reading.read import ReadRequest


def said(model: type[Struct], *pairs: tuple[str, str]) -> str:
    with pytest.raises(CoatcheckError) as caught:
        from_pairs(pairs, model, where="the query string")
    assert caught.value.code is Code.INVALID_REQUEST
    return caught.value.detail


@pytest.mark.parametrize(
    ("model", "name", "value", "expected"),
    [
        (SearchQuery, "limit", "1000", "a whole number from 1 to 200"),
        (SearchQuery, "limit", "0", "a whole number from 1 to 200"),
        (SearchQuery, "limit", "ten", "a whole number from 1 to 200"),
        (SearchQuery, "limit", "1e400", "a whole number from 1 to 200"),
        (SearchQuery, "literal", "maybe", "true or false"),
        (SearchQuery, "view", "html", "one of raw, text"),
        (ReadRequest, "limit", "1.5", "a whole number of at least 1"),
        (ReadRequest, "max_tokens", "9000", "a whole number from 1 to 8,000"),
        (ReadRequest, "unit", "word", "one of byte, char, line, token"),
        (OutlineQuery, "limit", "1001", "a whole number from 1 to 1,000"),
        (JsonQuery, "fields", "", "text of 1 to 1,000 characters"),
        (ToolsQuery, "format", "x", "one of anthropic, gemini, json-schema, mcp, openai-chat, openai-responses"),
        (
            ListQuery,
            "kind",
            "nope",
            f"one of {', '.join(kind.value for kind in Kind)}",
        ),
    ],
)
def test_a_parameter_is_told_what_it_takes(model: type[Struct], name: str, value: str, expected: str) -> None:
    others = [("pattern", "x")] if model is SearchQuery else [("path", "$")] if model is JsonQuery else []
    assert said(model, *others, (name, value)) == f"'{name}' must be {expected}."


async def test_a_missing_parameter_is_named_with_where_it_is_missing(client: httpx.AsyncClient) -> None:
    expected = "'pattern' is missing in the query string. It must be text of 1 to 1,000 characters."
    assert said(SearchQuery) == expected
    response = await client.get("/v1/artifacts/art_000000000000000098/search")
    assert (response.json()["detail"], response.json()["field"]) == (expected, "pattern")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"content": 5}, "'content' must be text, a list or an object, not a number."),
        ({}, "'content' is missing in the body. It must be text, a list or an object."),
        ([], "The body must be an object, not a list."),
        ({"content": "a", "card_tokens": "300"}, "'card_tokens' must be a whole number from 64 to 8,192, not text."),
        ({"content": "a", "card_tokens": 9_000}, "'card_tokens' must be a whole number from 64 to 8,192."),
        ({"content": "a", "ttl": []}, "'ttl' must be a whole number from 1 to 315,360,000 or text, not a list."),
        ({"content": "a", "pin": None}, "'pin' must be true or false, not null."),
        ({"content": "a", "oversize": "shrink"}, "'oversize' must be one of keep_ends, reject."),
    ],
    ids=str,
)
def test_a_field_is_told_what_it_takes(body: object, expected: str) -> None:
    with pytest.raises(CoatcheckError) as caught:
        decode(json.dumps(body).encode(), StoreBody)
    assert caught.value.detail == expected


class Colour(enum.Enum):
    """Some names."""

    RED = "red"
    BLUE = "blue"


class Inner(Struct):
    """A field's own fields."""

    colour: Colour
    words: dict[str, Annotated[int, Meta(le=9)]] = {}


class Outer(Struct):
    """Every way of holding others."""

    inner: list[Inner] | Inner | None = None
    code: Annotated[str, Meta(pattern="^[a-z]+$")] = "a"
    only: Literal["this"] = "this"
    any: object = None


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("inner", "a list or an object"),
        ("inner[3].colour", "one of red, blue"),
        ("inner.colour", "one of red, blue"),
        ("inner[3].words[...]", "a whole number of at most 9"),
        ("code", "text that matches ^[a-z]+$"),
        ("only", "this"),
        ("any", None),
        ("none.such", None),
        ("", "an object"),
    ],
)
def test_a_field_is_found_wherever_it_lies(path: str, expected: str | None) -> None:
    assert constraint_text(Outer, path) == expected


def test_the_places_that_a_decoder_names_are_found() -> None:
    for body, name in (
        (b'{"inner": [{"colour": "red"}, {"colour": 1}]}', "'inner[1].colour' must be one of red, blue, not a number."),
        (b'{"inner": [{"colour": "red", "words": {"a": 10}}]}', "must be a whole number of at most 9."),
    ):
        with pytest.raises(CoatcheckError) as caught:
            decode(body, Outer)
        assert caught.value.detail.endswith(name)
    assert msgspec.json.decode(b'{"inner": null}', type=Outer).inner is None
