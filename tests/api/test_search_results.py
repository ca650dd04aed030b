"""Web searches within a budget over HTTP, from a service that runs as it is run."""

import json
import random
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from coatcheck.adapters.tokenizer import load_tokenizer
from coatcheck.core.errors import CoatcheckError, Code
from support.faces import FaceHarness
from support.service import Service, serving

TOKENIZER = load_tokenizer()
TIDES = (
    "The Moon draws the sea towards it, and so tides form twice a day along most coasts. "
    "Where a bay narrows, the water rises far higher than it does in the open sea. "
)
BRIDGES = "A suspension bridge carries its deck on cables that hang between two towers. "
BREAD = "Sourdough needs a starter of flour and water that wild yeast has made sour. "
Json = dict[str, Any]


def filler(seed: int, words: int) -> str:
    rng = random.Random(seed)
    vocabulary = ("harbour", "lantern", "orchard", "granite", "copper", "meadow", "engine", "letter", "valley")
    return " ".join(
        " ".join(rng.choices(vocabulary, k=9)).capitalize() + ("." if n % 6 else ".\n\n") for n in range(words // 9)
    )


def tavily(*texts: str, site: str = "example.org", query: str = "how do tides form") -> Json:
    results = [
        {
            "title": f"Page {n}",
            "url": f"https://{site}/p/{n}",
            "content": text,
            "score": 0.9 - n / 100,
            "raw_content": None,
        }
        for n, text in enumerate(texts, 1)
    ]
    return {
        "query": query,
        "follow_up_questions": None,
        "answer": None,
        "images": [],
        "results": results,
        "response_time": 1.2,
    }


def brave(*texts: str, site: str = "example.net") -> Json:
    results = [
        {
            "type": "search_result",
            "title": f"Brave {n}",
            "url": f"https://{site}/b/{n}",
            "description": text,
            "age": "2 days ago",
        }
        for n, text in enumerate(texts, 1)
    ]
    return {"type": "search", "query": {"original": "how do tides form"}, "web": {"type": "search", "results": results}}


def session_of(name: str) -> str:
    return f"session-{name}"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("searches") / "data") as running:
        yield running


def search(service: Service, response: object, **asked: object) -> httpx.Response:
    return service.client.post("/v1/search-results", json={"response": response, **asked})


def searched(service: Service, response: object, **asked: object) -> Json:
    got = search(service, response, **asked)
    assert got.status_code in {200, 201}, got.text
    answer: Json = got.json()
    return answer


def verified(service: Service, *quotes: object, **asked: object) -> list[Json]:
    got = service.client.post("/v1/citations/verify", json={"quotes": list(quotes), **asked})
    assert got.status_code == 200, got.text
    results: list[Json] = got.json()["results"]
    return results


def view_of(service: Service, artifact_id: str, **params: str) -> bytes:
    got = service.client.get(f"/v1/artifacts/{artifact_id}/content", params={"view": "text", **params})
    assert got.status_code == 200, got.text
    return got.content


def warned(answer: Json) -> list[str]:
    return [warning["code"] for warning in answer["warnings"]]


def cut_out(view: bytes, window: Json) -> str:
    return view[window["bytes"]["start"] : window["bytes"]["end"]].decode()


LONG = tavily(*(filler(n, 900) + TIDES + filler(n + 50, 900) for n in range(1, 6)), filler(70, 40) + BREAD)


@pytest.mark.parametrize("body", [LONG, brave(TIDES, BRIDGES, BREAD, filler(3, 90))], ids=["tavily", "brave"])
def test_every_citation_of_an_answer_is_verified_where_it_says_that_it_stands(service: Service, body: Json) -> None:
    answer = searched(service, body, query="how do tides form", session=session_of("cite"))
    points = answer["summary"]["summary"]
    assert points
    view = view_of(service, answer["id"])
    assert all(cut_out(view, point["view"]) == point["text"] for point in points)
    quotes = [{"quote": p["text"], "citation": p["citation"], "range": p["view"]} for p in points]
    for result, point in zip(verified(service, *quotes), points, strict=True):
        assert result["checked"] == {
            "verdict": "exact",
            "citation": point["citation"],
            "stands_in": point["citation"],
            "view": "text",
            "window": point["view"],
            "text": point["text"],
            "ratio": 1.0,
            "moved": False,
            "differences": [],
            "partial": False,
        }
    windows = [
        (shown["citation"], quote) for shown in answer["results"] for quote in shown["windows"] if quote["exact"]
    ]
    assert windows
    for citation, quote in windows:
        assert cut_out(view, quote["view"]).strip() == quote["text"].strip()
        assert citation.startswith(f"{answer['id']}#r")


def test_an_answer_stays_within_its_limits_and_counts_what_is_missing(service: Service) -> None:
    answer = searched(service, LONG, query="how do tides form", max_total_tokens=1_500, max_tokens_per_result=400)
    assert answer["tokens"] == TOKENIZER.count(answer["text"]) <= 1_500
    assert all(shown["tokens"] <= 400 for shown in answer["results"])
    assert len(answer["results"]) == 3
    assert answer["payload"] == {"tokens": answer["tokens"], "cap": 1_500, "text": f"~{answer['tokens']:,} of 1,500"}
    counts = answer["counts"]
    assert counts["results"] == 6 == counts["shown"] + counts["listed"] + counts["unlisted"] + counts["folded"]
    assert counts["chars_of_shown"] == counts["shown_chars"] + counts["cut_chars"] + counts["boilerplate_chars"]
    assert counts["cut_chars"] > 0
    assert "tides form twice a day" in answer["text"]
    summary = answer["summary"]
    assert summary["token_estimate"] == TOKENIZER.count(summary["text"]) <= 768
    assert {source["source"] for source in summary["citations"]} <= {f"{answer['id']}#r{n}" for n in range(1, 7)}


def test_the_response_is_kept_as_it_came_and_its_results_are_read_as_sections(service: Service) -> None:
    body = tavily(TIDES, BRIDGES, BREAD)
    sent = json.dumps({"session": session_of("kept"), "response": body, "query": "bridge"}, indent=1)
    got = service.client.post("/v1/search-results", content=sent, headers={"content-type": "application/json"})
    answer = got.json()
    assert (got.status_code, got.headers["location"]) == (201, f"/v1/artifacts/{answer['id']}")
    assert service.content(answer["id"]).decode() in sent
    assert json.loads(service.content(answer["id"])) == body
    artifact = service.get(f"/v1/artifacts/{answer['id']}")["artifact"]
    assert (artifact["kind"], artifact["session"]) == ("search_results", session_of("kept"))
    second = service.get(f"/v1/artifacts/{answer['id']}/read", section="r2", view="text")
    assert BRIDGES.strip() in second["text"]
    assert TIDES.strip() not in second["text"]
    assert view_of(service, answer["id"], section="r2").decode() == second["text"]


def test_the_same_search_again_gives_the_same_bytes_whatever_came_after_it(service: Service) -> None:
    asked = {"query": "tides", "session": session_of("again"), "tool_call_id": "c1"}
    first = search(service, LONG, **asked)
    searched(service, tavily(TIDES, BREAD), query="tides", session=session_of("again"), tool_call_id="c2")
    second = search(service, LONG, **asked)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.content == second.content


def test_a_string_is_kept_as_the_text_that_it_holds(service: Service) -> None:
    text = json.dumps(tavily(TIDES, BRIDGES), indent=2)
    answer = searched(service, text, query="tides")
    assert service.content(answer["id"]).decode() == text
    assert [shown["url"] for shown in answer["results"]] == ["https://example.org/p/1", "https://example.org/p/2"]


@pytest.mark.parametrize(
    "rubbish",
    [
        "",
        "no search at all",
        None,
        7,
        [],
        {},
        [[[1]]],
        {"results": "none"},
        '{"results": [{"ti',
        "\u0000\ufffe",
        "[" * 900,
    ],
    ids=["empty", "words", "null", "number", "list", "object", "nested", "string", "broken", "control", "deep"],
)
def test_rubbish_is_kept_and_said_to_hold_no_results(service: Service, rubbish: object) -> None:
    answer = searched(service, rubbish, session=session_of("rubbish"))
    assert "no_results" in warned(answer)
    assert answer["results"] == []
    assert answer["summary"]["summary"] == []
    expected = rubbish if isinstance(rubbish, str) else json.dumps(rubbish, separators=(",", ":"))
    assert service.content(answer["id"]).decode() == expected
    assert TOKENIZER.count(answer["text"]) == answer["tokens"] <= 8_192


def test_halves_of_surrogate_pairs_break_nothing(service: Service) -> None:
    result = b'{"title": "T \\ud83d", "url": "https://e.org/1", "content": "cut \\ud83d off here"}'
    body = b'{"response": {"results": [' + result + b"]}}"
    got = service.client.post("/v1/search-results", content=body, headers={"content-type": "application/json"})
    assert got.status_code == 201, got.text
    assert [shown["url"] for shown in got.json()["results"]] == ["https://e.org/1"]
    as_text = b'{"response": "cut \\ud83d off"}'
    got = service.client.post("/v1/search-results", content=as_text, headers={"content-type": "application/json"})
    assert "lone_surrogates_replaced" in warned(got.json())


@pytest.mark.parametrize(
    "asked",
    [
        {"max_results": 0},
        {"max_results": 21},
        {"max_tokens_per_result": 63},
        {"max_tokens_per_result": 8_193},
        {"max_total_tokens": 127},
        {"max_total_tokens": 32_769},
        {"format": "html"},
        {"session": "a\nb"},
        {"surprise": 1},
    ],
    ids=str,
)
def test_what_is_out_of_bounds_is_refused_by_its_name(service: Service, asked: Json) -> None:
    got = search(service, tavily(TIDES), **asked)
    assert (got.status_code, got.headers["content-type"]) == (400, "application/problem+json")
    assert (got.json()["code"], got.json()["field"]) == ("invalid_request", next(iter(asked)))


def test_what_the_session_has_is_named_by_its_first_citation_and_not_shown_again(service: Service) -> None:
    session = session_of("folds")
    first = searched(service, tavily(TIDES, BRIDGES), query="tides", session=session)
    tracked = {
        "query": "q",
        "results": [
            {"title": "Page 1", "url": "http://EXAMPLE.org/p/1?utm_source=x#top", "content": TIDES},
            {"title": "Copy", "url": "https://copies.example/1", "content": BRIDGES * 6},
            {"title": "New", "url": "https://example.org/new", "content": BREAD},
            {"title": "Page 2", "url": "https://example.org/p/2", "content": filler(9, 200)},
        ],
    }
    second = searched(service, tracked, query="sourdough", session=session)
    assert second["folded"] == [{"section": "r1", "into": f"{first['id']}#r1", "why": "url"}]
    assert f"r1 is already stored as {first['id']}#r1" in second["text"]
    assert {shown["section"]: shown["also"] for shown in second["results"]} == {
        "r2": None,
        "r3": None,
        "r4": f"{first['id']}#r2",
    }
    third = searched(service, tavily(BREAD, site="other.example"), query="sourdough", session=session)
    assert third["folded"] == [{"section": "r1", "into": f"{second['id']}#r3", "why": "text"}]
    elsewhere = searched(service, tracked, query="sourdough", session=session_of("folds elsewhere"))
    assert elsewhere["folded"] == []
    whole = searched(service, tracked, query="x", session=session, tool_call_id="c9", across_session=False)
    assert whole["folded"] == []


def test_a_page_that_the_session_fetched_is_named_beside_a_result_of_it(service: Service) -> None:
    session = session_of("pages")
    html = (
        f"<html><head><title>Tides</title></head><body><main><h1>Tides</h1><p>{filler(4, 300)}</p></main></body></html>"
    )
    page = service.post(html, media_type="text/html", url="https://example.org/p/1/", session=session)
    answer = searched(service, tavily(TIDES), query="tides", session=session)
    assert [(shown["section"], shown["also"]) for shown in answer["results"]] == [("r1", page["id"])]
    assert answer["folded"] == []


def test_a_source_that_was_deleted_folds_nothing(service: Service) -> None:
    session = session_of("deleted")
    first = searched(service, tavily(TIDES), query="tides", session=session)
    assert service.client.delete(f"/v1/artifacts/{first['id']}").status_code == 204
    second = searched(service, tavily(TIDES), query="tides", session=session, tool_call_id="c2")
    assert second["folded"] == []


def test_content_comes_in_the_form_that_is_asked_for(service: Service) -> None:
    body = tavily(TIDES, BRIDGES)
    plain = searched(service, body, query="tides")
    assert plain["content"] == plain["text"] == searched(service, body, query="tides", format="openai")["content"]
    blocks = searched(service, body, query="tides", format="anthropic")["content"]
    cited = [block for block in blocks if block["type"] == "search_result"]
    assert [block["source"] for block in cited] == ["https://example.org/p/1", "https://example.org/p/2"]
    assert all(part["text"] for block in cited for part in block["content"])
    assert {block["type"] for block in blocks} == {"search_result", "text"}


def test_a_response_that_was_stored_as_something_else_is_one_by_the_last_word_and_has_its_sections(
    service: Service,
) -> None:
    text = json.dumps(tavily(TIDES, BRIDGES))
    before = service.post(text, kind="text", session=session_of("other"))
    answer = searched(service, text, query="tides", session=session_of("other"))
    assert (answer["id"], warned(answer)) == (before["id"], [])
    read = service.client.get(f"/v1/artifacts/{answer['id']}/read", params={"view": "text", "section": "r1"})
    assert "Moon" in read.json()["text"]


def test_a_replayed_response_that_is_something_else_by_now_is_said_to_have_no_sections(service: Service) -> None:
    text, session = json.dumps(tavily(TIDES, BRIDGES)), session_of("replayed")
    asked = {"response": text, "query": "tides", "session": session}
    headers = {"idempotency-key": session}
    first = service.client.post("/v1/search-results", json=asked, headers=headers).json()
    assert service.post(text, kind="text", session=session)["id"] == first["id"]
    again = service.client.post("/v1/search-results", json=asked, headers=headers).json()
    assert again["id"] == first["id"]
    assert "kind_conflict" in warned(again)


def test_a_quotation_is_told_apart_from_what_stands_there(service: Service) -> None:
    answer = searched(service, tavily(TIDES, BRIDGES, BREAD), query="tides")
    one, two = f"{answer['id']}#r1", f"{answer['id']}#r2"
    results = verified(
        service,
        {"quote": "The Moon draws the sea  towards it", "citation": one},
        {
            "quote": "The Moon draws the ocean towards it, and so tides form twice a day along most coasts",
            "citation": one,
        },
        {"quote": "The Moon is made of cheese and every tide proves it.", "citation": one},
        {"quote": BRIDGES.strip(), "citation": one},
        {"quote": BRIDGES.strip(), "citation": answer["id"]},
    )
    checked = [result["checked"] for result in results]
    assert [each["verdict"] for each in checked] == ["normalised", "fuzzy", "absent", "exact", "exact"]
    assert checked[1]["differences"] == [{"quoted": "ocean", "stands": "sea"}]
    assert [each["moved"] for each in checked] == [False, False, False, True, False]
    assert [each["stands_in"] for each in checked] == [one, one, None, two, two]
    view = view_of(service, answer["id"])
    for each in checked:
        assert each["window"] is None or cut_out(view, each["window"]) == each["text"]
        if each["window"]:
            chars = each["window"]["chars"]
            assert view.decode()[chars["start"] : chars["end"]] == each["text"]


def test_one_bad_quotation_fails_alone(service: Service) -> None:
    answer = searched(service, tavily(TIDES), query="tides")
    gone = searched(service, tavily(BREAD, site="gone.example"))
    service.client.delete(f"/v1/artifacts/{gone['id']}")
    binary = service.post(random.Random(5).randbytes(4_000))["id"]
    results = verified(
        service,
        {"quote": "twice a day", "citation": f"{answer['id']}#r1"},
        {"quote": "twice a day", "citation": f"{answer['id']}#r9"},
        {"quote": "twice a day", "citation": "art_000000000000000098"},
        {"quote": "twice a day", "citation": "art_1"},
        {"quote": "twice a day", "citation": gone["id"]},
        {"quote": "twice a day", "citation": binary},
        {"quote": "twice a day"},
        {"quote": "x" * 4_001, "citation": answer["id"]},
        {"quote": "", "citation": answer["id"]},
        {"quote": "twice a day", "citation": answer["id"], "range": {"chars": {"start": 9, "end": 3}}},
        {"quote": "twice a day", "citation": answer["id"], "range": {"bytes": {"start": 10**15, "end": 10**16}}},
        "no quotation",
        7,
    )
    told = [result["checked"]["verdict"] if "checked" in result else result["problem"]["code"] for result in results]
    assert told == [
        "exact",
        "section_not_found",
        "artifact_not_found",
        "invalid_artifact_id",
        "artifact_gone",
        "not_text",
        "invalid_request",
        "invalid_request",
        "invalid_request",
        "invalid_request",
        "exact",
        "invalid_request",
        "invalid_request",
    ]
    assert results[10]["checked"]["moved"] is True


def test_a_citation_for_all_quotations_is_given_once(service: Service) -> None:
    answer = searched(service, tavily(TIDES, BRIDGES), query="tides")
    results = verified(service, {"quote": "twice a day"}, {"quote": "two towers"}, citation=answer["id"])
    assert [result["checked"]["stands_in"] for result in results] == [f"{answer['id']}#r1", f"{answer['id']}#r2"]


@pytest.mark.parametrize("quotes", [[], [{"quote": "a", "citation": "b"}] * 101], ids=["none", "101"])
def test_a_list_of_no_or_too_many_quotations_is_refused(service: Service, quotes: list[Json]) -> None:
    got = service.client.post("/v1/citations/verify", json={"quotes": quotes})
    assert (got.status_code, got.json()["code"], got.json()["field"]) == (400, "invalid_request", "quotes")


def test_a_quotation_is_found_in_the_cited_part_of_a_text_too_large_to_look_at_whole(service: Service) -> None:
    line = "This line says nothing that anybody would ever quote from it.\n"
    text = line * 60_000 + "Then, at last, the lighthouse keeper saw the ship.\n" + line * 1_000
    artifact_id = service.post(text.encode(), media_type="text/plain")["id"]
    at = len(line) * 60_000
    quote = {"quote": "the lighthouse keeper saw the ship", "citation": artifact_id}
    beyond = [{**quote, "range": {"bytes": {"start": far, "end": far}}} for far in (len(text) + 400_000, 10**400)]
    near, blind, *late = verified(service, {**quote, "range": {"bytes": {"start": at, "end": at + 60}}}, quote, *beyond)
    assert near["checked"]["window"]["bytes"] == {"start": at + 15, "end": at + 49}
    assert (near["checked"]["verdict"], near["checked"]["partial"], near["checked"]["moved"]) == ("exact", True, False)
    assert (blind["checked"]["verdict"], blind["checked"]["partial"]) == ("absent", True)
    assert [(each["checked"]["verdict"], each["checked"]["moved"]) for each in late] == [("exact", True)] * 2


def test_a_quotation_with_other_words_or_far_pieces_is_not_said_to_be_nowhere(service: Service) -> None:
    line = "This line says nothing that anybody would ever quote from it.\n"
    text = line * 20_000 + "Then, at last, the lighthouse keeper saw the ship.\n"
    artifact_id = service.post(text.encode(), media_type="text/plain")["id"]
    quotes = ["Then, at night, the lighthouse keeper saw the ship", "This line says … saw the ship"]
    other, far = verified(service, *({"quote": quote} for quote in quotes), citation=artifact_id)
    assert (other["checked"]["verdict"], other["checked"]["partial"]) == ("absent", True)
    assert far["checked"]["verdict"] == "normalised"
    assert far["checked"]["text"].endswith("\nThen, at last, the lighthouse keeper saw the ship")
    assert len(far["checked"]["text"]) <= 8_000


async def test_what_storage_refuses_is_answered_all_the_same(client: httpx.AsyncClient, harness: FaceHarness) -> None:
    asked = {"response": tavily(TIDES, BRIDGES), "query": "tides", "session": "s"}
    harness.catalog.fault = CoatcheckError(Code.STORAGE_UNAVAILABLE, "The database does not answer.")
    got = await client.post("/v1/search-results", json=asked)
    answer = got.json()
    assert (got.status_code, answer["stored"]) == (202, False)
    assert "storage_unavailable" in warned(answer)
    assert "Not stored: cannot be read back." in answer["text"]
    assert answer["id"] not in answer["text"] + answer["summary"]["text"]
    assert [shown["citation"] for shown in answer["results"]] == ["r1", "r2"]
    harness.catalog.fault = None
    again = await client.post("/v1/search-results", json=asked)
    assert (again.status_code, again.json()["stored"], again.json()["id"]) == (201, True, answer["id"])


async def test_a_key_gives_the_answer_that_it_gave_and_no_other_request_may_use_it(
    client: httpx.AsyncClient, harness: FaceHarness
) -> None:
    del harness
    asked = {"response": tavily(TIDES), "query": "tides"}
    headers = {"idempotency-key": "one"}
    first = await client.post("/v1/search-results", json=asked, headers=headers)
    second = await client.post("/v1/search-results", json=asked, headers=headers)
    other = await client.post("/v1/search-results", json={**asked, "response": tavily(BREAD)}, headers=headers)
    assert (first.status_code, second.status_code, first.content) == (201, 201, second.content)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
