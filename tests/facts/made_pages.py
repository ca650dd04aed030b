"""Web pages and search responses."""

# ruff: noqa: E501 - lines as programs print them

import html
import json
import random
from collections.abc import Iterator

from coatcheck.core.artifact import DeclaredMetadata, Kind
from facts.cases import Case
from facts.says_json import JsonOracle
from facts.says_pages import Head, PageOracle, ResultsOracle

_WORDS = ("harbour", "ships & sails", "größe", '"quoted"', "lighthouse", "a < b", "tide", "x=1")
_LONG = "Harbour {n} has been known since antiquity, and the ships that call at it carry most goods, it is said."


def _words(rng: random.Random, least: int, most: int) -> str:
    return " ".join(rng.choices(_WORDS, k=rng.randint(least, most)))


def pages(rng: random.Random, count: int) -> Iterator[Case]:
    """Pages with titles, descriptions, dates and headings; scripts and comments have others."""
    for number in range(count):
        title = _words(rng, 2, 6)
        site = f"{title} | {_words(rng, 1, 2)}" if rng.random() < 0.3 else title
        head = [
            f"<title>{rng.choice(['', ' '])}{html.escape(site)}\n</title>",
            "<script>var t = '<title>no</title>';</script>",
            "<!-- <title>neither</title> -->",
        ]
        if rng.random() < 0.5:
            head.append(f'<meta property="og:title" content="{html.escape(title)}">')
        if rng.random() < 0.5:
            head.append(f'<meta name="description" content="{html.escape(_words(rng, 4, 30))}">')
        if rng.random() < 0.4:
            head.append(
                f'<meta property="article:published_time" content="{rng.choice(["2026-03-04T10:11:12Z", "2026-03-04", "4 March 2026"])}">'
            )
        if rng.random() < 0.5:
            head.append(f'<link rel="canonical" href="https://e.example/page/{number}">')
        body = "".join(
            f"<h{rng.randint(1, 4)}>{html.escape(_words(rng, 1, rng.choice([5, 5, 20])))} {n}</h2>\n<p>{_LONG.format(n=n)}</p>\n"
            if rng.random() < 0.4
            else f"<p>{_LONG.format(n=n)} {html.escape(_words(rng, 1, 9))}</p>\n"
            for n in range(rng.choice([0, 1, 5, 30, 90]))
        )
        page = f"<!DOCTYPE html><html lang='en'><head>{''.join(head)}</head><body><nav><a href='/'>Home</a></nav>{body}<footer>End</footer></body></html>"
        said = DeclaredMetadata(
            url=rng.choice([None, "https://e.example/given"]), media_type=rng.choice([None, "text/html; charset=utf-8"])
        )
        yield Case(page.encode(), (PageOracle(Head(page)),), said, (Kind.WEB_PAGE,))


def results(rng: random.Random, count: int) -> Iterator[Case]:
    """Answers of several providers."""
    for number in range(count):
        found = [
            (
                f"{_words(rng, 1, 30)} {n}".replace("<", ""),
                f"https://e.example/{n}?q={number}",
                (_words(rng, 3, 9) + ". ") * rng.randint(1, 40),
            )
            for n in range(rng.randint(1, 30))
        ]
        value: object
        form = number % 3
        if form == 0:
            value = {
                "query": "ships",
                "results": [{"title": t, "url": u, "content": c, "score": 0.5} for t, u, c in found],
                "response_time": 1.2,
            }
        elif form == 1:
            value = {
                "searchParameters": {"q": "ships"},
                "organic": [
                    {"title": t, "link": u, "snippet": c, "position": n} for n, (t, u, c) in enumerate(found, 1)
                ],
            }
        else:
            value = {
                "query": {"original": "ships"},
                "web": {"results": [{"title": t, "url": u, "description": c} for t, u, c in found]},
            }
        said = rng.choice([DeclaredMetadata(), DeclaredMetadata(tool_name="web_search")])
        yield Case(
            json.dumps(value).encode(), (ResultsOracle(found), JsonOracle(value)), said, (Kind.SEARCH_RESULTS,), value
        )
