"""OpenAI Agents SDK."""

import asyncio
import json
import re
from typing import Any

import pytest
from agents import (
    Agent,
    FunctionTool,
    ModelSettings,
    OpenAIProvider,
    RunConfig,
    Runner,
    SQLiteSession,
    function_tool,
    set_tracing_disabled,
)
from agents.run import CallModelData, ModelInputData
from agents.tool import ToolOutputImage, ToolOutputText

from openai import AsyncOpenAI
from tavily import TavilyClient

from coatcheck_client import Client
from coatcheck_client.integrations.openai_agents import compacting, with_coatcheck
from model_server import model_server
from scenario import LOG, PICTURE, TOOLS, plan, saw_a_card
from search_server import CODE, QUERY, check_requests, fetched, search_server
from more_tests import PageTests, PictureTests
from wire_formats import Call

set_tracing_disabled(True)


@function_tool
def get_pictured_log() -> list[ToolOutputText | ToolOutputImage]:
    """Get the log and a picture of it."""
    return [ToolOutputText(text=LOG), ToolOutputImage(image_url=f"data:image/png;base64,{PICTURE}")]


def provided(url: str, *, use_responses: bool = True) -> OpenAIProvider:
    """The model, over connections of its own: each test has its own event loop."""
    return OpenAIProvider(openai_client=AsyncOpenAI(base_url=f"{url}/v1", api_key="none"), use_responses=use_responses)


class TestOpenAIAgents(PageTests, PictureTests):
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
            saw_a_card(model, await self.answer(Agent(name="Chief", tools=[inner]), model.url, "async"))


@pytest.mark.parametrize("can_read", [False, True])
async def test_cards_of_a_compacted_request_know_whether_the_agent_can_read(service_url: str, can_read: bool) -> None:
    agent: Agent[Any] = Agent(name="Operator", tools=[get_pictured_log])
    call: Any = {"type": "function_call", "call_id": "c1", "name": "get_log", "arguments": "{}"}
    output: Any = {"type": "function_call_output", "call_id": "c1", "output": LOG}
    given = ModelInputData(input=[{"role": "user", "content": "Which code?"}, call, output], instructions=None)
    with Client(service_url) as client:
        agent = with_coatcheck(agent, client) if can_read else agent
        sent = await compacting(client)(CallModelData(model_data=given, agent=agent, context=None))
    assert sent.input[2]["output"].startswith("[art_")
    assert ("It is kept under this ID." in sent.input[2]["output"]) != can_read


@pytest.mark.parametrize("shape", ["tavily", "brave", "ddgs"])
@pytest.mark.parametrize("wire", ["async", "chat"])
async def test_a_search_is_passages_in_its_turn_and_a_summary_after_it(service_url: str, shape: str, wire: str) -> None:
    with search_server() as provider, model_server(plan()) as model, Client(service_url) as client:
        tavily = TavilyClient("tvly-none", api_base_url=provider)

        @function_tool
        def web_search(query: str) -> str:
            """Search the web."""
            if shape == "tavily":
                return json.dumps(tavily.search(query, include_raw_content=True, max_results=10))
            return fetched(provider, shape)

        model.plan.first = [[Call("web_search", {"query": QUERY})]]
        model.plan.needle, model.plan.pattern = re.compile(r"is code ([0-9a-f]{10})"), "opens gate seven"
        agent = with_coatcheck(Agent(name="Harbour", tools=[web_search]), client, searches="passages")
        config = RunConfig(
            model_provider=provided(model.url, use_responses=wire == "async"),
            model="stub",
            call_model_input_filter=compacting(client),
        )
        session = SQLiteSession("harbour")
        first = await Runner.run(agent, "Which code?", run_config=config, session=session)
        model.plan.needle = re.compile(r"never ([0-9])")
        await Runner.run(agent, "And gate eight?", run_config=config, session=session)
    assert CODE in str(first.final_output)
    check_requests(model.results[1:], later=1)
