"""FastMCP, over real sessions of its own client."""

import asyncio
import base64
import json
import random
import re
from typing import Any

import httpx
import pytest
from fastmcp import Client as Host
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.tools import ToolResult
from fastmcp.utilities.types import Audio, File, Image

from coatcheck_client import Client, Retries
from coatcheck_client.integrations.fastmcp import CoatcheckServerMiddleware
from page import block
from scenario import LOG, MOST_TOKENS, NEEDLE, TOOLS, WANTED, failing, tokens_of
from stack_tests import StackTests


PDF = b"%PDF-1.7\n" + random.Random(7).randbytes(60_000)
SHOT = b"\x89PNG\r\n\x1a\n" + random.Random(8).randbytes(40_000)


def made(client: Client, **options: Any) -> FastMCP:
    server = FastMCP("workers", middleware=[CoatcheckServerMiddleware(client, **options)])
    for tool in TOOLS.values():
        server.tool(tool)

    @server.tool
    def records() -> list[dict[str, Any]]:
        return [{"n": n, "line": line} for n, line in enumerate(LOG.splitlines())]

    @server.tool
    def pictured() -> list[Any]:
        return [Image(data=b"\x89PNG", format="png"), LOG]

    @server.tool
    def report() -> ToolResult:
        held = File(data=PDF, format="pdf", name="May").to_resource_content()
        small = File(data=b"GIF89a", format="gif", name="icon").to_resource_content()
        media = [Image(data=SHOT, format="png").to_image_content(), Audio(data=SHOT, format="wav").to_audio_content()]
        return ToolResult(["May:", held, small, *media])

    @server.tool
    def copied() -> ToolResult:
        held = File(data=PDF, format="pdf", name="May").to_resource_content()
        return ToolResult([held], {"result": [held.model_dump(by_alias=True, mode="json")]})

    @server.tool
    def shot() -> dict[str, Any]:
        return {"mimeType": "image/png", "data": base64.b64encode(SHOT).decode(), "page": "https://example.org/"}

    @server.tool
    def broken() -> str:
        raise ToolError(f"the disk is full\n{LOG}")

    return server


def text(result: Any) -> str:
    return "\n".join(one.text for one in result.content if one.type == "text")


def artifact(card: str) -> str:
    found = re.match(r"\[(art_[0-9]{18}) ", card)
    assert found is not None, card
    return found[1]


class TestFastMCP(StackTests):
    """A host, as simple as they come, whose tools are the server's."""

    name = "fastmcp"
    package = "fastmcp"

    async def run(self, client: Client, url: str, mode: str, **options: Any) -> str:
        async with Host(made(client, **options)) as host, httpx.AsyncClient(base_url=url, timeout=60) as http:
            tools = [
                {"name": one.name, "description": one.description, "parameters": one.input_schema}
                for one in await host.list_tools()
            ]
            offered = [{"type": "function", "function": one} for one in tools]
            messages: list[dict[str, Any]] = [{"role": "user", "content": "Which code?"}]
            while True:
                body = {"model": "stub", "messages": messages, "tools": offered}
                said = (await http.post("/v1/chat/completions", json=body)).raise_for_status().json()
                message = said["choices"][0]["message"]
                messages.append(message)
                if not (calls := message.get("tool_calls")):
                    return message["content"]
                results = await asyncio.gather(*(called(host, **call["function"]) for call in calls))
                messages += [
                    {"role": "tool", "tool_call_id": call["id"], "content": result}
                    for call, result in zip(calls, results, strict=True)
                ]


async def called(host: Any, name: str, arguments: str) -> str:
    """What a host shows a model of a call."""
    return text(await host.call_tool(name, json.loads(arguments), raise_on_error=False))


async def test_a_card_is_read_on(service_url: str) -> None:
    with Client(service_url, session="fastmcp") as client:
        async with Host(made(client)) as host:
            tools = {one.name: one for one in await host.list_tools()}
            assert list(tools)[-1] == "read_artifact"
            assert "artifact_id" in tools["read_artifact"].input_schema["required"]
            result = await host.call_tool("get_log")
            assert result.structured_content is None
            assert tokens_of(client, text(result)) <= MOST_TOKENS + 20
            asked = {"artifact_id": artifact(text(result)), "pattern": f"request {WANTED} with"}
            assert NEEDLE in text(await host.call_tool("read_artifact", asked))
            wrong = await host.call_tool(
                "read_artifact", {**asked, "offset": 9_999, "pattern": None}, raise_on_error=False
            )
            assert wrong.is_error
            assert client.content(asked["artifact_id"]).decode() == LOG
            assert client.describe(asked["artifact_id"]).artifact.tool_name == "get_log"


async def test_every_sort_of_result(service_url: str) -> None:
    with Client(service_url) as client:
        async with Host(made(client)) as host:
            small = await host.call_tool("get_status")
            assert (text(small), small.structured_content) == ("7 workers run.", {"result": "7 workers run."})
            stored = client.content(artifact(text(await host.call_tool("records")))).decode()
            assert stored.count(NEEDLE) == 1
            blocks = (await host.call_tool("pictured")).content
            assert [block.type for block in blocks] == ["image", "text"]
            with pytest.raises(ToolError, match="no such worker"):
                await host.call_tool("fail")
            with pytest.raises(ToolError, match=r"\[art_(?s:.*)the disk is full"):
                await host.call_tool("broken")
            cards = await asyncio.gather(host.call_tool("get_log"), host.call_tool("get_old_log"))
            assert len({artifact(text(card)) for card in cards}) == 2


async def test_documents_and_encoded_bytes_are_artifacts_of_their_own(service_url: str) -> None:
    with Client(service_url) as client:
        async with Host(made(client)) as host:
            before, card, small, picture, sound = (await host.call_tool("report")).content
            assert (before.text, len(card.text) < 2_000) == ("May:", True)
            assert client.content(artifact(card.text)) == PDF
            known = client.describe(artifact(card.text)).artifact
            assert (known.media_type, known.title, known.tool_name) == ("application/pdf", "file:///May.pdf", "report")
            assert (small.resource.blob, picture.type, sound.type) == ("R0lGODlh", "image", "audio")
            assert base64.b64decode(picture.data) == base64.b64decode(sound.data) == SHOT
            copied = await host.call_tool("copied")
            assert (artifact(text(copied)), copied.structured_content) == (artifact(card.text), None)
            shot = await host.call_tool("shot")
            assert shot.structured_content is None
            named = re.fullmatch(r"\[image/png, 40 kB, (art_[0-9]{18})\]", json.loads(text(shot))["data"])
            assert named is not None, text(shot)
            assert client.content(named[1]) == SHOT
        async with Host(made(client, exempt_tools=["report"])) as host:
            assert base64.b64decode((await host.call_tool("report")).content[1].resource.blob) == PDF
    with Client("http://127.0.0.1:9", deadline=0.5, retries=Retries(attempts=1)) as client:
        async with Host(made(client)) as host:
            lost = (await host.call_tool("report")).content[1].text
            assert lost.startswith("[NOT STORED (unreachable): of 60009 bytes")


@pytest.mark.parametrize("how", ["stopped", "hanging", "refusing"])
async def test_the_original_goes_through_in_an_outage(how: str) -> None:
    with failing(how) as url, Client(url, deadline=0.5, retries=Retries(attempts=1)) as client:
        async with Host(made(client)) as host:
            result = await host.call_tool("get_log")
            assert (text(result), result.structured_content) == (LOG, {"result": LOG})
            read = await host.call_tool(
                "read_artifact", {"artifact_id": "art_000000000000000001"}, raise_on_error=False
            )
            assert (read.is_error, "cannot answer now" in text(read)) == (True, True)


async def test_an_exempt_tool_is_left_alone(service_url: str) -> None:
    with Client(service_url) as client:
        async with Host(made(client, exempt_tools=["get_log"])) as host:
            assert {one.name for one in await host.list_tools() if one.output_schema} == {"get_log"}
            assert text(await host.call_tool("get_log")) == LOG


async def test_the_snippets_of_the_page(service_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COATCHECK_URL", service_url)
    names: dict[str, Any] = {**TOOLS, "__name__": "page"}
    with block("fastmcp", 2) as taken:
        exec(compile(taken.text, "fastmcp.md", "exec"), names)  # noqa: S102
        async with Host(names["server"]) as host:
            assert text(await host.call_tool("get_log")).startswith("[art_")
    with block("fastmcp", 3) as taken:
        exec(compile(taken.text, "fastmcp.md", "exec"), names)  # noqa: S102
        for tool in TOOLS.values():
            names["server"].tool(tool)
        async with Host(names["server"]) as host:
            assert {one.name for one in await host.list_tools() if one.output_schema} == {"get_status"}
