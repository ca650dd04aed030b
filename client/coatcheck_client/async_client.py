"""The client for code on an event loop, with the methods of the blocking one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import httpx

from coatcheck_client.administration import AsyncAdmin
from coatcheck_client.client_method import Awaited
from coatcheck_client.connection import Exchange
from coatcheck_client.methods import ClientMethods
from coatcheck_client.options import Options

if TYPE_CHECKING:
    from typing_extensions import Self

P = ParamSpec("P")
T = TypeVar("T")


class AwaitedConnection:
    """A Connection on an event loop. Functions that block run in a thread."""

    def __init__(
        self,
        setup: Options,
        transport: httpx.AsyncBaseTransport | None,
        sleep: Callable[[float], Awaitable[None]] | None,
    ) -> None:
        self._sleep = asyncio.sleep if sleep is None else sleep
        self._http = httpx.AsyncClient(headers=setup.headers, transport=transport, trust_env=False)

    def exchange(self, request: Exchange) -> AbstractAsyncContextManager[httpx.Response]:
        """See Connection."""
        return self._http.stream(**request.arguments())

    async def read(self, response: httpx.Response) -> bytes:
        """See Connection."""
        return await response.aread()

    def raw_pieces(self, response: httpx.Response) -> AsyncIterator[bytes]:
        """See Connection."""
        return response.aiter_raw()

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """See Connection."""
        return await asyncio.to_thread(function, *args, **kwargs)

    async def within(self, seconds: float, work: Coroutine[Any, Any, T]) -> T:
        """See Connection."""
        try:
            return await asyncio.wait_for(work, seconds)
        except asyncio.TimeoutError as e:
            raise TimeoutError from e

    async def sleep(self, seconds: float) -> None:
        """See Connection."""
        await self._sleep(seconds)

    async def close(self) -> None:
        """See Connection."""
        await self._http.aclose()


class AsyncClient(Awaited, ClientMethods):
    """Talks to one Coatcheck service from one event loop. Close it, or use it in an `async with` block.

    It raises the same errors as `Client`, and its puts return the same if the service fails. Threads read and write
    files.
    """

    _connects = AwaitedConnection

    @property
    def admin(self) -> AsyncAdmin:
        """The methods that need a key with the scope `admin`."""
        return AsyncAdmin(self._sender)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
