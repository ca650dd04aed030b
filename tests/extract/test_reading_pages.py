"""The declared tool over a page: its article first, and everything around it for whoever looks for that."""

import json
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from extract.sample_pages import PROSE, article
from support.service import Service, serving
from tools.agent import Agent

MENU = "".join(f"<li><a href='/c{n}'>Category {n}</a></li>" for n in range(30))
NEWS = (
    "<div class='related'><h2>Related</h2><p>Lanterns were sold out at the harbour shop on Tuesday evening.</p></div>"
)
PAGE = (
    f"<html><head><title>Of ships</title></head><body><nav><ul>{MENU}</ul></nav>"
    f"<main><h1>Of ships</h1>{article(40)}</main>{NEWS}<footer><p>Imprint: Pier 7, Riga</p></footer></body></html>"
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("pages") / "data", extract_workers=0) as running:
        yield running


@pytest.fixture
async def agent(service: Service) -> AsyncIterator[Agent]:
    async with httpx.AsyncClient(base_url=service.url, trust_env=False) as client:
        yield Agent(client)


async def put(agent: Agent) -> str:
    return await agent.put(PAGE, media_type="text/html", url="https://example.org/", title="ships", inline_tokens=0)


async def test_a_read_without_an_offset_is_the_article_and_names_what_is_around_it(agent: Agent) -> None:
    page = await put(agent)
    answer = await agent.read(artifact_id=page)
    assert answer.body.startswith("# Of ships\n\nHarbour 0 ")
    assert answer.body.rstrip().endswith(PROSE.format(n=39))
    assert "; that is the end of the article. Around it are the sections Navigation (1-35), Footer (" in answer.last
    assert answer.next is None
    half = await agent.read(artifact_id=page, limit=20)
    rest = await agent.read(artifact_id=page, offset=half.next)
    assert half.body + "\n" + rest.body == answer.body


async def test_what_is_around_the_article_is_read_by_line_and_section(agent: Agent) -> None:
    page = await put(agent)
    assert (await agent.read(artifact_id=page, offset=1, limit=3)).body == "[Navigation]\n\n- Category 0"
    assert "Imprint: Pier 7, Riga" in (await agent.read(artifact_id=page, section="Footer")).body
    assert "Category 29: " in (await agent.read(artifact_id=page, section="Links of Navigation")).body


async def test_patterns_and_queries_see_all_of_it(agent: Agent) -> None:
    page = await put(agent)
    assert "Imprint: Pier 7" in (await agent.read(artifact_id=page, pattern="imprint")).body
    assert "Lanterns were sold out" in (await agent.read(artifact_id=page, query="lanterns sold out Tuesday")).body


async def test_a_card_shows_what_is_around_the_article_only_if_it_answers_the_question(agent: Agent) -> None:
    fields = {"media_type": "text/html", "inline_tokens": 0, "card_tokens": 400}
    plain = (await agent.receipt(PAGE, **fields))["text"]
    asked = (await agent.receipt(PAGE, query="lanterns sold out Tuesday", **fields))["text"]
    assert "Category" not in plain
    assert "Lanterns" not in plain
    assert "Lanterns were sold out" in asked
    assert "Category" not in asked


async def test_a_page_inside_of_json_is_read_as_a_page(agent: Agent) -> None:
    answer = json.dumps({"url": "https://example.org/ships", "status": 200, "html": PAGE})
    receipt = await agent.receipt(answer, inline_tokens=0, card_tokens=300)
    assert "web_page" in receipt["text"].partition("\n")[0]
    assert "\n# Of ships\n\nHarbour 0 " in receipt["text"]
    assert (await agent.read(artifact_id=receipt["id"])).body.startswith("# Of ships\n\nHarbour 0 ")
    found = await agent.read(artifact_id=receipt["id"], pattern="status: 200")
    assert "url: https://example.org/ships, status: 200" in found.body


SHIPS = "https://example.org/ships"
LINK = "<link rel='canonical' href='https://example.org/canonical'>"


@pytest.mark.parametrize(
    ("beside", "url"),
    [
        ({"url": SHIPS}, SHIPS),
        ({"image": "https://example.org/a.png", "sourceURL": SHIPS, "favicon": "https://example.org/f.ico"}, SHIPS),
        ({"request": {"href": "https://example.org/moved"}, "loc": SHIPS}, SHIPS),
        ({"address": "not an address"}, "https://example.org/canonical"),
        ({"og:image": "https://example.org/a.png"}, "https://example.org/canonical"),
        ({"command": "curl https://example.org/other"}, "https://example.org/canonical"),
    ],
)
async def test_the_url_of_a_page_inside_of_json_is_on_the_card(
    agent: Agent, beside: dict[str, object], url: str
) -> None:
    page = f"<!doctype html>{PAGE.replace('<head>', f'<head>{LINK}')}"
    receipt = await agent.receipt(json.dumps({**beside, "data": page}), inline_tokens=0, card_tokens=300)
    assert f"\nURL: {url}\n" in receipt["text"]
    assert (await agent.receipt(json.dumps({**beside, "data": page}), card_tokens=301, url=url))["text"].count(url) == 1


async def test_a_url_beside_other_text_is_not_its_url(agent: Agent) -> None:
    log = "".join(f"step {n} of the build took {n} seconds\n" for n in range(400))
    assert "URL:" not in (await agent.receipt(json.dumps({"url": SHIPS, "log": log}), inline_tokens=0))["text"]
