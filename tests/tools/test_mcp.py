"""MCP through the official client, against a real server process: over HTTP in both eras, and over stdio."""

import json
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx
import mcp_types
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError

from coatcheck.api.app import Face, create_app
from coatcheck.core.read_answer import is_read_answer
from support.faces import FaceHarness
from support.service import Service
from tools.agent import LOG

Connect = Callable[[Service], AbstractAsyncContextManager[Client]]


@asynccontextmanager
async def over_http(service: Service) -> AsyncGenerator[Client]:
    async with Client(f"{service.url}/mcp", mode="auto") as client:
        yield client


@asynccontextmanager
async def over_legacy_http(service: Service) -> AsyncGenerator[Client]:
    async with Client(f"{service.url}/mcp", mode="legacy") as client:
        yield client


@asynccontextmanager
async def over_stdio(service: Service) -> AsyncGenerator[Client]:
    params = StdioServerParameters(
        command=sys.executable, args=["-m", "coatcheck", "mcp", "--url", service.url], env={"PATH": "/usr/bin:/bin"}
    )
    async with Client(stdio_client(params)) as client:
        yield client


@pytest.fixture(params=[over_http, over_legacy_http, over_stdio], ids=["http", "legacy-http", "stdio"])
def connect(request: pytest.FixtureRequest) -> Connect:
    chosen: Connect = request.param
    return chosen


def text_of(result: Any) -> str:  # noqa: ANN401 - a union of results
    assert isinstance(result, mcp_types.CallToolResult)
    assert result.structured_content is None
    (content,) = result.content
    assert isinstance(content, mcp_types.TextContent)
    return content.text


async def test_a_client_lists_calls_and_reads(service: Service, connect: Connect) -> None:
    artifact_id: str = service.post(LOG, title="build.log")["id"]
    async with connect(service) as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == ["read_artifact", "list_artifacts"]
        read = await client.call_tool("read_artifact", {"artifact_id": artifact_id, "offset": "3", "limit": 1})
        assert text_of(read).split("\n")[1] == "00002 step 838 took 2 ms"
        assert is_read_answer(text_of(read))
        failed = await client.call_tool("read_artifact", {"artifact_id": artifact_id, "offset": 9000})
        assert isinstance(failed, mcp_types.CallToolResult)
        assert (failed.is_error, text_of(failed)[:27]) == (True, "Offset 9000 is past the end")
        listed = await client.call_tool("list_artifacts", {"limit": 1})
        assert text_of(listed).startswith("art_")
        (template,) = (await client.list_resource_templates()).resource_templates
        assert template.uri_template == "artifact://{id}{?section,offset,limit}"
        (content,) = (await client.read_resource(f"artifact://{artifact_id}?offset=3&limit=1")).contents
        assert isinstance(content, mcp_types.TextResourceContents)
        assert content.text == text_of(read)


async def test_a_resource_is_a_section_of_the_text_too(service: Service, connect: Connect) -> None:
    page: str = service.post("# One\n\nalpha\n\n## Two\n\nbeta\n", title="notes.md", kind="text")["id"]
    async with connect(service) as client:
        for uri in (f"artifact://{page}?section=s2", f"artifact://{page}#s2"):
            (content,) = (await client.read_resource(uri)).contents
            assert isinstance(content, mcp_types.TextResourceContents)
            first, *body, last = content.text.split("\n")
            assert first == f"[{page} · notes.md · lines 5-7 of 7, section s2 (5-7) · text]"
            assert body == ["## Two", "", "beta"]
            assert last == "(Lines 5-7 of 7; that is the end of section s2.)"


async def test_what_no_model_wrote_is_an_error_of_the_protocol(service: Service, connect: Connect) -> None:
    async with connect(service) as client:
        with pytest.raises(MCPError, match="Unknown tool: web_search"):
            await client.call_tool("web_search", {})
        with pytest.raises(MCPError, match="is not an artifact ID"):
            await client.read_resource("artifact://art_1")
        with pytest.raises(MCPError, match="A resource URI is artifact://"):
            await client.read_resource("file:///etc/passwd")


async def test_stdio_answers_when_the_service_is_away() -> None:
    params = StdioServerParameters(
        command=sys.executable,
        args=["-m", "coatcheck", "mcp", "--url", "http://127.0.0.1:9"],
        env={"PATH": "/usr/bin:/bin"},
    )
    async with Client(stdio_client(params)) as client:
        failed = await client.call_tool("read_artifact", {"artifact_id": "art_000000000000000098"})
        assert isinstance(failed, mcp_types.CallToolResult)
        assert failed.is_error
        assert text_of(failed).startswith("The artifact service cannot be reached. Retry the same call")


async def test_applications_start_and_end_each_with_an_endpoint_of_its_own(harness: FaceHarness) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}

    async def status(face: Face) -> int:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(face), base_url="http://localhost") as client:
            response = await client.post("/mcp", json=message)
            assert response.json()["jsonrpc"] == "2.0"
            return response.status_code

    one, other = create_app(harness.services), create_app(harness.services)
    assert await status(one) == 503
    async with one.lifespan(), other.lifespan():
        assert [await status(face) for face in (one, other, one)] == [200, 200, 200]
    assert await status(one) == 503
    async with one.lifespan():
        assert await status(one) == 200


def post(service: Service, body: object, **headers: str) -> Any:  # noqa: ANN401 - a response
    return service.client.post(
        "/mcp", content=json.dumps(body), headers={"content-type": "application/json", **headers}
    )


def test_a_request_without_a_handshake_is_answered(service: Service) -> None:
    response = post(service, {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert len(response.headers.get_list("x-request-id")) == 1
    assert [tool["name"] for tool in response.json()["result"]["tools"]] == ["read_artifact", "list_artifacts"]


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"host": "evil.example"}, 403, "forbidden_host"),
        ({"origin": "https://evil.example"}, 403, "forbidden_host"),
        ({"content-type": "text/plain"}, 415, "unsupported_media_type"),
    ],
    ids=["host", "origin", "media type"],
)
def test_who_may_not_speak_is_told_in_the_words_of_the_protocol(
    service: Service, headers: dict[str, str], status: int, code: str
) -> None:
    response = post(service, {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, **headers)
    assert response.status_code == status
    assert (response.json()["jsonrpc"], response.json()["error"]["data"]["code"]) == ("2.0", code)


def test_a_request_is_bounded(service: Service) -> None:
    response = post(service, "x" * 1_100_000)
    assert (response.status_code, response.json()["error"]["data"]["code"]) == (413, "body_too_large")


def test_there_is_no_stream_to_open(service: Service) -> None:
    for method in ("GET", "DELETE", "PUT"):
        response = service.client.request(method, "/mcp")
        assert (response.status_code, response.headers["allow"]) == (405, "OPTIONS, POST")
        assert response.json()["error"]["data"]["code"] == "method_not_allowed"
    assert service.client.options("/mcp").headers["allow"] == "OPTIONS, POST"
