"""Sends an artifact's bytes over ASGI, block by block.

No response begins before its first bytes have been read; reading stops when the client has left.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from coatcheck.api.content.response import ContentResponse

Message = MutableMapping[str, Any]
SendMessage = Callable[[Message], Awaitable[None]]
ReceiveMessage = Callable[[], Awaitable[Message]]


async def send_response(response: ContentResponse, receive: ReceiveMessage, send: SendMessage) -> None:
    """Sends a response whose body is None or an iterator; stops reading the payload when the client has left.

    Raises:
        CoatcheckError: from the payload's first two blocks, before anything is sent. Later failures propagate too, and
            leave the response shorter than its Content-Length, which tells the client.
    """
    blocks = response.body
    first = await anext(blocks, b"") if blocks is not None else b""
    second = await anext(blocks, None) if blocks is not None else None
    headers = [(k.lower().encode("latin-1"), v.encode("latin-1")) for k, v in response.headers]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    if blocks is None or second is None:
        await send({"type": "http.response.body", "body": first, "more_body": False})
        return
    disconnect_task = asyncio.create_task(_wait_for_disconnect(receive))
    try:
        for block in (first, second):
            await send({"type": "http.response.body", "body": block, "more_body": True})
        del first, second, block  # a client that reads slowly holds one block here, and one that is being written
        async for each in blocks:
            if disconnect_task.done():
                return
            await send({"type": "http.response.body", "body": each, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        disconnect_task.cancel()


async def _wait_for_disconnect(receive: ReceiveMessage) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
