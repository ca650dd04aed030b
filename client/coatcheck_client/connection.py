"""The protocol for everything that a client waits for: the network, files and pauses. Each client implements it."""

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any, BinaryIO, Final, ParamSpec, Protocol, TypeVar, cast

import httpx
from msgspec import Struct

from coatcheck_client.wire import Pairs

P = ParamSpec("P")
T = TypeVar("T")

PIECE: Final = 256 * 1024
"""Bytes that are read at a time from a file that is sent."""


CONNECT_SECONDS: Final = 5.0
"""Maximum seconds for establishing a connection."""


class Exchange(Struct, frozen=True):
    """One HTTP request."""

    method: str
    url: str
    params: Pairs
    headers: Pairs
    body: bytes | AsyncGenerator[bytes] | None
    seconds: float
    """Seconds without any progress after which the request fails; connecting has a shorter limit of its own."""

    def arguments(self) -> dict[str, Any]:
        """Returns the keyword arguments of httpx's `stream`."""
        return {
            "method": self.method,
            "url": self.url,
            "params": httpx.QueryParams(self.params),
            "headers": self.headers,
            "content": self.body,
            "timeout": httpx.Timeout(self.seconds, connect=min(CONNECT_SECONDS, self.seconds)),
        }


class Connection(Protocol):
    """The HTTP connections of one client, and everything else that the client waits for."""

    def exchange(self, request: Exchange) -> AbstractAsyncContextManager[httpx.Response]:
        """Sends a request; yields the response with its body unread, and closes it at the end of the block."""
        ...

    async def read(self, response: httpx.Response) -> bytes:
        """Returns the whole body of a response, decoded."""
        ...

    def raw_pieces(self, response: httpx.Response) -> AsyncIterator[bytes]:
        """Yields the body of a response as it arrives, without decoding it."""
        ...

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Returns the result of a function that may block, such as one that reads a file."""
        ...

    async def within(self, seconds: float, work: Coroutine[Any, Any, T]) -> T:
        """Returns the result of a client's coroutine, within a time limit.

        Raises:
            TimeoutError: after `seconds`, whatever the coroutine is waiting for. The coroutine is then abandoned.
        """
        ...

    async def sleep(self, seconds: float) -> None:
        """Waits for `seconds`."""
        ...

    async def close(self) -> None:
        """Closes all connections."""
        ...


_END: Final = object()
"""Stands for the end of a blocking iterator."""


async def pieces_of(
    payload: BinaryIO | Iterable[bytes] | AsyncIterable[bytes], connection: Connection
) -> AsyncIterator[bytes]:
    """Yields a payload in pieces: from a file, or from an iterable, which may be asynchronous.

    Raises:
        TypeError: a piece is not bytes, such as None from a stream that has nothing yet and does not wait.
    """
    if isinstance(payload, AsyncIterable):
        async for piece in payload:
            yield _as_bytes(piece)
        return
    pieces = _blocking_pieces(payload)
    while (piece := await connection.call(next, pieces, _END)) is not _END:
        yield _as_bytes(piece)


def _as_bytes(piece: object) -> bytes:
    if not isinstance(piece, bytes | bytearray | memoryview):
        raise TypeError(f"A stream's pieces must be bytes, not {type(piece).__name__}.")
    return bytes(cast("bytes", piece))


def _blocking_pieces(payload: BinaryIO | Iterable[bytes]) -> Iterator[bytes]:
    read = getattr(payload, "read", None)
    if read is None:
        yield from payload
        return
    while (piece := read(PIECE)) != b"":
        yield piece
