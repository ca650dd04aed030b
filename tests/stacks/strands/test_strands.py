"""Strands Agents."""

import asyncio
import base64
from typing import Any

import pytest
from strands import Agent, tool
from strands.models.openai import OpenAIModel

from coatcheck_client import Client
from coatcheck_client.integrations.strands import CoatcheckAgentPlugin
from model_server import model_server
from scenario import LOG, NEEDLE, PICTURE, TOOLS, plan, saw_a_card
from more_tests import PageTests, PictureTests
from wire_formats import Call

IMAGE = {"image": {"format": "png", "source": {"bytes": base64.b64decode(PICTURE)}}}


@tool
def get_pictured_log() -> dict[str, Any]:
    """Get the log and a picture of it."""
    return {"status": "success", "content": [{"text": LOG}, IMAGE]}


@tool
def get_rows() -> dict[str, Any]:
    """Get the log as rows."""
    return {"status": "success", "content": [{"json": {"lines": LOG.splitlines()}}]}


@tool
def fail_at_length() -> dict[str, Any]:
    """Fail with the log."""
    return {"status": "error", "content": [{"text": LOG}]}


def made(url: str, tools: list[Any], plugins: list[Any]) -> Agent:
    """An agent whose model is the server."""
    model = OpenAIModel(client_args={"base_url": f"{url}/v1", "api_key": "none"}, model_id="stub")
    return Agent(model=model, tools=tools, plugins=plugins, callback_handler=None)


class TestStrands(PageTests, PictureTests):
    """Agents over Chat Completions."""

    name = "strands"
    package = "strands-agents"
    modes = ("async", "sync", "stream")

    async def run(self, client: Client, url: str, mode: str, **options: Any) -> str:
        tools = [*map(tool, TOOLS.values()), get_pictured_log, get_rows, fail_at_length]
        agent = made(url, tools, [CoatcheckAgentPlugin(client, **options)])
        if mode == "sync":
            return str(await asyncio.to_thread(agent, "Which code?"))
        if mode == "stream":
            events = [event async for event in agent.stream_async("Which code?")]
            return str(events[-1]["result"])
        return str(await agent.invoke_async("Which code?"))

    @pytest.mark.parametrize("name", ["get_rows", "fail_at_length"])
    async def test_json_and_failures_become_cards(self, service_url: str, name: str) -> None:
        with model_server(plan([Call(name, {})])) as model, Client(service_url) as client:
            agent = made(model.url, [get_rows, fail_at_length], [CoatcheckAgentPlugin(client)])
            answer = str(await agent.invoke_async("Which code?"))
        assert NEEDLE in answer
        assert "art_" in model.results[1][0]
        blocks = [block["toolResult"] for one in agent.messages for block in one["content"] if "toolResult" in block]
        assert blocks[0]["status"] == ("error" if name == "fail_at_length" else "success")

    async def test_a_sub_agent_has_cards_of_its_own(self, service_url: str) -> None:
        with model_server(plan([Call("ask_operator", {})])) as model, Client(service_url) as client:

            @tool
            async def ask_operator() -> str:
                """Ask the operator."""
                operator = made(model.url, [tool(TOOLS["get_log"])], [CoatcheckAgentPlugin(client)])
                return str(await operator.invoke_async("Which code?"))

            chief = made(model.url, [ask_operator], [CoatcheckAgentPlugin(client)])
            saw_a_card(model, str(await chief.invoke_async("Which code?")))
