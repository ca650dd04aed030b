"""What a search response costs to budget: normalise, lay out, fold, cut, summarise. CPU time, best of several.

Beside it, in the same run, what counting the response's tokens once costs: any budgeter that looks at everything with a
tokenizer pays at least that.
"""

import json
import random
import time
from collections.abc import Callable
from typing import Final

from coatcheck.adapters.tokenizer import load_tokenizer
from coatcheck.core.search import budget_search, lay_out, normalise, summarise

ROUNDS: Final = 7
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
        {"title": f"Title {n}", "url": f"https://example.org/{n}", "description": "A page.", "html": _page(rng, size)}
        for n in range(1, results + 1)
    ]
    return json.dumps({"success": True, "data": items}).encode()


def _page(rng: random.Random, size: int) -> str:
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
    """Print the table."""
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
        made = budget_search(laid, tokenizer, query="which bridge was built of copper")
        view = best(lambda body=body: lay_out(normalise(body)))
        cut = best(lambda laid=laid: budget_search(laid, tokenizer, query="which bridge was built of copper"))
        kept = best(lambda made=made, laid=laid: summarise(made, laid, tokenizer))
        floor = best(lambda laid=laid: tokenizer.count(laid.text.decode()))
        print(
            f"{name:>28} | {view + cut + kept:8.1f} {view:7.1f} {cut:7.1f} {kept:7.1f} | {floor:22.1f} | {made.tokens}",
            flush=True,
        )


if __name__ == "__main__":
    run()
