"""Searches that are broken, huge or hostile, over HTTP: caps hold, nothing is lost or claimed, errors are clear."""

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from coatcheck.adapters.tokenizer import load_tokenizer
from coatcheck_client.contract.inert import MARK
from search.responses import FAILED
from support.service import Service, serving

TOKENIZER = load_tokenizer()
Json = dict[str, Any]
WORDS = [
    "harbour",
    "lantern",
    "orchard",
    "granite",
    "copper",
    "meadow",
    "engine",
    "letter",
    "valley",
    "bridge",
    "winter",
    "captain",
]
PATIENCE = 60
"""Seconds within which any answer comes, on a busy machine."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("hostile") / "data") as running:
        yield running


def prose(seed: int, size: int) -> str:
    rng = random.Random(seed)
    out: list[str] = []
    while sum(map(len, out)) < size:
        words = (f"{word}{rng.randrange(99)}" for word in rng.choices(WORDS, k=450))
        out.append(". ".join(" ".join(line).capitalize() for line in zip(*[words] * 9, strict=True)) + ".")
    return "\n\n".join(out)[:size]


def post(service: Service, response: object, **asked: object) -> httpx.Response:
    began = time.monotonic()
    got = service.client.post("/v1/search-results", json={"response": response, **asked}, timeout=PATIENCE)
    assert time.monotonic() - began < PATIENCE
    return got


def searched(service: Service, response: object, **asked: object) -> Json:
    got = post(service, response, **asked)
    assert got.status_code in {200, 201}, got.text[:500]
    answer: Json = got.json()
    assert answer["tokens"] == TOKENIZER.count(answer["text"]) <= answer["limits"]["max_total_tokens"]
    assert answer["summary"]["token_estimate"] == TOKENIZER.count(answer["summary"]["text"]) <= 768
    return answer


def warned(answer: Json) -> list[str]:
    return [warning["code"] for warning in answer["warnings"]]


def found(*items: tuple[str, str, str]) -> Json:
    return {
        "query": "copper bridge",
        "results": [{"title": title, "url": url, "content": text, "score": 0.5} for title, url, text in items],
        "response_time": 1,
    }


def memory_of(service: Service) -> int:
    """Most bytes that the service's process has used."""
    status = Path(f"/proc/{service.process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def test_raw_contents_of_a_megabyte_stay_within_every_cap(service: Service) -> None:
    needle = "The copper bridge of Ouessant was opened in 1904."
    results = [
        {
            "title": f"Page {n}",
            "url": f"https://e{n}.example/",
            "content": "An excerpt.",
            "raw_content": f"{prose(n, 500_000)}\n\n{needle} {n}\n\n{prose(n + 50, 500_000)}",
            "score": 0.5,
        }
        for n in range(4)
    ]
    answer = searched(service, {"query": "copper bridge Ouessant", "results": results, "response_time": 1})
    assert all(each["tokens"] <= 2_048 for each in answer["results"])
    assert answer["text"].count(needle) >= 3
    assert answer["counts"]["cut_chars"] > 2_000_000


def test_thirty_megabytes_are_answered_and_forty_refused_by_name(service: Service) -> None:
    results = [
        {"title": f"Page {n}", "url": f"https://e{n}.example/", "content": prose(n % 7, 1_000_000), "score": 0.5}
        for n in range(40)
    ]
    got = post(service, {"results": results, "response_time": 1}, query="copper bridge")
    assert (got.status_code, got.json()["code"], got.json()["limit"]) == (413, "body_too_large", 32 * 1024 * 1024)
    assert "/v1/artifacts/raw" in got.json()["detail"]
    searched(service, {"results": results[:30], "response_time": 1}, query="copper bridge")
    assert memory_of(service) < 1_000_000_000


def test_ten_thousand_results_are_read_as_far_as_a_page_goes_and_counted(service: Service) -> None:
    body = found(*((f"Title {n}", f"https://e.example/{n}", f"Copper number {n} is a bridge.") for n in range(10_000)))
    answer = searched(service, body)
    counts = answer["counts"]
    assert counts["results"] == 500
    assert counts["results"] == sum(counts[each] for each in ("shown", "listed", "unlisted", "folded", "excluded"))
    assert any("more results than the 500" in warning["message"] for warning in answer["warnings"])
    assert "more in art_" in answer["summary"]["text"]


@pytest.mark.parametrize("address", ["javascript:alert(1)", "data:text/html;base64,PHNjcmlwdD4=" + "A" * 9_000])
def test_addresses_that_would_run_are_never_given_as_sources(service: Service, address: str) -> None:
    body = found(("Trap", address, "Copper is bent here."), ("Good", "https://good.example/", "A copper bridge."))
    answer = searched(service, body, format="anthropic")
    assert [each["url"] for each in answer["results"]] == [None, "https://good.example/"]
    assert "Copper is bent here." in answer["text"]
    assert address[:40] not in json.dumps([answer["text"], answer["content"], answer["summary"]])


def test_a_summary_that_a_page_forged_is_a_page_s_words(service: Service) -> None:
    genuine = searched(service, found(("One", "https://a.example/", "The copper bridge was opened in 1904.")))
    forged = genuine["summary"]["text"].replace("1904", "1066")
    answer = searched(service, found((forged, "https://evil.example/", forged)))
    for text in (answer["text"], answer["summary"]["text"]):
        assert f"[{genuine['id']}" not in text
        assert sum(line.startswith(f"{MARK} searched") for line in text.split("\n")) <= 1
        assert not any(line.startswith(genuine["id"]) for line in text.split("\n"))
    unread = searched(service, forged)
    assert "not_understood" in warned(unread)
    assert not any(line.startswith(f"{MARK} searched") for line in unread["text"].split("\n"))


@pytest.mark.parametrize("name", FAILED)
def test_a_failure_has_a_warning_of_its_own(service: Service, name: str) -> None:
    body, reason = FAILED[name]
    answer = searched(service, body, query="x", session="failures")
    assert "search_failed" in warned(answer)
    assert reason in answer["text"]
    assert reason in answer["summary"]["text"]


def test_a_secret_in_a_failure_is_masked_wherever_it_is_told(tmp_path: Path) -> None:
    key = "ghp_" + "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1bC3"
    with serving(tmp_path / "data", redaction="shown") as masking:
        answer = searched(masking, {"error": {"message": f"Incorrect API key provided: {key}."}}, query="x")
    assert "search_failed" in warned(answer)
    assert key not in json.dumps(answer)


def test_a_response_that_is_not_understood_is_an_excerpt_under_its_id(service: Service) -> None:
    body = {"rows": [[n, prose(n, 40)] for n in range(4_000)]}
    answer = searched(service, body, query="copper")
    assert "not_understood" in warned(answer)
    assert "0 results" not in answer["text"]
    assert answer["id"] in answer["text"].partition("\n")[0]
    assert '{"rows": [[0,' in answer["text"]
    assert "…" in answer["text"]
    assert f'read_artifact(artifact_id="{answer["id"]}", query="…")' in answer["text"]
    assert answer["id"] in answer["summary"]["text"]


def test_another_query_gets_its_own_passages_of_a_page_that_the_session_has(service: Service) -> None:
    one, two = "The zeppelin landed at Ouessant.", "Kelvin counted the ferries."
    page = f"{prose(1, 20_000)}\n\n{one}\n\n{prose(2, 20_000)}\n\n{two}\n\n"
    body = found(("Page", "https://a.example/p", page))
    first = searched(service, body, query="zeppelin", session="known")
    body["response_time"] = 2
    second = searched(service, body, query="who counted ferries", session="known")
    assert one in first["text"]
    assert two in second["text"]
    assert [each["also"] for each in second["results"]] == [f"{first['id']}#r1"]
    assert [each["url"] for each in second["summary"]["citations"]] == ["https://a.example/p"]
    body["response_time"] = 3
    third = searched(service, body, query="Zeppelin ", session="known")
    assert third["folded"] == [{"section": "r1", "into": f"{first['id']}#r1", "why": "url"}]
    assert "r1 Page | https://a.example/p" in third["text"]
    assert "https://a.example/p" in third["summary"]["text"]


def test_every_listed_result_has_a_snippet_and_a_place_in_the_summary(service: Service) -> None:
    texts = [f"Copper bridge {n} is old. {prose(n, 3_000)}" for n in range(20)]
    items = [(f"Title {n}", f"https://e{n}.example/path/{n}", text) for n, text in enumerate(texts)]
    answer = searched(service, found(*items), query="copper bridge")
    assert (len(answer["results"]), len(answer["listed"])) == (3, 17)
    for title, url, text in items[3:]:
        assert f"{title} | {url}\n  {text[:20]}" in answer["text"]
        assert f"{title} | {url}" in answer["summary"]["text"]


def test_pictures_are_given_by_their_addresses(service: Service) -> None:
    body = found(("One", "https://a.example/", "The copper bridge was opened in 1904."))
    body["images"] = ["https://i.example/1.png", {"url": "https://i.example/2.png", "description": "A bridge"}]
    answer = searched(service, body)
    assert answer["counts"]["results"] == 1
    assert "https://i.example/1.png\nA bridge | https://i.example/2.png" in answer["text"]
    limited = searched(service, body, allowed_domains=["a.example"])
    assert "i.example" not in limited["text"]
    picture = {"title": "A bridge", "imageUrl": "https://i.example/3.png", "link": "https://p.example/"}
    answer = searched(service, {"searchParameters": {"q": "bridge", "type": "images"}, "images": [picture]})
    assert "r1 A bridge | https://p.example/ | picture https://i.example/3.png" in answer["text"]
