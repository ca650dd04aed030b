"""Payloads that have a text view: web pages, search responses, tool results of several parts.

Each says one word that few others do, by which the full-text index must find it. Few bodies, so that artifacts share
the blobs of their payloads and of their views.
"""

import json
import random

_WORDS = ("alder", "birch", "cedar", "elm", "fir", "hazel", "juniper", "larch", "maple", "oak", "pine", "rowan", "yew")
_SIZES = (5, 60, 900)
"""Paragraphs: in the ingest's one commit; still inline; a payload and a view in files of their own."""


def readable(rng: random.Random) -> tuple[bytes, str]:
    """A payload and its word."""
    number = rng.randrange(40)
    made = random.Random(number)
    word = f"readable{number:03}"
    size = _SIZES[min(made.randrange(8), 7) // 3]
    texts = [
        " ".join(made.choices(_WORDS, k=made.randrange(20, 60))) + f" {made.randrange(10**9)}" for _ in range(size)
    ]
    texts[0] = f"{word} {texts[0]}"
    return (_page, _results, _parts)[number % 3](texts), word


def _page(texts: list[str]) -> bytes:
    blocks = [f"<h2>Part {at}</h2><p>{text}</p>" for at, text in enumerate(texts)]
    menu = "".join(f'<li><a href="/menu/{at}">Item {at}</a></li>' for at in range(20))
    head = f"<!doctype html><html><head><title>{texts[0][:60]}</title></head><body><nav><ul>{menu}</ul></nav><main>"
    return f"{head}<h1>{texts[0][:60]}</h1>{''.join(blocks)}</main></body></html>".encode()


def _results(texts: list[str]) -> bytes:
    results = [
        {"title": f"Result {at}", "url": f"https://example.org/{at}", "content": text, "score": 0.5}
        for at, text in enumerate(texts)
    ]
    return json.dumps({"query": "trees", "response_time": 1.0, "images": [], "results": results}).encode()


def _parts(texts: list[str]) -> bytes:
    parts = [{"text": text, "type": "text"} for text in texts]
    image = {"data": "iVBORw0KGgo=", "mimeType": "image/png", "type": "image"}
    return json.dumps([*parts, image], separators=(",", ":"), sort_keys=True).encode()
