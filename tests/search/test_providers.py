"""Every provider's shape gives the right results, and nothing that was not there."""

import json
from collections import Counter
from typing import Any

import pytest

from coatcheck.core.search import normalise
from coatcheck.core.search.model import ProviderAnswer
from coatcheck.core.search.responses.providers import SHAPES

URL = "https://a.example/1"

# provider, body, and of the first result: title, url, snippet, more, content, iso date, score
FIRST: list[tuple[str, Any, tuple[Any, ...]]] = [
    (
        "tavily",
        {
            "query": "q",
            "answer": None,
            "results": [
                {
                    "url": URL,
                    "title": "T",
                    "content": "c",
                    "score": 0.9,
                    "raw_content": "# long",
                    "published_date": "Thu, 19 Nov 2026 10:00:00 GMT",
                }
            ],
            "response_time": 1,
        },
        ("T", URL, "c", (), "# long", "2026-11-19T10:00:00Z", 0.9),
    ),
    (
        "brave",
        {
            "query": {"original": "q"},
            "web": {
                "results": [
                    {
                        "title": "<b>T</b> &amp; U",
                        "url": URL,
                        "description": "with <strong>marks</strong>",
                        "page_age": "2026-11-19T10:00:00",
                        "age": "2 days ago",
                        "extra_snippets": ["m", "n"],
                    }
                ]
            },
        },
        ("T & U", URL, "with <strong>marks</strong>", ("m", "n"), "", "2026-11-19T10:00:00", None),
    ),
    (
        "brave-llm-context",
        {
            "grounding": {"generic": [{"url": URL, "title": "T", "snippets": ["m", "n"]}]},
            "sources": {URL: {"hostname": "a.example", "age": ["last week", "2026-11-19"]}},
        },
        ("T", URL, "", ("m", "n"), "", "2026-11-19", None),
    ),
    (
        "exa",
        {
            "requestId": "r",
            "resolvedSearchType": "neural",
            "results": [
                {
                    "id": URL,
                    "url": URL,
                    "title": "T",
                    "publishedDate": "2026-11-19T00:00:00.000Z",
                    "score": 0.42,
                    "text": "long",
                    "highlights": ["h"],
                    "summary": "s",
                    "author": "X",
                }
            ],
        },
        ("T", URL, "s", ("h",), "long", "2026-11-19T00:00:00Z", 0.42),
    ),
    (
        "exa",
        {
            "results": [
                {
                    "id": URL,
                    "url": URL,
                    "title": "T",
                    "published_date": "2026-11-19",
                    "highlights": ["h"],
                    "text": "long",
                }
            ]
        },
        ("T", URL, "", ("h",), "long", "2026-11-19", None),
    ),
    (
        "serpapi",
        {
            "search_parameters": {"q": "q"},
            "organic_results": [{"position": 1, "title": "T", "link": URL, "snippet": "s", "date": "Nov 19, 2026"}],
        },
        ("T", URL, "s", (), "", "2026-11-19", None),
    ),
    (
        "serper",
        {
            "searchParameters": {"q": "q"},
            "organic": [{"title": "T", "link": URL, "snippet": "s", "date": "2 days ago"}],
        },
        ("T", URL, "s", (), "", None, None),
    ),
    (
        "perplexity",
        {
            "results": [{"title": "T", "url": URL, "snippet": "s", "date": "2026-11-19", "last_updated": "2026-11-20"}],
            "server_time": None,
        },
        ("T", URL, "s", (), "", "2026-11-19", None),
    ),
    (
        "firecrawl",
        {
            "success": True,
            "data": {"web": [{"url": URL, "title": "T", "description": "s", "markdown": "# m"}], "images": []},
        },
        ("T", URL, "s", (), "# m", None, None),
    ),
    (
        "firecrawl",
        {"success": True, "data": [{"url": URL, "title": "T", "description": "s"}]},
        ("T", URL, "s", (), "", None, None),
    ),
    (
        "firecrawl",
        {"success": True, "data": {"markdown": "# m", "metadata": {"title": "T", "sourceURL": URL}}},
        ("T", URL, "", (), "# m", None, None),
    ),
    (
        "jina",
        {
            "code": 200,
            "status": 20000,
            "data": [{"title": "T", "url": URL, "description": "s", "content": "c", "date": "Nov 19, 2026"}],
        },
        ("T", URL, "s", (), "c", "2026-11-19", None),
    ),
    (
        "jina",
        {"code": 200, "status": 20000, "data": {"title": "T", "url": URL, "description": "", "content": "c"}},
        ("T", URL, "", (), "c", None, None),
    ),
    (
        "searxng",
        {
            "query": "q",
            "results": [
                {"url": URL, "title": "T", "content": "s", "engines": ["x"], "score": 1.5, "pubdate": "2026-11-19"}
            ],
            "unresponsive_engines": [],
        },
        ("T", URL, "s", (), "", "2026-11-19", 1.5),
    ),
    (
        "google-cse",
        {
            "kind": "customsearch#search",
            "items": [
                {
                    "title": "T",
                    "link": URL,
                    "snippet": "s",
                    "pagemap": {"metatags": [{"article:published_time": "2026-11-19"}]},
                }
            ],
        },
        ("T", URL, "s", (), "", "2026-11-19", None),
    ),
    (
        "bing",
        {
            "_type": "SearchResponse",
            "queryContext": {"originalQuery": "q"},
            "webPages": {
                "value": [{"name": "T", "url": URL, "snippet": "s", "dateLastCrawled": "2026-11-20T00:00:00Z"}]
            },
        },
        ("T", URL, "s", (), "", "2026-11-20T00:00:00Z", None),
    ),
    (
        "bocha",
        {
            "code": 200,
            "data": {"webPages": {"value": [{"name": "T", "url": URL, "snippet": "s", "summary": "longer"}]}},
        },
        ("T", URL, "s", (), "longer", None, None),
    ),
    (
        "you",
        {"results": {"web": [{"url": URL, "title": "T", "description": "d", "snippets": ["m"]}], "news": []}},
        ("T", URL, "d", ("m",), "", None, None),
    ),
    (
        "linkup",
        {"results": [{"type": "text", "name": "T", "url": URL, "content": "c"}]},
        ("T", URL, "", (), "c", None, None),
    ),
    (
        "parallel",
        {
            "search_id": "s",
            "results": [{"url": URL, "title": "T", "publish_date": "2026-11-19", "excerpts": ["m", "n"]}],
        },
        ("T", URL, "", ("m", "n"), "", "2026-11-19", None),
    ),
    (
        "dataforseo",
        {
            "tasks": [
                {
                    "result": [
                        {
                            "keyword": "q",
                            "items": [
                                {"type": "paid", "title": "ad", "url": "https://ad.example/"},
                                {"type": "organic", "title": "T", "url": URL, "description": "s"},
                            ],
                        }
                    ]
                }
            ]
        },
        ("T", URL, "s", (), "", None, None),
    ),
    ("ddgs", [{"title": "T", "href": URL, "body": "s"}], ("T", URL, "s", (), "", None, None)),
    (
        "ddgs",
        [{"date": "2026-11-19T10:00:00+00:00", "title": "T", "body": "s", "url": URL, "source": "A"}],
        ("T", URL, "s", (), "", "2026-11-19T10:00:00Z", None),
    ),
    (
        "duckduckgo",
        {"AbstractURL": "", "RelatedTopics": [{"FirstURL": URL, "Text": "T"}]},
        ("T", URL, "T", (), "", None, None),
    ),
    (
        "litellm",
        {"object": "search", "results": [{"title": "T", "url": URL, "snippet": "s", "date": None}]},
        ("T", URL, "s", (), "", None, None),
    ),
    (
        "claude-code",
        {
            "query": "q",
            "results": [{"tool_use_id": "t", "content": [{"title": "T", "url": URL}]}, "said"],
            "durationSeconds": 2,
        },
        ("T", URL, "", (), "", None, None),
    ),
    (
        "anthropic",
        {
            "type": "web_search_tool_result",
            "content": [
                {
                    "type": "web_search_result",
                    "url": URL,
                    "title": "T",
                    "encrypted_content": "Eq",
                    "page_age": "November 3, 2026",
                }
            ],
        },
        ("T", URL, "", (), "", "2026-11-03", None),
    ),
    (
        "anthropic",
        [
            {
                "type": "search_result",
                "source": URL,
                "title": "T",
                "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}],
            }
        ],
        ("T", URL, "", (), "one\n\ntwo", None, None),
    ),
    (
        "gemini",
        {
            "candidates": [
                {
                    "groundingMetadata": {
                        "groundingChunks": [{"web": {"uri": URL, "title": "T"}}],
                        "groundingSupports": [
                            {"segment": {"text": "said"}, "groundingChunkIndices": [0], "confidenceScores": [0.7]}
                        ],
                    }
                }
            ]
        },
        ("T", URL, "said", (), "", None, 0.7),
    ),
    (
        "openai",
        {
            "output": [
                {"type": "web_search_call", "action": {"query": "q", "sources": [{"type": "url", "url": URL}]}},
                {
                    "type": "message",
                    "content": [{"text": "x", "annotations": [{"type": "url_citation", "url": URL, "title": "T"}] * 2}],
                },
            ]
        },
        ("T", URL, "", (), "", None, None),
    ),
    (
        "openai",
        {"choices": [{"message": {"content": "x", "annotations": [{"url_citation": {"url": URL, "title": "T"}}]}}]},
        ("T", URL, "", (), "", None, None),
    ),
    (
        "openai-file-search",
        {"type": "file_search_call", "results": [{"file_id": "f", "filename": "T", "score": 0.8, "text": "c"}]},
        ("T", None, "", (), "c", None, 0.8),
    ),
    (
        "unknown",
        {"payload": {"hits": [{"pageUrl": URL, "headline": "T", "teaser": "s", "published_at": 1795082400}]}},
        ("T", URL, "s", (), "", "2026-11-19T10:00:00Z", None),
    ),
    ("unknown", {"documents": {URL: {"title": "T", "text": "c"}}}, ("T", URL, "", (), "c", None, None)),
]


@pytest.mark.parametrize(("provider", "body", "first"), FIRST, ids=[f"{n}-{row[0]}" for n, row in enumerate(FIRST)])
def test_the_first_result_has_what_the_provider_gave_and_nothing_else(
    provider: str, body: object, first: tuple[object, ...]
) -> None:
    response = normalise(json.dumps(body))
    assert response.provider == provider
    result = response.results[0]
    assert (
        result.title,
        result.url,
        result.snippet,
        result.more,
        result.content,
        result.date_iso,
        result.score,
    ) == first
    assert [result.rank for result in response.results] == list(range(1, len(response.results) + 1))
    assert len(response.results) == 1
    assert response.warnings == ()
    assert response.unknown == ()


def test_every_row_of_the_table_has_a_response_of_its_own() -> None:
    rows = Counter(shape.provider for shape in SHAPES if not shape.note)  # nothing can be read of one with a note
    assert rows - Counter(provider for provider, _, _ in FIRST) == Counter()


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


def test_news_and_web_results_are_one_ranking_and_say_where_they_stood() -> None:
    body = {
        "data": {
            "web": [{"url": URL, "title": "W"}],
            "news": [{"url": "https://n.example/", "title": "N", "date": "1 day ago"}],
        }
    }
    assert [(r.rank, r.title, r.list_name, r.date, r.date_iso) for r in normalise(body).results] == [
        (1, "W", "", None, None),
        (2, "N", "news", "1 day ago", None),
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
