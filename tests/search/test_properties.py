"""Bodies that are damaged in any way are read without a failure, and nothing is invented from them."""

import json
import random
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coatcheck.core.search.budget import budget_search
from coatcheck.core.search.model import SearchLimits
from coatcheck.core.search.responses.normalise import normalise
from coatcheck.core.search.summary import summarise
from coatcheck.core.search.view import search_view
from coatcheck_client.contract.canonical import canonical
from coatcheck_client.contract.quotations import verify
from search.responses import ID, PROVIDED, TOKENIZER, laid_out
from search.test_listings import LISTS

ODD: list[Any] = [
    None,
    True,
    0,
    -1.5,
    1e308,
    "",
    "x",
    "\ud800",
    "[",
    '{"a": 1}',
    [],
    {},
    [[]],
    [None],
    {"": None},
    "https://",
    10**30,
    10**400,
]


def mutated(rng: random.Random, value: Any) -> Any:  # noqa: ANN401 - any JSON
    """The value with something odd somewhere in it."""
    if rng.random() < 0.12:
        return rng.choice(ODD)
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {
            (rng.choice(["", "x", k.upper()]) if rng.random() < 0.05 else k): mutated(rng, v)
            for k, v in members.items()
        }
    if isinstance(value, list):
        return [mutated(rng, each) for each in cast("list[Any]", value) for _ in range(rng.choice((0, 1, 1, 1, 2)))]
    return json.dumps(value) if rng.random() < 0.05 else value


def strings(value: object) -> str:
    """All text in a body, decoded as far as strings hold documents."""
    if isinstance(value, str):
        try:
            inner = json.loads(value)
        except ValueError:
            return value
        return value if isinstance(inner, (int, float)) else f"{value}\n{strings(inner)}"
    if isinstance(value, dict):
        return "\n".join(strings(each) for pair in cast("dict[str, object]", value).items() for each in pair)
    return "\n".join(map(strings, cast("list[object]", value))) if isinstance(value, list) else str(value)


@pytest.mark.parametrize("row", range(len(PROVIDED)), ids=[f"{n}-{row['provider']}" for n, row in enumerate(PROVIDED)])
def test_damaged_bodies_never_fail_and_give_no_address_that_was_not_there(row: int) -> None:
    rng = random.Random(f"mutate {row}")
    for _ in range(30):
        body = mutated(rng, PROVIDED[row]["body"])
        response = normalise(body)
        text = strings(body)
        assert all(result.url is None or result.url in text for result in response.results)
        laid = laid_out(json.dumps(body))
        made = budget_search(laid, TOKENIZER, artifact_id=ID, limits=SearchLimits(max_total_tokens=200))
        assert TOKENIZER.count(made.text) <= 200
        assert summarise(made, laid, TOKENIZER).token_estimate <= 768


@pytest.mark.parametrize("name", LISTS)
def test_damaged_lists_never_fail(name: str) -> None:
    rng = random.Random(name)
    text = LISTS[name]
    for _ in range(30):
        start, end = sorted(rng.randrange(len(text) + 1) for _ in range(2))
        broken = rng.choice(
            [
                text[start:end],
                text[:start] + text[end:],
                text[:end] + rng.choice(["\x00", "](", "<", "[{", "\uff1a", "\n\n"]) + text[end:],
            ]
        )
        assert all(result.url is None or result.url in broken for result in normalise(broken).results)
        view = search_view(broken.encode())
        assert view.text is None or view.sections is not None


@settings(max_examples=120, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=30),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(["results", "url", "title", "content", "data", "web", "type", "output", "x"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=25,
    )
)
def test_any_value_is_read(value: object) -> None:
    laid = laid_out(json.dumps(value))
    assert search_view(laid.text) is not None
    assert len(normalise(value).results) <= 500


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60), st.text(max_size=200))
def test_any_text_is_an_address_or_none_and_a_quotation_or_none(one: str, other: str) -> None:
    spelling = canonical(f"https://{one}")
    assert spelling is None or canonical(spelling) == spelling
    found = verify(one, other)
    assert (found.at is None) == (found.verdict == "absent")
    assert found.at is None or other[found.at.start : found.at.end] == found.text
    assert verify(other[3:30], other).verdict == ("exact" if other[3:30].strip() else "absent")


def test_depth_and_number_are_bounded() -> None:
    deep: object = {"url": "https://a.example/", "title": "T", "content": "c"}
    for _ in range(200):
        deep = {"x": [deep]}
    assert normalise(deep).results == ()
    many = [{"url": f"https://a.example/{n}", "title": "T", "content": "c"} for n in range(700)]
    response = normalise({"results": many, "response_time": 1})
    assert len(response.results) == 500
    assert response.warnings == ("There are 200 more results than the 500 that are read.",)
