"""A small HTTP/1.1 client over asyncio streams: keep-alive, known lengths, as little work as possible per request."""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class Connection:
    """One kept-alive connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    host: str

    async def ask(self, method: str, path: str, body: bytes = b"", headers: str = "") -> tuple[int, bytes]:
        """One request and its answer."""
        head = f"{method} {path} HTTP/1.1\r\nhost: {self.host}\r\ncontent-length: {len(body)}\r\n{headers}\r\n"
        self.writer.write(head.encode() + body)
        return await self.answer()

    async def answer(self) -> tuple[int, bytes]:
        """Status and body of the next answer."""
        raw = await self.reader.readuntil(b"\r\n\r\n")
        lines = raw.lower().split(b"\r\n")
        length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), None)
        body = await self._chunks() if length is None else await self.reader.readexactly(length)
        return int(raw[9:12]), body

    async def _chunks(self) -> bytes:
        parts: list[bytes] = []
        while size := int(await self.reader.readline(), 16):
            parts.append(await self.reader.readexactly(size))
            await self.reader.readline()
        await self.reader.readline()
        return b"".join(parts)


@asynccontextmanager
async def connect(url: str) -> AsyncGenerator[Connection]:
    """Open a connection to `http://host:port`."""
    host = url.removeprefix("http://")
    name, _, port = host.rpartition(":")
    reader, writer = await asyncio.open_connection(name, int(port), limit=2**24)
    try:
        yield Connection(reader, writer, host)
    finally:
        writer.close()
        await writer.wait_closed()


@dataclass
class Timings:
    """Durations of requests in seconds, and how long the whole took."""

    each: list[float] = field(default_factory=list[float])
    whole: float = 0.0

    def per_second(self) -> float:
        """Requests a second."""
        return len(self.each) / self.whole

    def at(self, share: float) -> float:
        """A percentile in milliseconds."""
        ordered = sorted(self.each)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def load(url: str, requests: Iterable[tuple[str, str, bytes]], clients: int, ok: frozenset[int]) -> Timings:
    """Send requests over `clients` connections, each as fast as its answers come."""
    timings = Timings()
    queue = iter(requests)

    async def client() -> None:
        async with connect(url) as connection:
            for method, path, body in queue:
                began = time.perf_counter()
                status, _ = await connection.ask(method, path, body)
                timings.each.append(time.perf_counter() - began)
                if status not in ok:
                    raise AssertionError(f"{method} {path} answered {status}")

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    timings.whole = time.perf_counter() - began
    return timings
