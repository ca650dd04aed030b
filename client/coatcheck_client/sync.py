"""The client for code that blocks."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, ParamSpec, TypeVar

import httpx

from coatcheck_client.client_method import Blocking, iterate, run
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


class BlockingConnection:
    """See Connection: nothing here suspends, everything blocks."""

    def __init__(self, setup: Options, transport: httpx.BaseTransport | None, sleep: Callable[[float], None]) -> None:
        self._sleep = sleep
        self._http = httpx.Client(headers=setup.headers, timeout=timeouts(setup), transport=transport, trust_env=False)

    @asynccontextmanager
    async def exchange(
        self, method: str, url: str, params: Pairs, headers: Pairs, body: bytes | AsyncGenerator[bytes] | None
    ) -> AsyncGenerator[httpx.Response]:
        """See Connection."""
        content = body if body is None or isinstance(body, bytes) else iterate(body)
        with self._http.stream(
            method, url, params=httpx.QueryParams(params), headers=headers, content=content
        ) as response:
            yield response

    async def read(self, response: httpx.Response) -> bytes:
        """See Connection."""
        return response.read()

    async def raw_pieces(self, response: httpx.Response) -> AsyncIterator[bytes]:
        """See Connection."""
        for piece in response.iter_raw():
            yield piece

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """See Connection."""
        return function(*args, **kwargs)

    async def sleep(self, seconds: float) -> None:
        """See Connection."""
        self._sleep(seconds)

    async def close(self) -> None:
        """See Connection."""
        self._http.close()


class Client(Blocking, ClientMethods):
    """Talks to one Coatcheck service. Safe to share between threads; close it, or use it in a `with` block.

    Methods raise `ServiceError`; puts do not while `on_unreachable` is `excerpt`: when the service fails they answer
    the ends of the payload within the same budgets, with `stored=False` and a warning. A request that is wrong in
    itself, or a key that may not make it, is raised all the same, and at once where HTTP cannot carry an argument.
    Halves of surrogate pairs are sent as U+FFFD where only UTF-8 goes; a title over 1,000 characters is cut there.
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
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
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
        super().__init__(setup, BlockingConnection(setup, transport, sleep))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def put_stream(
        self,
        payload: BinaryIO | Iterable[bytes],
        *,
        idempotency_key: str | None = None,
        **declared: Unpack[DeclaredFields],
    ) -> Receipt:
        """Stores a stream that can be read once. It is sent again only if none of it was read yet."""
        return run(self._put_stream(payload, idempotency_key, declared))

    def stream(self, artifact_id: str, *, view: str | None = None, section: str | None = None) -> Iterator[bytes]:
        """Yields the exact bytes of an artifact in pieces. A broken connection is resumed; the digest is compared."""
        return iterate(self._content(artifact_id, view, section))
