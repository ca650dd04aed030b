"""smolagents."""

import asyncio
import base64
import io
from typing import Any

import pytest
from PIL import Image
from smolagents import (
    AgentImage,
    ChatMessage,
    CodeAgent,
    LogLevel,
    MessageRole,
    Model,
    OpenAIModel,
    ToolCallingAgent,
    tool,
)

from coatcheck_client import Client
from coatcheck_client.integrations.smolagents import with_coatcheck
from model_server import model_server
from scenario import LOG, NEEDLE, PICTURE, TOOLS, WANTED, plan, saw_a_card, tokens_of
from more_tests import PageTests
from wire_formats import Call


def get_picture() -> Image.Image:
    """Get a picture of the log."""
    return Image.open(io.BytesIO(base64.b64decode(PICTURE)))


def get_rows() -> dict[str, Any]:
    """Get the log as rows."""
    return {"lines": LOG.splitlines()}


def asked(agent: Any, *, stream: bool = False) -> str:
    """The final answer of a run."""
    if not stream:
        return str(agent.run("Which code?"))
    *_, last = agent.run("Which code?", stream=True)
    return str(last.output)


def made(url: str, functions: list[Any], **said: Any) -> ToolCallingAgent:
    """An agent whose model is the server."""
    model = OpenAIModel("stub", api_base=f"{url}/v1", api_key="none")
    return ToolCallingAgent([tool(one) for one in functions], model, verbosity_level=LogLevel.OFF, **said)


class TestSmolagents(PageTests):
    """Agents that call tools, over Chat Completions. The framework has no event loop of its own."""

    name = "smolagents"
    package = "smolagents"
    modes = ("sync", "stream")
    parallel = False  # it executes them at once, and tells the model of all of them in one text: tested below

    async def run(self, client: Client, url: str, mode: str, **options: Any) -> str:
        agent = made(url, [*TOOLS.values(), get_picture, get_rows], stream_outputs=mode == "stream")
        with_coatcheck(agent, client, **options)
        return await asyncio.to_thread(asked, agent, stream=mode == "stream")

    async def test_calls_of_one_message_have_a_card_each_in_one_text(self, service_url: str) -> None:
        together = [Call("get_old_log", {}), Call("get_log", {})]
        with model_server(plan(together)) as model, Client(service_url) as client:
            assert "answer is" in await self.run(client, model.url, "sync")
            assert tokens_of(client, model.results[1][0]) <= 1_240
        assert model.results[1][0].count("[art_") == 2

    async def test_rows_become_a_card_of_their_json(self, service_url: str) -> None:
        with model_server(plan([Call("get_rows", {})])) as model, Client(service_url) as client:
            assert NEEDLE in await self.run(client, model.url, "sync")
        assert "[art_" in model.results[1][0]
        assert " · log · 3600 lines" in model.results[1][0].partition("\n")[2].partition("\n")[0]

    async def test_an_image_stays_in_the_agent_s_state(self, service_url: str) -> None:
        with model_server(plan([Call("get_picture", {})])) as model, Client(service_url) as client:
            agent = with_coatcheck(made(model.url, [get_picture]), client)
            await asyncio.to_thread(asked, agent)
        assert "Stored 'image.png' in memory." in model.results[1][0]
        assert isinstance(agent.state["image.png"], AgentImage)

    async def test_a_managed_agent_has_cards_of_its_own(self, service_url: str) -> None:
        with model_server(plan([Call("operator", {"task": "Which code?"})])) as model, Client(service_url) as client:
            operator = with_coatcheck(made(model.url, [TOOLS["get_log"]], name="operator", description="Logs."), client)
            chief = with_coatcheck(made(model.url, [], managed_agents=[operator]), client)
            saw_a_card(model, await asyncio.to_thread(asked, chief))


class Coder(Model):
    """A model that writes code: prints the log, reads on where it sees a card, and answers."""

    def __init__(self, first: str) -> None:
        super().__init__(model_id="stub")
        self.first = first
        self.seen: list[str] = []

    def generate(self, messages: list[ChatMessage], *_: Any, **__: Any) -> ChatMessage:
        observed = [one.content[0]["text"] for one in messages if one.role == MessageRole.TOOL_RESPONSE]
        self.seen = [one.removeprefix("Observation:\n") for one in observed]
        code = [
            self.first,
            f'print(read_artifact("{self.seen[0][1:23]}", pattern="request {WANTED} "))' if self.seen else "",
            f'final_answer("{NEEDLE}" if "{NEEDLE}" in {self.seen[-1]!r} else "nothing")' if self.seen else "",
        ][len(self.seen)]
        return ChatMessage(role=MessageRole.ASSISTANT, content=f"Thought: go on.\n<code>\n{code}\n</code>")


class TestCode:
    """Agents that write code."""

    @pytest.mark.parametrize("first", ["print(get_log())", "get_log()"])
    def test_what_code_shows_becomes_a_card_and_is_read_on(self, service_url: str, first: str) -> None:
        with Client(service_url) as client:
            model = Coder(first)
            agent = CodeAgent(
                [tool(TOOLS["get_log"])], model, verbosity_level=LogLevel.OFF, max_print_outputs_length=10**7
            )
            assert str(with_coatcheck(agent, client).run("Which code?")) == NEEDLE
            assert tokens_of(client, model.seen[0]) <= 620
            assert LOG in client.content(model.seen[0][1:23]).decode()

    def test_code_computes_with_whole_results(self, service_url: str) -> None:
        with Client(service_url) as client:
            model = Coder(f'final_answer("{NEEDLE}" if get_log().count("request") == 3600 else "cut")')
            agent = CodeAgent([tool(TOOLS["get_log"])], model, verbosity_level=LogLevel.OFF)
            assert str(with_coatcheck(agent, client).run("Which code?")) == NEEDLE
