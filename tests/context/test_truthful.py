"""What a compaction assumes is true of the body: its tools, its window, its usage, every copy of an argument."""

import json
from pathlib import Path
from typing import Any

import pytest

from coatcheck.core.context.body.model import Format
from coatcheck.core.context.detect import index_of
from coatcheck.core.context.policy import CompactionPolicy
from coatcheck.core.context.window import ModelWindow, budget_of, family_percent, window_of
from coatcheck.core.model_windows import find_window
from context.histories import FORMATS, LISTS, Call, Step, Turn, compact
from context.test_over_http import asked
from context.test_over_http import compact as compact_over_http
from support.service import Service

Json = Any
CARDS: Json = {"protect": "none"}
LONG = (Path(__file__).parents[2] / "docs" / "measurements.md").read_text()[:60_000]
CALL = 'read_artifact(artifact_id="'


def told(output: str = LONG) -> list[Turn]:
    return [Turn("Go.", [Step("", [Call("c1", "run", {}, output)]), Step("Done.")]), Turn("And?", [])]


def posted(service: Service, path: str, **sent: Json) -> Json:
    response = service.client.post(f"/v1/context/{path}", json=sent)
    assert response.status_code == 200, response.text
    return response.json()


# ---------------------------------------------------------------------------------------------------------------- tools


@pytest.mark.parametrize("name", FORMATS)
def test_cards_name_a_call_only_where_the_model_can_make_it(service: Service, name: str) -> None:
    body = FORMATS[name](told())
    undeclared = "langchain" in name or name == "pydantic-ai"
    cards = {
        tools: json.dumps(posted(service, "compact", body=body, session=f"{name}", policy=CARDS, tools=tools)["body"])
        for tools in (None, "none", "read_artifact")
    }
    assert [CALL in json.loads(f'"{json.dumps(text)[1:-1]}"').replace("\\", "") for text in cards.values()] == [
        undeclared,
        False,
        True,
    ]
    alone = posted(service, "compact", body=body[LISTS[name]], session=f"{name}", policy=CARDS)
    assert CALL in json.dumps(alone["body"]).replace("\\", "")


def test_a_body_that_declares_the_tool_gets_its_calls_and_no_note(service: Service) -> None:
    body = FORMATS["openai-chat"](told())
    noted = posted(service, "compact", body=body, session="declared", policy=CARDS)["report"]["notes"]
    assert ["read_artifact" in note for note in noted] == [True]
    body["tools"] = [{"type": "function", "function": {"name": "mcp__coatcheck__read_artifact", "parameters": {}}}]
    answer = posted(service, "compact", body=body, session="declared", policy=CARDS)
    assert CALL in json.dumps(answer["body"]).replace("\\", "")
    assert answer["report"]["notes"] == []


# --------------------------------------------------------------------------------------------------------------- window


@pytest.mark.parametrize(
    ("model", "window"),
    [
        ("kimi-for-coding", 262_144),
        ("moonshotai/Kimi-K2-Thinking", 262_144),
        ("kimi-k2-0711-preview", 131_072),
        ("kimi-k3", 1_048_576),
        ("moonshot-v1-32k", 32_768),
        ("MiniMax-M2.7", 196_608),
        ("xiaomi/mimo-v2-flash", 262_144),
        ("mimo-v2.6-pro", 1_048_576),
        ("grok-4-fast-reasoning", 2_000_000),
        ("grok-4.6", 500_000),
        ("grok-4-0709", 256_000),
        ("grok-code-fast-1", 256_000),
        ("glm-5.1", 200_000),
        ("glm-5.3", 1_000_000),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", 200_000),
        ("amazon.nova-pro-v1:0", 300_000),
        ("gpt-5.6-sol", 1_050_000),
        ("anthropic/claude-opus-4.6:beta", 1_000_000),
        ("anthropic--claude-4.6-sonnet", 1_000_000),
        ("claude-4.5-sonnet", 200_000),
        ("claude-opus-4-6@20260205", 1_000_000),
        ("arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-opus-4-6-v1:0", 1_000_000),
        ("accounts/fireworks/models/glm-4p6", 200_000),
        ("accounts/fireworks/models/kimi-k2p5", 262_144),
        ("accounts/fireworks/models/gpt-4p1-mini", 1_047_576),
        ("kimi_k2_thinking", 262_144),
        ("gpt-4-turbo-2024-04-09", 128_000),
        ("deepseek/deepseek-v3-0324:free", 64_000),
        ("deepseek-ai/DeepSeek-V3.1", 128_000),
        ("x-ai/grok-4.1-fast:free", 2_000_000),
        ("grok-4-latest", 256_000),
        ("models/gemini-3-pro-preview", 1_048_576),
    ],
)
def test_windows_are_known_by_the_model_s_name(model: str, window: int) -> None:
    known = find_window(model.casefold())
    assert known is not None
    assert known.window == window


@pytest.mark.parametrize("model", ["gpt-4-1106-preview", "glm-9", "solo1", "o1x"])
def test_a_name_that_only_looks_like_a_known_one_is_not_known(model: str) -> None:
    assert find_window(model) is None


ANSWER = {"type": "ai", "content": "Done."}


@pytest.mark.parametrize(
    "around",
    [
        {"model": "kimi-for-coding"},
        {"model_name": "kimi-for-coding"},
        {"metadata": {"ls_model_name": "kimi-for-coding"}},
        {"config": {"metadata": {"ls_model_name": "kimi-for-coding"}}},
        {"model": "our-deployment", "messages": [{**ANSWER, "response_metadata": {"model": "kimi-for-coding"}}]},
        {"messages": [{**ANSWER, "response_metadata": {"model_name": "kimi-for-coding"}}]},
        {"messages": [{"type": "ai", "data": {**ANSWER, "response_metadata": {"ls_model_name": "kimi-for-coding"}}}]},
        {"messages": [{"lc": 1, "kwargs": {**ANSWER, "response_metadata": {"model_name": "kimi-for-coding"}}}]},
        {"messages": [{"kind": "request"}, {"kind": "response", "model_name": "Kimi-for-coding"}]},
    ],
)
def test_the_model_is_found_where_hosts_and_frameworks_name_it(around: Json) -> None:
    body = {"messages": [ANSWER], **around}
    window = window_of(body, None)
    assert window is not None
    assert window.model == 262_144


def test_a_limit_of_hundreds_of_digits_is_no_limit() -> None:
    assert window_of({"model": "gpt-4o", "max_tokens": 10**400}, None) == window_of({"model": "gpt-4o"}, None)


@pytest.mark.parametrize("path", ["compact", "measure"])
def test_a_window_that_is_not_known_is_a_note_and_no_guess(service: Service, path: str) -> None:
    def notes(**sent: Json) -> str:
        answer = posted(service, path, **sent)
        return "\n".join(answer["report"]["notes"] if path == "compact" else answer["notes"])

    body, unknown = FORMATS["langchain"](told()), {**FORMATS["openai-chat"](told()), "model": "mimo-v9-unheard"}
    nameless = "The body names no model, so there is no budget"
    cases = ((body, nameless), (body["messages"], nameless), (unknown, "'mimo-v9-unheard' is not known"))
    for sent, note in cases:
        assert note in notes(body=sent)
        assert note not in notes(body=sent, window={"model": 32_000})


@pytest.mark.parametrize(
    ("format_", "around"),
    [
        (Format.OPENAI_CHAT, {"max_tokens": 20_000}),
        (Format.OPENAI_CHAT, {"max_completion_tokens": 20_000}),
        (Format.OPENAI_CHAT, {"max_tokens": 100, "max_completion_tokens": 20_000}),
        (Format.OPENAI_CHAT, {"max_tokens": 20_000.0, "max_completion_tokens": None}),
        (Format.OPENAI_RESPONSES, {"max_output_tokens": 20_000}),
        (Format.BEDROCK, {"inferenceConfig": {"maxTokens": 20_000}}),
        (Format.BEDROCK, {"additionalModelRequestFields": {"max_tokens": 20_000}}),
        (Format.LANGCHAIN, {"kwargs": {"max_tokens": 20_000}}),
        (Format.LANGCHAIN, {"config": {"configurable": {"max_tokens": 20_000}}}),
        (Format.PYDANTIC_AI, {"model_settings": {"max_tokens": 20_000}}),
        (Format.GEMINI, {"config": {"maxOutputTokens": 20_000}}),
        (Format.GEMINI, {"generation_config": {"maxOutputTokens": 20_000}}),
        (Format.GEMINI, {"generationConfig": {"maxOutputTokens": 20_000}}),
    ],
)
def test_what_a_body_reserves_for_its_answer_is_never_for_its_history(format_: Format, around: Json) -> None:
    body = {**FORMATS[format_](told()), "model": "some", "modelId": "some", **around}
    index = index_of(body)
    window = ModelWindow(model=32_000)
    budget = budget_of(body, index, CompactionPolicy(), window, 80)
    assert budget is not None
    at_most = 12_000 * 100 // 115 if format_ is Format.GEMINI else 12_000
    assert budget.limit == pytest.approx(at_most, abs=1)
    wider = budget_of(body, index, CompactionPolicy(), ModelWindow(model=32_000, output_reserve=25_000), 80)
    assert wider is not None
    assert wider.limit == pytest.approx(at_most * 7_000 // 12_000, abs=1)


def test_what_does_not_fit_beside_the_answer_is_said_not_to_fit(service: Service) -> None:
    text = "".join(f"word{n} " for n in range(9_000))
    body = {"model": "unheard", "max_tokens": 20_000, "messages": [{"role": "user", "content": text}]}
    answer = posted(service, "compact", body=body, window={"model": 32_000})
    assert answer["report"]["tokens_after"] > 12_000
    assert answer["report"]["fits"] is False
    taken = answer["meters"]["after"]["window"]["taken"]
    assert [(one["name"], one["tokens"]) for one in taken] == [("output reserve", 20_000)]
    refused = service.client.post("/v1/context/compact", json={"body": body, "window": {"model": 16_000}})
    assert (refused.status_code, refused.json()["code"], refused.json()["field"]) == (400, "invalid_request", "window")


@pytest.mark.parametrize(
    ("name", "model", "percent"),
    [("anthropic", "kimi-for-coding", 100), ("anthropic", "an-alias", 175), ("openai-chat", "claude-opus-5-5", 175)],
)
def test_tokens_are_those_of_the_model_and_only_of_an_unknown_one_those_of_the_format(
    name: str, model: str, percent: int
) -> None:
    body = {**FORMATS[name](told()), "model": model}
    assert family_percent(body, index_of(body)) == percent


# --------------------------------------------------------------------------------------------------- usage, one measure


@pytest.mark.parametrize("usage", [{}, {"cost": 1}, {"input_tokens": -5}, {"prompt_tokens": 10**12}, 0, -1, "many", []])
def test_a_usage_that_says_nothing_leaves_the_estimate_and_a_note(service: Service, usage: Json) -> None:
    body = FORMATS["openai-chat"](told())
    measured = posted(service, "measure", body=body, usage=usage)
    assert (measured["scaled_by"], ["`usage`" in note for note in measured["notes"]]) == ("family", [True])
    assert measured["this_turn"] == posted(service, "measure", body=body)["this_turn"]
    meters = posted(service, "compact", body=body, usage=usage)["meters"]
    assert (meters["after"]["scaled_by"], ["`usage`" in note for note in meters["after"]["notes"]]) == (
        "family",
        [True],
    )


@pytest.mark.parametrize("name", FORMATS)
def test_measuring_gives_the_numbers_of_a_compaction_before_it(service: Service, name: str) -> None:
    results = [
        {"title": f"T{n}", "url": f"https://example.org/{n}", "content": f"Tides of {n} rise twice a day. " * 60}
        for n in range(6)
    ]
    found = service.client.post(
        "/v1/search-results", json={"session": f"one {name}", "query": "tides", "response": {"results": results}}
    ).json()
    turns = [Turn("Search.", [Step("", [Call("c1", "web_search", {"query": "tides"}, found["text"])])])]
    policy = {"batch_tokens": 0}
    for body in (FORMATS[name](turns), FORMATS[name](turns)[LISTS[name]]):
        sent = {"body": body, "policy": policy, "window": {"model": 60_000}}
        before = posted(service, "compact", **sent, session=f"one {name}")["meters"]["before"]
        measured = posted(service, "measure", **sent)
        assert measured == before
        assert measured["transient"]["tokens"] > 100, "the search in flight will be its summary"


# -------------------------------------------------------------------------------------------------- copies of arguments


@pytest.mark.parametrize("form", ["object", "text"])
def test_no_copy_of_an_argument_survives_wherever_a_package_keeps_it(service: Service, form: str) -> None:
    text = "The whole file that was written, line by line. " * 3_000
    args: Json = {"path": "a.md", "content": text}
    raw: Json = args if form == "object" else json.dumps(args)
    call = {"id": "c1", "name": "write_file"}
    message = {
        "type": "ai",
        "content": "",
        "tool_calls": [{**call, "args": args, "type": "tool_call"}],
        "invalid_tool_calls": [{**call, "args": json.dumps(args), "error": "e"}],
        "additional_kwargs": {
            "tool_calls": [{**call, "args": raw}, {"id": "c1", "function": {"name": "write_file", "args": raw}}],
            "parsed": {"deep": [{"call_id": "c1", "arguments": raw}]},
        },
        "response_metadata": {"message": {"tool_calls": [{"function": {"name": "write_file", "arguments": raw}}]}},
    }
    history = [{"type": "human", "content": "q"}, message, {"type": "tool", "tool_call_id": "c1", "content": "ok"}]
    new, answer = compact_over_http(service, json.dumps({"messages": history}).encode(), policy={"protect": "none"})
    assert len(new) < 4_000
    assert b"line by line" not in new
    assert len({change["artifact_id"] for change in answer["report"]["changes"]}) == 1
    assert len(answer["report"]["changes"]) == 6
    assert asked(new)


def test_a_window_that_the_answer_fills_is_not_widened() -> None:
    body = {**FORMATS["openai-chat"](told("word " * 2_000)), "max_tokens": 31_000}
    _, report = compact(body, CompactionPolicy(), window=ModelWindow(model=32_000))
    assert report.budget is not None
    assert report.budget.start <= report.budget.limit == 1_000
    assert report.fits is (report.tokens_after <= 1_000)
