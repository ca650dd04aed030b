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

from coatcheck.adapters.tokenizer import load_tokenizer
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


MARKDOWN = "# One\n\nalpha\n\n## Two\n\nbeta river\n\n# Three\n\ngamma river\n"
SECTION_TWO = "## Two\n\nbeta river\n\n"


@dataclass(frozen=True)
class House:
    """A service with a page, a document, JSON and a binary in it."""

    service: Service
    page: str
    notes: str
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
            notes=service.post(MARKDOWN, title="notes.md", inline_tokens=0)["id"],
            record=service.post(json.dumps({"items": [{"id": n} for n in range(200)]}), inline_tokens=0)["id"],
            binary=service.post(R.randbytes(5_000))["id"],
        )


def test_a_page_is_read_without_its_markup_and_cited_exactly(harness: House) -> None:
    text = harness.text(harness.page)
    assert text.startswith(b"[Navigation]\n\nHome\n\n[Article]\n\n# The river guide\n")
    assert b"<p>" not in text
    at = 0
    answer = harness.good("read", harness.page, view="text", max_tokens=300)
    seen = answer["text"]
    while answer["next"]:
        answer = harness.good("read", harness.page, cursor=answer["next"]["cursor"], max_tokens=300)
        assert answer["view"] == "text"
        at = answer["window"]["bytes"]["start"]
        assert answer["text"].encode() == text[at : answer["window"]["bytes"]["end"]]
        seen += answer["text"]
    assert seen.encode() == text
    assert answer["total"] == {
        "bytes": len(text),
        "chars": len(text.decode()),
        "lines": text.count(b"\n") + (not text.endswith(b"\n")),
        "tokens": load_tokenizer().count(text.decode()),
        "tokens_exact": True,
    }
    raw = harness.good("read", harness.page)
    assert (raw["view"], raw["section"], raw["text"].startswith("<!doctype")) == ("raw", None, True)


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


@pytest.mark.parametrize("route", ["read", "search", "windows"])
def test_what_is_shown_of_a_section_lies_in_it(harness: House, route: str) -> None:
    text = harness.text(harness.page)
    entry = harness.good("outline", harness.page)["entries"][5]
    low, high = entry["bytes"]["start"], entry["bytes"]["end"]
    answer = harness.good(route, harness.page, section=entry["section"])
    windows = (
        [answer["window"]["bytes"]] if route == "read" else [w.get("window", w)["bytes"] for w in answer["windows"]]
    )
    assert windows
    for window in windows:
        assert low <= window["start"] <= window["end"] <= high
    if route == "read":
        assert answer["text"].encode() == text[low:high]


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


def test_offsets_of_a_section_are_bounded_by_it(harness: House) -> None:
    entry = harness.good("outline", harness.page)["entries"][4]
    name, lines = entry["section"], entry["lines"]
    whole = harness.good("read", harness.page, section=name)
    assert harness.good("read", harness.page, section=name, offset=1) == whole
    assert harness.good("read", harness.page, section=name, offset=lines["first"]) == whole
    second = harness.good("read", harness.page, section=name, offset=lines["first"] + 1)
    assert second["window"]["lines"] == {"first": lines["first"] + 1, "last": lines["last"]}
    for unit, offset in (
        ("line", lines["last"] + 1),
        ("byte", entry["bytes"]["end"]),
        ("char", 10**6),
        ("token", 10**6),
    ):
        assert harness.bad("read", harness.page, section=name, unit=unit, offset=offset)[:2] == (422, "offset_past_end")
    for unit in ("line", "byte"):
        assert harness.bad("read", harness.page, section=name, unit=unit, offset=-1)[:2] == (400, "invalid_request")
    assert harness.bad("outline", harness.page, offset=10**6)[:2] == (422, "offset_past_end")
    assert harness.bad("outline", harness.page, offset=-1)[:2] == (400, "invalid_request")


def test_a_cursor_is_good_for_its_own_view_and_section_alone(harness: House) -> None:
    first = harness.good("read", harness.page, section="s3", limit=1)
    cursor = first["next"]["cursor"]
    assert harness.good("read", harness.page, cursor=cursor)["section"]["name"] == "s3"
    assert harness.good("read", harness.page, cursor=cursor, section="s3", view="text")["section"]["name"] == "s3"
    for other in ({"section": "s4"}, {"view": "raw"}):
        assert harness.bad("read", harness.page, cursor=cursor, **other)[:2] == (400, "invalid_cursor")
    assert harness.bad("read", harness.notes, cursor=cursor)[:2] == (400, "invalid_cursor")
    raw = harness.good("read", harness.page, limit=1, max_tokens=20)["next"]["cursor"]
    assert harness.bad("read", harness.page, cursor=raw, view="text")[:2] == (400, "invalid_cursor")
    assert harness.bad("read", harness.page, cursor=raw, section="s1")[:2] == (400, "invalid_cursor")


def test_plain_text_is_its_own_text_view(harness: House) -> None:
    raw = harness.ask("content", harness.notes)
    text = harness.ask("content", harness.notes, view="text")
    assert (text.content, text.headers["etag"]) == (raw.content, raw.headers["etag"])
    assert harness.good("read", harness.notes, section="s2")["text"] == SECTION_TWO
    assert harness.good("read", harness.notes, section="Two", view="raw")["text"] == SECTION_TWO
    outline = harness.good("outline", harness.notes)
    assert outline["text"] == "s1 One (1-8)\n  s2 Two (5-8)\ns3 Three (9-11)"
    found = harness.good("search", harness.notes, section="s1")
    assert (found["total"], [m["line"] for m in found["matches"]]) == (1, [7])


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


def test_an_outline_is_bounded_and_goes_on_without_a_gap(harness: House) -> None:
    everything = harness.good("outline", harness.page)
    assert (everything["total"], everything["next"], everything["partial"]) == (17, None, False)
    seen: list[Any] = []
    offset: int | None = 0
    while offset is not None:
        answer = harness.good("outline", harness.page, offset=offset, max_tokens=100)
        assert answer["tokens"] == load_tokenizer().count(answer["text"]) <= 100
        assert answer["entries"]
        seen += answer["entries"]
        offset = answer["next"]
    assert seen == everything["entries"]
    limited = harness.good("outline", harness.page, limit=2)
    assert limited["text"].splitlines()[-1] == "¦ Entries 1-2 of 17. Next: offset=2."
    nothing = harness.good("outline", harness.binary)
    assert (nothing["entries"], nothing["message"].startswith("No outline")) == ([], True)


def test_a_view_survives_a_restart_and_its_ranges_with_it(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as service:
        page: str = service.post(a_page(60), media_type="text/html")["id"]
        before = service.client.get(f"/v1/artifacts/{page}/content", params={"view": "text"})
    with serving(tmp_path / "data") as service:
        after = service.client.get(f"/v1/artifacts/{page}/content", params={"view": "text"})
        assert (after.content, after.headers["etag"]) == (before.content, before.headers["etag"])
        assert service.content(page).startswith(b"<!doctype html>")


def test_the_declared_tool_reads_sections_of_the_text(harness: House) -> None:
    def call(**arguments: Any) -> str:  # noqa: ANN401
        body = {"name": "read_artifact", "arguments": {"artifact_id": harness.page, **arguments}}
        text: str = harness.service.client.post("/v1/tools/call", json=body).json()["text"]
        return text

    first = call(limit=5)
    assert first.startswith(f"[{harness.page} · The river guide · lines 7-11 of ")
    assert first.partition("\n")[0].endswith(" · text]")
    assert "Sections: s1 Navigation, s2 The river guide, s3 Part 0, " in first.rpartition("\n")[2]
    assert first.endswith(', s17 Links of Navigation. Read one with section="s2".)')
    outline = harness.good("outline", harness.page)["entries"]
    lines = outline[2]["lines"]
    third = call(section="s3", limit=2)
    total = harness.good("read", harness.page, view="text")["total"]["lines"]
    which = f"lines {lines['first']}-{lines['first'] + 1} of {total}, section s3 ({lines['first']}-{lines['last']})"
    assert third.partition("\n")[0] == f"[{harness.page} · The river guide · {which} · text]"
    assert f"Next: offset={lines['first'] + 2}." in third
    on = call(section="s3", offset=lines["first"] + 2, limit=200)
    assert on.rpartition("\n")[2].endswith("; that is the end of section s3. The next is s4.)")
    assert call(artifact_id=f"{harness.page}#s3", limit=2) == third
    assert "has no section" in call(section="s99")
    assert call(section="outline").startswith(
        f"[{harness.page} · The river guide · outline · text]\ns1 Navigation (1-6)\ns2 The river guide (7-"
    )
    assert "a path applies to the whole payload" in call(section="s1", path="$.a") or "not JSON" in call(path="$.a")
