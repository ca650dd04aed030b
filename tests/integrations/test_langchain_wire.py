"""What the providers' packages for LangChain would send, after the middleware: built by their own code, no network.

LangChain keeps up to four copies of a call's arguments, and which one is sent differs by package and by how the model
answered. Every one of them must be gone.
"""

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, cast

import pytest
from langchain.agents.middleware.types import ModelRequest
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from coatcheck_client import Client
from coatcheck_client.integrations.langchain import CoatcheckMiddleware
from support.service import Service

FILE = "".join(f"{n}: a line that only the written file has\n" for n in range(2_000))
KEY = SecretStr("none")
Json = Any
Build = Callable[[list[BaseMessage]], Json]


def call(call_id: str, content: str = FILE, name: str = "write_file") -> dict[str, Any]:
    return {"name": name, "args": {"path": "a.txt", "content": content}, "id": call_id, "type": "tool_call"}


def chat(call_id: str, content: str = FILE) -> AIMessage:
    """As langchain-openai reads an answer of Chat Completions."""
    arguments = json.dumps({"path": "a.txt", "content": content})
    raw = {"id": call_id, "type": "function", "function": {"name": "write_file", "arguments": arguments}}
    return AIMessage("", tool_calls=[call(call_id, content)], additional_kwargs={"tool_calls": [raw]})  # type: ignore[list-item]


def responses(call_id: str, content: str = FILE) -> AIMessage:
    """As langchain-openai reads an answer of the Responses API."""
    arguments = json.dumps({"path": "a.txt", "content": content})
    block = {
        "type": "function_call",
        "id": f"fc_{call_id}",
        "call_id": call_id,
        "name": "write_file",
        "arguments": arguments,
    }
    said: dict[str, Any] = {"type": "text", "text": "I write the file.", "annotations": []}
    return AIMessage(content=[said, block], tool_calls=[call(call_id, content)], response_metadata={"id": "resp_1"})  # type: ignore[list-item]


def version_1(provider: str) -> Callable[..., AIMessage]:
    """As every package reads an answer with `output_version="v1"`."""

    def made(call_id: str, content: str = FILE) -> AIMessage:
        block = cast("Any", call(call_id, content))
        metadata = {"output_version": "v1", "model_provider": provider}
        return AIMessage(content=[block], tool_calls=[block], response_metadata=metadata)

    return made


def anthropic(caller: bool) -> Callable[..., AIMessage]:
    """As langchain-anthropic reads an answer."""

    def made(call_id: str, content: str = FILE) -> AIMessage:
        block: dict[str, Any] = {"type": "tool_use", "id": call_id, "name": "write_file"}
        block["input"] = {"path": "a.txt", "content": content}
        if caller:
            block["caller"] = {"type": "direct"}
        said = {"type": "text", "text": "I write the file."}
        return AIMessage(content=[said, block], tool_calls=[call(call_id, content)])  # type: ignore[list-item]

    return made


def gemini(call_id: str, content: str = FILE) -> AIMessage:
    """As langchain-google-genai reads an answer."""
    arguments = json.dumps({"path": "a.txt", "content": content})
    extra = {
        "function_call": {"name": "write_file", "arguments": arguments},
        "__gemini_function_call_thought_signatures__": {call_id: "c2ln"},
    }
    return AIMessage("", tool_calls=[call(call_id, content)], additional_kwargs=extra)  # type: ignore[list-item]


@cache
def models() -> dict[str, BaseChatModel]:
    """One model of each package and API; making one takes longer than asking it."""
    return {
        "chat": ChatOpenAI(model="gpt-5.2", api_key=KEY),
        "responses": ChatOpenAI(model="gpt-5.2", api_key=KEY, use_responses_api=True),
        "anthropic": ChatAnthropic(model_name="claude-sonnet-5", api_key=KEY, timeout=None, stop=None),
        "gemini": ChatGoogleGenerativeAI(model="gemini-3.1-pro", google_api_key=KEY),
    }


def to_openai(*, over_responses: bool) -> Build:
    name = "responses" if over_responses else "chat"
    return lambda messages: cast("Any", models()[name])._get_request_payload(messages)


def to_anthropic(messages: list[BaseMessage]) -> Json:
    return cast("Any", models()["anthropic"])._get_request_payload(messages)


def to_gemini(messages: list[BaseMessage]) -> Json:
    return cast("Any", models()["gemini"])._prepare_request(messages)


WIRES = {
    "openai-chat": (chat, to_openai(over_responses=False)),
    "openai-chat-v1": (version_1("openai"), to_openai(over_responses=False)),
    "openai-responses": (responses, to_openai(over_responses=True)),
    "openai-responses-v1": (version_1("openai"), to_openai(over_responses=True)),
    "anthropic": (anthropic(caller=False), to_anthropic),
    "anthropic-caller": (anthropic(caller=True), to_anthropic),
    "anthropic-v1": (version_1("anthropic"), to_anthropic),
    "gemini": (gemini, to_gemini),
    "gemini-v1": (version_1("google_genai"), to_gemini),
}


@pytest.fixture
def middleware(service: Service) -> Iterator[CoatcheckMiddleware]:
    with Client(service.url) as client:
        yield CoatcheckMiddleware(client)


def history_of(call: AIMessage, *after: BaseMessage) -> list[BaseMessage]:
    """A conversation in which a file was written, and what comes after that."""
    result = ToolMessage("wrote it", tool_call_id=str(call.tool_calls[0]["id"]), name="write_file")
    return [SystemMessage("Be brief."), HumanMessage("write"), call, result, *after]


def sent(middleware: CoatcheckMiddleware, messages: list[BaseMessage]) -> list[BaseMessage]:
    """What would go to the model; the messages that were given must not have changed."""
    before = [message.model_dump_json() for message in messages]
    got: list[ModelRequest[Any]] = []
    request = ModelRequest(
        model=cast("BaseChatModel", None), messages=cast("Any", messages[1:]), system_message=cast("Any", messages[0])
    )
    middleware.wrap_model_call(request, cast("Any", got.append))
    assert [message.model_dump_json() for message in messages] == before
    (only,) = got
    assert only.system_message is messages[0]
    return [messages[0], *only.messages]


def told(payload: object) -> str:
    """Everything that a payload says, also what stands in JSON in a string."""
    return json.dumps(payload, default=str, ensure_ascii=False).replace("\\", "")


@pytest.mark.parametrize("wire", list(WIRES))
def test_no_copy_of_a_written_file_is_left_in_what_a_package_sends(wire: str, middleware: CoatcheckMiddleware) -> None:
    made, build = WIRES[wire]
    messages = history_of(made("call_1"), HumanMessage("and now?"))
    assert "only the written file has" in told(build(messages)), "the test would prove nothing"
    smaller = sent(middleware, messages)
    text = told(build(smaller))
    assert "only the written file has" not in text
    assert "omitted from history, do not copy" in text
    assert "a.txt" in text
    assert told([message.model_dump() for message in smaller]).count("only the written file has") == 0
    assert [one is two for one, two in zip(smaller, messages, strict=True)] == [True, True, False, True, True]
    assert told(build(sent(middleware, smaller))) == text, "compacting twice is compacting once"


@pytest.mark.parametrize("wire", list(WIRES))
def test_only_calls_with_a_result_change(wire: str, middleware: CoatcheckMiddleware) -> None:
    made, build = WIRES[wire]
    messages = history_of(made("call_1"), made("call_2", FILE.replace("only", "just")))
    smaller = sent(middleware, messages)
    assert smaller[4] is messages[4]
    text = told(build([*smaller, ToolMessage("wrote it", tool_call_id="call_2", name="write_file")]))
    assert ("only the written file has" in text, "just the written file has" in text) == (False, True)


@pytest.mark.parametrize("wire", list(WIRES))
def test_of_calls_with_one_id_those_change_behind_which_a_result_stands(
    wire: str, middleware: CoatcheckMiddleware
) -> None:
    made, _ = WIRES[wire]
    messages = history_of(made("same"), HumanMessage("again"), made("same", FILE.replace("only", "just")))
    smaller = sent(middleware, messages)
    assert "only the written file has" not in told(smaller[2].model_dump())
    assert smaller[5] is messages[5]
    answered = sent(middleware, [*messages, ToolMessage("wrote it", tool_call_id="same", name="write_file")])
    assert answered[2].model_dump() == smaller[2].model_dump()
    assert "just the written file has" not in told(answered[5].model_dump())
    assert not any(isinstance(one, ToolMessage) and one.content != "wrote it" for one in answered)


def test_what_a_provider_signed_and_counted_stays_byte_for_byte(middleware: CoatcheckMiddleware) -> None:
    thinking = {"type": "thinking", "thinking": "I shall write.", "signature": "c2lnbmF0dXJl" * 20}
    message = anthropic(caller=True)("call_1")
    blocks = cast("list[Any]", message.content)
    message = message.model_copy(
        update={
            "content": [thinking, *blocks],
            "response_metadata": {"model_name": "claude-sonnet-5", "stop_reason": "tool_use"},
            "usage_metadata": {"input_tokens": 10, "output_tokens": 900, "total_tokens": 910},
            "id": "run-1",
        }
    )
    smaller = sent(middleware, history_of(message))
    payload = to_anthropic(smaller)
    assert payload["messages"][1]["content"][0] == thinking
    changed = cast("AIMessage", smaller[2])
    assert (changed.id, changed.response_metadata, changed.usage_metadata) == (
        message.id,
        message.response_metadata,
        message.usage_metadata,
    )


def test_the_read_tool_can_be_declared_by_every_package(middleware: CoatcheckMiddleware) -> None:
    for model in models().values():
        bound = cast("Any", model.bind_tools(list(middleware.tools)))
        assert "read_artifact" in told(bound.kwargs["tools"])
