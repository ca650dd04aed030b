"""Agents of a few lines over each interface of the proxy. Each runs the tools that it knows, and fails for others."""

from collections.abc import Callable
from typing import Any

from anthropic import AsyncAnthropic
from openai import AsyncOpenAI, OpenAI

Tools = dict[str, Callable[[], Any]]

SCHEMA: Any = {"type": "object", "properties": {}}
ASKED = "With which code did request 1777 finish?"


def result(tools: Tools, name: str) -> Any:
    """What a tool returns, or says when it fails. A tool that the agent does not have ends the run."""
    tool = tools[name]
    try:
        return tool()
    except ValueError as e:
        return str(e)


def _chat(tools: Tools) -> Any:
    return [{"type": "function", "function": {"name": one, "parameters": SCHEMA}} for one in tools]


def _chat_results(tools: Tools, calls: Any) -> list[Any]:
    return [{"role": "tool", "tool_call_id": one.id, "content": result(tools, one.function.name)} for one in calls]


def chat_sync(url: str, key: str, tools: Tools, seen: list[Any], model: str = "gpt-stub") -> str:
    """Chat Completions without an event loop."""
    messages: list[Any] = [{"role": "user", "content": ASKED}]
    with OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as client:
        while True:
            answer = client.chat.completions.create(model=model, messages=messages, tools=_chat(tools))
            seen.append(answer)
            said = answer.choices[0].message
            if not said.tool_calls:
                return said.content or ""
            messages += [said, *_chat_results(tools, said.tool_calls)]


async def chat(
    url: str, key: str, tools: Tools, seen: list[Any], model: str = "gpt-stub", *, stream: bool = False
) -> str:
    """Chat Completions; streamed, as the SDK puts the pieces together."""
    messages: list[Any] = [{"role": "user", "content": ASKED}]
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as client:
        while True:
            asked: Any = {"model": model, "messages": messages, "tools": _chat(tools)}
            if stream:
                async with client.chat.completions.stream(**asked, stream_options={"include_usage": True}) as pieces:
                    answer = await pieces.get_final_completion()
            else:
                answer = await client.chat.completions.create(**asked)
            seen.append(answer)
            said = answer.choices[0].message
            if not said.tool_calls:
                return said.content or ""
            calls = [{"id": one.id, "type": "function", "function": _function(one)} for one in said.tool_calls]
            messages += [{"role": "assistant", "content": said.content, "tool_calls": calls}]
            messages += _chat_results(tools, said.tool_calls)


def _function(call: Any) -> dict[str, str]:
    return {"name": call.function.name, "arguments": call.function.arguments}


async def messages(
    url: str, key: str, tools: Tools, seen: list[Any], model: str = "claude-stub", *, stream: bool = False
) -> str:
    """Anthropic's Messages."""
    talk: list[Any] = [{"role": "user", "content": ASKED}]
    offered: Any = [{"name": one, "input_schema": SCHEMA} for one in tools]
    async with AsyncAnthropic(base_url=url, api_key=key, max_retries=0) as client:
        while True:
            asked: Any = {"model": model, "max_tokens": 1_000, "messages": talk, "tools": offered}
            if stream:
                async with client.messages.stream(**asked) as events:
                    answer = await events.get_final_message()
            else:
                answer = await client.messages.create(**asked)
            seen.append(answer)
            calls = [one for one in answer.content if one.type == "tool_use"]
            if not calls:
                return "".join(one.text for one in answer.content if one.type == "text")
            results = [
                {"type": "tool_result", "tool_use_id": one.id, "content": result(tools, one.name)} for one in calls
            ]
            said = [one.model_dump(include={"type", "id", "name", "input", "text"}) for one in answer.content]
            talk += [{"role": "assistant", "content": said}, {"role": "user", "content": results}]


async def responses(
    url: str, key: str, tools: Tools, seen: list[Any], model: str = "gpt-stub", *, stream: bool = False
) -> str:
    """OpenAI's Responses."""
    items: list[Any] = [{"role": "user", "content": ASKED}]
    offered: Any = [{"type": "function", "name": one, "parameters": SCHEMA} for one in tools]
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as client:
        while True:
            asked: Any = {"model": model, "input": items, "tools": offered, "store": False}
            if stream:
                async with client.responses.stream(**asked) as events:
                    answer = await events.get_final_response()
            else:
                answer = await client.responses.create(**asked)
            seen.append(answer)
            calls = [one for one in answer.output if one.type == "function_call"]
            if not calls:
                return answer.output_text
            said = {"type", "id", "call_id", "name", "arguments", "role", "content"}
            items += [one.model_dump(include=said) for one in answer.output]
            items += [
                {"type": "function_call_output", "call_id": one.call_id, "output": result(tools, one.name)}
                for one in calls
            ]
