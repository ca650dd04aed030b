"""AutoGen."""

import asyncio
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import TaskResult
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core.models import ModelFamily, ModelInfo
from autogen_ext.models.openai import OpenAIChatCompletionClient

from coatcheck_client import Client
from coatcheck_client.integrations.autogen import CoatcheckWorkbench
from model_server import model_server
from scenario import LOG, NEEDLE, TOOLS, plan, run_snippet
from stack_tests import StackTests

INFO = ModelInfo(
    vision=False, function_calling=True, json_output=False, family=ModelFamily.UNKNOWN, structured_output=False
)


def made(url: str, workbench: CoatcheckWorkbench) -> AssistantAgent:
    """An agent whose model is the server."""
    model = OpenAIChatCompletionClient(model="stub", base_url=f"{url}/v1", api_key="none", model_info=INFO)
    return AssistantAgent("operator", model, workbench=workbench, max_tool_iterations=9)


class TestAutoGen(StackTests):
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
        assert NEEDLE in str(done.messages[-1].content)
        assert all(LOG not in one for results in model.results for one in results)


async def test_the_snippet_of_the_page(service_url: str, monkeypatch: Any) -> None:
    with model_server(plan()) as model:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{model.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("COATCHECK_URL", service_url)
        printed = await asyncio.to_thread(run_snippet, "autogen", get_log=TOOLS["get_log"])
    assert NEEDLE in printed
