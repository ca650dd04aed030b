"""Google's Agent Development Kit."""

import asyncio
import base64
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps import App
from google.adk.models import Gemini
from google.adk.runners import InMemoryRunner
from google.adk.tools import AgentTool, ToolContext
from google.adk.tools.mcp_tool import McpToolset, StdioConnectionParams
from google.genai import types
from mcp import StdioServerParameters

from coatcheck_client import Client
from coatcheck_client.integrations.google_adk import CoatcheckPlugin
from model_server import ModelServer, model_server
from scenario import LOG, PICTURE, TOOLS, plan, saw_a_card
from more_tests import PageTests
from wire_formats import Call

IMAGE = types.Part.from_bytes(data=base64.b64decode(PICTURE), mime_type="image/png")


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK wants a key before it asks anybody."""
    monkeypatch.setenv("GOOGLE_API_KEY", "none")


def fail() -> dict[str, str]:
    """Get the log of a worker that is not there."""
    return {"error": "no such worker"}


def get_pictured_log() -> list[Any]:
    """Get the log and a picture of it."""
    return [LOG, IMAGE]


def get_report() -> dict[str, Any]:
    """Get the log, a picture of it, and how long it is."""
    return {"log": LOG, "picture": IMAGE, "lines": 3_600}


def show_log(tool_context: ToolContext) -> str:
    """Show the log to the user."""
    tool_context.actions.skip_summarization = True
    return LOG


def made(url: str, name: str, tools: list[Any], **said: Any) -> LlmAgent:
    """An agent whose model is the server."""
    return LlmAgent(name=name, model=Gemini(model="gemini-stub", base_url=url), tools=tools, **said)


async def asked(agent: LlmAgent, plugin: CoatcheckPlugin, mode: str = "async") -> tuple[str, list[Any]]:
    """The final answer of a run, and its events."""
    runner = InMemoryRunner(app=App(name="logs", root_agent=agent, plugins=[plugin]))
    session = await runner.session_service.create_session(app_name=runner.app_name, user_id="user")
    streaming = StreamingMode.SSE if mode == "stream" else StreamingMode.NONE
    given: Any = {
        "user_id": "user",
        "session_id": session.id,
        "new_message": types.UserContent("Which code?"),
        "run_config": RunConfig(streaming_mode=streaming),
    }
    if mode == "sync":
        events = await asyncio.to_thread(lambda: list(runner.run(**given)))
    else:
        events = [event async for event in runner.run_async(**given)]
    texts = [part.text for event in events if event.content for part in event.content.parts or [] if part.text]
    return (texts or [""])[-1], events


def images(model: ModelServer) -> list[bytes]:
    """Images beside the tool results of the second request."""
    parts = [part for content in model.bodies[1]["contents"] for part in content["parts"]]
    results = [part["functionResponse"] for part in parts if "functionResponse" in part]
    beside = [one["inline_data"]["data"] for result in results for one in result.get("parts", ())]
    return [base64.urlsafe_b64decode(one) for one in beside]


class TestGoogleADK(PageTests):
    """Agents over generateContent."""

    name = "google-adk"
    package = "google-adk"
    modes = ("async", "sync", "stream")

    def variables(self, url: str) -> dict[str, str]:
        return {"GOOGLE_GEMINI_BASE_URL": url}

    async def run(self, client: Client, url: str, mode: str, **options: Any) -> str:
        tools = [TOOLS["get_log"], TOOLS["get_old_log"], TOOLS["get_status"], fail, get_pictured_log, get_report]
        answer, _ = await asked(made(url, "operator", tools), CoatcheckPlugin(client, **options), mode)
        return answer

    @pytest.mark.parametrize("tool", ["get_pictured_log", "get_report"])
    async def test_an_image_stays_beside_the_card(self, service_url: str, tool: str) -> None:
        with model_server(plan([Call(tool, {})])) as model, Client(service_url) as client:
            saw_a_card(model, await self.run(client, model.url, "async"))
        assert images(model) == [base64.b64decode(PICTURE)]

    async def test_results_of_an_mcp_server_become_cards(self, service_url: str) -> None:
        server = Path(__file__).parents[1] / "mcp_server.py"
        given = StdioServerParameters(command=sys.executable, args=[str(server)], env=dict(os.environ))
        toolset = McpToolset(connection_params=StdioConnectionParams(server_params=given, timeout=60))
        with model_server(plan([Call("get_served_log", {})])) as model, Client(service_url) as client:
            answer, _ = await asked(made(model.url, "operator", [toolset]), CoatcheckPlugin(client))
        await toolset.close()
        saw_a_card(model, answer)
        assert PICTURE in model.results[1][0]

    async def test_what_goes_to_the_user_stays(self, service_url: str) -> None:
        with model_server(plan([Call("show_log", {})])) as model, Client(service_url) as client:
            _, events = await asked(made(model.url, "operator", [show_log]), CoatcheckPlugin(client))
        assert [one.response for event in events for one in event.get_function_responses()] == [{"result": LOG}]

    async def test_an_error_that_ends_a_run_still_does(self, service_url: str) -> None:
        with (
            model_server(plan([Call("fail", {})])) as model,
            Client(service_url) as client,
            pytest.raises(ValueError, match="no such worker"),
        ):
            await asked(made(model.url, "operator", [TOOLS["fail"]]), CoatcheckPlugin(client))

    async def test_an_agent_without_tools_is_offered_none(self, service_url: str) -> None:
        with model_server(plan()) as model, Client(service_url) as client:
            model.plan.inner = []
            await asked(made(model.url, "operator", []), CoatcheckPlugin(client))
        assert model.offered == [[]]

    @pytest.mark.parametrize("how", ["tool", "transfer"])
    async def test_sub_agents_have_cards(self, service_url: str, how: str) -> None:
        calls = {
            "tool": Call("operator", {"request": "Which code?"}),
            "transfer": Call("transfer_to_agent", {"agent_name": "operator"}),
        }
        with model_server(plan([calls[how]])) as model, Client(service_url) as client:
            operator = made(model.url, "operator", [TOOLS["get_log"]], description="Has the log.")
            if how == "transfer":
                operator.disallow_transfer_to_parent = True
                model.plan.first.append([Call("get_log", {})])
                model.plan.inner.append([Call("get_log", {})])
                chief = made(model.url, "chief", [], sub_agents=[operator])
            else:
                chief = made(model.url, "chief", [AgentTool(operator)])
            answer, _ = await asked(chief, CoatcheckPlugin(client))
        saw_a_card(model, answer)
