"""Cards that are cut from a text view: their ranges are in it, add up, and are the same on every occasion."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from extract.sample_pages import PROSE, article, page
from support.service import Service, serving

URL = "https://example.org/ships"
LINKED = '<p>And then there is <a href="/more">more of it</a> for those who have not read enough about ships yet.</p>'


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("cards") / "data", extract_workers=1) as running:
        yield running


def view_of(service: Service, artifact_id: str) -> bytes:
    response = service.client.get(f"/v1/artifacts/{artifact_id}/content", params={"view": "text"})
    assert response.status_code == 200, response.text
    return response.content


def post(service: Service, payload: str, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return service.post(payload, media_type="text/html", url=URL, inline_tokens=0, **fields)


def check_ranges(card: dict[str, Any], view: bytes) -> None:
    """Excerpts are the view's own words at the places they name; with what is left out they are all of it."""
    assert card["text"]["size"] == len(view)
    places = sorted(
        [(e["bytes"]["start"], e["bytes"]["end"]) for e in card.get("excerpts", ())]
        + [(o["bytes"]["start"], o["bytes"]["end"]) for o in card.get("omitted", ())]
    )
    assert places[0][0] == 0
    assert places[-1][1] == len(view)
    assert all(left[1] == right[0] for left, right in pairwise(places))
    for excerpt in card.get("excerpts", ()):
        start, end = excerpt["bytes"]["start"], excerpt["bytes"]["end"]
        assert excerpt["view"] == "text"
        assert excerpt["text"] == view[start:end].decode()
        assert excerpt["lines"]["first"] == view.count(b"\n", 0, start) + 1
    offset = card["next"]["arguments"].get("offset") if card.get("next") else None
    if offset is not None:
        assert 1 <= offset <= view.count(b"\n")


@pytest.mark.parametrize("budget", [128, 256, 512, 1024])
@pytest.mark.parametrize("paragraphs", [4, 40, 1_500], ids=["short", "long", "for a worker"])
def test_a_page_s_card_is_its_article_from_the_opening_on(service: Service, paragraphs: int, budget: int) -> None:
    receipt = post(service, page(article(paragraphs) + LINKED), card_tokens=budget)
    view = view_of(service, receipt["id"])
    check_ranges(receipt["card"], view)
    assert "Menu entry" not in receipt["text"]
    if budget >= 256:
        assert PROSE.format(n=0) in receipt["text"]
        assert receipt["card"]["excerpts"][0]["bytes"]["start"] == view.index(b"# Of ships")


def test_the_links_of_a_page_are_for_reading_and_not_for_its_card(service: Service) -> None:
    receipt = post(service, page(article(3) + LINKED), card_tokens=1024)
    assert b"- more of it: https://example.org/more\n" in view_of(service, receipt["id"])
    assert "https://example.org/more" not in receipt["text"]
    assert receipt["text"].endswith("End of the article. Around it, in sections: Navigation, Footer, Links (24 lines).")


def test_the_card_is_the_same_whenever_it_is_cut(service: Service) -> None:
    body = page(article(60))
    first = post(service, body, card_tokens=400)
    again = post(service, body, card_tokens=400)
    assert (again["id"], again["text"], again["card"]) == (first["id"], first["text"], first["card"])
    response = service.client.get(f"/v1/artifacts/{first['id']}/card", params={"tokens": 400})
    assert response.json()["text"] == first["text"]
    large = page(article(3_000))
    receipts = [post(service, large, card_tokens=400) for _ in range(2)]
    assert receipts[0]["text"] == receipts[1]["text"]


def test_a_query_finds_its_passage_in_the_text(service: Service) -> None:
    needle = "<p>The lighthouse keeper counted eleven lanterns before the storm put them out, one by one.</p>"
    receipt = post(
        service, page(article(80) + needle + article(80)), card_tokens=400, query="lighthouse lanterns storm"
    )
    check_ranges(receipt["card"], view_of(service, receipt["id"]))
    assert "The lighthouse keeper counted eleven lanterns" in receipt["text"]


def test_a_page_without_text_says_so(service: Service) -> None:
    receipt = post(service, "<html><head><title>App</title></head><body><script>go()</script></body></html>" * 40)
    assert receipt["card"]["title"] == "App"
    assert "No text without JavaScript" in receipt["text"]


def test_a_page_that_is_too_large_shows_its_head_as_it_is(service: Service) -> None:
    receipt = post(service, page(article(30_000)), card_tokens=400)
    assert receipt["card"].get("text") is None
    assert receipt["card"]["excerpts"][0]["view"] == "raw"
    view_of(service, receipt["id"])  # made now, and kept
    again = service.client.get(f"/v1/artifacts/{receipt['id']}/card", params={"tokens": 400}).json()
    assert again["text"] == receipt["text"]


def test_parts_are_shown_as_text_and_never_as_base64(service: Service) -> None:
    image = {"type": "image", "data": "iVBORw0KGgo" * 400, "mimeType": "image/png"}
    words = {"type": "text", "text": "\n".join(f"line {n} of the first part" for n in range(400))}
    response = service.client.post(
        "/v1/artifacts", json={"content": [words, image], "inline_tokens": 0, "card_tokens": 400}
    )
    receipt = response.json()
    check_ranges(receipt["card"], view_of(service, receipt["id"]))
    assert "# Part 1: text\nline 0 of the first part" in receipt["text"]
    assert "\n$" not in receipt["text"]  # of the JSON around the parts
    assert "iVBORw0KGgoiVBOR" not in receipt["text"]


def test_json_that_is_merely_indented_for_readers_keeps_its_card(service: Service) -> None:
    body = json.dumps([{"type": f"t{n}", "n": n} for n in range(500)], separators=(",", ":"))
    receipt = service.post(body, inline_tokens=0, card_tokens=400)
    assert receipt["card"].get("text") is None
    assert view_of(service, receipt["id"]).startswith(b"[\n  {\n")
    again = service.client.get(f"/v1/artifacts/{receipt['id']}/card", params={"tokens": 400}).json()
    assert again["text"] == receipt["text"]


def test_results_are_listed_and_what_is_left_out_is_told_in_lines_of_the_list(service: Service) -> None:
    results = [
        {"title": f"Title {n}", "url": f"https://e.org/{n}", "content": f"What {n} says. " * 40} for n in range(1, 9)
    ]
    receipt = service.post(json.dumps({"query": "q", "results": results}), inline_tokens=0, card_tokens=700)
    assert receipt["card"]["kind"] == "search_results"
    check_ranges(receipt["card"], view_of(service, receipt["id"]))
    assert all(f"https://e.org/{n}" in receipt["text"] for n in range(1, 9))


async def test_many_at_once_are_all_answered_alike(service: Service) -> None:
    bodies = [page(article(900 + n)) for n in range(6)]

    async def posts() -> AsyncIterator[str]:
        async with httpx.AsyncClient(base_url=service.url, timeout=120, trust_env=False) as client:
            asked = {"media_type": "text/html", "inline_tokens": 0, "card_tokens": 300}
            answers = await asyncio.gather(
                *(client.post("/v1/artifacts", json={"content": body, **asked}) for body in bodies * 2)
            )
        for answer in answers:
            yield answer.json()["text"]

    texts = [text async for text in posts()]
    assert texts[:6] == texts[6:]
    assert len(set(texts)) == 6


def test_a_service_that_stops_leaves_no_worker(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as running:
        post(running, page(article(1_200)))
        workers = Path(f"/proc/{running.process.pid}/task/{running.process.pid}/children")
        started = workers.read_text().split() if workers.exists() else []
    assert not [pid for pid in started if Path(f"/proc/{pid}/cmdline").exists()]
