"""The three lines of a context's meter, before, during and after a web search: over HTTP, in the client, in a shell."""

import json
import subprocess
from pathlib import Path
from typing import Any

from coatcheck_client import Client
from coatcheck_client.contract.inert import MARK
from context.histories import FORMATS, Call, Step, Turn
from support.service import COMMAND, Service, serving

Json = Any
WINDOW = {"model": 20_000}
PAGES = [
    {
        "title": f"Tides {n}",
        "url": f"https://example.org/{n}",
        "content": " ".join(f"Tide {n * 1_000 + k} rises with the Moon at hour {k}." for k in range(400)),
    }
    for n in range(5)
]


def status(service: Service, *args: str) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, "status", "--url", service.url, *args]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def search(service: Service, session: str | None, call: str = "c1", **fields: Json) -> Json:
    asked = {"response": {"results": PAGES}, "query": "tide hour", "tool_call_id": call, **fields}
    response = service.client.post("/v1/search-results", json=asked | ({"session": session} if session else {}))
    assert response.status_code == 201, response.text
    return response.json()


def history(*texts: str, over: bool = False) -> Json:
    """A chat whose latest turn has searched; `over`: the turn is over, and the next has begun."""
    calls = [Call(f"c{n}", "web_search", {"query": "tide hour"}, text) for n, text in enumerate(texts, 1)]
    turns = [Turn("How do tides form?", [Step("", [call]) for call in calls])]
    if over:
        turns[0].steps.append(Step("By the Moon."))
        turns.append(Turn("And at noon?", []))
    return FORMATS["openai-chat"](turns)


def measure(service: Service, body: Json, **fields: Json) -> Json:
    response = service.client.post("/v1/context/measure", json={"body": body, **fields})
    assert response.status_code == 200, response.text
    return response.json()


def percent(share: Json) -> int:
    """`left_percent`, which has one decimal, rounded half up."""
    return int((share["left_percent"] * 10 + 5) // 10)


def expected(measured: Json, tokens: int, cap: int) -> list[str]:
    return [
        f"Next turn: {percent(measured['next_turn'])}% left (persisted only)",
        f"This turn (with tools): {percent(measured['this_turn'])}% left",
        f"web payload this turn: ~{tokens} tokens (capped at {cap})",
    ]


def test_a_meter_follows_a_search_through_its_turn_and_the_next(service: Service) -> None:
    before = measure(service, history(), session="tides", window=WINDOW)
    assert before["lines"] == expected(before, 0, 8_192)
    assert before["next_turn"] == before["this_turn"]
    found = search(service, "tides")
    during = measure(service, history(found["text"]), session="tides", window=WINDOW)
    assert during["lines"] == expected(during, found["payload"]["tokens"], 8_192)
    assert during["search_payload"] == {"searches": 1, "tokens": found["payload"]["tokens"], "cap": 8_192}
    assert during["assumes"] == "summaries"
    saved = found["tokens"] - found["summary"]["token_estimate"]
    assert during["this_turn"]["tokens"] - during["next_turn"]["tokens"] == during["transient"]["tokens"] == saved
    assert saved > 1_000
    shown = status(service, "--session", "tides")
    assert (shown.returncode, shown.stdout.splitlines()) == (0, during["lines"])
    account = service.get("/v1/sessions/tides/usage")
    assert account["lines"] == during["lines"]
    assert json.loads(status(service, "--session", "tides", "--json").stdout) == account
    after = measure(service, history(found["summary"]["text"], over=True), session="tides", window=WINDOW)
    assert after["lines"] == expected(after, 0, 8_192)
    assert after["next_turn"] == after["this_turn"]
    added = after["next_turn"]["tokens"] - during["next_turn"]["tokens"]
    assert 0 < added < 30, "what the meter said of the next turn, and the words that were added"
    assert status(service, "--session", "tides").stdout.splitlines() == after["lines"]


def test_a_cap_is_the_sum_of_what_the_searches_of_the_turn_were_allowed(service: Service) -> None:
    first = search(service, "caps", "c1", max_total_tokens=1_000)
    second = search(service, "caps", "c2", max_total_tokens=600, allowed_domains=["example.org"])
    body = history(first["text"], second["text"])
    for fields in ({"session": "caps"}, {}):
        payload = measure(service, body, **fields)["search_payload"]
        assert payload == {"searches": 2, "tokens": first["tokens"] + second["tokens"], "cap": 1_600}
    unknown, foreign = second["text"].replace(second["id"], "art_000000000000000000"), second["text"].replace(MARK, "|")
    got = measure(service, history(first["text"], unknown, foreign))["search_payload"]
    assert (got["searches"], got["cap"]) == (2, 1_000 + 8_192), "one is not known to the store, and one is no answer"


def test_a_policy_decides_the_cap_of_a_search_that_is_still_to_come(service: Service) -> None:
    asked = {"policy": {"search_max_total_tokens": 700}, "session": "strict"}
    assert service.client.put("/v1/admin/policies", json=asked).is_success
    assert measure(service, history(), session="strict")["search_payload"]["cap"] == 700
    found = search(service, "strict")
    assert found["payload"]["cap"] == 700
    got = measure(service, history(found["text"]), session="strict")["search_payload"]
    assert got == {"searches": 1, "tokens": found["tokens"], "cap": 700}


def test_a_payload_is_in_the_tokens_in_which_it_is_capped_whatever_the_model(service: Service) -> None:
    found = search(service, "claude")
    body = history(found["text"]) | {"model": "claude-opus-4-7"}
    got = measure(service, body, session="claude", format="openai-chat")
    assert got["scale"] > 1
    assert got["search_payload"]["tokens"] == found["tokens"]


def test_without_a_window_the_lines_say_the_tokens_that_are_known(service: Service) -> None:
    found = search(service, "nameless")
    body = history(found["text"])
    body["model"] = "nobody-knows-1"
    got = measure(service, body, session="nameless")
    assert got["window"] is None
    assert got["lines"] == [
        f"Next turn: {got['next_turn']['tokens']} tokens used (persisted only)",
        f"This turn (with tools): {got['this_turn']['tokens']} tokens used",
        f"web payload this turn: ~{found['tokens']} tokens (capped at 8192)",
    ]
    assert status(service, "--session", "nameless").stdout.splitlines() == got["lines"]


def test_a_compaction_has_the_same_lines_in_its_meters_and_the_client_hands_them_on(service: Service) -> None:
    found = search(service, "client")
    body = history(found["text"])
    with Client(service.url) as client:
        measured = client.measure(body, session="client", window=WINDOW, policy={})
        compacted = client.compact(body, session="client", window=WINDOW)
        assert measured["lines"] == expected(measured, found["tokens"], 8_192)
        assert compacted.meters["before"]["lines"] == compacted.meters["after"]["lines"] == measured["lines"]
        over = client.compact(history(found["text"], over=True), session="client", window=WINDOW)
        assert over.meters["after"]["lines"] == expected(over.meters["after"], 0, 8_192)
    assert status(service, "--session", "client").stdout.splitlines() == over.meters["after"]["lines"]


def test_the_only_session_that_was_measured_is_meant_and_of_several_one_must_be_named(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as fresh:
        nothing = status(fresh)
        assert (nothing.returncode, nothing.stdout) == (1, "")
        assert "measured" in nothing.stderr
        _ = fresh.post("a payload without a measurement\n", session="other")
        lines = measure(fresh, history(), session="one", window=WINDOW)["lines"]
        assert status(fresh).stdout.splitlines() == lines
        unmeasured = status(fresh, "--session", "other")
        assert (unmeasured.returncode, unmeasured.stdout) == (1, "")
        _ = measure(fresh, history(), session="two", window=WINDOW)
        several = status(fresh)
        assert (several.returncode, several.stdout) == (2, "")
        assert "two" in several.stderr
        assert "one" in several.stderr
        listed = fresh.get("/v1/sessions")["items"]
        assert {each["session"] for each in listed} == {"one", "two", "other"}
        assert listed == [fresh.get(f"/v1/sessions/{each['session']}/usage") for each in listed]
