"""A way to a PostgreSQL server that breaks where a test wants it to: before a commit arrives, or before its answer."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from enum import Enum
from urllib.parse import urlsplit, urlunsplit

_COMMIT = b"COMMIT;\0"


class Break(Enum):
    """Where the next commit breaks."""

    NOWHERE = 0
    BEFORE_COMMIT = 1
    BEFORE_ANSWER = 2


class Proxy:
    """Listens, and passes on."""

    def __init__(self, host: str, port: int) -> None:
        self._to = host, port
        self.next = Break.NOWHERE
        self.refuses = False
        self.stays_away = False
        """Whether, after a break, it takes no connection any more."""
        self.commits = 0
        self._lines: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection on."""
        if self.refuses:
            writer.transport.abort()
            return
        up_reader, up_writer = await asyncio.open_connection(*self._to)
        self._lines |= {writer, up_writer}
        answer = asyncio.Event()
        down = asyncio.create_task(self._down(up_reader, writer, answer))
        try:
            await self._up(reader, up_writer, answer)
        finally:
            writer.transport.abort()
            up_writer.close()
            await asyncio.gather(down, return_exceptions=True)
            self._lines -= {writer, up_writer}

    async def _up(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lost: asyncio.Event) -> None:
        while data := await reader.read(65536):
            if _COMMIT in data:
                self.commits += 1
                where, self.next = self.next, Break.NOWHERE
                if where is not Break.NOWHERE:
                    self.refuses = self.stays_away
                if where is Break.BEFORE_COMMIT:
                    return
                if where is Break.BEFORE_ANSWER:
                    lost.set()
            writer.write(data)
            await writer.drain()

    async def _down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lost: asyncio.Event) -> None:
        while data := await reader.read(65536):
            if lost.is_set():
                break  # the server has answered the commit
            writer.write(data)
            await writer.drain()
        writer.transport.abort()


@contextlib.asynccontextmanager
async def proxied(url: str) -> AsyncGenerator[tuple[str, Proxy]]:
    """The URL of a database through a proxy, and the proxy."""
    parts = urlsplit(url)
    proxy = Proxy(parts.hostname or "", parts.port or 5432)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    netloc = f"{parts.netloc.rpartition('@')[0]}@127.0.0.1:{port}"
    async with server:
        yield urlunsplit((parts.scheme, netloc, parts.path, parts.query, "")), proxy
