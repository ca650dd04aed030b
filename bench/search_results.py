"""What a search response costs to budget: normalise, lay out, fold, cut, summarise; and a whole request for it.

The parts in CPU time, the best of several; the request in wall time as a client sees it. Beside them, in the same
run, floors: decoding the JSON and looking at its bytes once; counting its tokens once, which any budgeter pays that
looks at everything with a tokenizer; and storing the same bytes as an artifact in the same service.
"""

import asyncio
import json
import random
import re
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from bench.wire import Connection, Timings, connect
from coatcheck.adapters.tokenizer import load_tokenizer
from coatcheck.core.search.budget import budget_search
from coatcheck.core.search.responses.normalise import normalise
from coatcheck.core.search.summary import summarise
from coatcheck.core.search.view import lay_out
from support.service import serving

ROUNDS: Final = 7
QUERY: Final = "which bridge was built of copper"
REQUESTS: Final = 25
WARMING: Final = 3
"""Requests before those that are timed."""
_TERMS: Final = re.compile(rb"bridge|built|copper")
WORDS: Final = (
    "harbour lantern orchard granite copper meadow winter engine letter bridge valley captain garden silver market "
    "thunder window paper forest river station candle mirror island needle pepper rocket saddle timber violin"
)


def _sentences(rng: random.Random, size: int) -> list[str]:
    words = WORDS.split()
    out: list[str] = []
    length = 0
    while length < size:
        out.append(" ".join(rng.choice(words) for _ in range(rng.randint(7, 18))).capitalize() + ".")
        length += len(out[-1]) + 1
    return out


def text_response(rng: random.Random, size: int, results: int) -> bytes:
    """As Tavily writes it."""
    items = [
        {
            "title": f"Title {n}",
            "url": f"https://example.org/{n}",
            "content": " ".join(_sentences(rng, size)),
            "score": 1 / n,
        }
        for n in range(1, results + 1)
    ]
    return json.dumps({"query": "copper bridge", "results": items, "response_time": 1}).encode()


def html_response(rng: random.Random, size: int, results: int) -> bytes:
    """As a scraper writes it: menus, scripts, lists and paragraphs with links in them."""
    items = [
        {
            "title": f"Title {n}",
            "url": f"https://example.org/{n}",
            "description": "A page.",
            "html": html_page(rng, size),
        }
        for n in range(1, results + 1)
    ]
    return json.dumps({"success": True, "data": items}).encode()


def html_page(rng: random.Random, size: int) -> str:
    """About so many bytes of a page with menus, scripts, lists and paragraphs."""
    menu = "".join(f'<li class="nav-item"><a href="/section/{n}">Section {n}</a></li>' for n in range(40))
    body: list[str] = []
    length = 0
    while length < size - 4_000:
        text = " ".join(_sentences(rng, rng.randint(150, 500))).replace("silver", '<a href="/silver">silver</a>')
        body.append(f'<div class="row"><p id="p{len(body)}">{text}</p></div>\n')
        length += len(body[-1])
    return (
        f"<!doctype html><html><head><title>x</title><style>p{{}}</style></head><body><nav><ul>{menu}</ul></nav>"
        f"<main><h1>Heading</h1>{''.join(body)}</main><footer>{menu}</footer></body></html>"
    )


def best(work: Callable[[], object]) -> float:
    """Milliseconds of CPU, best of several."""
    times: list[float] = []
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        times.append((time.process_time() - began) * 1000)
    return min(times)


def run() -> None:
    """Print the tables."""
    tokenizer = load_tokenizer()
    rng = random.Random(7)
    bodies = {
        "10 results of 2 KB text": text_response(rng, 2_000, 10),
        "10 results of 100 KB HTML": html_response(rng, 100_000, 10),
        "3 results of 1 MB text": text_response(rng, 1_000_000, 3),
    }
    print(
        f"{'response':>28} | {'all, ms':>8} {'view':>7} {'budget':>7} {'summary':>7} | counting all of it, ms | tokens"
    )
    for name, body in bodies.items():
        laid = lay_out(normalise(body))
        made = budget_search(laid, tokenizer, query=QUERY)
        view = best(lambda body=body: lay_out(normalise(body)))
        cut = best(lambda laid=laid: budget_search(laid, tokenizer, query=QUERY))
        kept = best(lambda made=made, laid=laid: summarise(made, laid, tokenizer))
        floor = best(lambda laid=laid: tokenizer.count(laid.text.decode()))
        print(
            f"{name:>28} | {view + cut + kept:8.1f} {view:7.1f} {cut:7.1f} {kept:7.1f} | {floor:22.1f} | {made.tokens}",
            flush=True,
        )
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "data") as service:
        asyncio.run(served(service.url))


async def served(url: str) -> None:
    """Whole requests, each with a response that the service has not seen, beside the floors."""
    print(
        f"{'a whole request':>28} | {'p50, ms':>7} {'best':>6} | {'read once':>9} | "
        f"{'stored as artifact':>18} {'best':>6}"
    )
    async with connect(url) as c:
        for name, make, size in (
            ("10 results of 2 KB text", text_response, 2_000),
            ("10 results of 100 KB HTML", html_response, 100_000),
        ):
            rng = random.Random(11)
            bodies = [make(rng, size, 10) for _ in range(WARMING + REQUESTS)]
            floor = best(lambda bodies=bodies: _read_once(bodies[0]))
            stored = await _timed(c, "/v1/artifacts", [{"content": body.decode()} for body in bodies])
            asked = {"query": QUERY, "session": "bench", "across_session": False}
            took = await _timed(c, "/v1/search-results", [{"response": msgspec.Raw(body), **asked} for body in bodies])
            print(
                f"{name:>28} | {took.at(0.5):7.1f} {took.at(0):6.1f} | {floor:9.2f} | {stored.at(0.5):18.1f} "
                f"{stored.at(0):6.1f}",
                flush=True,
            )


def _read_once(body: bytes) -> int:
    msgspec.json.decode(body)
    return len(_TERMS.findall(body))


async def _timed(c: Connection, path: str, asked: Sequence[Mapping[str, object]]) -> Timings:
    timings = Timings()
    for number, each in enumerate(asked):
        data = msgspec.json.encode(each)
        began = time.perf_counter()
        status, answer = await c.ask("POST", path, data, "content-type: application/json\r\n")
        assert status == 201, answer
        if number >= WARMING:
            timings.each.append(time.perf_counter() - began)
    return timings


if __name__ == "__main__":
    run()
