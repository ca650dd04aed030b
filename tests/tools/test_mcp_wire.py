"""MCP as bytes on the wire, against a real server process: every version, crowds, rubbish, and clients that leave."""

import asyncio
import json
import socket
import subprocess
from typing import Any

import httpx
import mcp_types
import pytest
from mcp.client.client import Client
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION

from coatcheck.core.read_answer import MAX_CHARS, is_read_answer
from support.service import COMMAND, Service
from tools.agent import LOG, TOKENIZER

MOST = 4_000
"""Tokens of an answer, when nobody asks for another number."""
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
ENVELOPE: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": LATEST_MODERN_VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
}


def post(service: Service, body: object, **headers: str) -> httpx.Response:
    said = {"content-type": "application/json", "accept": "application/json, text/event-stream", **headers}
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return service.client.post("/mcp", content=content, headers=said)


def request(method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": method, **({} if params is None else {"params": params})}


def initialize(version: str) -> dict[str, Any]:
    client = {"name": "a host", "version": "1"}
    return request("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": client})


@pytest.mark.parametrize("version", HANDSHAKE_PROTOCOL_VERSIONS)
def test_every_version_with_a_handshake_is_spoken(service: Service, version: str) -> None:
    artifact_id: str = service.post(LOG, title="build.log")["id"]
    said = post(service, initialize(version)).json()["result"]
    assert (said["protocolVersion"], said["serverInfo"]["name"]) == (version, "coatcheck")
    assert set(said["capabilities"]) == {"tools", "resources"}
    headers = {"mcp-protocol-version": version}
    began = post(service, {"jsonrpc": "2.0", "method": "notifications/initialized"}, **headers)
    assert (began.status_code, began.content) == (202, b"")
    assert post(service, request("ping"), **headers).json() == {"jsonrpc": "2.0", "id": 7, "result": {}}
    tools = post(service, request("tools/list"), **headers).json()["result"]["tools"]
    assert [tool["name"] for tool in tools] == ["read_artifact", "list_artifacts"]
    call = request("tools/call", {"name": "read_artifact", "arguments": {"artifact_id": artifact_id, "limit": 1}})
    answer = post(service, call, **headers)
    assert answer.headers["cache-control"] == "private, no-store"
    result = answer.json()["result"]
    assert (set(result), result["isError"]) == ({"content", "isError"}, False)
    assert [part["type"] for part in result["content"]] == ["text"]


def test_a_version_that_there_is_not_is_answered_with_one_that_there_is(service: Service) -> None:
    assert post(service, initialize("1999-01-01")).json()["result"]["protocolVersion"] == LATEST_HANDSHAKE_VERSION
    refused = post(service, request("tools/list", {"_meta": ENVELOPE}), **{"mcp-protocol-version": "2999-01-01"})
    assert (refused.status_code, "error" in refused.json()) == (400, True)


async def test_the_newest_version_is_spoken_without_a_handshake(service: Service) -> None:
    artifact_id: str = service.post(LOG, title="build.log")["id"]
    async with Client(f"{service.url}/mcp", mode=LATEST_MODERN_VERSION) as client:
        assert client.protocol_version == LATEST_MODERN_VERSION
        assert [tool.name for tool in (await client.list_tools()).tools] == ["read_artifact", "list_artifacts"]
        assert (await client.list_resources()).resources == []
        assert len((await client.list_resource_templates()).resource_templates) == 1
        got = await client.call_tool("read_artifact", {"artifact_id": artifact_id, "limit": 1})
        assert isinstance(got, mcp_types.CallToolResult)
        assert (len(got.content), got.structured_content, got.is_error) == (1, None, False)


def test_white_space_around_a_header_is_no_part_of_it(service: Service) -> None:
    body = json.dumps(request("tools/call", {"name": "list_artifacts", "arguments": {}, "_meta": ENVELOPE})).encode()
    head = (
        f"POST /mcp HTTP/1.1\r\nHost:  {service.url.removeprefix('http://')} \t\r\n"
        "Content-Type: application/json  \r\nAccept: application/json \r\n"
        f"MCP-Protocol-Version: \t{LATEST_MODERN_VERSION}\t \r\nMcp-Method: tools/call \r\n"
        f"Mcp-Name:   list_artifacts  \r\nContent-Length: {len(body)} \r\nConnection: close\r\n\r\n"
    )
    assert exchange(service, head.encode() + body).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, -32700),
        (b"{", 400, -32700),
        (b"\xff\xfe", 400, -32700),
        (b"[" * 100_000, 400, -32600),
        (b"[]", 400, -32600),
        (b"5", 400, None),
        (b"null", 400, None),
        (b'{"jsonrpc": "2.0"}', 400, None),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "tools/list"}', 400, None),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 5}', 400, None),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "prompts/list"}', 200, -32601),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call"}', 200, -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 5}}', 200, -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "rm"}}', 200, -32602),
        (
            b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read_artifact", "arguments": 1}}',
            200,
            -32602,
        ),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "artifact://"}}', 200, -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "http://[/"}}', 200, -32602),
    ],
    ids=str,
)
def test_rubbish_is_answered_with_an_error_of_the_protocol(
    service: Service, body: bytes, status: int, code: int | None
) -> None:
    response = post(service, body)
    answer = response.json()
    assert (response.status_code, answer["jsonrpc"]) == (status, "2.0")
    assert code is None or answer["error"]["code"] == code
    assert isinstance(answer["error"]["code"], int)
    assert len(response.content) < 2_000
    assert post(service, LIST).status_code == 200


def test_a_batch_is_told_to_come_message_by_message(service: Service) -> None:
    for body in ([LIST], [LIST, request("ping")], b" \n\t[]"):
        response = post(service, body)
        error = response.json()["error"]
        assert (response.status_code, error["code"]) == (400, -32600)
        assert error["message"] == "Batches are not accepted: POST each message separately, as one JSON-RPC object."


def test_a_message_that_comes_in_pieces_is_answered(service: Service) -> None:
    pieces = [b" \n", *([b" "] * 9), *(bytes([octet]) for octet in json.dumps(LIST).encode())]
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    response = service.client.post("/mcp", content=iter(pieces), headers=headers)
    assert (response.status_code, len(response.json()["result"]["tools"])) == (200, 2)
    long = post(service, b" " * 100_000 + json.dumps(LIST).encode())
    assert (long.status_code, len(long.json()["result"]["tools"])) == (200, 2)


BAD: list[tuple[Any, str]] = [
    (None, "artifact_id is missing"),
    ({}, "artifact_id is missing"),
    ({"artifact_id": "art_1"}, "is not an artifact ID"),
    ({"artifact_id": "art_000000000000000098"}, "run the tool again"),
    ({"artifact_id": None, "offset": "x"}, "artifact_id is missing"),
    ({"artifact_id": {"a": 1}, "limit": [[]]}, "artifact_id is missing"),
]


@pytest.mark.parametrize(("arguments", "said"), BAD, ids=["none", "nothing", "short", "unknown", "null", "object"])
def test_bad_arguments_are_a_result_with_the_next_step(service: Service, arguments: object, said: str) -> None:
    answer = post(service, request("tools/call", {"name": "read_artifact", "arguments": arguments})).json()
    assert answer["result"]["isError"] is True
    (content,) = answer["result"]["content"]
    assert said in content["text"]


def test_the_hosts_of_this_machine_may_speak_and_no_others(service: Service) -> None:
    port = service.url.rpartition(":")[2]
    hosts = {
        f"localhost:{port}": 200,
        f"127.0.0.1:{port}": 200,
        "localhost": 200,
        f"127.0.0.1.evil.example:{port}": 403,
        f"evil.example:{port}": 403,
        f"localhost:{port}@evil.example": 403,
        "": 403,
    }
    assert {host: post(service, LIST, host=host).status_code for host in hosts} == hosts
    origins = {
        f"http://127.0.0.1:{port}": 200,
        "http://localhost:1": 403,
        "null": 403,
        "https://evil.example": 403,
    }
    assert {origin: post(service, LIST, origin=origin).status_code for origin in origins} == origins
    assert post(service, LIST, **{"sec-fetch-site": "cross-site"}).status_code == 403


async def test_an_answer_is_bounded_whatever_is_asked(service: Service) -> None:
    log = service.post("".join(f"{n} \u0df4 {n * 31 % 997} wide row\n" for n in range(400_000)).encode())["id"]
    line = service.post(("\U0001f9f5" * 400_000).encode(), media_type="text/plain")["id"]
    async with Client(f"{service.url}/mcp") as client:
        for asked in (
            {"artifact_id": log, "limit": 10**12},
            {"artifact_id": log, "pattern": "row", "limit": 10**6, "context": 10**6},
            {"artifact_id": log, "query": "wide row"},
            {"artifact_id": line, "limit": 2000},
        ):
            got = await client.call_tool("read_artifact", asked)
            assert isinstance(got, mcp_types.CallToolResult)
            (content,) = got.content
            assert isinstance(content, mcp_types.TextContent)
            assert TOKENIZER.count(content.text) <= MOST
            assert len(content.text) <= MAX_CHARS
            assert is_read_answer(content.text)
        (resource,) = (await client.read_resource(f"artifact://{log}?limit=99999999")).contents
        assert isinstance(resource, mcp_types.TextResourceContents)
        assert TOKENIZER.count(resource.text) <= MOST


async def test_many_clients_at_once_each_get_their_own_answers(service: Service) -> None:
    rows = LOG.splitlines()
    artifact_id: str = service.post(LOG, title="build.log")["id"]

    async def walk(n: int) -> list[str]:
        mode = LATEST_MODERN_VERSION if n % 2 else "legacy"
        seen: list[str] = []
        async with Client(f"{service.url}/mcp", mode=mode) as client:
            for line in range(n * 10 + 1, n * 10 + 6):
                got = await client.call_tool("read_artifact", {"artifact_id": artifact_id, "offset": line, "limit": 1})
                assert isinstance(got, mcp_types.CallToolResult)
                assert isinstance(got.content[0], mcp_types.TextContent)
                seen.append(got.content[0].text.split("\n")[1])
        return seen

    walks = await asyncio.gather(*[walk(n) for n in range(16)])
    assert walks == [rows[n * 10 : n * 10 + 5] for n in range(16)]


def exchange(service: Service, data: bytes) -> bytes:
    """Send bytes and read until the server closes."""
    with socket.create_connection(service.address, timeout=20) as s:
        s.sendall(data)
        out = bytearray()
        while piece := s.recv(65536):
            out += piece
    return bytes(out)


def test_clients_that_leave_are_nobodys_trouble(service: Service) -> None:
    artifact_id: str = service.post(LOG, title="build.log")["id"]
    body = json.dumps(
        request("tools/call", {"name": "read_artifact", "arguments": {"artifact_id": artifact_id, "query": "step"}})
    ).encode()
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: {service.url.removeprefix('http://')}\r\nContent-Type: application/json\r\n"
        f"Accept: application/json, text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()
    for sent in (head[:40], head, head + body[:-1], head + body):
        for _ in range(8):
            with socket.create_connection(service.address, timeout=20) as s:
                s.sendall(sent)
    assert post(service, LIST).status_code == 200
    closing = head.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    assert exchange(service, closing + body).startswith(b"HTTP/1.1 200 ")


def test_stdio_survives_rubbish_and_ends_with_its_host(service: Service) -> None:
    lines = [
        b"not json",
        b'{"jsonrpc": "2.0"}',
        b"\xff",
        b"",
        json.dumps(initialize(LATEST_HANDSHAKE_VERSION)).encode(),
        b'{"jsonrpc": "2.0", "method": "notifications/initialized"}',
        json.dumps({**LIST, "id": 2}).encode(),
    ]
    command = [*COMMAND, "mcp", "--url", service.url]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin"},
    ) as host:
        assert host.stdin is not None
        assert host.stdout is not None
        host.stdin.write(b"\n".join(lines) + b"\n")
        host.stdin.flush()
        answers: dict[Any, dict[str, Any]] = {}
        while 2 not in answers:
            row = host.stdout.readline()
            assert row, "the process ended"
            message: dict[str, Any] = json.loads(row)
            answers[message.get("id")] = message
        host.stdin.close()
        assert host.wait(30) == 0
    assert answers[7]["result"]["protocolVersion"] == LATEST_HANDSHAKE_VERSION
    assert [tool["name"] for tool in answers[2]["result"]["tools"]] == ["read_artifact", "list_artifacts"]
