"""Connects a host, a server, and the proxy between them, until one of them ends."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, Protocol

from coatcheck_client import AsyncClient
from coatcheck_client.integrations.mcp_wrap.lines import StandardStreams
from coatcheck_client.integrations.mcp_wrap.proxy import Proxy, WrapOptions

PATIENCE: Final = 1.5
"""Seconds that a server has for its last lines after the end of its input."""


class Server(Protocol):
    """A wrapped server, wherever it runs."""

    def lines(self) -> AsyncIterator[bytes]:
        """Yields the messages that it sends. They end with the server."""
        ...

    async def send(self, line: bytes) -> None:
        """Sends a message to it."""
        ...

    async def finish(self) -> None:
        """Tells it that nothing more will be sent."""
        ...

    async def end(self) -> int:
        """Ends it, if it has not ended, and returns the exit code for that."""
        ...


async def wrap(server: Server, client: AsyncClient, options: WrapOptions) -> int:
    """Serves a server to the host on standard input and output; returns the exit code of this process.

    Ends when the server does, with its exit code; when the host closes standard input, after earlier requests are
    answered; and with SIGTERM and SIGINT. The server has ended by then.
    """
    host = StandardStreams()
    proxy = Proxy(client, options, to_host=host.send, to_server=server.send)
    signals = asyncio.create_task(_signalled())
    upward = asyncio.create_task(_pass_on(host.lines(), proxy.take_host_line))
    downward = asyncio.create_task(_pass_on(server.lines(), proxy.take_server_line))
    tasks: set[asyncio.Task[object]] = {signals, upward, downward}
    stopped = False
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if upward.done() and not signals.done():
            await server.finish()
            await asyncio.wait({signals, downward}, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
            stopped = not downward.done()
        if not signals.done():
            draining = asyncio.create_task(proxy.drained())
            tasks.add(draining)
            await asyncio.wait({signals, draining}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        proxy.cancel()
        for task in tasks:
            if task is not signals:
                task.cancel()
        code = await server.end()
    if signals.done():
        return 128 + signals.result()
    signals.cancel()
    return 0 if stopped else code


async def _pass_on(lines: AsyncIterator[bytes], take: Callable[[bytes], Awaitable[None]]) -> None:
    """Passes every line to `take`, until there are no more, or nobody is there to take them."""
    with contextlib.suppress(OSError):
        async for line in lines:
            await take(line)


async def _signalled() -> int:
    """Returns the number of the signal that asks this process to end. On Windows, Ctrl-C cancels what runs instead."""
    asked: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def ask(number: int) -> None:
        if not asked.done():
            asked.set_result(number)

    if sys.platform != "win32":
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, ask, number)
    return await asked
