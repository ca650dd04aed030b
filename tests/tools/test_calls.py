"""Calls as the providers' SDKs give them, and results as they take them."""

import json
from typing import Any

import anthropic.types
import mcp_types
import openai.types.chat
import openai.types.responses
import pytest
from google.genai import types as gemini
from openai.types.chat.chat_completion_message_tool_call import Function
from pydantic import TypeAdapter

from coatcheck.tools.answers import MAX_TOKENS, MIN_ANSWER_TOKENS
from tools.agent import LOG, Agent

TEXT = "00002 step 838 took 2 ms"


async def stored(agent: Agent) -> dict[str, Any]:
    """Arguments that read the third line of a stored log."""
    return {"artifact_id": await agent.put(LOG, title="build.log"), "offset": 3, "limit": 1}


def said(artifact_id: str) -> str:
    return (
        f"[{artifact_id} · build.log · lines 3-3 of 4000 · text]\n{TEXT}\n"
        '(Lines 3-3 of 4000. Next: offset=4. Or pattern="…" to search.)'
    )


async def test_a_name_and_arguments_are_answered_with_text(agent: Agent) -> None:
    arguments = await stored(agent)
    text = said(arguments["artifact_id"])
    body = {"name": "read_artifact", "arguments": arguments}
    answer = await agent.send(body)
    assert answer == {"text": text, "tokens": answer["tokens"], "is_error": False}
    assert (await agent.send({**body, "id": "c1"}))["id"] == "c1"


async def test_an_openai_tool_call_gets_a_tool_message(agent: Agent) -> None:
    arguments = await stored(agent)
    call = openai.types.chat.ChatCompletionMessageFunctionToolCall(
        id="call_1", type="function", function=Function(name="read_artifact", arguments=json.dumps(arguments))
    )
    answer = await agent.send(call.model_dump(mode="json"))
    TypeAdapter(openai.types.chat.ChatCompletionToolMessageParam).validate_python(answer)
    assert answer == {"role": "tool", "tool_call_id": "call_1", "content": said(arguments["artifact_id"])}


async def test_a_whole_assistant_message_gets_a_message_for_each_call(agent: Agent) -> None:
    arguments = await stored(agent)
    function = {"name": "read_artifact", "arguments": json.dumps(arguments)}
    calls = [{"id": f"call_{n}", "type": "function", "function": function} for n in range(3)]
    answer = await agent.send({"role": "assistant", "content": None, "tool_calls": calls})
    assert [(a["role"], a["tool_call_id"]) for a in answer] == [("tool", f"call_{n}") for n in range(3)]


async def test_a_responses_function_call_gets_its_output_item(agent: Agent) -> None:
    arguments = await stored(agent)
    call = openai.types.responses.ResponseFunctionToolCall(
        id="fc_1", call_id="call_1", type="function_call", name="read_artifact", arguments=json.dumps(arguments)
    )
    answer = await agent.send(call.model_dump(mode="json"))
    TypeAdapter(openai.types.responses.response_input_param.FunctionCallOutput).validate_python(answer)
    assert answer == {"type": "function_call_output", "call_id": "call_1", "output": said(arguments["artifact_id"])}


@pytest.mark.parametrize("failing", [False, True])
async def test_an_anthropic_tool_use_gets_a_tool_result_that_says_whether_it_failed(
    agent: Agent, failing: bool
) -> None:
    arguments = await stored(agent) | ({"offset": 9000} if failing else {})
    caller = anthropic.types.DirectCaller(type="direct")
    block = anthropic.types.ToolUseBlock(
        id="toolu_1", type="tool_use", name="read_artifact", input={**arguments}, caller=caller
    )
    answer = await agent.send(block.model_dump(mode="json"))
    TypeAdapter(anthropic.types.ToolResultBlockParam).validate_python(answer)
    assert (answer["type"], answer["tool_use_id"], answer["is_error"]) == ("tool_result", "toolu_1", failing)
    assert answer["content"].startswith("Offset 9000 is past the end: " if failing else "[art_")


@pytest.mark.parametrize("failing", [False, True])
async def test_a_gemini_function_call_gets_a_function_response(agent: Agent, failing: bool) -> None:
    arguments = await stored(agent) | ({"offset": 9000} if failing else {})
    part = gemini.Part(function_call=gemini.FunctionCall(id="f1", name="read_artifact", args=arguments))
    for by_alias, key in ((True, "functionResponse"), (False, "function_response")):
        answer = await agent.send(part.model_dump(mode="json", by_alias=by_alias, exclude_none=True))
        response = gemini.Part.model_validate(answer).function_response
        assert response is not None
        assert list(answer) == [key]
        assert (response.id, response.name) == ("f1", "read_artifact")
        assert response.response is not None
        assert list(response.response) == ["error" if failing else "output"]
    bare = await agent.send({"name": "read_artifact", "args": arguments})
    assert "id" not in bare["functionResponse"]


async def test_an_mcp_request_gets_a_result_of_the_protocol(agent: Agent) -> None:
    arguments = await stored(agent)
    params = mcp_types.CallToolRequestParams(name="read_artifact", arguments=arguments).model_dump(
        mode="json", by_alias=True, exclude_none=True
    )
    answer = await agent.send(params, format="mcp")
    result = mcp_types.CallToolResult.model_validate(answer)
    assert isinstance(result.content[0], mcp_types.TextContent)
    assert (result.content[0].text, result.is_error, result.structured_content) == (
        said(arguments["artifact_id"]),
        False,
        None,
    )
    rpc = await agent.send({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})
    assert rpc == {"jsonrpc": "2.0", "id": 7, "result": answer}


async def test_any_call_can_be_answered_in_any_form(agent: Agent) -> None:
    arguments = await stored(agent)
    block = {"type": "tool_use", "id": "toolu_1", "name": "read_artifact", "input": arguments}
    keys = {
        "text": {"id", "text", "tokens", "is_error"},
        "openai-chat": {"role", "tool_call_id", "content"},
        "openai-responses": {"type", "call_id", "output"},
        "anthropic": {"type", "tool_use_id", "content", "is_error"},
        "gemini": {"functionResponse"},
        "mcp": {"content", "isError"},
    }
    assert {form: set(await agent.send(block, format=form)) for form in keys} == keys


async def test_several_calls_are_answered_in_their_order(agent: Agent) -> None:
    arguments = await stored(agent)
    body: list[Any] = [
        {"type": "text", "text": "I will read."},
        {"type": "tool_use", "id": "toolu_1", "name": "read_artifact", "input": arguments},
        {"type": "tool_use", "id": "toolu_2", "name": "list_artifacts", "input": {}},
    ]
    assert [a["tool_use_id"] for a in await agent.send(body)] == ["toolu_1", "toolu_2"]
    assert [a["tool_use_id"] for a in await agent.send({"role": "assistant", "content": body})] == [
        "toolu_1",
        "toolu_2",
    ]


@pytest.mark.parametrize(
    "name",
    [
        "read_artifact",
        "mcp__coatcheck__read_artifact",
        "functions.read_artifact",
        "default_api:read_artifact",
        "ReadArtifact",
        "read-artifact",
    ],
)
async def test_a_hosts_prefix_does_not_hide_the_tool(agent: Agent, name: str) -> None:
    assert TEXT in (await agent.call(name, await stored(agent))).text


async def test_a_tool_that_there_is_not_is_answered_with_those_that_there_are(agent: Agent) -> None:
    answer = await agent.call("web_search", {"query": "x"})
    assert (answer.text, answer.is_error) == (
        'There is no tool "web_search" here. There is read_artifact and list_artifacts.',
        True,
    )


@pytest.mark.parametrize("body", [[], {}, "read_artifact", 5, None, [1, 2], {"artifact": "x"}], ids=json.dumps)
async def test_a_body_without_a_call_is_a_problem_of_the_request(agent: Agent, body: object) -> None:
    headers = {"content-type": "application/json"}
    response = await agent.client.post("/v1/tools/call", content=json.dumps(body), headers=headers)
    assert (response.status_code, response.json()["code"]) == (400, "invalid_request")


@pytest.mark.parametrize("params", [{}, {"params": {}}, {"params": {"name": "read_artifact"}}], ids=str)
@pytest.mark.parametrize("several", [False, True])
async def test_a_json_rpc_request_of_another_method_is_told_where_it_may_go(
    agent: Agent, params: dict[str, object], several: bool
) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", **params}
    response = await agent.client.post("/v1/tools/call", json=[message] if several else message)
    assert response.status_code == 400
    assert response.json()["detail"] == (
        'This route executes tool calls (tools/call), not "tools/list". GET /v1/tools lists the tools; '
        "MCP is served at /mcp."
    )


async def test_a_call_without_a_name_is_told_which_there_are(agent: Agent) -> None:
    answer = await agent.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}})
    (part,) = answer["result"]["content"]
    assert (answer["result"]["isError"], part["text"]) == (
        True,
        "The call names no tool. There is read_artifact and list_artifacts.",
    )


async def test_no_more_calls_are_executed_than_one_request_may_hold(agent: Agent) -> None:
    call = {"name": "list_artifacts", "arguments": None}
    assert len(await agent.send([call] * 32)) == 32
    response = await agent.client.post("/v1/tools/call", json=[call] * 33)
    assert response.json()["detail"] == "At most 32 calls are executed in one request."


async def test_a_body_is_bounded_and_must_be_json(agent: Agent) -> None:
    post = agent.client.post
    headers = {"content-type": "application/json"}
    assert (await post("/v1/tools/call", content=b" " * 1_100_000, headers=headers)).status_code == 413
    assert (await post("/v1/tools/call", content=b"{", headers=headers)).json()["code"] == "invalid_json"
    assert (await post("/v1/tools/call", content=b"{}", headers={"content-type": "text/plain"})).status_code == 415


async def test_a_host_bounds_an_answer(agent: Agent) -> None:
    artifact_id = await agent.put(LOG)
    sizes = [
        (await agent.call("read_artifact", {"id": artifact_id, "limit": 2000}, max_tokens=most)).tokens
        for most in (800, 2000, 8000)
    ]
    assert [a <= b for a, b in zip(sizes, (800, 2000, 8000), strict=True)] == [True] * 3
    assert sizes[0] < sizes[1] < sizes[2]
    for most in (MIN_ANSWER_TOKENS - 1, MAX_TOKENS + 1):
        response = await agent.client.post("/v1/tools/call", json={}, params={"max_tokens": most})
        assert "'max_tokens'" in response.json()["detail"]
