"""Every provider's shape gives the right results, and nothing that was not there."""

import json

import msgspec
import pytest

from coatcheck.core.search.model import ProviderAnswer
from coatcheck.core.search.responses.normalise import normalise
from coatcheck.core.search.responses.providers import PROVIDERS, SHAPES
from search.responses import PROVIDED, Json

URL = "https://a.example/1"


@pytest.mark.parametrize("row", PROVIDED, ids=[f"{n}-{row['provider']}" for n, row in enumerate(PROVIDED)])
def test_the_first_result_has_what_the_provider_gave_and_nothing_else(row: Json) -> None:
    response = normalise(json.dumps(row["body"]))
    assert response.provider == row["provider"]
    result = json.loads(msgspec.json.encode(response.results[0]))
    assert {name: result[name] for name in row["first"]} == row["first"]
    assert [result.rank for result in response.results] == [1]
    assert (response.warnings, response.unknown) == ((), ())


def test_every_row_of_the_table_has_a_response_of_its_own() -> None:
    unread = {provider for provider, shape in SHAPES.items() if shape.note}
    assert PROVIDERS.keys() - unread == {row["provider"] for row in PROVIDED} - {"unknown"}
    assert SHAPES.keys() <= PROVIDERS.keys()


def test_answers_stand_apart_from_results() -> None:
    body = {
        "answerBox": {"title": "A", "snippet": "direct", "link": URL},
        "knowledgeGraph": {"title": "K", "description": "d", "attributes": {"Founded": "1998"}},
        "organic": [],
        "peopleAlsoAsk": [{"question": "why?", "snippet": "because", "link": URL}],
        "searchParameters": {"q": "q"},
    }
    assert normalise(body).answers == (
        ProviderAnswer(kind="answer", text="direct", title="A", url=URL),
        ProviderAnswer(kind="knowledge", text="d\nFounded: 1998", title="K"),
        ProviderAnswer(kind="question", text="because", title="why?", url=URL),
    )
    assert normalise(body).results == ()


def test_an_abstract_and_commentary_are_answers() -> None:
    duck = {
        "Heading": "H",
        "AbstractText": "t",
        "AbstractURL": URL,
        "RelatedTopics": [{"Name": "G", "Topics": [{"FirstURL": URL, "Text": "y"}]}],
    }
    assert normalise(duck).answers == (ProviderAnswer(kind="knowledge", text="t", title="H", url=URL),)
    assert [result.title for result in normalise(duck).results] == ["y"]
    code: dict[str, object] = {"results": [{"tool_use_id": "t", "content": []}, "model words"], "durationSeconds": 1}
    assert normalise(code).answers == (ProviderAnswer(kind="commentary", text="model words"),)


SECOND = "https://b.example/2"


@pytest.mark.parametrize(
    "body",
    [
        {
            "organic_results": [{"title": "W", "link": URL}],
            "ads": [{"title": "Ad", "link": SECOND, "description": "d"}],
        },
        {
            "organic": [{"title": "W", "link": URL}],
            "searchParameters": {},
            "ads": [{"title": "Ad", "link": SECOND}] * 2,
        },
    ],
    ids=["serpapi", "serper"],
)
def test_what_stands_beside_the_results_is_none_of_them(body: Json) -> None:
    assert [result.url for result in normalise(body).results] == [URL]


@pytest.mark.parametrize(
    "body",
    [
        {"web": {"results": [{"title": "W", "url": URL}]}, "news": {"results": [{"title": "N", "url": SECOND}] * 3}},
        {"results": {"web": [{"title": "W", "url": URL}], "news": [{"title": "N", "url": SECOND}] * 3}},
        {
            "content": [
                {"type": "web_search_tool_result", "content": [{"type": "web_search_result", "title": "W", "url": url}]}
                for url in (URL, SECOND)
            ]
        },
        {
            "output": [
                {"type": "web_search_call", "action": {"sources": [{"type": "url", "url": u} for u in (URL, SECOND)]}},
                {"type": "message", "content": [{"annotations": [{"type": "url_citation", "title": "W", "url": URL}]}]},
            ]
        },
    ],
    ids=["brave", "you", "two searches of Anthropic", "sources that OpenAI does not cite"],
)
def test_every_list_of_a_response_is_read_in_its_order(body: Json) -> None:
    assert list(dict.fromkeys(result.url for result in normalise(body).results)) == [URL, SECOND]


def test_news_and_web_results_are_one_ranking() -> None:
    body = {
        "data": {
            "web": [{"url": URL, "title": "W"}],
            "news": [{"url": "https://n.example/", "title": "N", "date": "1 day ago"}],
        }
    }
    assert [(r.rank, r.title, r.date, r.date_iso) for r in normalise(body).results] == [
        (1, "W", None, None),
        (2, "N", "1 day ago", None),
    ]


def test_kimi_says_that_there_is_nothing_to_read() -> None:
    response = normalise({"search_result": {"search_id": "opaque"}, "usage": {"total_tokens": 13046}})
    assert (response.provider, response.results, len(response.warnings)) == ("kimi", (), 1)


def test_what_is_not_understood_is_named_and_what_failed_is_told() -> None:
    body = {
        "results": [{"title": "T", "url": URL, "content": "c", "score": 1}, {"nothing": 1}],
        "charts": [1],
        "error": "quota",
    }
    response = normalise(body)
    assert response.unknown == ("charts",)
    assert response.warnings == (
        "The provider says: quota",
        "1 of 2 items have no URL and no title with a text, and were left out.",
    )


@pytest.mark.parametrize("depth", [1, 2])
def test_json_in_strings_is_read(depth: int) -> None:
    body: object = {"results": [{"title": "T", "url": URL, "content": "c", "score": 1}]}
    for _ in range(depth):
        body = json.dumps(body)
    assert normalise(body).results[0].title == "T"
    assert normalise({"results": body if isinstance(body, str) else "", "response_time": 1}).provider in {
        "tavily",
        "unknown",
    }


def test_json_that_ends_early_is_read_as_far_as_it_goes() -> None:
    whole = json.dumps(
        {"results": [{"title": f"T{n}", "url": f"https://a.example/{n}", "content": "c", "score": 1} for n in range(9)]}
    )
    response = normalise(whole[: len(whole) // 2])
    assert response.warnings[0] == "The response is not well-formed JSON: only its beginning could be read."
    assert [result.title for result in response.results] == [f"T{n}" for n in range(len(response.results))]
    assert len(response.results) > 2


@pytest.mark.parametrize(
    "wrapped",
    [
        {"content": [{"type": "text", "text": "INNER"}], "isError": False},
        {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "INNER"}]}},
        {"type": "tool_result", "tool_use_id": "t", "content": "INNER"},
        {"functionResponse": {"name": "search", "response": {"output": "INNER"}}},
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "INNER"}]},
        [{"type": "text", "text": "INNER"}],
    ],
    ids=["mcp", "json-rpc", "anthropic", "gemini", "openai", "parts"],
)
def test_a_response_is_found_inside_what_protocols_put_around_it(wrapped: object) -> None:
    inner = json.dumps([{"title": "T", "href": URL, "body": "s"}])
    assert normalise(json.loads(json.dumps(wrapped).replace('"INNER"', json.dumps(inner)))).provider == "ddgs"


def test_structured_content_counts_only_where_it_holds_results() -> None:
    text = {"type": "text", "text": json.dumps([{"title": "T", "href": URL, "body": "s"}])}
    assert normalise({"content": [text], "structuredContent": {"ok": True}}).provider == "ddgs"
    structured = {"results": [{"title": "S", "url": URL, "content": "c", "score": 1}]}
    assert normalise({"content": [text], "structuredContent": structured}).results[0].title == "S"


def test_parts_that_are_documents_each_are_results_each() -> None:
    parts = [
        {"type": "text", "text": json.dumps({"title": f"T{n}", "url": f"https://a.example/{n}", "text": "c"})}
        for n in range(3)
    ]
    assert [result.title for result in normalise({"content": parts}).results] == ["T0", "T1", "T2"]


@pytest.mark.parametrize(
    "nothing", ["", "null", "[]", "{}", "0", '"', b"\xff\xfe", None, 7, "plain words", [None, 1, "x"]], ids=repr
)
def test_what_holds_no_results_gives_none(nothing: object) -> None:
    assert normalise(nothing).results == ()
