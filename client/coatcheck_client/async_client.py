"""The client for code on an event loop: as the other one, method for method."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, ParamSpec, TypeVar

import httpx

from coatcheck_client.client_method import Awaited
from coatcheck_client.methods import ClientMethods
from coatcheck_client.options import OnUnreachable, Options, options, timeouts
from coatcheck_client.requests import DeclaredFields
from coatcheck_client.results import Receipt
from coatcheck_client.retry import Retries
from coatcheck_client.wire import Pairs

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


P = ParamSpec("P")
T = TypeVar("T")


class AwaitedConnection:
    """See Connection: what blocks runs in a thread."""

    def __init__(
        self, setup: Options, transport: httpx.AsyncBaseTransport | None, sleep: Callable[[float], Awaitable[None]]
    ) -> None:
        self._sleep = sleep
        self._http = httpx.AsyncClient(
            headers=setup.headers, timeout=timeouts(setup), transport=transport, trust_env=False
        )

    def exchange(
        self, method: str, url: str, params: Pairs, headers: Pairs, body: bytes | AsyncGenerator[bytes] | None
    ) -> AbstractAsyncContextManager[httpx.Response]:
        """See Connection."""
        return self._http.stream(method, url, params=httpx.QueryParams(params), headers=headers, content=body)

    async def read(self, response: httpx.Response) -> bytes:
        """See Connection."""
        return await response.aread()

    def raw_pieces(self, response: httpx.Response) -> AsyncIterator[bytes]:
        """See Connection."""
        return response.aiter_raw()

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """See Connection."""
        return await asyncio.to_thread(function, *args, **kwargs)

    async def sleep(self, seconds: float) -> None:
        """See Connection."""
        await self._sleep(seconds)

    async def close(self) -> None:
        """See Connection."""
        await self._http.aclose()


class AsyncClient(Awaited, ClientMethods):
    """Talks to one Coatcheck service from one event loop. Close it, or use it in an `async with` block.

    Errors and excerpts are those of `Client`. Files are read and written in threads.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        key: str | None = None,
        session: str | None = None,
        card_tokens: int | None = None,
        inline_tokens: int | None = None,
        timeout: float = 60.0,
        retries: Retries | None = None,
        on_unreachable: OnUnreachable = "excerpt",
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Nothing is sent yet.

        Args:
            url: where the service is; None: `COATCHECK_URL`, or else http://127.0.0.1:8321.
            key: to present, where the service asks for one; None: `COATCHECK_KEY`, if that is set.
            session: said of every payload, unless a put says otherwise.
            card_tokens: the same.
            inline_tokens: the same.
            timeout: seconds without any progress after which a request counts as failed.
            retries: how often and how long to try again.
            on_unreachable: what a put does when the service fails.
            transport: how to reach it, instead of by TCP without a proxy.
            sleep: waits, between attempts.

        Raises:
            ValueError: for what is no URL of a service, or no key.
        """
        said = {"session": session, "card_tokens": card_tokens, "inline_tokens": inline_tokens}
        setup = options(url, key, timeout=timeout, retries=retries, on_unreachable=on_unreachable, said=said)
        super().__init__(setup, AwaitedConnection(setup, transport, sleep))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def put_stream(
        self,
        payload: BinaryIO | Iterable[bytes] | AsyncIterable[bytes],
        *,
        idempotency_key: str | None = None,
        **declared: Unpack[DeclaredFields],
    ) -> Receipt:
        """Stores a stream that can be read once. It is sent again only if none of it was read yet."""
        return await self._put_stream(payload, idempotency_key, declared)

    def stream(self, artifact_id: str, *, view: str | None = None, section: str | None = None) -> AsyncIterator[bytes]:
        """Yields the exact bytes of an artifact in pieces. A broken connection is resumed; the digest is compared."""
        return self._content(artifact_id, view, section)
