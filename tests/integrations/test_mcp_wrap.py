"""`coatcheck mcp-wrap` around a real server, with the official client as the host: what changes, and what must not."""

import asyncio
import base64
import json
import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.client.client import Client

from coatcheck_client import declarations
from integrations import mcp_server
from integrations.wrapped import COMMAND, SMALL_WRAP, WRAP, Connect, artifact_in, host, http_server, text_of, there
from support.service import Service


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The server over HTTP, answering by streams, and by JSON."""
    logs = tmp_path_factory.mktemp("logs")
    with http_server(logs / "streams.log") as streams, http_server(logs / "json.log", "json") as plain:
        yield {"http": streams, "http-json": plain}


@pytest.fixture(params=["stdio", "stdio-client-only", "http", "http-json"])
def connect(request: pytest.FixtureRequest, addresses: dict[str, str], service: Service) -> Connect:
    """Connects a host to the wrapped server."""
    kind: str = request.param

    @asynccontextmanager
    async def connected(*options: str, **how: Any) -> AsyncGenerator[Client]:  # noqa: ANN401 - of the client
        wrap = SMALL_WRAP if kind == "stdio-client-only" else WRAP
        around = (addresses[kind],) if kind in addresses else COMMAND
        async with host(*wrap, "--url", service.url, *options, *around, **how) as client:
            yield client

    return connected


@pytest.fixture(params=["auto", "legacy"])
def era(request: pytest.FixtureRequest) -> str:
    """How the host begins: with `server/discover`, or with `initialize`."""
    chosen: str = request.param
    return chosen


def unlike(tool: types.Tool) -> dict[str, Any]:
    """A tool without what a wrapper leaves out."""
    return tool.model_dump(exclude={"output_schema"})


async def test_a_host_sees_the_same_server_and_one_tool_more(connect: Connect, era: str) -> None:
    async with host(*COMMAND[1:], mode=era) as plain, connect(mode=era) as wrapped:
        assert wrapped.protocol_version == plain.protocol_version
        assert wrapped.server_info == plain.server_info
        assert wrapped.server_capabilities == plain.server_capabilities
        assert wrapped.instructions == plain.instructions
        *tools, added = (await wrapped.list_tools()).tools
        expected = [tool for tool in (await plain.list_tools()).tools if tool.name != "grown"]
        assert [unlike(tool) for tool in tools if tool.name != "grown"] == [unlike(tool) for tool in expected]
        assert {tool.output_schema is None for tool in tools} == {True}
        assert added == types.Tool.model_validate(declarations("mcp")[0])
        assert (await wrapped.list_prompts()).prompts == (await plain.list_prompts()).prompts
        assert (await wrapped.get_prompt("greet", {"name": "Ada"})).messages == (
            await plain.get_prompt("greet", {"name": "Ada"})
        ).messages
        (content,) = (await wrapped.read_resource("log://all")).contents
        assert isinstance(content, types.TextResourceContents)
        assert content.text == mcp_server.LOG, "a resource is asked for by its address, and stays whole"


async def test_a_large_result_is_a_card_and_the_model_reads_on(connect: Connect, era: str, service: Service) -> None:
    async with connect("--session", "wrapped", mode=era) as client:
        small = await client.call_tool("small")
        assert (text_of(small), small.structured_content) == ("fine", {"result": "fine"})
        result = await client.call_tool("log", {"lines": 8_000})
        card = text_of(result)
        assert (result.structured_content, result.is_error) == (None, False)
        assert len(card) < 3_000
        ref = artifact_in(card)
        assert service.content(ref).decode() == mcp_server.LOG
        known = service.get(f"/v1/artifacts/{ref}")["artifact"]
        assert (known["tool_name"], known["session"], known["command"]) == ("log", "wrapped", '{"lines":8000}')
        assert known["labels"] == ["everything"]
        read = await client.call_tool("read_artifact", {"artifact_id": ref, "pattern": "line 4321 "})
        assert "4322:line 4321 of the log" in text_of(read)
        wrong = await client.call_tool("read_artifact", {"artifact_id": ref, "offset": 9_999})
        assert (wrong.is_error, text_of(wrong)[:11]) == (True, "Offset 9999")


async def test_of_blocks_the_texts_become_one_card_and_the_others_stay(connect: Connect, service: Service) -> None:
    async with connect() as client:
        result = await client.call_tool("mixed")
        picture, before, card, link, audio, after = result.content
        assert (picture, link, audio) == (mcp_server.PICTURE, mcp_server.LINK, mcp_server.AUDIO)
        assert isinstance(card, types.TextContent)
        assert service.content(artifact_in(card.text)).decode() == mcp_server.LOG
        known = service.get(f"/v1/artifacts/{artifact_in(card.text)}")["artifact"]
        assert (known["media_type"], known["title"]) == ("text/markdown", "file:///page.md")
        assert [getattr(block, "text", "") for block in (before, after)] == ["Before the page.", "After the page."]
        assert (result.meta or {})["from"] == "everything"
        drawn = await client.call_tool("drawing")
        assert [block.type for block in drawn.content] == ["image"]
        assert drawn.structured_content is not None, "a picture is no text, nor is its copy"


async def test_a_document_in_a_result_is_an_artifact_of_its_own(connect: Connect, service: Service) -> None:
    async with connect() as client:
        result = await client.call_tool("report")
        before, card, small, picture = result.content
        assert result.structured_content is None, "a copy that has the document"
        assert isinstance(before, types.TextContent)
        assert isinstance(card, types.TextContent)
        assert len(card.text) < 2_000
        ref = artifact_in(card.text)
        assert service.content(ref) == mcp_server.PDF
        known = service.get(f"/v1/artifacts/{ref}")["artifact"]
        assert (known["media_type"], known["title"]) == ("application/pdf", "file:///reports/May.pdf")
        assert (known["tool_name"], known["labels"]) == ("report", ["everything"])
        assert isinstance(small, types.EmbeddedResource), "what is small stays"
        assert (before.text, picture) == ("The report of May:", mcp_server.PICTURE)


async def test_bytes_in_a_text_are_artifacts_of_their_own_and_named(connect: Connect, service: Service) -> None:
    async with connect() as client:
        short = json.loads(text_of(await client.call_tool("shot", {"lines": 3})))
        found = re.fullmatch(r"\[image/png, 60 kB, (art_[0-9]{18})\]", short["picture"]["data"])
        assert found is not None, short
        assert service.content(found[1]) == mcp_server.SHOT
        assert (short["picture"]["mimeType"], len(short["log"])) == ("image/png", 3)
        card = text_of(await client.call_tool("shot", {"lines": 4_000}))
        assert found[0] in service.content(artifact_in(card)).decode()
        plain = text_of(await client.call_tool("shot", {"lines": 0}))
        assert found[0] in plain


async def test_a_document_is_a_sentence_while_the_service_is_away() -> None:
    code = base64.b64encode(mcp_server.PDF).decode()
    async with host(*SMALL_WRAP, "--url", "http://127.0.0.1:9", *COMMAND) as client:
        before, lost, *_ = (await client.call_tool("report")).content
        assert isinstance(before, types.TextContent)
        assert isinstance(lost, types.TextContent)
        assert lost.text.startswith("[NOT STORED (unreachable): of 80009 bytes")
        assert code[:40] not in lost.text
        assert json.loads(text_of(await client.call_tool("shot", {"lines": 3})))["page"] == "https://example.org/"


async def test_structured_content_is_stored_too_where_no_text_repeats_it(connect: Connect, service: Service) -> None:
    async with connect() as client:
        card = text_of(await client.call_tool("hidden"))
        stored = service.content(artifact_in(card)).decode()
        assert stored.startswith("4,000 items.\n{")
        assert json.loads(stored.partition("\n")[2])["items"][-1] == "secret number 3999"
        listed = text_of(await client.call_tool("rows", {"count": 2_000}))
        stored = service.content(artifact_in(listed)).decode()
        assert stored.count("customer 1999") == 1, "the texts say it all"


async def test_who_keeps_output_schemas_gets_the_structured_content_they_promise(connect: Connect) -> None:
    async with connect("--keep-output-schemas") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools["log"].output_schema is not None
        result = await client.call_tool("log")
        assert (text_of(result)[:5], result.structured_content) == ("[art_", {"result": mcp_server.LOG})


async def test_an_exempt_tool_stays_as_it_is(connect: Connect) -> None:
    async with connect("--exempt", "log", "--exempt", "rows") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert [tools[name].output_schema is None for name in ("log", "rows", "small")] == [False, False, True]
        result = await client.call_tool("log")
        assert (text_of(result), result.structured_content) == (mcp_server.LOG, {"result": mcp_server.LOG})


async def test_the_limit_is_what_the_host_says(connect: Connect) -> None:
    async with connect("--max-tokens", "100000") as client:
        assert text_of(await client.call_tool("log")) == mcp_server.LOG
    async with connect("--max-tokens", "64") as client:
        card = text_of(await client.call_tool("log", {"lines": 20}))
        assert card.startswith("[art_")


async def test_an_error_stays_an_error_and_begins_with_what_went_wrong(connect: Connect) -> None:
    async with connect() as client:
        failed = await client.call_tool("broken", {"lines": 4_000})
        assert failed.is_error
        assert text_of(failed).startswith("[art_")
        assert "connect to db-7.internal failed: timeout" in text_of(failed)
        short = await client.call_tool("broken", {"lines": 1})
        assert short.is_error
        assert "TimeoutError: gave up" in text_of(short)
        unknown = await client.call_tool("unheard_of")
        assert unknown.is_error


async def test_many_calls_at_once_get_their_own_answers(connect: Connect, service: Service) -> None:
    async with connect() as client:
        sizes = range(1_000, 1_040)
        results = await asyncio.gather(*(client.call_tool("log", {"lines": size}) for size in sizes))
        last = [service.content(artifact_in(text_of(result))).decode().splitlines()[-1] for result in results]
        assert last == [f"line {size - 1} of the log" for size in sizes]


async def test_progress_and_cancellation_pass(
    connect: Connect, era: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    steps: list[tuple[float, float | None, str | None]] = []

    async def told(progress: float, total: float | None, message: str | None) -> None:
        steps.append((progress, total, message))

    marker = tmp_path / "marker"
    async with connect(mode=era) as client:
        result = await client.call_tool("steps", progress_callback=told)
        assert text_of(result).startswith("[art_")
        json_only = request.node.callspec.params["connect"] == "http-json"  # its answers have no room for progress
        assert steps == ([] if json_only else [(n, 3, f"step {n}") for n in (1, 2, 3)])
        call = asyncio.create_task(client.call_tool("slow", {"marker": str(marker)}))
        await there(tmp_path / "marker.begun")
        call.cancel()
        if not json_only:  # nor does the server look whether anybody waits for them
            await there(marker)
        assert text_of(await client.call_tool("small")) == "fine", "and the server goes on"


async def test_what_the_server_asks_the_host_passes_and_so_do_its_notifications(service: Service) -> None:
    heard: list[str] = []

    async def message(one: Any) -> None:  # noqa: ANN401 - a union of notifications
        heard.append(type(one).__name__)

    async def sample(*_: object) -> types.CreateMessageResult:
        return types.CreateMessageResult(
            role="assistant", content=types.TextContent(type="text", text="a house"), model="m"
        )

    async def elicit(*_: object) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"colour": "red"})

    async def roots(*_: object) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root.model_validate({"uri": "file:///work"})])

    wrap = (*WRAP, "--url", service.url, *COMMAND)
    callbacks: dict[str, Any] = {
        "message_handler": message,
        "sampling_callback": sample,
        "elicitation_callback": elicit,
        "list_roots_callback": roots,
    }
    async with host(*wrap, mode="legacy", **callbacks) as client:
        assert text_of(await client.call_tool("ask")) == "colour='red' a house file:///work"
        await client.call_tool("grow")
        assert "ToolListChangedNotification" in heard
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names[-2:] == ["grown", "read_artifact"]


async def test_a_host_that_has_the_tool_already_is_not_offered_it_again(service: Service, tmp_path: Path) -> None:
    wrap = (*WRAP, "--url", service.url, "--no-read-tool", *COMMAND)
    async with host(*wrap, cwd=tmp_path) as client:
        assert "read_artifact" not in {tool.name for tool in (await client.list_tools()).tools}
        assert text_of(await client.call_tool("log")).startswith("[art_")
        assert text_of(await client.call_tool("directory")) == f"{tmp_path} green"


async def test_a_server_with_a_tool_of_that_name_stays_as_it_is(service: Service) -> None:
    inner = (*WRAP, "--url", service.url, *COMMAND)
    async with host(*WRAP, "--url", service.url, "--", *inner) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names.count("read_artifact") == 1
        card = text_of(await client.call_tool("log"))
        read = await client.call_tool("read_artifact", {"artifact_id": artifact_in(card), "offset": 8_000})
        assert "line 7999 of the log" in text_of(read)
