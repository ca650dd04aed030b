"""Calls inside the responses that the providers' SDKs give, executed by a real server, and results as they take them.

What a model answered is built as an SDK's own response object and dumped as a host would send it on; what comes back is
put into the next request and held against the SDK's own types.
"""

import json
from typing import Any, cast

import anthropic.types
import openai.types.chat
import openai.types.responses
import pytest
from google.genai import types as gemini
from openai.types.chat.chat_completion_message_tool_call import Function
from pydantic import TypeAdapter

from support.service import Service

LOG = "".join(f"{n:05d} step {n * 7919 % 1000} took {n % 97} ms\n" for n in range(4000))
THIRD = "00002 step 838 took 2 ms"
UNKNOWN = "art_000000000000000098"


@pytest.fixture(scope="module")
def log(service: Service) -> str:
    found: str = service.post(LOG, title="build.log")["id"]
    return found


def asked(log: str) -> list[tuple[dict[str, Any], str]]:
    """Arguments as models write them, well and badly, and what the answer must say."""
    return [
        ({"artifact_id": log, "offset": 3, "limit": 1}, THIRD),
        ({"artifact_id": log, "offset": "3", "limit": "1", "pattern": None, "query": None, "path": None}, THIRD),
        ({"artifact_id": log, "offset": 3.0, "limit": 1, "section": "", "context": None}, THIRD),
        ({"artifact_id": log, "pattern": "step 838 took 2 "}, THIRD),
        ({"artifact_id": log, "offset": {"line": 3}, "limit": [1]}, "could not be read and was left out"),
        ({"artifact_id": log, "pattern": ["step 838 took 2 "], "ignore_case": "true"}, THIRD),
        ({"artifact_id": log, "offset": 9000}, "Offset 9000 is past the end"),
        ({"artifact_id": UNKNOWN}, "No artifact with this ID"),
        ({"offset": 3}, "artifact_id is missing"),
        ({"artifact_id": 5, "limit": True}, "Copy the ID from the card"),
        ({}, "artifact_id is missing"),
    ]


def send(service: Service, body: object) -> Any:  # noqa: ANN401 - JSON
    response = service.client.post("/v1/tools/call", json=body)
    assert response.status_code == 200, response.text
    return response.json()


def test_a_chat_completions_parallel_calls_are_answered_with_messages_of_the_next_request(
    service: Service, log: str
) -> None:
    cases = asked(log)
    message = openai.types.chat.ChatCompletionMessage(
        role="assistant",
        content=None,
        tool_calls=[
            openai.types.chat.ChatCompletionMessageFunctionToolCall(
                id=f"call_{n}",
                type="function",
                function=Function(name="read_artifact", arguments=json.dumps(arguments)),
            )
            for n, (arguments, _) in enumerate(cases)
        ],
    )
    answers = send(service, message.model_dump(mode="json", exclude_none=True))
    for answer in answers:
        TypeAdapter(openai.types.chat.ChatCompletionMessageParam).validate_python(answer)
        assert set(answer) == {"role", "tool_call_id", "content"}
    assert [a["tool_call_id"] for a in answers] == [f"call_{n}" for n in range(len(cases))]
    assert [said in a["content"] for a, (_, said) in zip(answers, cases, strict=True)] == [True] * len(cases)
    choice = openai.types.chat.chat_completion.Choice(index=0, finish_reason="tool_calls", message=message)
    whole = openai.types.chat.ChatCompletion(
        id="chatcmpl_1", object="chat.completion", created=0, model="some-model", choices=[choice]
    )
    assert send(service, whole.model_dump(mode="json", exclude_none=True)) == answers


def test_a_responses_output_is_answered_with_items_of_the_next_input(service: Service, log: str) -> None:
    cases = asked(log)
    output = [
        openai.types.responses.ResponseReasoningItem(id="rs_1", type="reasoning", summary=[]),
        *[
            openai.types.responses.ResponseFunctionToolCall(
                type="function_call",
                id=f"fc_{n}",
                call_id=f"call_{n}",
                name="read_artifact",
                arguments=json.dumps(arguments),
                status="completed",
            )
            for n, (arguments, _) in enumerate(cases)
        ],
    ]
    answers = send(service, [item.model_dump(mode="json", exclude_none=True) for item in output])
    TypeAdapter(openai.types.responses.ResponseInputParam).validate_python(answers)
    assert [(a["type"], a["call_id"]) for a in answers] == [
        ("function_call_output", f"call_{n}") for n in range(len(cases))
    ]
    assert [said in a["output"] for a, (_, said) in zip(answers, cases, strict=True)] == [True] * len(cases)


def test_a_messages_tool_uses_are_answered_with_the_content_of_the_next_message(service: Service, log: str) -> None:
    cases = asked(log)
    message = anthropic.types.Message.model_validate(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "some-model",
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
            "content": [
                {"type": "thinking", "thinking": "I must read.", "signature": "s"},
                {"type": "text", "text": "I will read."},
                *[
                    {"type": "tool_use", "id": f"toolu_{n}", "name": "read_artifact", "input": arguments}
                    for n, (arguments, _) in enumerate(cases)
                ],
            ],
        }
    )
    answers = send(service, message.model_dump(mode="json", exclude_none=True))
    TypeAdapter(anthropic.types.MessageParam).validate_python({"role": "user", "content": answers})
    assert [a["tool_use_id"] for a in answers] == [f"toolu_{n}" for n in range(len(cases))]
    assert [said in a["content"] for a, (_, said) in zip(answers, cases, strict=True)] == [True] * len(cases)
    assert [a["is_error"] for a in answers] == [not a["content"].startswith("[art_") for a in answers]


@pytest.mark.parametrize("by_alias", [True, False], ids=["REST", "Python"])
def test_a_generated_contents_calls_are_answered_with_the_parts_of_the_next_content(
    service: Service, log: str, by_alias: bool
) -> None:
    cases = asked(log)
    response = gemini.GenerateContentResponse(
        candidates=[
            gemini.Candidate(
                content=gemini.Content(
                    role="model",
                    parts=[
                        gemini.Part(text="I will read."),
                        *[
                            gemini.Part(
                                function_call=gemini.FunctionCall(id=f"f{n}", name="read_artifact", args=arguments),
                                thought_signature=b"signature",
                            )
                            for n, (arguments, _) in enumerate(cases)
                        ],
                    ],
                )
            )
        ]
    )
    assert response.candidates is not None
    content = response.candidates[0].content
    assert content is not None
    answers = send(service, content.model_dump(mode="json", by_alias=by_alias, exclude_none=True))
    assert send(service, response.model_dump(mode="json", by_alias=by_alias, exclude_none=True)) == answers
    parts = gemini.Content.model_validate({"role": "user", "parts": answers}).parts
    got = [part.function_response for part in parts or []]
    assert [(r.id, r.name) for r in got if r] == [(f"f{n}", "read_artifact") for n in range(len(cases))]
    texts = [next(iter(cast("dict[str, str]", r.response).values())) for r in got if r]
    assert [said in text for text, (_, said) in zip(texts, cases, strict=True)] == [True] * len(cases)
    keys = [next(iter(cast("dict[str, str]", r.response))) for r in got if r]
    assert keys == ["output" if text.startswith("[art_") else "error" for text in texts]


@pytest.mark.parametrize(
    "arguments",
    ["", "null", "[]", "5", "{", '{"artifact_id": ', '"{}"', "not json at all", "\u0000", "\ud800"],
    ids=["nothing", "null", "list", "number", "open", "cut off", "twice", "words", "control", "surrogate"],
)
def test_arguments_that_are_none_are_answered_with_what_is_missing(service: Service, arguments: str) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "read_artifact", "arguments": arguments}}
    response = service.client.post(
        "/v1/tools/call", content=json.dumps(call), headers={"content-type": "application/json"}
    )
    assert response.status_code in {200, 400}
    if response.status_code == 200:
        assert "artifact_id is missing" in response.json()["content"]
    else:
        assert (response.json()["code"], arguments) == ("invalid_json", "\ud800")


def test_a_tool_of_somebody_else_is_answered_with_those_that_there_are(service: Service, log: str) -> None:
    calls = [
        {"type": "tool_use", "id": "toolu_1", "name": "web_search", "input": {"query": "x"}},
        {"type": "tool_use", "id": "toolu_2", "name": "read_artifact", "input": {"artifact_id": log, "limit": 1}},
    ]
    answers = send(service, calls)
    assert [a["is_error"] for a in answers] == [True, False]
    assert answers[0]["content"] == 'There is no tool "web_search" here. There is read_artifact and list_artifacts.'
