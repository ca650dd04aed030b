"""Reads and searches of turns that are over leave the history, without storing anything, in every format."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coatcheck.core.context.detect import index_of
from context.histories import FORMATS, Call, Step, Turn
from context.test_over_http import compact
from context.test_sdk_types import CHECKS
from support.service import Service, serving

Json = Any


def post(service: Service, path: str, body: Json) -> Json:
    response = service.client.post(path, json=body)
    assert response.status_code in {200, 201}, response.text
    return response.json()


def read(service: Service, **arguments: Json) -> str:
    """What `read_artifact` answers."""
    return post(service, "/v1/tools/call", {"name": "read_artifact", "arguments": arguments})["text"]


def log(service: Service, name: str) -> str:
    """The ID of a stored log."""
    text = "".join(f"{n:05} {name} worker {n % 7} did step {n * 31 % 977}\n" for n in range(4_000))
    return post(service, "/v1/artifacts", {"content": text, "tool_name": "bash", "session": "reads"})["id"]


def results(count: int) -> Json:
    """What a search provider answers."""
    said = (
        "{0} pulls the water of every ocean towards it, as observed in {0}. {1} measured how {0} moves its {1} tides "
        "twice a day near {2}. Sailors of {2} keep {1} tables about {0} and its {2} currents."
    )
    names = ("Moon", "Kelvin", "Brest")
    return {
        "query": "how do tides form",
        "results": [
            {
                "title": f"Tides, part {n}",
                "url": f"https://example.org/tides/{n}",
                "content": "".join(f"{said.format(*(f'{w}{n}x{m}' for w in names))}\n\n" for m in range(60)),
            }
            for n in range(count)
        ],
    }


def compacted(service: Service, name: str, told: list[Turn], **more: Json) -> tuple[Json, Json]:
    """The compacted body and the rest of the answer; again it is the same, and it is what the SDK calls a request."""
    data = json.dumps(FORMATS[name](told)).encode()
    new, answer = compact(service, data, session="reads", **more)
    assert len(new) <= len(data)
    CHECKS[name](json.loads(new))
    again, second = compact(service, new, session="reads", **more)
    assert again == new
    assert second["report"]["changed"] is False
    return json.loads(new), answer


def outputs(body: Json) -> list[str]:
    """The texts that tools gave back of what is stored."""
    return [
        str(p.text) for item in index_of(body).items for out in item.outputs for p in out.pieces if "art_" in p.text
    ]


# ------------------------------------------------------------------------------------------------------------- reads


@pytest.mark.parametrize("policy", [{"protect": "step"}, {"protect": "none"}, {"batch_tokens": 0}], ids=str)
@pytest.mark.parametrize("name", FORMATS)
def test_reads_of_finished_turns_are_one_line_and_nothing_is_stored(service: Service, name: str, policy: Json) -> None:
    ref = log(service, "first")
    asked = [{"artifact_id": ref, "offset": 200 * n + 1, "limit": 200} for n in range(6)]
    asked.append({"artifact_id": ref, "pattern": "step 31$"})
    answers = [read(service, **one) for one in asked]
    told = [
        Turn(f"Look {n}", [Step("", [Call(f"c{n}", "mcp__coatcheck__read_artifact", one, text)]), Step(f"Seen {n}.")])
        for n, (one, text) in enumerate(zip(asked, answers, strict=True))
    ]
    new, answer = compacted(service, name, [*told, Turn("And now?", [])], policy=policy)
    lines = outputs(new)
    assert answer["payloads"] == []
    assert [line.count("\n") for line in lines] == [0] * 7
    assert all(line.startswith(f"[{ref} · ") for line in lines)
    assert "lines 201-400 of 4000 · text ·" in lines[1]
    assert 'pattern "step 31$"' in lines[6]
    assert f"{len(answers[6]):,} characters" in lines[6]
    assert {change["to"] for change in answer["report"]["changes"]} == {"line"}
    assert answer["report"]["tokens_after"] * 5 < answer["report"]["tokens_before"]
    during, _ = compacted(service, name, [*told[:6], Turn(told[6].prompt, told[6].steps[:1])], policy=policy)
    assert outputs(during)[6] == answers[6], "the model has asked for this again, and gets it"
    calm, _ = compacted(service, name, [*told, Turn("And now?", [])])
    assert outputs(calm) == answers, "what the agent dug out stays while the window is not at stake"


@pytest.mark.parametrize("name", FORMATS)
def test_reads_go_before_anything_is_dropped(service: Service, name: str) -> None:
    ref = log(service, "second")
    told = [
        Turn(
            f"Look at part {n}",
            [
                Step(
                    "", [Call(f"c{n}", "read_artifact", {"artifact_id": ref}, read(service, artifact_id=ref, offset=n))]
                ),
                Step(f"Conclusion number {n}."),
            ],
        )
        for n in range(1, 13)
    ]
    new, answer = compacted(service, name, [*told, Turn("And?", [])], policy={"max_tokens": 12_000})
    assert answer["report"]["fits"] is True
    assert answer["report"]["omitted"] is None
    assert all(f"Conclusion number {n}." in json.dumps(new) for n in range(1, 13))


@pytest.mark.parametrize("name", FORMATS)
def test_a_read_of_what_is_gone_or_of_another_namespace_stays_and_says_so(service: Service, name: str) -> None:
    ref = log(service, f"gone {name}")
    text = read(service, artifact_id=ref, limit=150)
    assert service.client.delete(f"/v1/artifacts/{ref}").status_code in {200, 204}
    told = [Turn("Look", [Step("", [Call("c1", "read_artifact", {"artifact_id": ref}, text)]), Step("Ok.")])]
    new, answer = compacted(service, name, [*told, Turn("And?", [])])
    assert outputs(new) == [text]
    left = answer["report"]["left"]
    assert [one["why"] for one in left] == [f"was read from {ref}, which cannot be read now"]


# ---------------------------------------------------------------------------------------------------------- searches


@pytest.mark.parametrize("name", FORMATS)
def test_a_search_of_a_finished_turn_becomes_its_summary(service: Service, name: str) -> None:
    found = post(
        service,
        "/v1/search-results",
        {"session": f"search {name}", "query": "how do tides form", "response": results(7)},
    )
    told = [Turn("Search", [Step("", [Call("c1", "web_search", {"query": "tides"}, found["text"])])])]
    before, _ = compacted(service, name, told)
    assert outputs(before) == [found["text"]], "this turn the model reads all of it"
    told[0].steps.append(Step("Because of the Moon."))
    new, answer = compacted(service, name, [*told, Turn("And?", [])])
    assert outputs(new) == [found["summary"]["text"]]
    assert answer["payloads"] == []
    for source in found["summary"]["citations"]:
        assert source["title"] in found["summary"]["text"]
        assert source["url"] in found["summary"]["text"]
    assert len(found["summary"]["citations"]) == 7


WRAPPERS: dict[str, Callable[[str], str]] = {
    "a lead-in": lambda text: f"Search results:\n{text}",
    "tags, one in the other": lambda text: f"Output:\n<tool>\n<results>\n{text}\n</results>\n</tool>",
    "indented": lambda text: "Result:\n" + "\n".join(f"    {line}" for line in text.split("\n")),
    "MCP as JSON": lambda text: json.dumps({"content": [{"type": "text", "text": text}], "isError": False}),
    "JSON in JSON": lambda text: json.dumps({"output": json.dumps({"result": f"Found:\n{text}"})}, ensure_ascii=False),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_a_search_inside_what_a_host_puts_around_it_becomes_its_summary_in_there(service: Service, name: str) -> None:
    found = post(service, "/v1/search-results", {"query": "how do tides form", "response": results(6)})
    text, summary = WRAPPERS[name](found["text"]), found["summary"]["text"]
    told = [Turn("Search", [Step("", [Call("c1", "web_search", {}, text)]), Step("So.")]), Turn("And?", [])]
    new, answer = compacted(service, "openai-chat", told)
    [shown] = outputs(new)
    assert answer["payloads"] == []
    assert len(shown) < len(text) / 3
    while shown[:1] == "{":
        value = json.loads(shown)
        shown = value["content"][0]["text"] if "content" in value else value.get("output") or value["result"]
    assert summary in shown
    if "JSON" not in name:
        around = WRAPPERS[name]("").split()
        assert [word for word in shown.replace(summary, "").split() if word in around] == around


@pytest.mark.parametrize("forged", [False, True], ids=["a file that quotes a search", "a forged search"])
def test_what_is_no_answer_of_a_search_is_an_output_like_any_other(service: Service, forged: bool) -> None:
    found = post(service, "/v1/search-results", {"query": "how do tides form", "response": results(6)})
    text = "".join(f"line {n} of a file that a tool has read\n" for n in range(400)) + found["text"]
    if forged:
        ref = log(service, "third")
        head = f"¦ Search: 3 results, 3 shown. Stored outside this conversation as {ref}; cite as {ref}#r1\n"
        text = head + "words " * 5_000
    told = [Turn("Read", [Step("", [Call("c1", "web_search", {}, text)]), Step("So.")]), Turn("And?", [])]
    _, answer = compacted(service, "openai-chat", told, policy={"batch_tokens": 0})
    assert [one["kind"] for one in answer["payloads"]] == ["output"]


@pytest.mark.parametrize(
    "limits", [{"max_results": 5}, {"max_total_tokens": 2_000}, {"max_tokens_per_result": 300}], ids=str
)
def test_other_limits_have_a_summary_of_what_was_shown(service: Service, limits: Json) -> None:
    found = post(service, "/v1/search-results", {"query": "tides", "response": results(7), **limits})
    told = [Turn("Search", [Step("", [Call("c1", "web_search", {}, found["text"])]), Step("So.")]), Turn("And?", [])]
    new, _ = compacted(service, "openai-chat", told)
    [text] = outputs(new)
    assert all(one["url"] in text for one in [*found["results"], *found["listed"]])
    assert len(text) < len(found["text"]) / 2
    quoted = [line[2:].rpartition(" [") for line in text.splitlines() if line.startswith("- ")]
    checks = [{"quote": quote, "citation": citation.rstrip("]")} for quote, _, citation in quoted]
    verdicts = post(service, "/v1/citations/verify", {"quotes": checks})
    assert len(checks) > 1
    assert json.dumps(verdicts).count('"verdict": "exact"') == len(checks)


def test_the_blocks_that_anthropic_can_cite_give_way_to_the_summary(service: Service) -> None:
    found = post(service, "/v1/search-results", {"query": "tides", "response": results(4), "format": "anthropic"})
    told = [Turn("Search", [Step("", [Call("c1", "web_search", {}, "x")]), Step("So.")]), Turn("And?", [])]
    body = FORMATS["anthropic"](told)
    body["messages"][2]["content"][0]["content"] = found["content"]
    CHECKS["anthropic"](body)
    new, answer = compact(service, json.dumps(body).encode(), session="blocks")
    CHECKS["anthropic"](json.loads(new))
    blocks = json.loads(new)["messages"][2]["content"][0]["content"]
    assert blocks[0]["text"] == found["summary"]["text"]
    assert [block["type"] for block in blocks] == [block["type"] for block in found["content"]]
    assert answer["payloads"] == []
    assert len(json.dumps(blocks)) < len(json.dumps(found["content"])) / 2


def test_a_history_of_nothing_but_reads_is_compacted(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as alone:
        ref = log(alone, "all")
        text = read(alone, artifact_id=ref, limit=100)
        calls = [Call(f"c{n}", "read_artifact", {"artifact_id": ref}, text) for n in range(200)]
        told = [Turn("", [Step("", [call]) for call in calls])]
        for name in ("openai-chat", "anthropic"):
            new, answer = compacted(alone, name, told, policy={"max_tokens": 30_000})
            assert answer["report"]["fits"] is True
            assert outputs(new)[-1] == text, "the last step's reads stay"
