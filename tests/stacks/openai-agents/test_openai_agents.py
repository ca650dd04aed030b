"""OpenAI Agents SDK."""

import asyncio
import os
from typing import Any

import pytest
from agents import (
    Agent,
    FunctionTool,
    ModelSettings,
    OpenAIProvider,
    RunConfig,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from agents.tool import ToolOutputImage, ToolOutputText

from openai import AsyncOpenAI

from coatcheck_client import Client
from coatcheck_client.integrations.openai_agents import with_coatcheck
from model_server import model_server
from page import run_page
from scenario import LOG, NEEDLE, PICTURE, TOOLS, plan
from stack_tests import StackTests
from wire_formats import Call

set_tracing_disabled(True)


@function_tool
def get_pictured_log() -> list[ToolOutputText | ToolOutputImage]:
    """Get the log and a picture of it."""
    return [ToolOutputText(text=LOG), ToolOutputImage(image_url=f"data:image/png;base64,{PICTURE}")]


def provided(url: str, *, use_responses: bool = True) -> OpenAIProvider:
    """The model, over connections of its own: each test has its own event loop."""
    return OpenAIProvider(openai_client=AsyncOpenAI(base_url=f"{url}/v1", api_key="none"), use_responses=use_responses)


class TestOpenAIAgents(StackTests):
    """Agents over the Responses interface, and over Chat Completions."""

    name = "openai-agents"
    package = "openai-agents"
    error = "An error occurred while running the tool"
    modes = ("async", "sync", "stream", "chat")

    async def run(self, client: Client, url: str, mode: str, **options: Any) -> str:
        agent = Agent(name="Operator", tools=[*map(function_tool, TOOLS.values()), get_pictured_log])
        agent = with_coatcheck(agent, client, **options)
        return await self.answer(agent, url, mode)

    async def answer(self, agent: Agent[Any], url: str, mode: str) -> str:
        provider = provided(url, use_responses=mode != "chat")
        config = RunConfig(model_provider=provider, model="stub", model_settings=ModelSettings())
        if mode == "sync":
            done = await asyncio.to_thread(Runner.run_sync, agent, "Which code?", run_config=config)
        elif mode == "stream":
            done = Runner.run_streamed(agent, "Which code?", run_config=config)
            async for _ in done.stream_events():
                pass
        else:
            done = await Runner.run(agent, "Which code?", run_config=config)
        return str(done.final_output)

    async def test_an_image_stays_beside_the_card(self, service_url: str) -> None:
        with model_server(plan([Call("get_pictured_log", {})])) as model, Client(service_url) as client:
            answer = await self.run(client, model.url, "async")
        assert NEEDLE in answer
        assert f"data:image/png;base64,{PICTURE}" in model.results[1][0]
        assert LOG not in model.results[1][0]

    async def test_a_sub_agent_has_cards_of_its_own(self, service_url: str) -> None:
        with (
            model_server(plan([Call("ask_operator", {"input": "Which code?"})])) as model,
            Client(service_url) as client,
        ):
            operator = with_coatcheck(Agent(name="Operator", tools=[function_tool(TOOLS["get_log"])]), client)
            provider = provided(model.url)
            inner = operator.as_tool(
                "ask_operator", "Ask the operator", run_config=RunConfig(model_provider=provider, model="stub")
            )
            assert isinstance(inner, FunctionTool)
            model.plan.first = [[Call("ask_operator", {"input": "Which code?"})]]
            model.plan.inner = [[Call("get_log", {})]]
            answer = await self.answer(Agent(name="Chief", tools=[inner]), model.url, "async")
        assert NEEDLE in answer
        assert all(LOG not in one for results in model.results for one in results)


async def test_the_snippets_of_the_page(service_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with model_server(plan()) as model:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{model.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("COATCHECK_URL", service_url)
        printed = await asyncio.to_thread(run_page, "openai-agents")
    assert NEEDLE in printed
    assert os.environ["COATCHECK_URL"] == service_url
