"""Limits of web searches and of batches, from the request, policies and settings; from a service that runs."""

from collections.abc import Iterator
from typing import Any

import pytest

from coatcheck.adapters.tokenizer import load_tokenizer
from support.service import Service, serving

TOKENIZER = load_tokenizer()
WORDS = "The Moon draws the sea towards it, and so tides form twice a day along most coasts of the world. "
Json = dict[str, Any]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("limits") / "data"
    with serving(folder, search_max_results=2, search_max_total_tokens=2_000) as running:
        yield running


def search(service: Service, **asked: object) -> Json:
    results = [
        {"title": f"Page {n}", "url": f"https://s{n}.example.org/p", "content": f"Part {n}. {WORDS} Tide {n}. " * 9}
        for n in range(6)
    ]
    body = {"response": {"results": results}, "query": "how do tides form", "across_session": False, **asked}
    response = service.client.post("/v1/search-results", json=body)
    assert response.status_code in {200, 201}, response.text
    return response.json()


def decide(service: Service, policy: Json, **scope: str) -> None:
    response = service.client.put("/v1/admin/policies", json={"policy": policy, **scope})
    assert response.status_code in {200, 201}, response.text


def test_a_request_wins_over_a_policy_and_a_policy_over_the_settings(service: Service) -> None:
    assert search(service)["limits"] == {"max_results": 2, "max_tokens_per_result": 2_048, "max_total_tokens": 2_000}
    decide(service, {"search_max_results": 1}, session="short")
    decide(service, {"search_max_total_tokens": 700, "search_max_tokens_per_result": 300}, tool="news")
    short = search(service, session="short")
    assert (short["limits"]["max_results"], short["counts"]["shown"]) == (1, 1)
    news = search(service, session="short", tool_name="news")
    assert news["limits"] == {"max_results": 1, "max_tokens_per_result": 300, "max_total_tokens": 700}
    assert news["tokens"] <= 700
    asked = search(service, session="short", tool_name="news", max_results=4, max_total_tokens=3_000)
    assert asked["limits"] == {"max_results": 4, "max_tokens_per_result": 300, "max_total_tokens": 3_000}
    refused = service.client.put("/v1/admin/policies", json={"policy": {"search_max_results": 21}, "tool": "x"})
    assert refused.status_code == 400
    explained = service.get("/v1/admin/policies/effective", tool_name="news")
    assert explained["policy"]["search_max_total_tokens"] == 700


def test_sites_are_left_out_of_text_list_and_summary_but_not_of_the_artifact(service: Service) -> None:
    whole = search(service)
    answer = search(service, allowed_domains=["s1.example.org", "s2.example.org"], excluded_domains=["s2.example.org"])
    assert [each["url"] for each in answer["results"]] == ["https://s1.example.org/p"]
    assert (answer["counts"]["excluded"], answer["listed"]) == (5, [])
    assert [each["url"] for each in answer["summary"]["citations"]] == ["https://s1.example.org/p"]
    assert answer["id"] == whole["id"]
    assert service.get(f"/v1/artifacts/{answer['id']}/read", view="text", section="r3")["text"] != ""
    refused = service.client.post(
        "/v1/search-results", json={"response": {"results": []}, "allowed_domains": ["https://s1.example.org"]}
    )
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_request")


def test_a_policy_leaves_sites_out_whatever_a_request_names(service: Service) -> None:
    decide(
        service, {"search_allowed_domains": ["example.org"], "search_excluded_domains": ["s1.example.org"]}, tool="safe"
    )
    limits = {"max_results": 6, "max_total_tokens": 8_000}
    shown = search(service, tool_name="safe", **limits)
    urls = {each["url"] for each in [*shown["results"], *shown["listed"]]}
    assert "https://s1.example.org/p" not in urls
    assert "https://s2.example.org/p" in urls
    asked = search(service, tool_name="safe", allowed_domains=["s1.example.org", "s2.example.org"], **limits)
    assert [each["url"] for each in asked["results"]] == ["https://s2.example.org/p"]
    refused = service.client.put(
        "/v1/admin/policies", json={"policy": {"search_allowed_domains": ["a b"]}, "tool": "x"}
    )
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_request")


def batch(service: Service, items: list[Json], **asked: object) -> list[Json]:
    response = service.client.post("/v1/artifacts:batch", json={"items": items, **asked})
    assert response.status_code == 200, response.text
    return response.json()["results"]


def test_many_outputs_that_are_small_alone_share_a_budget(service: Service) -> None:
    outputs = ["".join(f"{n}: line {row} of the output\n" for row in range(110)) for n in range(38)]
    items: list[Json] = [
        {"content": text, "session": "batch", "tool_call_id": f"c{n}"} for n, text in enumerate(outputs)
    ]
    items += [{"content": "ok\n"}, {"content": "done\n"}]
    free = batch(service, items)
    assert all(each["receipt"]["inline"] for each in free)
    assert sum(each["receipt"]["tokens"] for each in free) > 36_000
    before = service.get("/v1/sessions/batch/usage")
    held = batch(service, items, max_total_tokens=12_000)
    receipts = [each["receipt"] for each in held]
    assert sum(TOKENIZER.count(each["text"]) for each in receipts) == sum(each["tokens"] for each in receipts) <= 12_000
    assert [each["text"] for each in receipts[-2:]] == ["ok\n", "done\n"]
    assert not any(each["inline"] for each in receipts[:-2])
    assert [each["id"] for each in receipts] == [each["receipt"]["id"] for each in free]
    assert service.get("/v1/sessions/batch/usage")["given_tokens"] == before["given_tokens"]
    assert service.content(receipts[0]["id"]) == outputs[0].encode()
    assert held == batch(service, items, max_total_tokens=12_000)


def test_a_new_batch_counts_what_it_gave_and_keeps_its_statuses(service: Service) -> None:
    items: list[Json] = [{"content": f"{n} " + WORDS * 20, "session": "new"} for n in range(5)]
    items[2] = {"content": []}
    items[3] = {"content": "x", "colour": 1}
    got = batch(service, items, max_total_tokens=600)
    assert [each["status"] for each in got] == [201, 201, 400, 400, 201]
    given = sum(each["receipt"]["tokens"] for each in got if "receipt" in each)
    assert given <= 600
    assert service.get("/v1/sessions/new/usage")["given_tokens"] == given


def test_a_total_without_room_for_a_card_each_is_refused(service: Service) -> None:
    items = [{"content": "x"}] * 10
    response = service.client.post("/v1/artifacts:batch", json={"items": items, "max_total_tokens": 639})
    assert (response.status_code, response.json()["field"]) == (400, "max_total_tokens")
    assert len(batch(service, items, max_total_tokens=640)) == 10


def test_a_total_holds_for_answers_to_reads_too(service: Service) -> None:
    (stored,) = batch(service, [{"content": "".join(f"line {n} of a long log\n" for n in range(4_000))}])
    call: Json = {"name": "read_artifact", "arguments": {"artifact_id": stored["receipt"]["id"], "limit": 300}}
    read = service.client.post("/v1/tools/call", json=call).json()["text"]
    free = batch(service, [{"content": read}, {"content": "ok\n"}])
    assert [each["receipt"]["text"] for each in free] == [read, "ok\n"]
    held = batch(service, [{"content": read}, {"content": "ok\n"}], max_total_tokens=200)
    assert sum(TOKENIZER.count(each["receipt"]["text"]) for each in held) <= 200
    assert [each["receipt"]["inline"] for each in held] == [False, True]


def test_a_shorter_card_still_compares_with_the_run_before(service: Service) -> None:
    asked: Json = {"tool_name": "make", "command": "make", "session": "runs", "compare_to": "previous"}
    run = "".join(f"{n}: compiled module_{n}\n" for n in range(900))
    batch(service, [{"content": run, **asked}])
    later: Json = {"content": run.replace("77: compiled", "77: ERROR in"), **asked}
    whole = batch(service, [later])[0]["receipt"]
    shorter = batch(service, [later], max_total_tokens=200)[0]["receipt"]
    assert shorter["tokens"] <= 200 < whole["tokens"]
    assert shorter["id"] == whole["id"]
    for receipt in (whole, shorter):
        assert "ERROR in module_77" in receipt["text"]
        assert receipt["card"]["compared_to"] == whole["card"]["compared_to"] is not None
