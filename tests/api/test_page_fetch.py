"""How a page was fetched, through HTTP: declared in every way in, found in content, listed, filtered, on the card."""

from datetime import timedelta
from typing import Any

import httpx
import pytest

from api.test_ingest import problem
from support.faces import FaceHarness

LOG = "".join(f"Bed {n} has sand and loam.\n" for n in range(900))
ASKED = "https://example.org/leeks"
LED = "https://example.org/login?next=leeks"
FETCH: dict[str, Any] = {
    "url": ASKED,
    "status": 404,
    "final_url": LED,
    "content_type": "application/pdf",
    "fetched_at": "2020-01-31T12:00:00Z",
    "title": "Leeks",
}


async def stored(client: httpx.AsyncClient, artifact_id: str) -> dict[str, Any]:
    known: dict[str, Any] = (await client.get(f"/v1/artifacts/{artifact_id}")).json()["artifact"]
    return known


async def ids(client: httpx.AsyncClient, **conditions: object) -> list[str]:
    answer = await client.get("/v1/artifacts", params={name: str(value) for name, value in conditions.items()})
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json()["items"]]


async def test_every_way_in_keeps_what_is_declared_and_the_card_begins_with_the_status(
    client: httpx.AsyncClient,
) -> None:
    body = {"content": LOG, **FETCH}
    answers = [
        (await client.post("/v1/artifacts", json={**body, "session": "json"})).json(),
        (await client.post("/v1/artifacts/raw", params={**FETCH, "session": "raw"}, content=LOG.encode())).json(),
        (await client.post("/v1/artifacts", data={**FETCH, "session": "form"}, files={"file": LOG.encode()})).json(),
        (await client.post("/v1/artifacts:batch", json={"items": [{**body, "session": "batch"}]})).json()["results"][0][
            "receipt"
        ],
    ]
    for answer in answers:
        assert answer["warnings"] == []
        known = await stored(client, answer["id"])
        assert {name: known[name] for name in FETCH} == FETCH
        assert known["redirected"] is True
        lines = answer["text"].splitlines()
        assert lines[1] == "HTTP status 404: not the page"
        assert lines[2:6] == ["Title: Leeks", f"URL: {ASKED}", f"Redirected to: {LED}", "Content type: application/pdf"]
        assert [answer["card"][name] for name in ("status", "final_url", "content_type")] == [
            FETCH[name] for name in ("status", "final_url", "content_type")
        ]


@pytest.mark.parametrize("budget", [64, 100, 256, 600])
async def test_a_status_is_on_the_card_at_every_budget(client: httpx.AsyncClient, budget: int) -> None:
    body = {"content": LOG, "url": "https://example.org/" + "leeks/" * 200, "status": 503, "card_tokens": budget}
    answer = (await client.post("/v1/artifacts", json=body)).json()
    assert answer["text"].splitlines()[1] == "HTTP status 503: not the page"
    assert answer["tokens"] <= budget


async def test_a_page_that_came_has_no_line_about_its_status_or_another_spelling_of_its_address(
    client: httpx.AsyncClient,
) -> None:
    body = {"content": LOG, "url": "http://example.org", "final_url": "https://example.org/", "status": 200}
    answer = (await client.post("/v1/artifacts", json={**body, "content_type": "text/html; charset=utf-8"})).json()
    text = answer["text"]
    assert "URL: http://example.org\n" in text
    assert [word for word in ("HTTP status", "Redirected", "Content type") if word in text] == []
    known = await stored(client, answer["id"])
    assert (known["final_url"], known["redirected"], known["status"]) == ("https://example.org/", False, 200)


WRONG: list[tuple[str, object]] = [
    ("status", 999),
    ("status", "200 OK"),
    ("status", -1),
    ("status", 404.5),
    ("status", True),
    ("final_url", "https://example.org/" + "a" * 20_480),
    ("final_url", "javascript:alert(1)"),
    ("final_url", "data:text/html,<p>x"),
    ("final_url", "/leeks"),
    ("final_url", "https:///leeks"),
    ("final_url", "https://example.org/a\nb"),
    ("final_url", ""),
    ("content_type", "html"),
    ("content_type", "text/html\r\nx: y"),
    ("fetched_at", "yesterday"),
    ("fetched_at", "2026-02-30T00:00:00Z"),
    ("fetched_at", "2026-01-31T12:00:00"),
    ("fetched_at", 5),
]


@pytest.mark.parametrize(("field", "value"), WRONG, ids=lambda value: repr(value)[:30])
async def test_a_value_that_makes_no_sense_is_refused_by_name(
    client: httpx.AsyncClient, field: str, value: object
) -> None:
    body = {"content": LOG, field: value}
    refused = problem(await client.post("/v1/artifacts", json=body), 400, "invalid_request")
    assert refused["field"] == field
    batch = await client.post("/v1/artifacts:batch", json={"items": [body, {"content": "fine"}]})
    results = batch.json()["results"]
    assert [each["status"] for each in results] == [400, 201]
    assert results[0]["problem"]["field"] == field
    if not isinstance(value, bool | int):
        raw = await client.post("/v1/artifacts/raw", params={field: str(value)}, content=LOG.encode())
        assert problem(raw, 400, "invalid_request")["field"] == field
        form = await client.post("/v1/artifacts", data={field: str(value)}, files={"file": LOG.encode()})
        assert problem(form, 400, "invalid_request")["field"] == field


async def test_a_page_cannot_have_been_fetched_in_the_future_but_clocks_differ(
    client: httpx.AsyncClient, harness: FaceHarness
) -> None:
    now = harness.clock.now()
    late = {"content": LOG, "fetched_at": (now + timedelta(minutes=9)).isoformat()}
    assert problem(await client.post("/v1/artifacts", json=late), 400, "invalid_request")["field"] == "fetched_at"
    soon = {"content": LOG, "fetched_at": (now + timedelta(minutes=1)).isoformat()}
    assert (await client.post("/v1/artifacts", json=soon)).status_code == 201


async def test_a_future_time_in_the_content_is_not_told(client: httpx.AsyncClient) -> None:
    for year, kept in (("2020", "2020-01-01T00:00:00Z"), ("2999", None)):
        page = {"url": ASKED, "markdown": LOG, "metadata": {"fetchedAt": f"{year}-01-01T00:00:00Z", "statusCode": 200}}
        answer = (await client.post("/v1/artifacts", json={"content": page})).json()
        assert (await stored(client, answer["id"]))["fetched_at"] == kept


async def test_what_is_found_is_listed_and_filtered_like_what_is_declared(client: httpx.AsyncClient) -> None:
    scrape = {
        "data": {"markdown": LOG, "metadata": {"sourceURL": ASKED, "url": LED, "statusCode": 404, "title": "Leeks"}}
    }
    plain = (await client.post("/v1/artifacts", json={"content": LOG, "status": 200})).json()["id"]
    declared = (await client.post("/v1/artifacts", json={"content": LOG, "session": "s", **FETCH})).json()["id"]
    answer = (await client.post("/v1/artifacts", json={"content": scrape})).json()
    found = answer["id"]
    assert answer["text"].splitlines()[1:5] == [
        "HTTP status 404: not the page",
        "Title: Leeks",
        f"URL: {ASKED}",
        f"Redirected to: {LED}",
    ]
    assert await ids(client, status=404) == [found, declared]
    assert await ids(client, status=404, session="s") == [declared]
    assert await ids(client, status=200) == [plain]
    assert await ids(client, final_url=LED) == [found, declared]
    assert await ids(client, url=ASKED) == [found, declared]
    (other,) = [item for item in (await client.get("/v1/artifacts")).json()["items"] if item["id"] == found]
    assert (other["status"], other["url"], other["final_url"], other["title"]) == (404, ASKED, LED, "Leeks")
    corrected = (await client.post("/v1/artifacts", json={"content": scrape, "status": 410})).json()
    assert (corrected["id"], corrected["card"]["status"]) == (found, 410)
    assert (await ids(client, status=404), await ids(client, status=410)) == ([declared], [found])
    refused = await client.get("/v1/artifacts", params={"status": "4xx"})
    assert problem(refused, 400, "invalid_request")["field"] == "status"


async def test_what_a_model_lists_names_a_status_that_is_not_a_page(client: httpx.AsyncClient) -> None:
    await client.post("/v1/artifacts", json={"content": LOG, **FETCH})
    await client.post("/v1/artifacts", json={"content": LOG, "session": "s", "status": 200})
    call: dict[str, Any] = {"name": "list_artifacts", "arguments": {}}
    lines = (await client.post("/v1/tools/call", json={"calls": [call]})).json()[0]["text"].splitlines()
    assert ["HTTP 404" in line for line in lines[:2]] == [False, True]


async def test_the_same_page_again_in_a_session_says_its_status_again(client: httpx.AsyncClient) -> None:
    body = {"content": LOG, "session": "s", "status": 404}
    await client.post("/v1/artifacts", json={**body, "tool_call_id": "a"})
    again = (await client.post("/v1/artifacts", json={**body, "tool_call_id": "b"})).json()
    assert again["same_as"] is not None
    assert "¦ HTTP status 404: not the page ¦" in again["text"]
