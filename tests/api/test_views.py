"""The text view, its sections and outlines over HTTP, from a service that runs as it is run."""

import hashlib
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.service import Service, serving

R = random.Random(7)
WORDS = ("river", "field", "morning", "people", "walked", "bridge", "market", "stone", "quiet", "garden", "harbour")
READS = ("read", "search", "windows", "outline")


def prose(words: int) -> str:
    return " ".join(R.choices(WORDS, k=words)).capitalize() + "."


def a_page(sections: int = 12) -> str:
    parts = "".join(f"<h2>Part {n}</h2>{''.join(f'<p>{prose(40)}</p>' for _ in range(4))}" for n in range(sections))
    return (
        "<!doctype html><html><head><title>The river guide</title></head><body><nav><a href='/'>Home</a></nav>"
        f"<main><h1>The river guide</h1><p>{prose(60)}</p>{parts}</main><footer>Contact</footer></body></html>"
    )


@dataclass(frozen=True)
class House:
    """A service with a page, JSON and a binary in it."""

    service: Service
    page: str
    record: str
    binary: str

    def ask(self, route: str, artifact_id: str, **params: Any) -> httpx.Response:  # noqa: ANN401
        """A GET of an artifact's route, with what the route needs."""
        needed = {"search": {"pattern": "river"}, "windows": {"query": "river bridge"}}.get(route, {})
        cited = artifact_id.replace("#", "%23")
        return self.service.client.get(f"/v1/artifacts/{cited}/{route}", params={**needed, **params})

    def good(self, route: str, artifact_id: str, **params: Any) -> Any:  # noqa: ANN401
        response = self.ask(route, artifact_id, **params)
        assert response.status_code == 200, response.text
        return response.json()

    def bad(self, route: str, artifact_id: str, **params: Any) -> tuple[int, str, str]:  # noqa: ANN401
        response = self.ask(route, artifact_id, **params)
        problem = response.json()
        assert response.headers["content-type"] == "application/problem+json"
        return response.status_code, problem["code"], problem["detail"]

    def text(self, artifact_id: str, **params: str) -> bytes:
        response = self.ask("content", artifact_id, view="text", **params)
        assert response.status_code == 200, response.text
        return response.content


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with serving(tmp_path_factory.mktemp("views") / "data") as service:
        yield House(
            service,
            page=service.post(a_page(), media_type="text/html", url="https://example.org/rivers")["id"],
            record=service.post(json.dumps({"items": [{"id": n} for n in range(200)]}), inline_tokens=0)["id"],
            binary=service.post(R.randbytes(5_000))["id"],
        )


@pytest.mark.parametrize("route", READS)
def test_every_way_of_reading_takes_a_section_by_parameter_or_by_citation(harness: House, route: str) -> None:
    entry = harness.good("outline", harness.page)["entries"][3]
    named = harness.good(route, harness.page, section=entry["section"])
    cited = harness.good(route, f"{harness.page}#{entry['section']}")
    titled = harness.good(route, harness.page, section=entry["title"])
    both = harness.good(route, f"{harness.page}#{entry['section']}", section=entry["section"])
    assert named == cited == titled == both
    assert named["section"] == {
        "name": entry["section"],
        "title": entry["title"],
        "level": entry["level"],
        "lines": entry["lines"],
        "bytes": entry["bytes"],
        "url": None,
    }
    assert named["view"] == "text"


@pytest.mark.parametrize("route", [*READS, "content"])
def test_a_section_that_is_not_there_is_told_which_there_are(harness: House, route: str) -> None:
    status, code, detail = harness.bad(route, harness.page, section="s999")
    assert (status, code) == (404, "section_not_found")
    assert "It has s2 (The river guide), s3 (Part 0), s4 (Part 1)" in detail
    assert harness.bad(route, f"{harness.page}#r1")[:2] == (404, "section_not_found")
    assert harness.bad(route, f"{harness.page}#s1", section="s2")[:2] == (400, "invalid_request")
    assert harness.bad(route, f"{harness.page}#")[:2] in {(400, "invalid_artifact_id"), (400, "invalid_request")}
    assert harness.bad(route, harness.record, section="s1")[:2] == (404, "section_not_found")


@pytest.mark.parametrize("route", ["read", "search", "windows", "content"])
def test_a_view_that_is_not_there_is_refused(harness: House, route: str) -> None:
    status, code, detail = harness.bad(route, harness.binary, view="text")
    assert (status, code) == (422, "view_not_available")
    assert detail.endswith("has no text view. Use view=raw, which is the exact payload.")
    assert harness.bad(route, harness.page, view="pdf")[:2] == (400, "invalid_request")
    assert harness.bad(route, harness.page, view="raw", section="s1")[:2] == (404, "section_not_found")


def test_minified_json_is_read_indented_and_its_paths_lead_through_the_payload(harness: House) -> None:
    text = harness.text(harness.record)
    assert json.loads(text) == {"items": [{"id": n} for n in range(200)]}
    assert text.count(b"\n") > 200
    answer = harness.good("json", harness.record, path="$.items[3].id")
    raw = harness.ask("content", harness.record).content
    where = answer["values"][0]["bytes"]
    assert raw[where["start"] : where["end"]] == b"3"
    assert harness.bad("json", f"{harness.record}#s1", path="$")[:2] == (400, "invalid_request")
    outline = harness.good("outline", harness.record)
    assert [(e["path"], e["detail"]) for e in outline["entries"]] == [
        ("$", "object: items array"),
        ("$.items", "array of 200 objects"),
        ("$.items[*]", "object: id int"),
    ]
    assert harness.good("json", harness.record, path=outline["entries"][2]["path"], limit=1)["total"] == 200


def test_the_content_route_serves_each_view_and_section_under_a_tag_of_its_own(harness: House) -> None:
    client = harness.service.client
    path = f"/v1/artifacts/{harness.page}/content"
    text = harness.text(harness.page)
    answers = [client.get(path, params=p) for p in ({}, {"view": "text"}, {"section": "s2"}, {"section": "s3"})]
    assert len({a.headers["etag"] for a in answers}) == 4
    assert answers[1].headers["etag"] == f'"{hashlib.sha256(text).hexdigest()}"'
    assert answers[1].headers["content-type"] == "text/plain; charset=utf-8"
    assert answers[1].headers["content-disposition"] == 'attachment; filename="The river guide.txt"'
    assert answers[2].headers["content-disposition"] == 'attachment; filename="The river guide-s2.txt"'
    assert ["repr-digest" in a.headers for a in answers] == [True, True, False, False]
    assert answers[2].content in text
    for params in ({}, {"view": "text"}, {"section": "s2"}):
        whole, head = client.get(path, params=params), client.head(path, params=params)
        ours = {n: v for n, v in whole.headers.items() if n not in {"x-request-id", "date"}}
        assert {n: v for n, v in head.headers.items() if n not in {"x-request-id", "date"}} == ours
        assert (head.status_code, head.content) == (200, b"")
        size = len(whole.content)
        tag = whole.headers["etag"]
        for value, piece in (("bytes=5-20", whole.content[5:21]), ("bytes=-9", whole.content[-9:])):
            part = client.get(path, params=params, headers={"range": value, "if-range": tag})
            assert (part.status_code, part.content, part.headers["etag"]) == (206, piece, tag)
        several = client.get(path, params=params, headers={"range": "bytes=0-3,10-13"})
        assert several.status_code == 206
        assert whole.content[10:14] in several.content
        other = client.get(path, params=params, headers={"range": "bytes=0-3", "if-range": '"other"'})
        assert (other.status_code, other.content) == (200, whole.content)
        beyond = client.get(path, params=params, headers={"range": f"bytes={size}-"})
        assert (beyond.status_code, beyond.headers["content-range"]) == (416, f"bytes */{size}")
        assert client.get(path, params=params, headers={"if-none-match": tag}).status_code == 304
        assert client.get(path, params=params, headers={"if-match": '"other"'}).status_code == 412
    raw_tag = answers[0].headers["etag"]
    stale = client.get(path, params={"view": "text"}, headers={"range": "bytes=0-3", "if-range": raw_tag})
    assert (stale.status_code, stale.content) == (200, text)


def test_a_citation_names_its_artifact_where_no_section_is_read(harness: House) -> None:
    client = harness.service.client
    plain, cited = (client.get(f"/v1/artifacts/{i}").json() for i in (harness.page, f"{harness.page}%23s2"))
    assert cited == plain
    assert client.delete(f"/v1/artifacts/{harness.page}%23s2").status_code == 400
    assert client.get(f"/v1/artifacts/{harness.page}").status_code == 200


def test_a_view_survives_a_restart_and_its_ranges_with_it(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as service:
        page: str = service.post(a_page(60), media_type="text/html")["id"]
        before = service.client.get(f"/v1/artifacts/{page}/content", params={"view": "text"})
    with serving(tmp_path / "data") as service:
        after = service.client.get(f"/v1/artifacts/{page}/content", params={"view": "text"})
        assert (after.content, after.headers["etag"]) == (before.content, before.headers["etag"])
        assert service.content(page).startswith(b"<!doctype html>")
