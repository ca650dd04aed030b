"""Search responses in the providers' shapes, and JSON that only looks like one, with made contents."""

import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final

from coatcheck.core.artifact import Kind
from kinds.corpus import Source

_WORDS: Final = [
    "harbour",
    "climate",
    "vaccine",
    "battery",
    "orbit",
    "museum",
    "river",
    "glacier",
    "python",
    "kernel",
    "index",
    "senate",
    "railway",
    "enzyme",
    "quantum",
    "coffee",
    "bridge",
    "market",
    "theatre",
    "history",
    "energy",
    "policy",
    "review",
    "guide",
    "research",
    "report",
    "analysis",
    "city",
    "science",
]
Hit = dict[str, str]


def _sentence(rng: Random, words: int) -> str:
    return " ".join(rng.choice(_WORDS) for _ in range(words)).capitalize() + "."


def _hits(rng: Random) -> list[Hit]:
    return [
        {
            "title": _sentence(rng, rng.randrange(3, 9)).rstrip("."),
            "url": f"https://www.{rng.choice(_WORDS)}.example/{rng.choice(_WORDS)}/{rng.randrange(9999)}",
            "text": " ".join(_sentence(rng, rng.randrange(6, 20)) for _ in range(rng.choice((1, 2, 8, 40)))),
            "date": f"2026-0{rng.randrange(1, 9)}-1{rng.randrange(9)}",
        }
        for _ in range(rng.choice((2, 5, 10, 20)))
    ]


def _each(hits: list[Hit], **names: str) -> list[dict[str, Any]]:
    return [{ours: hit[theirs] for ours, theirs in names.items()} for hit in hits]


def _ranked(records: list[dict[str, Any]], name: str = "position") -> list[dict[str, Any]]:
    return [{name: rank, **record} for rank, record in enumerate(records, 1)]


def _blocks(hits: list[Hit]) -> str:
    return "\n\n".join(f"Title: {hit['title']}\nURL: {hit['url']}\nSnippet: {hit['text']}" for hit in hits)


def _numbered(hits: list[Hit]) -> str:
    rows = (f"{n}. **{hit['title']}**\n   {hit['url']}\n   {hit['text']}" for n, hit in enumerate(hits, 1))
    return "Search results:\n\n" + "\n\n".join(rows)


def _linked(hits: list[Hit]) -> str:
    return "\n".join(f"- [{hit['title']}]({hit['url']}): {hit['text']}" for hit in hits)


def _bracketed(hits: list[Hit]) -> str:
    return "\n\n".join(f"[{n}] {hit['title']}\n{hit['url']}\n{hit['text']}" for n, hit in enumerate(hits, 1))


def _headed(hits: list[Hit]) -> str:
    return "\n\n".join(f"## {hit['title']}\nSource: {hit['url']}\n\n{hit['text']}" for hit in hits)


def _serp(hits: list[Hit]) -> object:
    records = _ranked(_each(hits, title="title", link="url", snippet="text", displayed_link="url", date="date"))
    return {"search_metadata": {"status": "Success"}, "search_parameters": {"q": "x"}, "organic_results": records}


PROVIDERS: Final[dict[str, Callable[[list[Hit]], object]]] = {
    "tavily": lambda hits: {
        "query": "x",
        "answer": None,
        "images": [],
        "results": [
            {**hit, "score": 0.9, "raw_content": None} for hit in _each(hits, title="title", url="url", content="text")
        ],
        "response_time": 1.2,
    },
    "brave": lambda hits: {
        "type": "search",
        "query": {"original": "x"},
        "web": {"type": "search", "results": _each(hits, title="title", url="url", description="text", age="date")},
    },
    "serper": lambda hits: {
        "searchParameters": {"q": "x"},
        "organic": _ranked(_each(hits, title="title", link="url", snippet="text", date="date")),
    },
    "serpapi": _serp,
    "google": lambda hits: {
        "kind": "customsearch#search",
        "items": [
            {"kind": "customsearch#result", **hit}
            for hit in _each(hits, title="title", htmlTitle="title", link="url", displayLink="url", snippet="text")
        ],
    },
    "bing": lambda hits: {
        "_type": "SearchResponse",
        "webPages": {"value": _each(hits, id="url", name="title", url="url", snippet="text", dateLastCrawled="date")},
    },
    "exa": lambda hits: {
        "requestId": "r",
        "results": _each(hits, id="url", title="title", url="url", publishedDate="date", text="text"),
    },
    "searxng": lambda hits: {
        "query": "x",
        "number_of_results": 0,
        "results": [
            {**hit, "engine": "bing", "score": 1.0} for hit in _each(hits, url="url", title="title", content="text")
        ],
    },
    "firecrawl": lambda hits: {
        "success": True,
        "data": {"web": _ranked(_each(hits, url="url", title="title", description="text"))},
    },
    "plain list": lambda hits: _each(hits, title="title", href="url", body="text"),
    "text blocks": _blocks,
    "numbered text": _numbered,
    "markdown links": _linked,
    "bracketed text": _bracketed,
    "headed text": _headed,
}


def searches(each: int = 6) -> Iterator[Source]:
    """Some of every provider, minified and indented."""
    for provider, shape in PROVIDERS.items():
        for number in range(each):
            value = shape(_hits(Random(f"{provider}/{number}")))
            text = value if isinstance(value, str) else json.dumps(value, indent=2 if number % 2 else None)
            yield Source(Kind.SEARCH_RESULTS, f"search: {provider}", f"{provider}/{number}", text.encode())


def _issue(rng: Random, number: int) -> dict[str, Any]:
    where = f"https://api.example.com/repos/a/b/issues/{number}"
    return {
        "url": where,
        "html_url": where,
        "id": rng.randrange(10**9),
        "number": number,
        "title": _sentence(rng, 6),
        "user": {"login": rng.choice(_WORDS), "id": rng.randrange(10**6), "url": where, "site_admin": False},
        "labels": [{"id": 1, "name": rng.choice(_WORDS), "color": "d73a4a", "default": True}],
        "state": "open",
        "assignee": None,
        "comments": rng.randrange(40),
        "created_at": "2026-01-02T03:04:05Z",
        "updated_at": "2026-01-02T03:04:05Z",
        "body": _sentence(rng, 60),
    }


def _product(rng: Random, number: int) -> dict[str, Any]:
    return {
        "sku": number,
        "name": _sentence(rng, 2),
        "url": f"https://shop.example/{number}",
        "description": _sentence(rng, 20),
        "price": rng.random() * 90,
        "currency": "EUR",
        "stock": rng.randrange(90),
        "variants": [{"colour": rng.choice(_WORDS), "size": n} for n in range(3)],
        "weight_g": rng.randrange(900),
    }


def _user(rng: Random, number: int) -> dict[str, Any]:
    return {"id": number, "name": rng.choice(_WORDS), "tags": [rng.choice(_WORDS)] * 2, "ratio": rng.random()}


def look_alikes(each: int = 6) -> Iterator[Source]:
    """Answers of ordinary APIs: JSON, although some records have titles and addresses."""
    for name, make in (("issues", _issue), ("products", _product), ("users", _user)):
        for number in range(each):
            rng = Random(f"{name}/{number}")
            records = [make(rng, n) for n in range(rng.choice((3, 30, 300)))]
            value: object = records if number % 2 else {"total_count": len(records), "items": records}
            text = json.dumps(value, indent=2 if number % 3 else None)
            yield Source(Kind.JSON, f"api: {name}", f"{name}/{number}", text.encode())
