"""A proxy that counts HTTP/1.1 requests and breaks the ones that a test chooses.

`proxy.fault` is asked about every request and answers what to do with it, or None to pass it on; `nth` and `every`
make such functions. Bodies are held in memory whole: parts of uploads and ranges, not gigabytes. Requests must say how
long they are.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from typing_extensions import override

from support.proxy import Proxy

_HEAD_END = b"\r\n\r\n"
_NO_BODY = frozenset({204, 304})


@dataclass(frozen=True)
class Request:
    """A request as it came, numbered from 1."""

    number: int
    method: str
    target: str
    headers: dict[str, str]
    """Names in lower case."""


@dataclass(frozen=True)
class Answer:
    """Do not pass the request on; answer this."""

    status: int
    body: str = ""


@dataclass(frozen=True)
class SendBytes:
    """Do not pass the request on; send these bytes, which need not be HTTP, and close."""

    data: bytes


@dataclass(frozen=True)
class LoseAnswer:
    """Let the server do what it was asked for, and close the connection instead of telling."""


@dataclass(frozen=True)
class CutRequest:
    """Pass on the head and this many bytes of the body, then close both sides."""

    after: int


@dataclass(frozen=True)
class CutResponse:
    """Pass on the head and this many bytes of the answer's body, then close."""

    after: int


@dataclass(frozen=True)
class Stall:
    """Pass the request on (or not at all), and nothing of the answer, for as long as the client waits."""

    reached: bool = False
    """Whether the request reaches the server."""


@dataclass(frozen=True)
class CorruptRequest:
    """Flip a bit of one byte of the request's body."""

    at: int


@dataclass(frozen=True)
class CorruptResponse:
    """Flip a bit of one byte of the answer's body."""

    at: int


Fault = Answer | SendBytes | LoseAnswer | CutRequest | CutResponse | Stall | CorruptRequest | CorruptResponse
Decide = Callable[[Request], Fault | None]


def nothing(_: Request) -> Fault | None:
    """Pass everything on."""
    return None


def nth(k: int, fault: Fault, method: str | None = None) -> Decide:
    """The fault for the k-th request from now on (of a method, when one is given), counted from 1."""
    return _counting(lambda seen: seen == k, fault, method)


def every(n: int, fault: Fault, method: str | None = None) -> Decide:
    """The fault for every n-th request from now on (of a method, when one is given)."""
    return _counting(lambda seen: seen % n == 0, fault, method)


def _counting(due: Callable[[int], bool], fault: Fault, method: str | None) -> Decide:
    seen = 0

    def decide(request: Request) -> Fault | None:
        nonlocal seen
        if method in {None, request.method}:
            seen += 1
            return fault if due(seen) else None
        return None

    return decide


class HttpProxy(Proxy):
    """A Proxy that understands the requests it passes on."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        super().__init__(port, host)
        self.fault: Decide = nothing
        self.requests: list[Request] = []

    def count(self, method: str | None = None) -> int:
        """Requests so far, of a method or of all."""
        return sum(method in {None, request.method} for request in self.requests)

    def forget(self) -> None:
        """Begin to count anew and pass everything on."""
        self.fault = nothing
        self.requests = []

    @override
    async def serve(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        up_reader: asyncio.StreamReader,
        up_writer: asyncio.StreamWriter,
    ) -> None:
        exchange = _Exchange(reader, writer, up_reader, up_writer)
        while True:
            head = await reader.readuntil(_HEAD_END)
            line, headers = _parsed(head)
            method, target, _ = line.split(" ", 2)
            request = Request(len(self.requests) + 1, method, target, headers)
            self.requests.append(request)
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            fault = self.fault(request)
            await self.pause()
            if not await exchange.run(method, head, body, fault):
                return


@dataclass(frozen=True)
class _Exchange:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    up_reader: asyncio.StreamReader
    up_writer: asyncio.StreamWriter

    async def run(self, method: str, head: bytes, body: bytes, fault: Fault | None) -> bool:
        """Answer one request; whether the connection may be used again."""
        if isinstance(fault, Answer | SendBytes):
            self.writer.write(_answered(fault) if isinstance(fault, Answer) else fault.data)
            await self.writer.drain()
            return isinstance(fault, Answer)
        if isinstance(fault, Stall) and not fault.reached:
            await self.reader.read(1)
            return False
        if isinstance(fault, CutRequest):
            self.up_writer.write(head + body[: fault.after])
            await self.up_writer.drain()
            return False
        if isinstance(fault, CorruptRequest):
            body = _flipped(body, fault.at)
        self.up_writer.write(head)
        self.up_writer.write(body)
        await self.up_writer.drain()
        answer, content, reusable = await self._answer(method)
        if isinstance(fault, Stall):
            await self.reader.read(1)
            return False
        if isinstance(fault, LoseAnswer):
            return False
        if isinstance(fault, CorruptResponse):
            content = _flipped(content, fault.at)
        cut = isinstance(fault, CutResponse)
        self.writer.write(answer + (content[: fault.after] if isinstance(fault, CutResponse) else content))
        await self.writer.drain()
        if cut:
            self.writer.close()
            await self.writer.wait_closed()
        return reusable and not cut

    async def _answer(self, method: str) -> tuple[bytes, bytes, bool]:
        head = await self.up_reader.readuntil(_HEAD_END)
        line, headers = _parsed(head)
        reusable = headers.get("connection", "").lower() != "close"
        if method == "HEAD" or int(line.split(" ", 2)[1]) in _NO_BODY:
            return head, b"", reusable
        if "content-length" in headers:
            return head, await self.up_reader.readexactly(int(headers["content-length"])), reusable
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return head, await self._chunks(), reusable
        return head, await self.up_reader.read(), False

    async def _chunks(self) -> bytes:
        """The chunks as they came, with their lengths and the end mark."""
        raw = bytearray()
        while True:
            length = await self.up_reader.readuntil(b"\r\n")
            raw += length
            size = int(length.partition(b";")[0], 16)
            raw += await self.up_reader.readexactly(size + 2)
            if size == 0:
                return bytes(raw)


def _parsed(head: bytes) -> tuple[str, dict[str, str]]:
    line, *rest = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    return line, {name.strip().lower(): value.strip() for name, _, value in (field.partition(":") for field in rest)}


def _answered(answer: Answer) -> bytes:
    body = answer.body.encode()
    return f"HTTP/1.1 {answer.status} Made Up\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def _flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
