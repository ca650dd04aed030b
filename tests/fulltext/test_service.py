"""Full text over HTTP and through the tool, on every kind of store."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from media.formats import pdf
from support.combos import COMBOS, fresh_combo
from support.service import Service, serving


@pytest.fixture(scope="module", params=COMBOS)
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder: Path = tmp_path_factory.mktemp("fulltext")
    with fresh_combo(request.param) as combo, serving(folder, combo) as running:
        yield running


def test_what_was_acknowledged_is_found_by_the_next_request(service: Service) -> None:
    for i in range(20):
        receipt = service.post(f"deployment {i} failed with ConnectionResetError{i} in payments.py", session="seen")
        listed = service.get("/v1/artifacts", q=f"connectionreseterror{i} payments.py", session="seen")
        assert ([item["id"] for item in listed["items"]], listed["next"]) == ([receipt["id"]], None)


def test_large_payloads_are_found_by_their_ends(service: Service) -> None:
    receipt = service.post(b"zeppelin\n" + b"filler line\n" * 200_000 + b"gondola\n", tool_name="big")
    assert [item["id"] for item in service.get("/v1/artifacts", q="zeppelin gondola")["items"]] == [receipt["id"]]


def test_the_text_of_a_document_is_found_before_anybody_has_read_it(service: Service) -> None:
    receipts = [service.post(pdf(f"Low tide number {i}"), session="tides") for i in range(3)]
    later = service.post("a high tide in plain words", session="tides")
    listed: dict[str, Any] = {"items": []}
    for _ in range(60):  # a query waits two seconds for the index
        listed = service.get("/v1/artifacts", q="tide", session="tides")
        if len(listed["items"]) == 4:
            break
    assert [item["id"] for item in listed["items"]] == [later["id"], *(receipt["id"] for receipt in receipts[::-1])]
    assert len(service.get("/v1/artifacts", q="tide number", session="tides")["items"]) == 3


@pytest.mark.parametrize("query", ["", " ", "?!", "word " * 10_000, "a" * 1_001])
def test_a_query_that_names_nothing_or_too_much_is_refused(service: Service, query: str) -> None:
    response = service.client.get("/v1/artifacts", params={"q": query})
    assert (response.status_code, response.json()["code"]) == (400, "invalid_request"), response.text


def test_a_query_has_pages(service: Service) -> None:
    ids = [service.post(f"balloon number {i}", session="pages")["id"] for i in range(5)]
    first = service.get("/v1/artifacts", q="balloon", session="pages", limit=3)
    second = service.get("/v1/artifacts", q="balloon", session="pages", limit=3, cursor=first["next"])
    assert [item["id"] for item in first["items"] + second["items"]] == ids[::-1]
    assert second["next"] is None


def test_a_query_is_bounded_by_when_artifacts_were_stored(service: Service) -> None:
    kept = [service.post(f"barometer {i} fell", session="times", tool_name=f"t{i % 2}") for i in range(4)]
    middle = service.get(f"/v1/artifacts/{kept[2]['id']}")["artifact"]["created_at"]

    def found(**bounds: str) -> list[str]:
        answer = service.get("/v1/artifacts", q="barometer fell", session="times", **bounds)
        assert "partial" not in answer
        return [item["id"] for item in answer["items"]]

    ids = [each["id"] for each in kept]
    assert found(created_after="2020-01-01T00:00:00Z", created_before="2990-01-01T00:00:00Z") == ids[::-1]
    assert found(created_after=middle) == [ids[3], ids[2]]
    assert found(created_before=middle) == [ids[1], ids[0]]
    assert found(created_after=middle, tool_name="t1") == [ids[3]]
    assert found(created_before="2020-01-01T00:00:00Z") == found(created_after="2990-01-01T00:00:00Z") == []


def test_the_tool_lists_by_words(service: Service) -> None:
    receipt = service.post("the 数据库连接 was refused by host seventeen", session="tool", tool_name="psql")
    service.post("nothing of the kind", session="tool")

    def ask(query: str) -> str:
        call = {"name": "list_artifacts", "arguments": {"query": query, "session": "tool"}}
        answer = service.client.post("/v1/tools/call", json=call)
        assert answer.status_code == 200, answer.text
        text: str = answer.json()["text"]
        return text

    found = ask("数据库 refused")
    assert receipt["id"] in found
    assert "1 artifact, newest first." in found
    assert ask("zeppelins") == "(No matching artifact contains all words of the query; try fewer or other words.)"
