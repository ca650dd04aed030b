"""Pydantic AI."""

import asyncio
import base64
from typing import Any

import pytest
from pydantic_ai import Agent, BinaryImage, ModelRetry, ToolReturn
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

from coatcheck_client import Client
from coatcheck_client.integrations.pydantic_ai import Coatcheck
from model_server import model_server
from scenario import LOG, NEEDLE, PICTURE, TOOLS, plan, saw_a_card
from more_tests import PageTests, PictureTests
from wire_formats import Call

LONG_PICTURE = base64.b64decode(PICTURE) + LOG.encode()


def fail() -> str:
    """Get the log of a worker that is not there."""
    raise ModelRetry("no such worker")


def get_pictured_log() -> list[Any]:
    """Get the log and a picture of it."""
    return [LOG, BinaryImage(base64.b64decode(PICTURE), media_type="image/png")]


def get_picture() -> BinaryImage:
    """Get a picture of the log that is as long as the log."""
    return BinaryImage(LONG_PICTURE, media_type="image/png")


def get_rows() -> ToolReturn:
    """Get the log as rows, with something for the application."""
    return ToolReturn({"lines": LOG.splitlines()}, metadata={"rows": len(LOG.splitlines())})


def made(url: str, tools: list[Any], capabilities: list[Any]) -> Agent[None, str]:
    """An agent whose model is the server."""
    model = OpenAIResponsesModel("stub", provider=OpenAIProvider(base_url=f"{url}/v1", api_key="none"))
    return Agent(model, tools=tools, capabilities=capabilities)


class TestPydanticAI(PageTests, PictureTests):
    """Agents over the Responses interface."""

    name = "pydantic-ai"
    package = "pydantic-ai-slim"
    modes = ("async", "sync", "stream")

    async def run(self, client: Client, url: str, mode: str, **options: Any) -> str:
        tools = [TOOLS["get_log"], TOOLS["get_old_log"], TOOLS["get_status"], fail]
        tools += [get_pictured_log, get_picture, get_rows]
        agent = made(url, tools, [Coatcheck(client, **options)])
        if mode == "sync":
            return (await asyncio.to_thread(agent.run_sync, "Which code?")).output
        if mode == "stream":
            async with agent.run_stream("Which code?") as streamed:
                return await streamed.get_output()
        return (await agent.run("Which code?")).output

    async def test_an_image_alone_stays(self, service_url: str) -> None:
        with model_server(plan([Call("get_picture", {})])) as model, Client(service_url) as client:
            await self.run(client, model.url, "async")
        assert "art_" not in model.results[1][0]
        assert base64.b64encode(LONG_PICTURE).decode() in model.results[1][0]

    async def test_rows_become_a_card_and_metadata_stays(self, service_url: str) -> None:
        with model_server(plan([Call("get_rows", {})])) as model, Client(service_url) as client:
            done = await made(model.url, [get_rows], [Coatcheck(client)]).run("Which code?")
        assert NEEDLE in done.output
        returned = [part for one in done.all_messages() for part in one.parts if part.part_kind == "tool-return"]
        assert returned[0].metadata == {"rows": 3_600}
        assert str(returned[0].content).count("\n") < 60

    async def test_an_error_that_ends_a_run_still_does(self, service_url: str) -> None:
        with (
            model_server(plan([Call("fail", {})])) as model,
            Client(service_url) as client,
            pytest.raises(ValueError, match="no such worker"),
        ):
            await made(model.url, [TOOLS["fail"]], [Coatcheck(client)]).run("Which code?")

    async def test_a_sub_agent_has_cards_of_its_own(self, service_url: str) -> None:
        with model_server(plan([Call("ask_operator", {})])) as model, Client(service_url) as client:
            operator = made(model.url, [TOOLS["get_log"]], [Coatcheck(client)])

            async def ask_operator() -> str:
                """Ask the operator."""
                return (await operator.run("Which code?")).output

            chief = made(model.url, [ask_operator], [Coatcheck(client)])
            saw_a_card(model, (await chief.run("Which code?")).output)
