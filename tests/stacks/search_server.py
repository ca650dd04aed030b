"""A search provider that runs here: the shapes of Tavily, Brave and ddgs, with raw pages of a megabyte in all."""

import contextlib
import json
import random
from collections.abc import Generator
from typing import Any, Final

import httpx

from support.http_server import QuietHandler, http_server

QUERY: Final = "which harbour lock code opens gate seven"
_DRAWN: Final = random.Random(45)
CODE: Final = f"{_DRAWN.getrandbits(40):010x}"
"""What a passage of one page says."""
RAW: Final = "raw end of the page"
"""At the end of every page, which no passage shows."""
_WORDS: Final = ["basin", "cliff", "dune", "estuary", "fjord", "gulf", "inlet", "jetty", "kelp", "lagoon", "mole"]


def _page(number: int) -> str:
    lines = [" ".join(_DRAWN.choices(_WORDS, k=12)) + f" {number}-{line}." for line in range(1_300)]
    if number == 1:
        lines[700] = f"The harbour lock code that opens gate seven is code {CODE}."
    return " ".join([*lines, f"{RAW} {number}"])


PAGES: Final = [
    {"title": f"Harbour {n}", "url": f"https://harbour{n}.example.org/locks", "text": _page(n)} for n in range(10)
]
URLS: Final = [one["url"] for one in PAGES]
SHAPES: Final[dict[str, Any]] = {
    "/search": {
        "query": QUERY,
        "answer": None,
        "follow_up_questions": None,
        "images": [],
        "results": [
            {"title": p["title"], "url": p["url"], "content": p["text"][:300], "score": 0.5, "raw_content": p["text"]}
            for p in PAGES
        ],
        "response_time": 0.89,
    },
    "/brave": {
        "type": "search",
        "query": {"original": QUERY},
        "web": {
            "type": "search",
            "results": [{"title": p["title"], "url": p["url"], "description": p["text"]} for p in PAGES],
        },
    },
    "/ddgs": [{"title": p["title"], "href": p["url"], "body": p["text"]} for p in PAGES],
}


@contextlib.contextmanager
def search_server() -> Generator[str]:
    """The address of the provider, for the length of a `with` block."""

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            self.body()
            self.do_GET()

        def do_GET(self) -> None:
            self.answer(200, json.dumps(SHAPES[self.path]).encode())

    with http_server(Handler) as url:
        yield url


def fetched(url: str, shape: str) -> str:
    """What the provider answers in one of its shapes."""
    return httpx.get(f"{url}/{shape}").text


def check_requests(results: list[list[str]], later: int) -> None:
    """Checks the tool results of a model's requests: passages in the search's turn, the summary after it.

    Args:
        results: those of each request, the first after the search.
        later: the number of the first request of the next turn.
    """
    for result in results[:later]:
        assert result[0].startswith("¦ Search: 10 results"), result[0][:200]
        assert CODE in result[0]
        assert len(result[0]) < 8_192 * 6
    for result in results[later:]:
        assert result[0].startswith("¦ searched "), result[0][:200]
        assert [url for url in URLS if url not in result[0]] == []
    assert not [one for result in results for one in result if RAW in one]
