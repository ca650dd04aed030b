"""Requests on the wire: attempts, pauses, contents in pieces. Knows no operation of the service."""

from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Final, TypeVar

import httpx

from coatcheck_client import answers
from coatcheck_client.bytes import ContentDownload, framed
from coatcheck_client.connection import Connection
from coatcheck_client.errors import ServiceError
from coatcheck_client.options import Options
from coatcheck_client.requests import ClientRequest
from coatcheck_client.retry_state import CircuitBreaker
from coatcheck_client.wire import Pairs

T = TypeVar("T")

UNSENDABLE: Final = (httpx.InvalidURL, httpx.LocalProtocolError)
"""What is wrong with a request before any of it is sent: no outage."""


class Sender:
    """Sends the requests of one client, each as often as its retries allow."""

    def __init__(self, setup: Options, connection: Connection) -> None:
        self._setup = setup
        self._connection = connection
        self._breaker = CircuitBreaker()

    async def send(self, ask: ClientRequest[T]) -> T:
        """The answer of a request, after as many attempts as it takes.

        Raises:
            ServiceError: how the last attempt ended.
        """
        return await self.repeat(lambda: self.once(ask), again=lambda: ask.again)

    async def repeat(self, attempt: Callable[[], Awaitable[T]], *, again: Callable[[], bool]) -> T:
        """The result of an attempt that succeeds.

        Args:
            attempt: begins one.
            again: whether another may follow, asked after each that failed.

        Raises:
            ServiceError: how the last attempt ended.
        """
        retry_state = self._breaker.retry_state(self._setup.retries)
        while True:
            try:
                answer = await attempt()
            except ServiceError as e:
                wait = retry_state.after(e, again=again())
                if wait is None:
                    raise
            else:
                retry_state.answered()
                return answer
            await self._connection.sleep(wait)

    async def once(
        self, ask: ClientRequest[T], pieces: AsyncIterable[bytes] | None = None, size: int | None = None
    ) -> T:
        """One attempt.

        Args:
            ask: what to send.
            pieces: of the payload, where it is streamed.
            size: bytes of the payload, where it is streamed and the number is known.

        Raises:
            ServiceError: how it ended.
        """
        body = ask.body if pieces is None else framed(pieces, ask.around, size)
        headers = answers.sent_headers(ask, size)
        async with self._exchange(ask.method, ask.path, ask.params, headers, body) as response:
            data = await self._connection.read(response)
        return answers.read(response.status_code, response.headers, data, ask.answer, url=self._setup.url)

    async def stream(self, path: str, params: Pairs) -> AsyncGenerator[bytes]:
        """A content in pieces, over as many connections as it takes.

        Raises:
            ServiceError: how the last attempt ended, `digest_mismatch` at the end.
        """
        arriving, retry_state = ContentDownload(), self._breaker.retry_state(self._setup.retries)
        while True:
            try:
                async with aclosing(self._pieces(path, params, arriving)) as pieces:
                    async for piece in pieces:
                        retry_state.answered()
                        yield piece
            except ServiceError as e:
                wait = retry_state.after(e)
                if wait is None:
                    raise
            else:
                arriving.finish()
                return
            await self._connection.sleep(wait)

    async def _pieces(self, path: str, params: Pairs, arriving: ContentDownload) -> AsyncGenerator[bytes]:
        async with self._exchange("GET", path, params, arriving.headers()) as response:
            if not response.is_success:
                data = await self._connection.read(response)
                raise answers.problem(response.status_code, response.headers, data, url=self._setup.url)
            arriving.answered(response.status_code, response.headers)
            async for piece in self._connection.raw_pieces(response):
                arriving.feed(piece)
                yield piece

    @asynccontextmanager
    async def _exchange(
        self, method: str, path: str, params: Pairs, headers: Pairs, body: bytes | AsyncGenerator[bytes] | None = None
    ) -> AsyncGenerator[httpx.Response]:
        """Send a request. Whatever HTTP fails with, also inside the block, becomes a ServiceError."""
        url = self._setup.url
        try:
            async with self._connection.exchange(method, url + path, params, headers, body) as response:
                yield response
        except UNSENDABLE as e:
            raise answers.unsendable(e) from e
        except httpx.HTTPError as e:
            raise answers.unreachable(url, e) from e
