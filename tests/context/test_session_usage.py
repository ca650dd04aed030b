"""What a session's tokens come to, and how full a context is, from a service that runs as it is run."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coatcheck.adapters.tokenizer import load_tokenizer
from context.histories import FORMATS, Call, Step, Turn
from support.combos import EMBEDDED, S3, fresh_combo
from support.service import Service, serving, start

Json = Any
TOKENIZER = load_tokenizer()
LOG = "".join(f"step {n}: built target module_{n * 7919} in {n} ms\n" for n in range(400))
COUNTS = "artifacts raw_tokens given_tokens reads read_tokens saved_tokens compactions unsent_tokens"
MEASURED = "persisted_tokens transient_tokens window_tokens search_tokens search_cap"
ZEROS: Json = {**dict.fromkeys(COUNTS.split(), 0), **dict.fromkeys(MEASURED.split()), "lines": []}


@pytest.fixture(scope="module", params=(EMBEDDED, S3))
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with fresh_combo(request.param) as combo, serving(tmp_path_factory.mktemp("usage") / "data", combo) as running:
        yield running


def usage(service: Service, session: str) -> Json:
    """The account without its name and its times."""
    found = service.get(f"/v1/sessions/{session}/usage")
    times = {found.pop("since") is None, found.pop("at") is None}
    assert len(times) == 1
    assert found.pop("session") == session.replace("%2F", "/")
    return found


def history(size: int = 1, tool: str = "make") -> Json:
    calls = [Call(f"c{n}", tool, {"n": n}, LOG + f"call {n}\n") for n in range(size)]
    return FORMATS["openai-chat"]([Turn("Build it.", [Step("", [call]) for call in calls] + [Step("Built.")])])


def post(service: Service, path: str, **asked: Json) -> Json:
    response = service.client.post(path, json=asked)
    assert response.status_code == 200, response.text
    return response.json()


def test_what_is_taken_in_given_out_and_read_back_is_counted_once(service: Service) -> None:
    assert usage(service, "reads") == ZEROS
    small = service.post("a small output\n", session="reads", tool_call_id="c0")
    large = service.post(LOG, session="reads", tool_call_id="c1")
    _ = service.post(LOG, session="reads", tool_call_id="c1")
    _ = service.post(LOG, tool_call_id="c1")
    raw = TOKENIZER.count("a small output\n") + TOKENIZER.count(LOG)
    given = small["tokens"] + large["tokens"]
    expected = {**ZEROS, "artifacts": 2, "raw_tokens": raw, "given_tokens": given, "saved_tokens": raw - given}
    assert usage(service, "reads") == expected
    at = f"/v1/artifacts/{large['id']}"
    read = [
        service.get(f"{at}/read", offset=10, limit=5)["tokens"],
        service.get(f"{at}/search", pattern="module_7919 ")["tokens"],
        service.get(f"{at}/windows", query="target module")["tokens"],
        service.get(f"{at}/outline")["tokens"],
    ]
    call = {"name": "read_artifact", "arguments": {"artifact_id": large["id"], "offset": 390}}
    read.append(service.client.post("/v1/tools/call", json=call).json()["tokens"])
    found = usage(service, "reads")
    assert (found["reads"], found["read_tokens"]) == (5, sum(read))
    assert found["saved_tokens"] == raw - given - sum(read)


def test_json_values_are_counted_however_they_are_asked_for(service: Service) -> None:
    stored = service.post(json.dumps({"rows": [{"n": n, "name": f"row {n}"} for n in range(900)]}), session="json")
    found = service.client.get(f"/v1/artifacts/{stored['id']}/json", params={"path": "$.rows[3:6]"}).json()
    tokens: int = found["tokens"]
    call = {"name": "read_artifact", "arguments": {"artifact_id": stored["id"], "path": "$.rows[7].name"}}
    tokens += service.client.post("/v1/tools/call", json=call).json()["tokens"]
    told = usage(service, "json")
    assert (told["reads"], told["read_tokens"]) == (2, tokens)


def test_compacting_the_same_history_again_takes_nothing_in_and_saves_again(service: Service) -> None:
    policy = {"protect": "none"}
    for turn in (1, 2, 3):
        answer = post(service, "/v1/context/compact", body=history(3), session="turns", policy=policy)
        report, after = answer["report"], answer["meters"]["after"]
        saved = report["tokens_before"] - report["tokens_after"]
        raw = sum(TOKENIZER.count(LOG + f"call {n}\n") for n in range(3))
        given = sum(change["tokens_after"] for change in report["changes"])
        assert usage(service, "turns") == {
            **ZEROS,
            "artifacts": 3,
            "raw_tokens": raw,
            "given_tokens": given,
            "saved_tokens": raw - given,
            "compactions": turn,
            "unsent_tokens": saved * turn,
            "persisted_tokens": after["next_turn"]["tokens"],
            "transient_tokens": after["transient"]["tokens"],
            "search_tokens": 0,
            "search_cap": 8_192,
            "window_tokens": after["window"]["usable"],
            "lines": after["lines"],
        }


def test_a_search_counts_what_was_shown_of_it(service: Service) -> None:
    results = [{"title": f"T{n}", "url": f"https://example.org/{n}", "content": LOG[n * 900 :][:800]} for n in range(5)]
    asked = {"response": {"results": results}, "query": "module", "session": "search"}
    response = service.client.post("/v1/search-results", json=asked)
    assert response.status_code == 201
    assert usage(service, "search")["given_tokens"] == response.json()["tokens"]


def test_an_account_goes_with_its_session_and_a_name_may_hold_a_slash(service: Service) -> None:
    _ = service.post(LOG, session="a/b")
    assert usage(service, "a%2Fb")["artifacts"] == 1
    assert usage(service, "a/b")["artifacts"] == 1
    assert service.client.delete("/v1/sessions/a/b").json() == {"deleted": 1}
    assert usage(service, "a/b") == ZEROS
    refused = service.client.get("/v1/sessions/a/b")
    assert (refused.status_code, refused.headers["allow"]) == (405, "DELETE, OPTIONS")


def test_deleting_an_account_deletes_no_session_and_a_name_that_ends_like_one_is_coded(service: Service) -> None:
    _ = service.post(LOG, session="d/usage")
    refused = service.client.delete("/v1/sessions/d/usage")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
    assert usage(service, "d%2Fusage")["artifacts"] == 1
    assert service.client.delete("/v1/sessions/d%2Fusage").json() == {"deleted": 1}


def test_what_was_told_survives_a_crash(tmp_path: Path) -> None:
    first = start(tmp_path / "data")
    _ = first.post(LOG, session="s")
    told = usage(first, "s")
    first.kill()
    with serving(tmp_path / "data") as second:
        assert usage(second, "s") == told
        _ = second.post(LOG + "more\n", session="s")
        assert usage(second, "s")["artifacts"] == 2


def test_both_meters_and_both_windows(service: Service) -> None:
    body = FORMATS["openai-chat"]([Turn("Build it.", [Step("", [Call("c1", "make", {}, LOG)])])])
    window = {"model": 20_000, "shown": 16_000, "output_reserve": 2_000, "compaction_limit": 13_000}
    got = post(service, "/v1/context/measure", body=body, session="meter", window=window, policy={"batch_tokens": 0})
    assert got["transient"]["tokens"] == TOKENIZER.count(LOG) - 130, "a card of an 80th of the budget"
    assert (got["format"], got["window"]["usable"], got["assumes"]) == ("openai-chat", 13_000, "policy")
    assert re.fullmatch(r"context [0-9]+ % now, [0-9]+ % next turn; [0-9.]+k left", got["line"])
    found = usage(service, "meter")
    assert (found["persisted_tokens"], found["transient_tokens"]) == (
        got["next_turn"]["tokens"],
        got["transient"]["tokens"],
    )


def test_nothing_is_taken_to_shrink_unless_the_caller_says_so(service: Service) -> None:
    body = FORMATS["openai-chat"]([Turn("Build it.", [Step("", [Call("c1", "make", {}, LOG)])])])
    cases: tuple[tuple[Json, str], ...] = (
        ({}, "outputs_stay"),
        ({"policy": {"batch_tokens": 0}}, "policy"),
        ({"outputs_stay": False, "policy": {"protect": "none"}}, "policy"),
        ({"policy": {}, "outputs_stay": True}, "outputs_stay"),
    )
    for said, assumed in cases:
        got = post(service, "/v1/context/measure", body=body, **said)
        assert got["assumes"] == assumed
        assert (got["next_turn"]["tokens"] == got["this_turn"]["tokens"]) is (assumed == "outputs_stay")
    compacted = post(service, "/v1/context/compact", body=body)
    assert compacted["meters"]["after"]["assumes"] == "policy"


def test_a_real_usage_scales_the_estimate_in_any_providers_shape(service: Service) -> None:
    body = history(4)
    plain = post(service, "/v1/context/measure", body=body)
    known = sum(plain["parts"].values()) - TOKENIZER.count("Built.") - 3
    for shape in (
        known * 2,
        {"prompt_tokens": known * 2, "completion_tokens": 9},
        {"input_tokens": known, "cache_read_input_tokens": known, "output_tokens": 9},
        {"promptTokenCount": known * 2},
    ):
        got = post(service, "/v1/context/measure", body=body, usage=shape)
        assert (got["scale"], got["scaled_by"]) == (2.0, "usage")
        assert abs(got["next_turn"]["tokens"] - 2 * plain["next_turn"]["tokens"]) <= 2
    alien = post(service, "/v1/context/measure", body=body, usage=7)
    assert alien["scaled_by"] == "family"
    assert alien["notes"] != []
