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
"""Seconds that a server has to send its last lines after its input ends."""


class Server(Protocol):
    """A wrapped server, wherever it runs."""

    def lines(self) -> AsyncIterator[bytes]:
        """Yields the messages that the server sends, until the server ends."""
        ...

    async def send(self, line: bytes) -> None:
        """Sends a message to the server."""
        ...

    async def finish(self) -> None:
        """Tells the server that nothing more will be sent."""
        ...

    async def end(self) -> int:
        """Ends the server if it still runs, and returns the exit code to report for it."""
        ...


async def wrap(server: Server, client: AsyncClient, options: WrapOptions) -> int:
    """Connects a server to the host on standard input and output; returns the exit code for this process.

    Returns in three cases, each time after it has ended the server: when the server ends, with the server's exit code;
    when the host closes standard input, after the answers that arrive within PATIENCE seconds, with the server's exit
    code, or 0 if the server had to be stopped; and on SIGTERM or SIGINT, with 128 plus the signal's number.
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
    """Passes every line to `take`, until the lines end or their receiver has gone."""
    with contextlib.suppress(OSError):
        async for line in lines:
            await take(line)


async def _signalled() -> int:
    """Waits for a signal that asks this process to end, and returns its number.

    Waits forever on Windows, where Ctrl-C cancels the running tasks instead.
    """
    asked: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def ask(number: int) -> None:
        if not asked.done():
            asked.set_result(number)

    if sys.platform != "win32":
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, ask, number)
    return await asked
