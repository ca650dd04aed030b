"""agno."""

import asyncio
import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from agno.agent import Agent
from agno.media import Image
from agno.models.openai import OpenAIChat, OpenAIResponses
from agno.team import Team
from agno.tools import Toolkit, tool
from agno.tools.function import ToolResult

from coatcheck_client import Client
from coatcheck_client.integrations.agno import with_coatcheck
from model_server import model_server
from scenario import LOG, NEEDLE, PICTURE, TOOLS, plan, saw_a_card
from more_tests import PageTests
from wire_formats import Call


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The framework sends what it measures unless it is told not to."""
    monkeypatch.setenv("AGNO_TELEMETRY", "false")


async def get_log_later() -> str:
    """Get the log."""
    await asyncio.sleep(0)
    return LOG


def get_log_by_line() -> Iterator[str]:
    """Get the log."""
    yield from LOG.splitlines(keepends=True)


def get_rows() -> dict[str, Any]:
    """Get the log as rows."""
    return {"lines": LOG.splitlines()}


def get_pictured_log() -> ToolResult:
    """Get the log and a picture of it."""
    return ToolResult(content=LOG, images=[Image(content=base64.b64decode(PICTURE), mime_type="image/png")])


@tool(show_result=True, stop_after_tool_call=True)
def show_log() -> str:
    """Show the log to the user."""
    return LOG


MORE = [get_log_by_line, get_rows, get_pictured_log, show_log]


def model_at(url: str, kind: type[OpenAIChat | OpenAIResponses] = OpenAIChat) -> OpenAIChat | OpenAIResponses:
    """A model that is the server."""
    return kind("stub", base_url=f"{url}/v1", api_key="none")


def made(url: str, tools: list[Any], *, use_responses: bool = False, **said: Any) -> Agent:
    """An agent whose model is the server."""
    model = model_at(url, OpenAIResponses if use_responses else OpenAIChat)
    return Agent(model=model, tools=tools, telemetry=False, **said)


async def asked(agent: Agent | Team, mode: str) -> str:
    """The final answer of a run."""
    if mode == "sync":
        return str((await asyncio.to_thread(agent.run, "Which code?")).content)
    if mode.endswith("stream"):
        events = [event async for event in agent.arun("Which code?", stream=True)]
        return "".join(str(one.content) for one in events if one.event.endswith("RunContent"))
    return str((await agent.arun("Which code?")).content)


class TestAgno(PageTests):
    """Agents over Chat Completions and Responses."""

    name = "agno"
    package = "agno"
    modes = ("async", "sync", "stream", "responses", "responses-stream")

    async def run(self, client: Client, url: str, mode: str, **options: Any) -> str:
        agent = made(url, [*TOOLS.values(), *MORE], use_responses=mode.startswith("responses"))
        return await asked(with_coatcheck(agent, client, **options), mode)

    @pytest.mark.parametrize("name", ["get_rows", "get_pictured_log"])
    async def test_results_of_any_kind_become_cards(self, service_url: str, name: str, mode: str) -> None:
        with model_server(plan([Call(name, {})])) as model, Client(service_url) as client:
            saw_a_card(model, await self.run(client, model.url, mode))
        assert model.results[1][0].count("[art_") == 1
        assert (PICTURE in json.dumps(model.bodies[1])) == (name == "get_pictured_log")

    async def test_tools_that_are_awaited_have_cards(self, service_url: str) -> None:
        with model_server(plan([Call("get_log_later", {})])) as model, Client(service_url) as client:
            saw_a_card(model, await asked(with_coatcheck(made(model.url, [get_log_later]), client), "async"))

    async def test_what_a_tool_yields_in_pieces_stays(self, service_url: str, mode: str) -> None:
        with model_server(plan([Call("get_log_by_line", {})])) as model, Client(service_url) as client:
            assert NEEDLE in await self.run(client, model.url, mode)
        assert model.results[1] == [LOG]

    async def test_what_goes_to_the_user_stays(self, service_url: str, mode: str) -> None:
        with model_server(plan([Call("show_log", {})])) as model, Client(service_url) as client:
            assert LOG in await self.run(client, model.url, mode)

    async def test_an_agent_s_hooks_go_on_and_see_whole_results(self, service_url: str) -> None:
        seen: list[int] = []

        def count(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
            result = function(**arguments)
            seen.append(len(result))
            return result

        given = [TOOLS["get_log"]]
        with model_server(plan()) as model, Client(service_url) as client:
            agent = with_coatcheck(made(model.url, given, tool_hooks=[count]), client)
            saw_a_card(model, await asked(agent, "sync"))
        assert seen[0] == len(LOG)
        assert given == [TOOLS["get_log"]]

    @pytest.mark.parametrize("is_toolkit", [False, True])
    def test_hooks_of_a_tool_that_would_be_lost_are_refused(self, *, is_toolkit: bool) -> None:
        hooked = tool(tool_hooks=[lambda function, arguments: function(**arguments)])(get_rows)
        tools = [Toolkit("logs", tools=[hooked])] if is_toolkit else [hooked]
        with pytest.raises(ValueError, match="get_rows"):
            with_coatcheck(Agent(tools=tools, telemetry=False))
        with_coatcheck(Agent(tools=tools, tool_hooks=[lambda function, arguments: function(**arguments)]))

    async def test_members_of_a_team_have_cards_of_their_own(self, service_url: str, mode: str) -> None:
        delegate = Call("delegate_task_to_member", {"member_id": "operator", "task": "Which code?"})
        with model_server(plan([delegate])) as model, Client(service_url) as client:
            operator = with_coatcheck(made(model.url, [TOOLS["get_log"]], id="operator", name="operator"), client)
            team = Team(members=[operator], model=model_at(model.url), telemetry=False)
            saw_a_card(model, await asked(with_coatcheck(team, client), mode))

    async def test_tools_of_a_team_have_cards(self, service_url: str) -> None:
        with model_server(plan()) as model, Client(service_url) as client:
            team = Team(members=[], model=model_at(model.url), tools=[TOOLS["get_log"]], telemetry=False)
            saw_a_card(model, await asked(with_coatcheck(team, client), "async"))
