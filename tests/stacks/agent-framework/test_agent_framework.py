"""Microsoft Agent Framework."""

import asyncio
import base64
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from agent_framework import (
    SKIP_PARSING,
    Agent,
    Content,
    FunctionInvocationContext,
    FunctionMiddleware,
    MCPStdioTool,
    tool,
)
from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient

from coatcheck_client import Client
from coatcheck_client.integrations.agent_framework import CoatcheckProvider
from model_server import model_server
from scenario import LOG, PICTURE, TOOLS, plan, saw_a_card
from more_tests import PageTests
from wire_formats import Call


async def get_log_later() -> str:
    """Get the log."""
    await asyncio.sleep(0)
    return LOG


def get_rows() -> dict[str, Any]:
    """Get the log as rows."""
    return {"lines": LOG.splitlines()}


@tool(result_parser=SKIP_PARSING)
def get_raw_rows() -> dict[str, Any]:
    """Get the log as rows that the framework does not parse."""
    return get_rows()


def get_pictured_log() -> list[Content]:
    """Get the log and a picture of it."""
    return [Content.from_text(LOG), Content.from_data(base64.b64decode(PICTURE), "image/png")]


MORE = [get_log_later, get_rows, get_raw_rows, get_pictured_log]


def model_at(url: str, kind: Callable[..., Any] = OpenAIChatCompletionClient) -> Any:
    """A model that is the server."""
    return kind("stub", base_url=f"{url}/v1", api_key="none")


def made(url: str, client: Client, tools: list[Any], **said: Any) -> Agent:
    """An agent whose model is the server."""
    return Agent(model_at(url), tools=tools, context_providers=[CoatcheckProvider(client)], **said)


async def asked(agent: Agent, mode: str) -> str:
    """The final answer of a run."""
    if mode == "stream":
        return "".join([one.text async for one in agent.run("Which code?", stream=True) if one.text])
    return (await agent.run("Which code?")).text


class TestAgentFramework(PageTests):
    """Agents over Chat Completions."""

    name = "agent-framework"
    package = "agent-framework-core"
    modes = ("async", "stream")
    error = "Function failed"

    async def run(self, client: Client, url: str, mode: str, **options: Any) -> str:
        provider = CoatcheckProvider(client, **options)
        return await asked(Agent(model_at(url), tools=[*TOOLS.values(), *MORE], context_providers=[provider]), mode)

    @pytest.mark.parametrize("name", [getattr(one, "name", None) or one.__name__ for one in MORE])
    async def test_results_of_any_kind_become_cards(self, service_url: str, name: str, mode: str) -> None:
        with model_server(plan([Call(name, {})])) as model, Client(service_url) as client:
            saw_a_card(model, await self.run(client, model.url, mode))
        assert model.results[1][0].count("[art_") == 1

    async def test_images_stay_behind_a_card(self, service_url: str, mode: str) -> None:
        with model_server(plan([Call("get_pictured_log", {})])) as model, Client(service_url) as client:
            responses = model_at(model.url, OpenAIChatClient)  # over Chat Completions the framework sends no images
            agent = Agent(responses, tools=MORE, context_providers=[CoatcheckProvider(client)])
            saw_a_card(model, await asked(agent, mode))
        assert PICTURE in json.dumps(model.bodies[1])


async def test_results_of_an_mcp_server_become_cards(service_url: str) -> None:
    command = [str(Path(__file__).parents[1] / "mcp_server.py")]
    with model_server(plan([Call("get_served_log", {})])) as model, Client(service_url) as client:
        async with MCPStdioTool("logs", sys.executable, args=command, env=dict(os.environ)) as server:
            saw_a_card(model, await asked(made(model.url, client, [server]), "async"))
    assert model.results[1][0].count("[art_") == 1


async def test_an_agent_that_is_a_tool_has_cards_of_its_own(service_url: str) -> None:
    with model_server(plan([Call("operator", {"task": "Which code?"})])) as model, Client(service_url) as client:
        operator = made(model.url, client, [TOOLS["get_log"]], name="operator", description="Knows the log.")
        saw_a_card(model, await asked(made(model.url, client, [operator.as_tool()]), "async"))


async def test_middleware_of_one_s_own_goes_on_and_sees_cards(service_url: str) -> None:
    seen: list[str] = []

    class Watch(FunctionMiddleware):
        async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
            await call_next()
            seen.append(context.result[0].text)

    with model_server(plan()) as model, Client(service_url) as client:
        saw_a_card(model, await asked(made(model.url, client, [TOOLS["get_log"]], middleware=[Watch()]), "async"))
    assert "[art_" in seen[0]


async def test_a_session_keeps_cards_from_turn_to_turn(service_url: str) -> None:
    with model_server(plan()) as model, Client(service_url) as client:
        agent = made(model.url, client, [TOOLS["get_log"]])
        session = agent.create_session()
        saw_a_card(model, (await agent.run("Which code?", session=session)).text)
        saw_a_card(model, (await agent.run("Say it again.", session=session)).text)
    assert [one for one in model.results[-1] if "[art_" in one]


async def test_an_artifact_has_the_call_s_id(service_url: str) -> None:
    with model_server(plan()) as model, Client(service_url, session="agent-framework-ids") as client:
        saw_a_card(model, await asked(made(model.url, client, [TOOLS["get_log"]]), "async"))
        (stored,) = client.artifacts(session="agent-framework-ids").items
    assert model.bodies[1]["messages"][1]["tool_calls"][0]["id"] == stored.tool_call_id
