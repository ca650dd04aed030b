"""A proxy that breaks things, to stand between the service and a server: for any protocol over TCP.

It runs in a thread of its own, so that a test may block, and is told what to do through its attributes, at any time.
What happens to single HTTP requests is decided in `support.http_proxy`. It invents no faults by itself and knows no
randomness.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")
_CHUNK = 64 * 1024


class Proxy:
    """Forwards connections to one address, as well as it is told to.

    `latency` is waited for, in seconds, before anything is passed on in either direction. `cut_up` and `cut_down` are
    the bytes after which new connections break towards the server or the client; None is never.
    """

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self.latency = 0.0
        self.cut_up: int | None = None
        self.cut_down: int | None = None
        self.accepted = 0
        """Connections so far."""
        self._host = host
        self._upstream = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._free = asyncio.Event()
        self._free.set()
        self._closed = threading.Condition()
        self.port = 0
        """Where it listens on 127.0.0.1."""

    def __enter__(self) -> Self:
        self._thread.start()
        self.accept()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.refuse()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    @property
    def endpoint(self) -> str:
        """The address as an HTTP endpoint."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def connections(self) -> int:
        """Connections of clients that are open now."""
        return len(self._open)

    def refuse(self) -> None:
        """Break what is open and refuse what comes, until `accept`."""
        self._run(self._refuse())

    def accept(self) -> None:
        """Take connections, at the address it has had."""
        self._run(self._accept())

    def drop(self) -> None:
        """Break what is open."""
        self._run(self._drop())

    def stall(self) -> None:
        """Pass nothing on in either direction, and close nothing, until `resume`."""
        self._loop.call_soon_threadsafe(self._free.clear)

    def resume(self) -> None:
        """Pass on what has waited."""
        self._loop.call_soon_threadsafe(self._free.set)

    def wait_closed(self, seconds: float = 10) -> bool:
        """Whether every client's connection has closed within a time."""
        with self._closed:
            return self._closed.wait_for(lambda: not self._open, seconds)

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result(30)

    async def _accept(self) -> None:
        if self._server is None:
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", self.port))
            self.port = listener.getsockname()[1]
            self._server = await asyncio.start_server(self._begin, sock=listener, limit=_CHUNK)

    async def _refuse(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()
        await self._drop()

    async def _drop(self) -> None:
        going = list(self._open)
        for task in going:
            task.cancel()
        await asyncio.gather(*going, return_exceptions=True)

    async def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        self.accepted += 1
        try:
            up_reader, up_writer = await asyncio.open_connection(self._host, self._upstream, limit=_CHUNK)
            try:
                await self.serve(reader, writer, up_reader, up_writer)
            finally:
                up_writer.transport.abort()
        except (OSError, EOFError, asyncio.CancelledError):
            pass  # a side that broke breaks the other
        finally:
            writer.transport.abort()
            with self._closed:
                del self._open[task]
                self._closed.notify_all()

    async def serve(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        up_reader: asyncio.StreamReader,
        up_writer: asyncio.StreamWriter,
    ) -> None:
        """Serve one client's connection; the second pair leads to the server. Returning closes both."""
        up = asyncio.ensure_future(self._pump(reader, up_writer, self.cut_up))
        down = asyncio.ensure_future(self._pump(up_reader, writer, self.cut_down))
        try:
            await asyncio.wait([up, down], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in (up, down):
                pump.cancel()
            await asyncio.gather(up, down, return_exceptions=True)

    async def pause(self) -> None:
        """What comes before anything is passed on."""
        if self.latency:
            await asyncio.sleep(self.latency)
        await self._free.wait()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, cut: int | None) -> None:
        left = cut
        while data := await reader.read(_CHUNK):
            await self.pause()
            writer.write(data if left is None else data[:left])
            await writer.drain()
            if left is not None:
                left -= len(data)
                if left <= 0:
                    return
        with contextlib.suppress(OSError):
            await writer.drain()
