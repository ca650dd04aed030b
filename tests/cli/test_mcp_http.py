"""The server at a URL that `mcp-wrap` serves: what was asked last is answered before the end."""

import asyncio
import json

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from coatcheck.cli.mcp_http import HttpServer


async def test_the_last_answer_arrives_although_all_earlier_requests_were_answered() -> None:
    answering, reading = anyio.create_memory_object_stream[SessionMessage](8)
    writing, asked = anyio.create_memory_object_stream[SessionMessage](8)
    server = HttpServer(reading, writing)
    lines: list[bytes] = []

    async def read() -> None:
        lines.extend([line async for line in server.lines()])

    async def answer(number: int) -> None:
        message = b'{"jsonrpc": "2.0", "id": %d, "result": {}}' % number
        await answering.send(SessionMessage(jsonrpc_message_adapter.validate_json(message)))

    reader = asyncio.create_task(read())
    for number in (1, 2):
        request = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": "slow"}}
        await server.send(json.dumps(request).encode())
        if number == 1:
            await answer(1)
            await asyncio.sleep(0.05)
    ending = asyncio.create_task(server.finish())
    await asyncio.sleep(0.05)
    await answer(2)
    await ending
    await reader
    assert [json.loads(line)["id"] for line in lines] == [1, 2]
    for stream in (asked, writing, answering, reading):
        await stream.aclose()
