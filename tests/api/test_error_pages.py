"""The `type` of a problem leads to what explains it, for each code, for people, models and programs."""

import json
import re
from html.parser import HTMLParser

import httpx
import pytest

from coatcheck.api.http.error_table import TABLE
from coatcheck.api.http.problems import members
from coatcheck.core.errors import CoatcheckError, Code

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


def type_of(code: Code) -> str:
    """Where the problem document of a code leads."""
    return str(members(CoatcheckError(code, "detail"), "r1")["type"])


class Text(HTMLParser):
    """The text of a page, in parts."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []

    def handle_data(self, data: str) -> None:
        self.parts.append(data)


def shown(page: str) -> str:
    """The text of a page."""
    parser = Text()
    parser.feed(page)
    return " ".join(" ".join(parser.parts).split())


@pytest.mark.parametrize("code", Code)
async def test_every_code_is_explained_as_a_page_as_text_and_as_json(client: httpx.AsyncClient, code: Code) -> None:
    row = TABLE[code]
    answers = [
        await client.get(type_of(code), headers={"accept": accept})
        for accept in (BROWSER, "text/plain", "application/json")
    ]
    assert {answer.status_code for answer in answers} == {200}
    types = [answer.headers["content-type"].partition(";")[0] for answer in answers]
    assert types == ["text/html", "text/plain", "application/json"]
    page = shown(answers[0].text)
    text = answers[1].text
    explained = json.loads(answers[2].content)
    for sentence in (str(code), row.title, row.meaning, row.advice):
        words = "".join(sentence.split()).replace("`", "")
        assert words in "".join(page.split())
        assert sentence in text
        assert sentence in explained.values()
    assert (str(row.status) in page, explained["status"]) == (True, row.status)
    assert explained["type"] == type_of(code)
    assert (explained["retry_after"], "Retry-After" in text) == (
        row.retry_after,
        row.retry_after is not None or "Retry-After" in row.advice,
    )


def test_every_code_says_what_happened_in_words_of_its_own() -> None:
    meanings = [row.meaning for row in TABLE.values()]
    assert len(set(meanings)) == len(meanings)
    assert all(len(meaning.split()) > 5 and meaning.endswith(".") and "|" not in meaning for meaning in meanings)


async def test_a_problem_that_was_answered_leads_there(client: httpx.AsyncClient) -> None:
    problem = (await client.get("/v1/artifacts/art_1")).json()
    page = await client.get(problem["type"])
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert problem["title"] in page.text
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert not re.search(r"<script|<img|https?://", page.text)


async def test_a_code_that_there_is_not_is_not_explained(client: httpx.AsyncClient) -> None:
    answer = await client.get("/errors/%3Cscript%3E")
    assert (answer.status_code, answer.json()["code"]) == (404, "route_not_found")


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        (None, "text/html"),
        ("*/*", "text/html"),
        ("application/problem+json", "application/json"),
        ("application/json, text/html;q=0.5", "application/json"),
        ("text/*;q=0.5, text/plain", "text/plain"),
        ("image/png", "text/html"),
    ],
)
async def test_the_form_is_the_one_that_is_preferred(
    client: httpx.AsyncClient, accept: str | None, media_type: str
) -> None:
    request = client.build_request("GET", "/errors/held")
    del request.headers["accept"]
    if accept is not None:
        request.headers["accept"] = accept
    answer = await client.send(request)
    assert answer.headers["content-type"].partition(";")[0] == media_type
    assert answer.headers["vary"] == "Accept"
