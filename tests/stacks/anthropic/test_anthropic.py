"""The tool runner of Anthropic's SDK."""

import asyncio
import base64
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from anthropic import Anthropic, AsyncAnthropic, beta_async_tool, beta_tool
from anthropic.lib.tools import BetaAbstractMemoryTool, ToolError

from coatcheck_client import Client
from coatcheck_client.integrations.anthropic import with_coatcheck
from model_server import ModelServer, model_server
from scenario import LOG, NEEDLE, PICTURE, TOOLS, plan
from more_tests import PageTests
from wire_formats import Call

LONG_PICTURE = base64.b64encode(base64.b64decode(PICTURE) + LOG.encode()).decode()
ASKED: Any = {"model": "claude-stub", "max_tokens": 1_000, "messages": [{"role": "user", "content": "Which code?"}]}


def image(data: str) -> dict[str, Any]:
    """An image block."""
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


def get_pictured_log() -> Iterator[Any]:
    """Get the log and a picture of it."""
    yield {"type": "text", "text": LOG}
    yield image(PICTURE)


def get_picture() -> list[Any]:
    """Get a picture of the log that is as long as the log."""
    return [image(LONG_PICTURE)]


def fail_at_length() -> str:
    """Fail with the log."""
    raise ToolError([{"type": "text", "text": LOG}, image(PICTURE)])


FUNCTIONS: list[Callable[..., Any]] = [*TOOLS.values(), get_pictured_log, get_picture, fail_at_length]


def awaited(function: Callable[..., Any]) -> Any:
    """The function as a tool of an event loop."""

    async def run() -> Any:
        return function()

    return beta_async_tool(run, name=function.__name__, description=function.__doc__)


class Memory(BetaAbstractMemoryTool):
    """A built-in tool that runs here: its one file is the log."""

    def view(self, command: Any) -> str:
        return LOG

    create = str_replace = insert = delete = rename = view


class TestAnthropic(PageTests):
    """Tool runners over Messages."""

    name = "anthropic"
    package = "anthropic"
    modes = ("async", "sync", "stream", "async-stream")

    def variables(self, url: str) -> dict[str, str]:
        return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none"}

    async def run(self, client: Client, url: str, mode: str, **options: Any) -> str:
        if mode.startswith("async"):
            tools = with_coatcheck(map(awaited, FUNCTIONS), client, **options)
            asking = AsyncAnthropic(base_url=url, api_key="none", max_retries=0)
            runner = asking.beta.messages.tool_runner(**ASKED, tools=tools, stream=mode == "async-stream")
            done = await runner.until_done()
        else:
            tools = with_coatcheck([beta_tool(one) for one in FUNCTIONS], client, **options)
            kept: Any = {"stream": True} if mode == "stream" else {"thread": False}  # sync: nothing is kept for it
            done = await asyncio.to_thread(self.answer, url, tools, **kept)
        return done.content[0].text

    def answer(self, url: str, tools: list[Any], **options: Any) -> Any:
        """The last message of a run without an event loop."""
        asking = Anthropic(base_url=url, api_key="none", max_retries=0)
        return asking.beta.messages.tool_runner(**ASKED, tools=tools, **options).until_done()

    def result(self, model: ModelServer) -> Any:
        """The first tool result, as the model is sent it."""
        return model.bodies[1]["messages"][-1]["content"][0]

    @pytest.mark.parametrize("tool", ["get_pictured_log", "fail_at_length"])
    async def test_an_image_stays_beside_the_card(self, service_url: str, mode: str, tool: str) -> None:
        with model_server(plan([Call(tool, {})])) as model, Client(service_url) as client:
            assert NEEDLE in await self.run(client, model.url, mode)
        text, picture = self.result(model)["content"]
        assert text["text"].startswith("[art_")
        assert picture == image(PICTURE)
        assert bool(self.result(model).get("is_error")) == (tool == "fail_at_length")

    async def test_an_image_alone_stays(self, service_url: str, mode: str) -> None:
        with model_server(plan([Call("get_picture", {})])) as model, Client(service_url) as client:
            await self.run(client, model.url, mode)
        assert self.result(model)["content"] == [image(LONG_PICTURE)]

    async def test_a_built_in_tool_has_cards_and_what_does_not_run_here_is_left_alone(self, service_url: str) -> None:
        searching = {"type": "web_search_20250305", "name": "web_search"}
        look = Call("memory", {"command": "view", "path": "/memories/log"})
        with model_server(plan([look])) as model, Client(service_url) as client:
            tools = with_coatcheck([Memory(), searching], client)
            done = await asyncio.to_thread(self.answer, model.url, tools)
        assert NEEDLE in done.content[0].text
        assert model.offered[0] == ["memory", "web_search", "read_artifact"]
        assert self.result(model)["content"].startswith("[art_")

    async def test_tools_that_were_given_stay_as_they_are(self, service_url: str) -> None:
        tool = beta_tool(TOOLS["get_log"], cache_control={"type": "ephemeral"}, strict=True)
        with Client(service_url) as client:
            carded, _ = with_coatcheck([tool], client)
            assert carded.call({}).startswith("[art_")
        assert carded.to_dict() == tool.to_dict()
        assert tool.call({}) == LOG
