"""Requests on the wire for code on an event loop. See sending.py, of which it is the other half."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import TypeVar

import httpx

from coatcheck.client import answers
from coatcheck.client.bytes import ContentDownload
from coatcheck.client.bytes_async import AsyncRememberedPieces, async_framed
from coatcheck.client.errors import ServiceError
from coatcheck.client.options import Options, timeouts
from coatcheck.client.requests import ClientRequest
from coatcheck.client.retry_state import CircuitBreaker
from coatcheck.client.sender import UNSENDABLE

T = TypeVar("T")


class AsyncSender:
    """The connections of one client, on one event loop."""

    def __init__(
        self,
        setup: Options,
        transport: httpx.AsyncBaseTransport | None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._setup = setup
        self._sleep = sleep
        self._doubt = CircuitBreaker()
        self._http = httpx.AsyncClient(
            headers=setup.headers, timeout=timeouts(setup), transport=transport, trust_env=False
        )

    async def close(self) -> None:
        """Let go of the connections."""
        await self._http.aclose()

    async def send(self, ask: ClientRequest[T]) -> T:
        """The answer of a request, after as many attempts as it takes.

        Raises:
            ServiceError: how the last attempt ended.
        """
        return await self.repeat(lambda: self.once(ask), again=ask.again)

    async def repeat(self, attempt: Callable[[], Awaitable[T]], *, again: bool) -> T:
        """The same for an attempt that is more than a request."""
        retry_state = self._doubt.retry_state(self._setup.retries)
        while True:
            try:
                answer = await attempt()
            except ServiceError as e:
                wait = retry_state.after(e, again=again)
                if wait is None:
                    raise
            else:
                retry_state.answered()
                return answer
            await self._sleep(wait)

    async def once_read(self, ask: ClientRequest[T], watched: AsyncRememberedPieces) -> T:
        """The answer to what can be read once: sent again only while nothing of it was read."""
        retry_state = self._doubt.retry_state(self._setup.retries)
        while True:
            try:
                answer = await self.once(ask, aiter(watched))
            except ServiceError as e:
                wait = retry_state.after(e, again=watched.ends.size == 0)
                if wait is None:
                    raise
            else:
                retry_state.answered()
                return answer
            await self._sleep(wait)

    async def once(
        self, ask: ClientRequest[T], pieces: AsyncIterator[bytes] | None = None, size: int | None = None
    ) -> T:
        """One attempt.

        Raises:
            ServiceError: how it ended.
        """
        url = self._setup.url
        try:
            response = await self._http.request(
                ask.method,
                url + ask.path,
                params=httpx.QueryParams(ask.params),
                headers=answers.sent_headers(ask, size),
                content=ask.body if pieces is None else async_framed(pieces, ask.around, size),
            )
        except UNSENDABLE as e:
            raise answers.unsendable(e) from e
        except httpx.HTTPError as e:
            raise answers.unreachable(url, e) from e
        return answers.read(response.status_code, response.headers, response.content, ask.answer, url=url)

    async def stream(self, path: str, params: tuple[tuple[str, str], ...]) -> AsyncGenerator[bytes]:
        """A content in pieces, over as many connections as it takes.

        Raises:
            ServiceError: how the last attempt ended, `digest_mismatch` at the end.
        """
        arriving, retry_state = ContentDownload(), self._doubt.retry_state(self._setup.retries)
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
            await self._sleep(wait)

    async def _pieces(
        self, path: str, params: tuple[tuple[str, str], ...], arriving: ContentDownload
    ) -> AsyncGenerator[bytes]:
        url = self._setup.url
        try:
            async with self._http.stream(
                "GET", url + path, params=httpx.QueryParams(params), headers=arriving.headers()
            ) as response:
                if not response.is_success:
                    raise answers.problem(response.status_code, response.headers, await response.aread(), url=url)
                arriving.answered(response.status_code, response.headers)
                async for piece in response.aiter_raw():
                    arriving.feed(piece)
                    yield piece
        except UNSENDABLE as e:
            raise answers.unsendable(e) from e
        except httpx.HTTPError as e:
            raise answers.unreachable(url, e) from e
