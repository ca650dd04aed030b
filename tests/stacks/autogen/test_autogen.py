"""AutoGen."""

from collections.abc import Mapping
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import TaskResult
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import Image
from autogen_core.models import ModelFamily, ModelInfo
from autogen_core.tools import ImageResultContent, StaticWorkbench, TextResultContent, ToolResult
from autogen_ext.models.openai import OpenAIChatCompletionClient

from coatcheck_client import Client
from coatcheck_client.integrations.autogen import CoatcheckWorkbench
from model_server import model_server
from scenario import LOG, NEEDLE, PICTURE, TOOLS, plan, saw_a_card
from more_tests import PageTests
from wire_formats import Call

INFO = ModelInfo(
    vision=False, function_calling=True, json_output=False, family=ModelFamily.UNKNOWN, structured_output=False
)


def made(url: str, workbench: CoatcheckWorkbench) -> AssistantAgent:
    """An agent whose model is the server."""
    model = OpenAIChatCompletionClient(model="stub", base_url=f"{url}/v1", api_key="none", model_info=INFO)
    return AssistantAgent("operator", model, workbench=workbench, max_tool_iterations=9)


class Pictures(StaticWorkbench):
    """A workbench whose results are a log around a picture, as those of an MCP server may be."""

    async def call_tool(self, name: str, *_: Any, **__: Any) -> ToolResult:
        parts = [TextResultContent(content=LOG), ImageResultContent(content=Image.from_base64(PICTURE))]
        return ToolResult(name=name, result=[*parts, TextResultContent(content=LOG)], is_error=name == "fail")


class TestAutoGen(PageTests):
    """Agents over Chat Completions."""

    name = "autogen"
    package = "autogen-agentchat"
    modes = ("async", "stream")

    async def run(self, client: Client, url: str, mode: str, **options: Any) -> str:
        agent = made(url, CoatcheckWorkbench([*TOOLS.values()], client, **options))
        if mode == "async":
            return str((await agent.run(task="Which code?")).messages[-1].content)
        results = [one async for one in agent.run_stream(task="Which code?") if isinstance(one, TaskResult)]
        return str(results[-1].messages[-1].content)

    async def test_members_of_a_team_have_cards(self, service_url: str) -> None:
        with model_server(plan()) as model, Client(service_url) as client:
            operator = made(model.url, CoatcheckWorkbench([TOOLS["get_log"]], client))
            done = await RoundRobinGroupChat([operator], max_turns=1).run(task="Which code?")
            saw_a_card(model, str(done.messages[-1].content))


async def test_images_and_errors_stay(service_url: str) -> None:
    with Client(service_url) as client:
        workbench = CoatcheckWorkbench(Pictures([]), client)
        done, failed = [await workbench.call_tool(name) for name in ("get_log", "fail")]
    assert [one.type for one in done.result] == ["TextResultContent", "ImageResultContent"]
    assert done.result[0].content.startswith("[art_")
    assert done.result[1].content.to_base64() == Image.from_base64(PICTURE).to_base64()
    assert (done.is_error, failed.is_error) == (False, True)


@pytest.mark.parametrize("arguments", [{}, {"artifact_id": "art_1", "where": "here"}, {"artifact_id": 7}])
async def test_a_wrong_call_of_read_artifact_is_answered(service_url: str, arguments: Mapping[str, Any]) -> None:
    first = [Call("read_artifact", dict(arguments))], [Call("get_log", {})]
    with model_server(plan(*first)) as model, Client(service_url) as client:
        agent = made(model.url, CoatcheckWorkbench([TOOLS["get_log"]], client))
        assert NEEDLE in str((await agent.run(task="Which code?")).messages[-1].content)
    assert model.results[1][0]


async def test_an_artifact_has_the_call_s_id(service_url: str) -> None:
    with model_server(plan()) as model, Client(service_url, session="autogen-ids") as client:
        await made(model.url, CoatcheckWorkbench([TOOLS["get_log"]], client)).run(task="Which code?")
        (stored,) = client.artifacts(session="autogen-ids").items
    assert model.bodies[1]["messages"][-2]["tool_calls"][0]["id"] == stored.tool_call_id
